"""PLAIN on the broker's side: a password against what is stored of it (RFC 4616, security.md 3.5).

The store is the one of SCRAM, so no password is kept anywhere; PBKDF2 makes a check cost milliseconds, which two
threads spend and never the event loop. A good pair of user and password is remembered for a while, as a keyed hash that
changes with the credential, so that a storm of reconnects costs nothing. Only a user who is not in the store may have a
password in the listener's `sasl.jaas.config`. Always true: a failure takes the same work and the same time, whoever it
was about, so names of users cannot be tried out.
"""

import asyncio
import hashlib
import hmac
import secrets
from collections import OrderedDict
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from eosin.model.credentials import Credentials
from eosin.protocol.sasl.plain import PlainLogin, read_plain
from eosin.protocol.sasl.scram_credentials import is_password_of
from eosin.protocol.sasl.steps import Failure, Mechanism
from eosin.runtime.clock import Clock
from eosin.security.sasl.check_turns import CheckTurns
from eosin.security.sasl.exchanges import Authenticated, Step
from eosin.security.sasl.lookup import find, find_or_fake

THREADS: Final = 2
MAX_WAITING: Final = 256
"""Checks that wait for a thread. Beyond, a connection of the network with the most is closed: "wrong password" would be
a lie, and clients stop on it."""
MAX_REMEMBERED: Final = 10_000
REMEMBERED_MS: Final = 600_000
ANSWER_MS: Final = 100
"""A failure is answered so long after the start of its check, or a multiple of it: longer than a check takes."""


class PasswordChecks:
    """The checks of one broker."""

    def __init__(self, credentials: Credentials, clock: Clock) -> None:
        self._credentials = credentials
        self._clock = clock
        self._threads: ThreadPoolExecutor | None = None
        """Made for the first check."""
        self._turns = CheckTurns(at_once=THREADS, most_waiting=MAX_WAITING)
        self._key: Final = secrets.token_bytes(32)
        self._good: OrderedDict[bytes, int] = OrderedDict()
        """Until when, in ms of the clock, by the hash of what was good."""

    def close(self) -> None:
        """Begin no more checks."""
        self._turns.close()
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)

    async def is_good(self, login: PlainLogin, others: Mapping[str, str], network: str) -> bool:
        """True if the password that came from `network` is the user's. `others` are passwords of users who are not in
        the store. Raises CloseConnection when too many checks wait."""
        listed = None if self._credentials.of(login.user) else others.get(login.user)
        # Whoever is not in the store costs what those cost whom our own tools made.
        credential = (
            find(self._credentials, login.user, Mechanism.SCRAM_SHA_512)
            or find(self._credentials, login.user, Mechanism.SCRAM_SHA_256)
            or find_or_fake(self._credentials, login.user, Mechanism.SCRAM_SHA_512)
        )
        proof = credential.stored_key if listed is None else _hash(listed)
        pair = b"\0".join((login.user.encode("utf-8"), login.password.encode("utf-8"), proof))
        remembered = hmac.digest(self._key, pair, "sha256")
        now_ms = self._clock.elapsed_ms()
        if self._good.get(remembered, now_ms) > now_ms:
            return True
        if self._threads is None:
            self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="eosin-password")
        async with self._turns.turn(network):
            loop = asyncio.get_running_loop()
            is_good = await loop.run_in_executor(self._threads, is_password_of, credential, login.password)
        if listed is None:
            is_good = is_good and bool(self._credentials.of(login.user))  # a user may be deleted meanwhile
        else:
            is_good = hmac.compare_digest(_hash(login.password), _hash(listed))
        if is_good:
            self._remember(remembered)
        return is_good

    def started(self) -> int:
        """The time at which a check begins."""
        return self._clock.elapsed_ms()

    async def time_to_fail(self, began_ms: int) -> None:
        """Wait until a failed check is answered that began then: how long it took tells nobody anything."""
        took_ms = self._clock.elapsed_ms() - began_ms
        await self._clock.sleep(ANSWER_MS - took_ms % ANSWER_MS)

    def _remember(self, what: bytes) -> None:
        self._good.pop(what, None)
        self._good[what] = self._clock.elapsed_ms() + REMEMBERED_MS
        if len(self._good) > MAX_REMEMBERED:
            self._good.popitem(last=False)


class PlainExchange:
    """One exchange: one token decides."""

    def __init__(self, checks: PasswordChecks, others: Mapping[str, str], network: str) -> None:
        """`network`: from where the peer comes."""
        self._checks = checks
        self._others = others
        self._network = network

    async def step(self, token: bytes) -> Step:
        """Judge the password."""
        began_ms = self._checks.started()
        login = read_plain(token)
        if isinstance(login, Failure):
            return login
        if await self._checks.is_good(login, self._others, self._network):
            return Authenticated(login.user)
        await self._checks.time_to_fail(began_ms)
        return Failure("the password is wrong, or there is no such user")


def _hash(password: str) -> bytes:
    return hashlib.sha256(password.encode("utf-8")).digest()
