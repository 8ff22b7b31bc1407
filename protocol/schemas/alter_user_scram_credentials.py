"""AlterUserScramCredentials (key 51), version 0: set and remove the SCRAM credentials of users (KIP-554).

Flexible from the start.
"""

from __future__ import annotations

from eosin.protocol.keys import ApiKey
from eosin.protocol.types import ApiSchema, Int8, Int16, Int32, Message, SecretMessage


class ScramCredentialDeletion(Message):
    name: str = ""
    mechanism: Int8 = 0


class ScramCredentialUpsertion(SecretMessage):
    name: str = ""
    mechanism: Int8 = 0
    iterations: Int32 = 0
    salt: bytes = b""
    salted_password: bytes = b""


class AlterUserScramCredentialsRequest(Message):
    deletions: tuple[ScramCredentialDeletion, ...] = ()
    upsertions: tuple[ScramCredentialUpsertion, ...] = ()


class AlterUserScramCredentialsResult(Message):
    user: str = ""
    error_code: Int16 = 0
    error_message: str | None = None


class AlterUserScramCredentialsResponse(Message):
    throttle_time_ms: Int32 = 0
    results: tuple[AlterUserScramCredentialsResult, ...] = ()


SCHEMA = ApiSchema(
    key=ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
    versions=range(0, 1),
    flexible_from=0,
    request=AlterUserScramCredentialsRequest,
    response=AlterUserScramCredentialsResponse,
)
