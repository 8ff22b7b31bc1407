"""`TokenReader`: whom a JSON web token names, if it is genuine, ours and of now (security.md 3.6).

Always true: the algorithms come from the settings and never from the token; they are asymmetric; without keys, without
an issuer or an audience that fit, nobody is let in. Nothing of a token goes into a log.
"""

import hashlib
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Protocol

import jwt
from jwt.types import Options

from eosin.protocol.sasl.oauthbearer import MAX_TOKEN_CHARS, read_bearer, refusal
from eosin.protocol.sasl.steps import Challenge, Failure
from eosin.runtime.clock import Clock
from eosin.security.sasl.exchanges import Authenticated, Step

MAX_KID_CHARS: Final = 1000
MAX_NAME_CHARS: Final = 255
MAX_REMEMBERED: Final = 10_000

_TYPES: Final = {"RS": "RSA", "PS": "RSA", "ES": "EC", "Ed": "OKP"}
"""The type of key that an algorithm needs, by how its name begins."""
_CURVES: Final = {"ES256": "P-256", "ES384": "P-384", "ES512": "P-521"}
_SIGNATURE_ONLY: Final[Options] = {
    "verify_signature": True,
    "verify_exp": False,
    "verify_nbf": False,
    "verify_iat": False,
    "verify_aud": False,
    "verify_iss": False,
    "verify_sub": False,
    "verify_jti": False,
}
"""The claims are judged here, by the broker's clock and one skew for all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenRules:
    """The rules that a token must meet."""

    algorithms: frozenset[str]
    issuer: str | None
    """None: of anybody whose key is known."""
    audience: frozenset[str]
    """One of these; none: for anybody."""
    name_claim: str = "sub"
    scope_claim: str = "scope"
    """A token need not have it."""
    skew_s: int = 30
    """The largest difference of clocks that is accepted."""


_UNREADABLE: Final = (jwt.PyJWTError, ValueError, TypeError, AttributeError, RecursionError)
"""The errors that the library raises for JSON of any types, nested to any depth."""


class PublicKey(NamedTuple):
    """One key of those who sign tokens."""

    key: Any
    kind: str
    curve: str | None
    algorithm: str | None
    """The only one that it is for; None: whatever fits its type."""

    def fits(self, algorithm: str) -> bool:
        """True if a signature of this algorithm can be by this key."""
        if self.algorithm not in (None, algorithm) or self.kind != _TYPES.get(algorithm[:2]):
            return False
        return self.curve == _CURVES[algorithm] if algorithm in _CURVES else True


class Keys(Protocol):
    """The keys that tokens may be signed with."""

    def find(self, kid: str) -> PublicKey | None:
        """The key of that name; asking for one that is not there may bring it, later."""


class Bearer(NamedTuple):
    """The user that a good token names."""

    user: str
    expires_s: float
    """In seconds since the epoch."""


class _Good(NamedTuple):
    """A token whose signature was right."""

    bearer: Bearer
    kid: str
    key: PublicKey
    """The key that proved it; it proves no more once the keys have another one of that name, or none."""


class TokenReader:
    """Reads tokens by one set of rules and keys."""

    def __init__(self, rules: TokenRules, keys: Keys, clock: Clock) -> None:
        self._rules = rules
        self._keys = keys
        self._clock = clock
        self._good: OrderedDict[bytes, _Good] = OrderedDict()
        """By the hash of the token: a client comes with one more than once."""

    def read(self, token: str) -> Bearer | Failure:
        """The user that it names, or why it names none."""
        now_s = self._clock.now_ms() / 1000
        digest = hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()
        known = self._good.get(digest)
        if known is not None:
            if known.bearer.expires_s > now_s and self._keys.find(known.kid) == known.key:
                return known.bearer
            del self._good[digest]
        found = self._genuine(token)
        if isinstance(found, Failure):
            return found
        kid, key, claims = found
        refused = self._refused(claims, now_s)
        if refused is not None:
            return Failure(refused)
        bearer = Bearer(claims[self._rules.name_claim], float(claims["exp"]))
        self._good[digest] = _Good(bearer, kid, key)
        if len(self._good) > MAX_REMEMBERED:
            self._good.popitem(last=False)
        return bearer

    def _genuine(self, token: str) -> tuple[str, PublicKey, Mapping[str, Any]] | Failure:
        """The key's name, the key and the claims of a token whose signature is right."""
        if len(token) > MAX_TOKEN_CHARS or token.count(".") != 2:
            return Failure("the token is no signed JSON web token of a bounded length")
        try:
            header = jwt.get_unverified_header(token)
        except _UNREADABLE:
            return Failure("the token's header cannot be read")
        algorithm, kid = header.get("alg"), header.get("kid")
        if not isinstance(algorithm, str) or algorithm not in self._rules.algorithms:
            return Failure("the token is signed by an algorithm that is not accepted")
        if not isinstance(kid, str) or not 0 < len(kid) <= MAX_KID_CHARS:
            return Failure("the token does not name its key")
        key = self._keys.find(kid)
        if key is None:
            return Failure("the token's key is not known")
        if not key.fits(algorithm):
            return Failure("the token's key is not for its algorithm")
        try:
            claims: Mapping[str, Any] = jwt.decode(token, key=key.key, algorithms=[algorithm], options=_SIGNATURE_ONLY)
        except _UNREADABLE:
            return Failure("the token's signature is wrong")
        return kid, key, claims

    def _refused(self, claims: Mapping[str, Any], now_s: float) -> str | None:
        """The reason why the claims are refused here and now; None if they are good."""
        rules = self._rules
        expires, issued, begins = (_time(claims.get(each)) for each in ("exp", "iat", "nbf"))
        if expires is None or expires + rules.skew_s <= now_s:
            return "the token has expired, or never does"
        if issued is None or issued - rules.skew_s > now_s:
            return "the token was issued in the future, or nobody knows when"
        if "nbf" in claims and (begins is None or begins - rules.skew_s > now_s):
            return "the token is not valid yet"
        if rules.issuer is not None and claims.get("iss") != rules.issuer:
            return "the token is of another issuer"
        if rules.audience and not rules.audience.intersection(_texts(claims.get("aud"))):
            return "the token is for another audience"
        name = claims.get(rules.name_claim)
        if not isinstance(name, str) or not 0 < len(name) <= MAX_NAME_CHARS or not name.isprintable():
            return f"the token's claim {rules.name_claim} names nobody"
        if not _are_scopes(claims.get(rules.scope_claim)):
            return f"the token's claim {rules.scope_claim} has a scope that is blank, no text, or there twice"
        return None


