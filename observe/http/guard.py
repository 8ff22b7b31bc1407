"""`Guard`: the first thing that every HTTP request meets (console.md 6).

Always true: what a web page of another site could send, or a name that somebody else's DNS points here, is refused
before anything is looked at; without the token nothing is told but health, and `/metrics` where it is public.
"""

import hmac
import ipaddress
import json
import logging
import re
from collections.abc import Awaitable, Callable, Collection, Mapping, MutableMapping
from typing import Any, Final, NamedTuple

from eosin.runtime.clock import Clock

_LOG: Final = logging.getLogger(__name__)

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

HEALTH: Final = frozenset({"/livez", "/readyz"})
METRICS: Final = "/metrics"
_READING: Final = frozenset({"GET", "HEAD"})
_WITHOUT_JSON: Final = _READING | {"DELETE"}
"""A page of another site can send no DELETE without asking first, which is refused; a POST needs a type for that."""
_CODES: Final = {400: "bad_request", 401: "no_token", 403: "forbidden", 415: "no_json", 421: "wrong_host"}
_HOST: Final = re.compile(r"(?:\[(?P<six>[0-9A-Fa-f:.]+)\]|(?P<host>[A-Za-z0-9._-]+))(?::(?P<port>[0-9]{1,5}))?")
PAGE: Final = "/"
STATIC: Final = "/static/"
_TELL_INTERVAL_MS: Final = 60_000
SAFE_HEADERS: Final = (
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-store"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"x-frame-options", b"DENY"),
)


class Advice(NamedTuple):
    """The advice to who is refused: the console of another cluster has no settings to name."""

    token: str
    """The name of the token, with where it is found."""
    other_host: str
    """The way in where the listener is reached by a name that it does not know."""
    coded_under: str | None = None
    """The paths that begin so have errors with a code and a message; others have a text that the console shows."""


OF_A_BROKER: Final = Advice("the token of eosin.http.token.file", "add the name to eosin.http.allowed.hosts")


def host_is_private(host: str, allowed: Collection[str]) -> bool:
    """True if a `Host` header names an address, this machine, or one of `allowed`. Any other name may be pointed here
    by its owner: `x.local` by everybody in the network, `x` by a search domain."""
    found = _HOST.fullmatch(host)
    if found is None:
        return False
    if found["six"] is not None:
        return _is_address(found["six"])
    name = found["host"].lower().rstrip(".")
    return name == "localhost" or name in allowed or _is_address(name)


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


