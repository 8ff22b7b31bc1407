"""Messages that hold passwords, or what they could be guessed from, show nothing of it (security.md 6.3.3)."""

import pytest

from eosin.protocol.schemas.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialUpsertion,
)
from eosin.protocol.schemas.records.cluster_metadata import ScramCredentialRecord, ScramSecretRecord
from eosin.protocol.schemas.records.metadata import UserScramCredentialRecord
from eosin.protocol.schemas.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from eosin.protocol.types import Message

SECRET = b"SECRET"


@pytest.mark.parametrize(
    "message",
    [
        SaslAuthenticateRequest(SECRET),
        SaslAuthenticateResponse(auth_bytes=SECRET),
        AlterUserScramCredentialsRequest(upsertions=(ScramCredentialUpsertion(salted_password=SECRET, salt=SECRET),)),
        ScramCredentialRecord(SECRET, SECRET, SECRET),
        ScramSecretRecord(SECRET),
        UserScramCredentialRecord("alice", 1, SECRET, SECRET, SECRET),
    ],
    ids=lambda message: type(message).__name__,
)
def test_it_hides_its_fields(message: Message) -> None:
    for text in (repr(message), str(message), f"{message}"):
        assert "SECRET" not in text
        assert "[hidden]" in text
