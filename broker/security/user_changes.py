"""Decides what AlterUserScramCredentials does to the users: which changes are good, and what each user is answered.

Pure, and Kafka's rules (security.md 4.1.3): whatever is wrong with one user, the others are changed all the same. The
salted password of a request is as good as the password, so it goes no further than the two keys that come out of it.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Final, NamedTuple

from eosin.model.credentials import CredentialChange, Credentials, StoredCredential
from eosin.protocol.errors import ErrorCode
from eosin.protocol.sasl.scram_credentials import (
    MAX_ITERATIONS,
    MIN_ITERATIONS,
    credential_of_salted,
    digest_bytes,
)
from eosin.protocol.schemas.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from eosin.security.sasl.lookup import MECHANISMS

Wanted = ScramCredentialDeletion | ScramCredentialUpsertion

MAX_NAME_CHARS: Final = 255
MAX_SALT_BYTES: Final = 256
"""Apache Kafka takes any salt, an empty one, too; what is stored has a bound here."""


class Refusal(NamedTuple):
    """The reason why a user is not changed."""

    error: ErrorCode
    message: str


_TWICE: Final = Refusal(ErrorCode.DUPLICATE_RESOURCE, "A user credential cannot be altered twice in the same request")
_NOBODY: Final = Refusal(ErrorCode.RESOURCE_NOT_FOUND, "Attempt to delete a user credential that does not exist")


class CredentialDecision(NamedTuple):
    """The result of a request."""

    changes: tuple[CredentialChange, ...]
    answers: Mapping[str, Refusal | None]
    """By user, in the order in which they are named; None is for those who are changed."""


def decide(request: AlterUserScramCredentialsRequest, credentials: Credentials) -> CredentialDecision:
    """Judge a request by what is stored now."""
    wanted: list[Wanted] = [*request.deletions, *request.upsertions]
    times = Counter(each.name for each in wanted)
    changes: list[CredentialChange] = []
    answers: dict[str, Refusal | None] = {}
    for each in wanted:
        refusal = _TWICE if times[each.name] > 1 else _refused(each, credentials)
        answers[each.name] = refusal
        if refusal is None:
            changes.append(_change(each))
    return CredentialDecision(tuple(changes), answers)


def _refused(each: Wanted, credentials: Credentials) -> Refusal | None:
    if not each.name:
        return _unacceptable("Username must not be empty")
    if each.mechanism not in MECHANISMS:
        return Refusal(ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")
    if isinstance(each, ScramCredentialDeletion):
        return None if each.mechanism in credentials.of(each.name) else _NOBODY
    if len(each.name) > MAX_NAME_CHARS:
        return _unacceptable(f"Username must have at most {MAX_NAME_CHARS} characters")
    if each.iterations < MIN_ITERATIONS:
        return _unacceptable("Too few iterations")
    if each.iterations > MAX_ITERATIONS:
        return _unacceptable("Too many iterations")
    if len(each.salt) > MAX_SALT_BYTES:
        return _unacceptable(f"The salt must have at most {MAX_SALT_BYTES} bytes")
    if len(each.salted_password) != digest_bytes(MECHANISMS[each.mechanism]):
        return _unacceptable("The salted password must be as long as a hash of the mechanism")
    return None


def _unacceptable(message: str) -> Refusal:
    return Refusal(ErrorCode.UNACCEPTABLE_CREDENTIAL, message)


def _change(each: Wanted) -> CredentialChange:
    if isinstance(each, ScramCredentialDeletion):
        return CredentialChange(each.name, each.mechanism, None)
    mechanism = MECHANISMS[each.mechanism]
    made = credential_of_salted(mechanism, each.salted_password, each.salt, each.iterations)
    stored = StoredCredential(made.salt, made.stored_key, made.server_key, made.iterations)
    return CredentialChange(each.name, each.mechanism, stored)
