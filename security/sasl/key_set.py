"""`KeySet`: the public keys of those who sign tokens, from a JSON web key set at a URL (security.md 3.6.6).

The URL is from the settings, and nothing that comes over the wire can change it. Always true: keys are there before the
port opens; a fetch that fails keeps the old ones, for a day at most; a name of a key that is not known brings an early
fetch at most once a minute, however many such names come. Fetches run in a thread, bounded in time and size, and follow
no redirect.
"""

import asyncio
import http.client
import json
import logging
from collections import OrderedDict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote, urlsplit

import jwt

from eosin.runtime.clock import Clock, Timer
from eosin.runtime.logging_format import fields
from eosin.security.sasl.bearer_tokens import MAX_KID_CHARS, PublicKey
from eosin.settings.start_error import StartError

if TYPE_CHECKING:
    from eosin.security.tls.contexts import ClientContext

log = logging.getLogger(__name__)

MAX_BYTES: Final = 1 << 20
FETCH_TIMEOUT_S: Final = 10
USABLE_MS: Final = 24 * 3_600_000
"""The time for which keys stay in use that could not be fetched again."""
EARLY_MS: Final = 60_000
"""Between two fetches for names that are not known."""
MAX_UNKNOWN: Final = 16
"""Such names that are remembered."""
FIRST_LOAD_MS: Final = 60_000

Fetch = Callable[[], bytes]
"""Brings the set, in a thread. Raises OSError."""


class NoKeys(Exception):
    """The fetched text is no set of keys; the message is one sentence."""


class KeySet:
    """The keys of one URL."""

    def __init__(self, url: str, clock: Clock, *, refresh_ms: int, fetch: Fetch | None = None) -> None:
        self._url = url
        self._clock = clock
        self._refresh_ms = refresh_ms
        self._fetch = fetch or (lambda: fetched(url))
        self._keys: Mapping[str, PublicKey] = {}
        self._loaded_ms: int | None = None
        self._early_ms: int | None = None
        """The start of the last early fetch."""
        self._unknown: OrderedDict[str, int] = OrderedDict()
        self._fetching: asyncio.Task[None] | None = None
        self._next: Timer | None = None

    async def load(self, *, backoff_ms: int, backoff_max_ms: int) -> None:
        """Fetch for the first time, and then at intervals. Raises `StartError` when it does not come in a minute."""
        end_ms, delay_ms = self._clock.elapsed_ms() + FIRST_LOAD_MS, backoff_ms
        while True:
            why = await self._attempt()
            if why is None:
                self._schedule()
                return
            if self._clock.elapsed_ms() + delay_ms >= end_ms:
                raise StartError(f"sasl.oauthbearer.jwks.endpoint.url brings no keys: {why}")
            await self._clock.sleep(delay_ms)
            delay_ms = min(2 * delay_ms, backoff_max_ms)

    def find(self, kid: str) -> PublicKey | None:
        """The key of that name, while keys are fresh enough."""
        now_ms = self._clock.elapsed_ms()
        if self._loaded_ms is None or now_ms - self._loaded_ms > USABLE_MS:
            return None
        key = self._keys.get(kid)
        if key is None:
            self._want(kid, now_ms)
        return key

    def close(self) -> None:
        """Fetch no more."""
        if self._next is not None:
            self._next.cancel()
        if self._fetching is not None:
            self._fetching.cancel()

    def _want(self, kid: str, now_ms: int) -> None:
        """Fetch early for a name that is not known, unless that was tried."""
        asked_ms = self._unknown.get(kid)
        if asked_ms is not None and now_ms - asked_ms < EARLY_MS:
            return
        if self._early_ms is not None and now_ms - self._early_ms < EARLY_MS:
            return
        self._unknown[kid] = self._early_ms = now_ms
        if len(self._unknown) > MAX_UNKNOWN:
            self._unknown.popitem(last=False)
        self._begin()

    def _schedule(self) -> None:
        self._next = self._clock.call_later(self._refresh_ms, self._again)

    def _again(self) -> None:
        self._schedule()
        self._begin()

    def _begin(self) -> None:
        if self._fetching is None or self._fetching.done():
            self._fetching = asyncio.get_running_loop().create_task(self._refresh())

    async def _refresh(self) -> None:
        why = await self._attempt()
        if why is not None:
            log.warning("the keys of tokens could not be fetched again: %s", why, extra=fields(url=self._url))

    async def _attempt(self) -> str | None:
        """Fetch once; why it failed."""
        try:
            data = await asyncio.to_thread(self._fetch)
            self._keys = keys_of(data)
        except (OSError, http.client.HTTPException) as error:
            return str(error) or type(error).__name__
        except NoKeys as error:
            return str(error)
        self._loaded_ms = self._clock.elapsed_ms()
        return None


def keys_of(data: bytes) -> Mapping[str, PublicKey]:
    """The keys for signatures in a JSON web key set, by name. Raises NoKeys when there is none."""
    try:
        found = json.loads(data)["keys"]
        entries = [each for each in found if isinstance(each, dict)]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise NoKeys("it is no JSON web key set") from None
    keys = {}
    for entry in entries:
        kid = entry.get("kid")
        if not isinstance(kid, str) or not 0 < len(kid) <= MAX_KID_CHARS or entry.get("use", "sig") != "sig":
            continue
        if (key := _key(entry)) is not None:
            keys[kid] = key
    if not keys:
        raise NoKeys("it has no key that can be used")
    return keys


def _key(entry: Mapping[str, Any]) -> PublicKey | None:
    """One public key; None for what is none: `oct` would make it a shared secret (CVE-2026-48526)."""
    kind, curve, algorithm = entry.get("kty"), entry.get("crv"), entry.get("alg")
    if kind not in ("RSA", "EC", "OKP") or "d" in entry:
        return None
    try:
        key = jwt.PyJWK(dict(entry)).key
    except (jwt.PyJWTError, ValueError, TypeError):
        return None
    return PublicKey(
        key, kind, curve if isinstance(curve, str) else None, algorithm if isinstance(algorithm, str) else None
    )


def fetched(url: str, trusted: "ClientContext | None" = None) -> bytes:
    """The bytes at a URL of https or of a file; `trusted` says whom to trust, in place of the system's authorities.
    Blocks, for ten seconds at most a step. Raises OSError."""
    parts = urlsplit(url)
    if parts.scheme == "file":
        with Path(unquote(parts.path)).open("rb") as file:
            return _bounded(file.read(MAX_BYTES + 1))
    assert parts.scheme == "https", "the settings allow nothing else"
    # Its default is to verify the server by the system's authorities.
    connection = http.client.HTTPSConnection(parts.hostname or "", parts.port, timeout=FETCH_TIMEOUT_S, context=trusted)
    try:
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        connection.request("GET", path, headers={"Accept": "application/json"})
        response = connection.getresponse()
        if response.status != http.client.OK:
            raise OSError(f"the answer is {response.status} {response.reason}")
        return _bounded(response.read(MAX_BYTES + 1))
    finally:
        connection.close()


def _bounded(data: bytes) -> bytes:
    if len(data) > MAX_BYTES:
        raise OSError(f"it has more than {MAX_BYTES} bytes")
    return data