class Guard:
    """ASGI middleware around the whole application."""

    def __init__(
        self,
        application: Application,
        *,
        clock: Clock,
        allowed_hosts: Collection[str] = (),
        token: str | None = None,
        public_metrics: bool = False,
        open_paths: Collection[str] = (),
        is_private: bool = True,
        knows_session: Callable[[str], bool] | None = None,
        advice: Advice = OF_A_BROKER,
    ) -> None:
        """`open_paths`: others that need no token. `is_private`: only this machine can reach the listener, so that no
        token is needed. `knows_session`: with a console, whether a Cookie header stands for the token."""
        self._application = application
        self._clock = clock
        self._allowed = frozenset(host.lower() for host in allowed_hosts)
        self._token = None if token is None else token.encode()
        self._open_paths = HEALTH | ({METRICS} if public_metrics else frozenset()) | frozenset(open_paths)
        self._is_private = is_private
        self._knows_session = knows_session
        self._advice = advice
        self._told_ms = -_TELL_INTERVAL_MS

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http":  # no websockets, and no lifespan
            return
        status, why = self._verdict(scope)
        if status:
            await _refuse(send, status, self._body(scope["path"], status, why))
            return
        await self._application(scope, receive, _with_headers(send))

    def _body(self, path: str, status: int, why: str) -> Mapping[str, object]:
        """The body of a refusal."""
        under = self._advice.coded_under
        if under is not None and path.startswith(under):
            return {"error": {"code": _CODES.get(status, "refused"), "message": why}}
        return {"error": why} | ({"token": self._advice.token} if status == 401 else {})  # the page has its own words

    def _verdict(self, scope: Scope) -> tuple[int, str]:
        """The status and the sentence to refuse the request with; status 0 lets it pass."""
        headers: dict[bytes, bytes] = {}
        for key, value in scope["headers"]:
            if key == b"host" and key in headers:
                return 400, "a request has one Host header"
            headers[key] = value
        if b"content-length" in headers and b"transfer-encoding" in headers:
            return 400, "a request says once how long it is"
        path, method = scope["path"], scope["method"]
        host = headers.get(b"host", b"").decode("latin-1")
        if path not in HEALTH and not host_is_private(host, self._allowed):
            return 421, f"this listener is not {host!r}: {self._advice.other_host}"
        origin = headers.get(b"origin")
        if origin is not None and origin.decode("latin-1").lower() != f"{scope.get('scheme', 'http')}://{host}".lower():
            return 403, "requests of other sites are refused"
        if self._is_of_another_site(path, headers):
            return 403, "requests of other sites are refused"
        if method not in _WITHOUT_JSON and not headers.get(b"content-type", b"").startswith(b"application/json"):
            return 415, "a change needs Content-Type: application/json"
        # The console's files tell nothing; a browser must have them before its user can show a token.
        is_file = self._knows_session is not None and (path == PAGE or path.startswith(STATIC))
        if is_file or path in self._open_paths or (self._token is None and self._is_private):
            return 0, ""
        if self._token is None:
            return 403, "this needs a token: set eosin.http.token.file"
        if self._has_session(method, headers.get(b"cookie", b"")):
            return 0, ""
        if not self._has_token(headers.get(b"authorization", b"")):
            if b"authorization" in headers or self._knows_session is None:  # a page asks first without one
                self._log_refusal(scope)
            return 401, f"send {self._advice.token} as Authorization: Bearer TOKEN"
        return 0, ""

    def _is_of_another_site(self, path: str, headers: dict[bytes, bytes]) -> bool:
        """True if a page of another origin has sent it. A link to the console's page may be followed: the page itself
        tells nothing, and is shown in no frame."""
        site, mode = headers.get(b"sec-fetch-site"), headers.get(b"sec-fetch-mode")
        if mode == b"navigate" and headers.get(b"sec-fetch-dest") == b"document":
            return site == b"cross-site" and (self._knows_session is None or path != PAGE)
        return site in (b"cross-site", b"same-site")

    def _has_session(self, method: str, cookie: bytes) -> bool:
        """A cookie stands for the token, but for changes."""
        return (
            self._knows_session is not None
            and bool(cookie)
            and method in _READING
            and self._knows_session(cookie.decode("latin-1"))
        )

    def _has_token(self, authorization: bytes) -> bool:
        kind, _, given = authorization.partition(b" ")
        assert self._token is not None
        return kind.lower() == b"bearer" and hmac.compare_digest(given.strip(), self._token)

    def _log_refusal(self, scope: Scope) -> None:
        now_ms = self._clock.elapsed_ms()
        if now_ms - self._told_ms >= _TELL_INTERVAL_MS:
            self._told_ms = now_ms
            client = scope.get("client") or ("?", 0)
            _LOG.warning("an HTTP request from %s had no valid token", client[0])


async def _refuse(send: Send, status: int, told: Mapping[str, object]) -> None:
    body = json.dumps(told).encode() + b"\n"
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode()), *SAFE_HEADERS]
    if status == 400:  # a proxy may have read another request than this
        headers.append((b"connection", b"close"))
    if status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def _with_headers(send: Send) -> Send:
    async def sent(message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            headers = list(message.get("headers", ()))
            given = {name.lower() for name, _ in headers}
            message["headers"] = [*headers, *(each for each in SAFE_HEADERS if each[0] not in given)]
        await send(message)

    return sent
