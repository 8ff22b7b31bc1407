"""OAUTHBEARER: which tokens name somebody, and where the keys come from (security.md 3.6; hostile cases 27 to 29)."""

import base64
import json
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jwt
import pytest
from bearer_tokens import AUDIENCE, ISSUER, Issuer
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from manual_clock import ManualClock

from eosin.protocol.sasl.oauthbearer import bearer_message
from eosin.protocol.sasl.steps import Challenge, Failure
from eosin.runtime.clock import SystemClock
from eosin.security.sasl.bearer_tokens import Bearer, BearerExchange, TokenReader, TokenRules
from eosin.security.sasl.exchanges import Authenticated
from eosin.security.sasl.key_set import EARLY_MS, USABLE_MS, KeySet, NoKeys, fetched, keys_of
from eosin.settings.start_error import StartError

ISSUED = Issuer()


class Held:
    """A set of keys that is simply there."""

    def __init__(self, data: bytes) -> None:
        self._keys = keys_of(data)

    def find(self, kid: str) -> Any:
        return self._keys.get(kid)

    def replace(self, data: bytes) -> None:
        self._keys = keys_of(data) if b"kid" in data else {}


def reader(**rules: Any) -> TokenReader:
    all_rules = {
        "algorithms": frozenset({"RS256", "ES256"}),
        "issuer": ISSUER,
        "audience": frozenset({AUDIENCE}),
        **rules,
    }
    return TokenReader(TokenRules(**all_rules), Held(ISSUED.keys()), SystemClock())


def test_a_good_token_names_its_user_until_it_expires() -> None:
    expires_s = int(time.time()) + 3600
    found = reader().read(ISSUED.token(exp=expires_s))
    assert isinstance(found, Bearer)
    assert found.user == "alice"
    assert found.expires_s == expires_s
    by_curve = ISSUED.token(key=ISSUED.ec, algorithm="ES256", header={"kid": "ec"}, aud=["other", AUDIENCE])
    assert isinstance(reader().read(by_curve), Bearer)
    assert reader(name_claim="client").read(ISSUED.token(client="app", sub=None)) != Failure


def test_a_token_may_have_scopes_and_need_not() -> None:
    for scope in (None, "read", "read write", [], ["read", "write"], 5):
        assert isinstance(reader().read(ISSUED.token(scope=scope)), Bearer), scope
    elsewhere = reader(scope_claim="scp")
    assert isinstance(elsewhere.read(ISSUED.token(scope="", scp=["read"])), Bearer)
    assert isinstance(elsewhere.read(ISSUED.token(scp=["read", "read"])), Failure)


def test_a_token_proves_nothing_any_more_once_its_key_is_withdrawn() -> None:
    """A key that was stolen signs tokens that expire in a hundred years; used once, they were remembered."""
    keys = Held(ISSUED.keys())
    rules = TokenRules(algorithms=frozenset({"RS256"}), issuer=ISSUER, audience=frozenset({AUDIENCE}))
    tokens, token = TokenReader(rules, keys, SystemClock()), ISSUED.token(exp=time.time() + 3e9)
    for _ in range(2):
        assert isinstance(tokens.read(token), Bearer)
    for later in (Issuer().keys(), b'{"keys": []}', ISSUED.keys()):
        keys.replace(later)
        assert isinstance(tokens.read(token), Bearer) == (later == ISSUED.keys())


def unsigned() -> str:
    return jwt.encode({"sub": "alice"}, None, algorithm="none", headers={"kid": "rsa"})


def signed_with_the_public_key() -> str:
    """As if the public key were a shared secret: made by hand, since PyJWT refuses to."""
    import hashlib
    import hmac

    def part(data: bytes) -> bytes:
        return base64.urlsafe_b64encode(data).rstrip(b"=")

    public = ISSUED.rsa.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    claims = {"sub": "alice", "iss": ISSUER, "aud": AUDIENCE, "iat": time.time(), "exp": time.time() + 60}
    head = part(json.dumps({"alg": "HS256", "kid": "rsa"}).encode()) + b"." + part(json.dumps(claims).encode())
    return (head + b"." + part(hmac.digest(public, head, hashlib.sha256))).decode()


ODD: tuple[Any, ...] = (["RS256"], {"RS256": "RS256"}, 5, None, True)
"""What is no text."""


def headed(header: Any) -> str:
    """A token with a header of any type."""
    return headed_by(json.dumps(header).encode())