def _time(claim: object) -> float | None:
    is_number = isinstance(claim, int | float) and not isinstance(claim, bool)
    return float(claim) if is_number and -1e15 < claim < 1e15 else None  # type: ignore[arg-type, operator]


def _texts(claim: object) -> list[str]:
    found = claim if isinstance(claim, list) else [claim]
    return [each for each in found if isinstance(each, str)]


def _are_scopes(claim: object) -> bool:
    """True if a claim of scopes has a form that Kafka takes; one that is neither a text nor a list says nothing."""
    found = claim if isinstance(claim, list) else [claim] if isinstance(claim, str) else []
    texts = [each.strip() for each in found if isinstance(each, str)]
    return len(texts) == len(found) == len(set(texts)) and all(texts)


class BearerExchange:
    """OAUTHBEARER on the broker's side: a token, and a round for its refusal (RFC 7628, KIP-255, security.md 3.6).

    A token that is not accepted is answered with JSON, which clients expect to acknowledge before the exchange fails;
    whatever they send instead, it fails.
    """

    def __init__(self, reader: TokenReader, clock: Clock) -> None:
        self._reader: Final = reader
        self._clock: Final = clock
        self._refused: Failure | None = None

    async def step(self, token: bytes) -> Step:
        """Judge the token."""
        if self._refused is not None:
            return self._refused
        login = read_bearer(token)
        if isinstance(login, Failure):
            return login
        found = self._reader.read(login.token)
        if isinstance(found, Failure):
            self._refused = found
            return Challenge(refusal())
        if login.authzid not in ("", found.user):
            return Failure("the client wants to act as another user")
        expires_in_ms = round(found.expires_s * 1000) - self._clock.now_ms()
        return Authenticated(found.user, expires_in_ms=max(1, expires_in_ms))
