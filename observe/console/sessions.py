"""`Sessions`: pages that have shown the token once, and carry a cookie since (console.md 6).

A browser sends no Authorization header for a page or an event stream. Always true: a session is known to this process
alone, ends after `LIFE_MS`, and its cookie is sent by no page of another site, and readable by no script.
"""

import secrets
from collections.abc import Callable
from http.cookies import CookieError, SimpleCookie
from typing import Final

from eosin.runtime.clock import Clock

LIFE_MS: Final = 12 * 3_600_000
MOST: Final = 100


class Sessions:
    """The sessions of one broker's console."""

    def __init__(
        self, clock: Clock, *, port: str, is_secure: bool = False, secret: Callable[[], str] = secrets.token_urlsafe
    ) -> None:
        """`port` is that of the listener: browsers send a host's cookies to all of its ports. `is_secure`: it speaks
        TLS, and the cookie goes over nothing else. `secret` makes a new session's name."""
        self._secure = "; Secure" if is_secure else ""
        self._clock = clock
        self._cookie = f"eosin-{port}"
        self._secret = secret
        self._ends: dict[str, int] = {}

    def begin(self) -> str:
        """A new session, as the value of a Set-Cookie header."""
        now_ms = self._clock.elapsed_ms()
        self._ends = {name: end for name, end in self._ends.items() if end > now_ms}
        while len(self._ends) >= MOST:
            del self._ends[next(iter(self._ends))]
        name = self._secret()
        self._ends[name] = now_ms + LIFE_MS
        return f"{self._cookie}={name}; Path=/; HttpOnly; SameSite=Strict; Max-Age={LIFE_MS // 1000}{self._secure}"

    def knows(self, cookie: str) -> bool:
        """True if a Cookie header names a session that has not ended."""
        try:
            found = SimpleCookie(cookie).get(self._cookie)
        except CookieError:
            return False
        # A name of 256 random bits is not guessed by the time that its look-up takes.
        return found is not None and self._ends.get(found.value, -1) > self._clock.elapsed_ms()