def headed_by(header: bytes) -> str:
    return base64.urlsafe_b64encode(header).rstrip(b"=").decode() + ".e30.c2ln"


@pytest.mark.parametrize(
    ("made", "why"),
    [
        (lambda: "", "no signed JSON web token"),
        (lambda: "a.b", "no signed JSON web token"),
        (lambda: "a.b.c", "header cannot be read"),
        (lambda: "x" * 70_000 + ".a.b", "no signed JSON web token"),
        (lambda: unsigned(), "algorithm that is not accepted"),
        (lambda: signed_with_the_public_key(), "algorithm that is not accepted"),
        (lambda: ISSUED.token(algorithm="RS384"), "algorithm that is not accepted"),
        *[(lambda odd=odd: headed({"alg": odd, "kid": "rsa"}), "header cannot be read|not accepted") for odd in ODD],
        *[(lambda odd=odd: headed({"alg": "RS256", "kid": odd}), "cannot be read|not name its key") for odd in ODD],
        *[(lambda odd=odd: headed(odd), "cannot be read|not accepted") for odd in (*ODD, "RS256")],
        (lambda: headed_by(b"[" * 40_000), "header cannot be read"),
        (lambda: headed_by(b'{"alg": 1' + b"0" * 40_000 + b"}"), "header cannot be read|not accepted"),
        *[(lambda odd=odd: ISSUED.token(aud=odd), "for another audience|cannot be read|signature") for odd in ODD],
        *[(lambda odd=odd: ISSUED.token(exp=odd), "has expired") for odd in (*ODD[:2], True)],
        (lambda: ISSUED.token(header={"kid": "nobody"}), "key is not known"),
        (lambda: ISSUED.token(header={"kid": "k" * 1001}), "does not name its key"),
        (lambda: ISSUED.token(header={"kid": ""}), "does not name its key"),
        (lambda: ISSUED.token(header={"kid": "ec"}), "key is not for its algorithm"),
        (
            lambda: ISSUED.token(key=rsa.generate_private_key(public_exponent=65537, key_size=2048)),
            "signature is wrong",
        ),
        (lambda: ISSUED.token(header={"crit": ["x"], "x": 1}), "cannot be read|signature is wrong"),
        (lambda: ISSUED.token(exp=time.time() - 31), "has expired"),
        (lambda: ISSUED.token(exp=None), "has expired"),
        (lambda: ISSUED.token(exp=1e300), "has expired"),
        (lambda: ISSUED.token(iat=time.time() + 120), "issued in the future"),
        (lambda: ISSUED.token(iat=None), "issued in the future"),
        (lambda: ISSUED.token(nbf=time.time() + 120), "not valid yet"),
        (lambda: ISSUED.token(iss="https://another.example"), "of another issuer"),
        (lambda: ISSUED.token(iss=None), "of another issuer"),
        (lambda: ISSUED.token(aud="another"), "for another audience"),
        (lambda: ISSUED.token(aud=None), "for another audience"),
        (lambda: ISSUED.token(aud=["another", "more"]), "for another audience"),
        (lambda: ISSUED.token(sub=None), "names nobody"),
        (lambda: ISSUED.token(sub=""), "names nobody"),
        (lambda: ISSUED.token(sub="a\nb"), "names nobody"),
        (lambda: ISSUED.token(sub="n" * 256), "names nobody"),
        (lambda: ISSUED.token(scope=""), "claim scope has a scope that is blank"),
        (lambda: ISSUED.token(scope=["read", " "]), "claim scope has a scope that is blank"),
        (lambda: ISSUED.token(scope=["read", 5]), "claim scope has a scope that is blank, no text"),
        (lambda: ISSUED.token(scope=["read", "write", " read"]), "or there twice"),
    ],
)
def test_a_bad_token_names_nobody(made: Callable[[], str], why: str) -> None:
    token = made()  # now, since it lasts a minute and a suite takes longer
    found = reader().read(token)
    assert isinstance(found, Failure)
    assert re.search(why, found.reason), found.reason
    assert not token or token not in found.reason


