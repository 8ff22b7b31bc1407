"""What AlterUserScramCredentials may do, user by user (security.md 4.1.3)."""

import hashlib
from typing import Any

import pytest
from sasl_peer import users

from eosin.broker.security.user_changes import decide
from eosin.protocol.errors import ErrorCode
from eosin.protocol.sasl.scram_credentials import is_password_of
from eosin.protocol.sasl.steps import Mechanism
from eosin.protocol.schemas.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from eosin.security.passwords import new_password, upsertion
from eosin.security.sasl.lookup import DEFAULT_ITERATIONS, find, find_or_fake

SALTED_256, SALTED_512 = bytes(range(32)), bytes(range(64))


def upsert(name: str = "bob", mechanism: int = 1, **fields: Any) -> ScramCredentialUpsertion:
    salted = SALTED_256 if mechanism == 1 else SALTED_512
    return ScramCredentialUpsertion(
        **{
            "name": name,
            "mechanism": mechanism,
            "iterations": 4096,
            "salt": b"12345678",
            "salted_password": salted,
            **fields,
        }
    )


def delete(name: str = "alice", mechanism: int = 1) -> ScramCredentialDeletion:
    return ScramCredentialDeletion(name, mechanism)


def codes(*wanted: ScramCredentialDeletion | ScramCredentialUpsertion) -> dict[str, int]:
    """What each user is answered, of whom alice has SCRAM-SHA-256."""
    request = AlterUserScramCredentialsRequest(
        deletions=tuple(each for each in wanted if isinstance(each, ScramCredentialDeletion)),
        upsertions=tuple(each for each in wanted if isinstance(each, ScramCredentialUpsertion)),
    )
    decision = decide(request, users("alice"))
    good = {user for user, refusal in decision.answers.items() if refusal is None}
    assert good == {change.user for change in decision.changes}
    return {user: refusal.error if refusal else 0 for user, refusal in decision.answers.items()}


@pytest.mark.parametrize(
    ("wanted", "error"),
    [
        (upsert(), ErrorCode.NONE),
        (upsert(mechanism=2), ErrorCode.NONE),
        (upsert("alice"), ErrorCode.NONE),
        (upsert(""), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (upsert(mechanism=0), ErrorCode.UNSUPPORTED_SASL_MECHANISM),
        (upsert(mechanism=3), ErrorCode.UNSUPPORTED_SASL_MECHANISM),
        (upsert(iterations=4095), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (upsert(iterations=16_384), ErrorCode.NONE),
        (upsert(iterations=16_385), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (upsert(iterations=-1), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (upsert(salt=b""), ErrorCode.NONE),
        (upsert(salt=b"salt"), ErrorCode.NONE),
        (upsert(salt=bytes(256)), ErrorCode.NONE),
        (upsert(salt=bytes(257)), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (upsert(salted_password=SALTED_512), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (upsert(salted_password=b""), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (upsert("n" * 256), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (delete(), ErrorCode.NONE),
        (delete("alice", 2), ErrorCode.RESOURCE_NOT_FOUND),
        (delete("bob"), ErrorCode.RESOURCE_NOT_FOUND),
        (delete(""), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (delete("alice", 7), ErrorCode.UNSUPPORTED_SASL_MECHANISM),
    ],
)
def test_each_fault_has_its_code(wanted: ScramCredentialDeletion | ScramCredentialUpsertion, error: ErrorCode) -> None:
    assert codes(wanted) == {wanted.name: error}


def test_a_user_who_is_named_twice_is_not_changed_and_the_others_are() -> None:
    twice = codes(upsert("bob"), upsert("bob", 2), upsert("carol"), delete("alice"), upsert("alice"))
    assert twice == {"bob": 92, "carol": 0, "alice": 92}


def test_the_password_does_not_outlive_the_request() -> None:
    decision = decide(AlterUserScramCredentialsRequest(upsertions=(upsert(),)), users())
    (change,) = decision.changes
    assert change.credential is not None
    assert change.credential.stored_key != hashlib.sha256(SALTED_256).digest()
    assert SALTED_256 not in change.credential
    assert "12345678" not in repr(decision)


def test_a_password_of_our_own_fits_what_is_stored_of_it() -> None:
    password, store = new_password(), users()
    assert len(password) == 24
    assert password != new_password()
    for mechanism in (Mechanism.SCRAM_SHA_256, Mechanism.SCRAM_SHA_512):
        made = upsertion("bob", mechanism, password, iterations=4096)
        (change,) = decide(AlterUserScramCredentialsRequest(upsertions=(made,)), store).changes
        assert change.credential is not None
        store.put(change.user, change.mechanism, change.credential)
        found = find(store, "bob", mechanism)
        assert found is not None
        assert is_password_of(found, password)
        assert not is_password_of(found, password + "x")


def test_an_unknown_user_gets_a_credential_that_looks_like_a_real_one() -> None:
    store = users("alice")
    made = find_or_fake(store, "bob", Mechanism.SCRAM_SHA_256)
    assert made == find_or_fake(store, "bob", Mechanism.SCRAM_SHA_256)
    assert made.iterations == DEFAULT_ITERATIONS == upsertion("x", Mechanism.SCRAM_SHA_256, "y").iterations
    assert len(made.salt) == len(upsertion("x", Mechanism.SCRAM_SHA_256, "y").salt)
    of_alice = find_or_fake(store, "alice", Mechanism.SCRAM_SHA_512)
    assert of_alice.salt != find_or_fake(store, "alice", Mechanism.SCRAM_SHA_256).salt
