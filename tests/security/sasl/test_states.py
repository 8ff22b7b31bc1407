"""Which request is legal when on a SASL listener, without a connection around it (security.md 3.2 and 3.3)."""

import pytest

from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.security.sasl.states import (
    MAX_API_VERSIONS,
    MAX_TOKENS,
    Authentication,
    AuthenticationState,
    RequestTreatment,
)

SCRAM, PLAIN = "SCRAM-SHA-256", "PLAIN"


def begun(version: int = 1, mechanism: str = SCRAM) -> Authentication:
    """One whose exchange is under way."""
    states = Authentication([SCRAM, PLAIN])
    assert states.request(ApiKey.SASL_HANDSHAKE) is RequestTreatment.HANDSHAKE
    assert states.handshake(mechanism, version=version, now_ms=0) is ErrorCode.NONE
    return states


def ready(*, has_expiry: bool = False) -> Authentication:
    """One whose first exchange began at 0 and was good."""
    states = begun()
    assert states.succeeded("alice", has_expiry=has_expiry)
    return states


@pytest.mark.parametrize("key", [ApiKey.METADATA, ApiKey.PRODUCE, ApiKey.WRITE_TXN_MARKERS, ApiKey.SASL_AUTHENTICATE])
def test_nothing_comes_before_the_handshake_but_api_versions(key: ApiKey) -> None:
    assert Authentication([SCRAM]).request(key) is RequestTreatment.CLOSE


def test_api_versions_are_answered_four_times() -> None:
    states = Authentication([SCRAM])
    asked = [states.request(ApiKey.API_VERSIONS) for _ in range(MAX_API_VERSIONS + 1)]
    assert asked == [RequestTreatment.PASS] * 4 + [RequestTreatment.CLOSE]


@pytest.mark.parametrize("name", ["GSSAPI", "scram-sha-256", "x" * 30_000, ""])
def test_a_mechanism_that_is_not_enabled_ends_it(name: str) -> None:
    states = Authentication([SCRAM])
    assert states.handshake(name, version=1, now_ms=0) is ErrorCode.UNSUPPORTED_SASL_MECHANISM
    assert states.request(ApiKey.SASL_HANDSHAKE) is RequestTreatment.CLOSE


@pytest.mark.parametrize("key", [ApiKey.SASL_HANDSHAKE, ApiKey.METADATA, ApiKey.API_VERSIONS])
def test_an_exchange_takes_nothing_but_tokens(key: ApiKey) -> None:
    assert begun().request(key) is RequestTreatment.ILLEGAL


@pytest.mark.parametrize("version", [0, 1])
def test_an_exchange_takes_eight_tokens(version: int) -> None:
    states = begun(version)
    assert states.state is (AuthenticationState.TOKENS if version else AuthenticationState.RAW)
    taken = [states.request(ApiKey.SASL_AUTHENTICATE) for _ in range(MAX_TOKENS + 1)]
    assert taken == [RequestTreatment.TOKEN] * 8 + [RequestTreatment.CLOSE]


def test_everything_passes_after_success() -> None:
    states = ready()
    assert {states.request(key) for key in (ApiKey.PRODUCE, ApiKey.SASL_AUTHENTICATE)} == {RequestTreatment.PASS}


def test_nothing_passes_after_a_failure() -> None:
    states = begun()
    states.failed()
    assert {states.request(key) for key in ApiKey} == {RequestTreatment.CLOSE}


def test_an_expired_session_only_authenticates_again() -> None:
    states = ready(has_expiry=True)
    assert states.request(ApiKey.PRODUCE, is_expired=True) is RequestTreatment.CLOSE
    assert states.request(ApiKey.SASL_HANDSHAKE, is_expired=True) is RequestTreatment.HANDSHAKE
    assert states.handshake(SCRAM, version=1, now_ms=5000) is ErrorCode.NONE
    assert states.request(ApiKey.SASL_AUTHENTICATE, is_expired=True) is RequestTreatment.TOKEN


@pytest.mark.parametrize(
    ("has_expiry", "now_ms", "version"),
    [(False, 5000, 1), (True, 999, 1), (True, 5000, 0)],
    ids=["a session without an end", "within a second", "bare tokens"],
)
def test_a_session_that_may_not_authenticate_again_lives_on(has_expiry: bool, now_ms: int, version: int) -> None:
    states = ready(has_expiry=has_expiry)
    assert states.handshake(SCRAM, version=version, now_ms=now_ms) is ErrorCode.ILLEGAL_SASL_STATE
    assert states.request(ApiKey.PRODUCE) is RequestTreatment.PASS


def test_the_same_user_may_come_again_and_nobody_else() -> None:
    states = ready(has_expiry=True)
    assert states.handshake(SCRAM, version=1, now_ms=1000) is ErrorCode.NONE
    assert states.request(ApiKey.PRODUCE) is RequestTreatment.ILLEGAL, (
        "between handshake and success only tokens are legal"
    )
    assert states.keeps_mechanism
    assert states.succeeded("alice", has_expiry=True)
    assert states.handshake(SCRAM, version=1, now_ms=2000) is ErrorCode.NONE
    assert not states.succeeded("mallory", has_expiry=True)
    assert states.state is AuthenticationState.FAILED


def test_another_mechanism_is_told_only_at_its_first_token() -> None:
    states = ready(has_expiry=True)
    assert states.handshake(PLAIN, version=1, now_ms=1000) is ErrorCode.NONE
    assert not states.keeps_mechanism