def test_a_key_of_another_curve_or_with_another_use_is_not_taken() -> None:
    other = ec.generate_private_key(ec.SECP384R1())
    entry = {**json.loads(jwt.algorithms.ECAlgorithm.to_jwk(other.public_key())), "kid": "ec"}
    key = keys_of(json.dumps({"keys": [entry]}).encode())["ec"]
    assert not key.fits("ES256")
    assert key.fits("ES384")
    assert not key.fits("RS256")
    for bad in (ISSUED.keys(use="enc"), ISSUED.keys(kid=""), ISSUED.keys(kty="oct"), b"{}", b"[]", b"\xff", b"1" * 9):
        with pytest.raises(NoKeys):
            keys_of(bad)


async def test_a_refused_token_gets_its_round_and_fails_whatever_comes_then() -> None:
    for then in (b"\x01", bearer_message(ISSUED.token())):
        exchange = BearerExchange(reader(), SystemClock())
        answer = await exchange.step(bearer_message(ISSUED.token(sub="")))
        assert answer == Challenge(b'{"status":"invalid_token"}')
        assert isinstance(await exchange.step(then), Failure)


async def test_a_good_token_ends_the_exchange_and_its_expiry_the_session() -> None:
    expires_s = int(time.time()) + 3600
    clock = ManualClock(expires_s * 1000 - 60_000)
    done = await BearerExchange(reader(), clock).step(bearer_message(ISSUED.token(exp=expires_s)))
    assert isinstance(done, Authenticated)
    assert done.user == "alice"
    assert done.expires_in_ms == 60_000
    message = bearer_message(ISSUED.token()).replace(b"n,,", b"n,a=root,", 1)
    assert isinstance(await BearerExchange(reader(), SystemClock()).step(message), Failure)
    assert isinstance(await BearerExchange(reader(), SystemClock()).step(b"n,,no token"), Failure)


# Keys


class Source:
    """Where keys are fetched, as a test lets it be."""

    def __init__(self) -> None:
        self.data: bytes | OSError = ISSUED.keys()
        self.fetches = 0

    def __call__(self) -> bytes:
        self.fetches += 1
        if isinstance(self.data, OSError):
            raise self.data
        return self.data


async def settled(keys: KeySet) -> None:
    """Wait for a fetch that has begun."""
    if keys._fetching is not None:
        await keys._fetching


async def test_a_thousand_unknown_names_bring_one_fetch_a_minute() -> None:
    clock, source = ManualClock(), Source()
    keys = KeySet("https://x", clock, refresh_ms=3_600_000, fetch=source)
    await keys.load(backoff_ms=1, backoff_max_ms=1)
    for minute in range(2):
        for number in range(1000):
            assert keys.find(f"unknown {number}") is None
        await settled(keys)
        assert source.fetches == 2 + minute
        clock.advance(EARLY_MS)
    assert keys.find("rsa") is not None
    keys.close()


async def test_old_keys_serve_for_a_day_while_fetches_fail() -> None:
    clock, source = ManualClock(), Source()
    keys = KeySet("https://x", clock, refresh_ms=3_600_000, fetch=source)
    await keys.load(backoff_ms=1, backoff_max_ms=1)
    source.data = OSError("away")
    clock.advance(3_600_000)
    await settled(keys)
    assert source.fetches == 2
    assert keys.find("rsa") is not None
    source.data = b"no keys"
    clock.advance(USABLE_MS - 3_600_000)
    await settled(keys)
    assert keys.find("rsa") is not None
    clock.advance(1)
    assert keys.find("rsa") is None, "nobody is let in by keys that may be revoked"
    source.data = ISSUED.keys()
    clock.advance(3_600_000)
    await settled(keys)
    assert keys.find("rsa") is not None
    keys.close()


async def test_without_keys_there_is_no_start() -> None:
    source = Source()
    source.data = OSError("connection refused")
    keys = KeySet("https://x", SystemClock(), refresh_ms=1000, fetch=source)
    with pytest.raises(StartError, match="brings no keys: connection refused"):
        await keys.load(backoff_ms=60_000, backoff_max_ms=60_000)


def test_a_file_may_hold_the_keys_and_must_not_be_endless(tmp_path: Path) -> None:
    assert fetched(ISSUED.write(tmp_path / "keys with blanks.json")) == ISSUED.keys()
    (tmp_path / "large").write_bytes(b" " * 1_048_577)
    with pytest.raises(OSError, match="more than 1048576 bytes"):
        fetched((tmp_path / "large").as_uri())
    with pytest.raises(OSError, match="more than 1048576 bytes"):
        fetched("file:///dev/zero")
