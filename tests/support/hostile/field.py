"""`Field`: what attackers and honest clients know of the broker, and what an attacker does there.

Always true: of everything that an attack opens nothing is left when it ends.
"""

import asyncio
import contextlib
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import Any, Final, Self

from hostile.peer import GONE, Peer

PASSWORD: Final = "of-the-user"
"""Of every user."""
AGAIN_AFTER_S: Final = 0.05


class Who(StrEnum):
    """Users of the broker, beside `admin`, who may do everything."""

    NOBODY = "nobody"
    """A peer that does not log in."""
    SMALL = "small"
    """Has no right at all."""
    WRITER = "writer"
    """May write to three topics."""
    OWNER = "owner"
    """May do anything with topics and groups whose names begin as its own does."""
    HONEST = "honest"
    """Has the rights of the tutorial's application."""
    ADMIN = "admin"


@dataclass(frozen=True)
class Place:
    """The broker's address, in words that go from process to process."""

    port: int
    http_port: int
    ca: str
    """The authority of its certificate, as a file."""

    @property
    def address(self) -> str:
        """host:port of the listener."""
        return f"127.0.0.1:{self.port}"

    @classmethod
    def of(cls, words: dict[str, Any]) -> Self:
        """The one whose `words` these are."""
        return cls(**words)

    def words(self) -> dict[str, Any]:
        """For another process."""
        return asdict(self)


@dataclass
class Field:
    """One attack. A context manager."""

    place: Place
    scale: float = 1.0
    """The part of a number of names, connections or bytes that is sent; tests send less."""
    bouts: int = 0
    """The number of times that the attack was carried out."""
    turned_away: int = 0
    """Connections that the broker has ended, or did not take."""
    _began: asyncio.Event = field(default_factory=asyncio.Event)
    _peers: set[Peer] = field(default_factory=set)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        for peer in tuple(self._peers):
            self.drop(peer)

    @cached_property
    def tls(self) -> ssl.SSLContext:
        """Trusts the broker."""
        return ssl.create_default_context(cafile=self.place.ca)

    def sized(self, number: int, least: int = 1) -> int:
        """So many of `number` as are sent."""
        return max(least, round(number * self.scale))

    async def open(self, who: Who, source: str = "127.0.0.1") -> Peer:
        """A connection over TLS from an address of loopback, logged in unless it is nobody's. Raises one of `GONE`."""
        peer = self._kept(await Peer.open(self.place.port, self.tls, source))
        if who is not Who.NOBODY:
            await peer.log_in(who, PASSWORD)
        return peer

    async def open_plain(self, source: str = "127.0.0.1", port: int | None = None) -> Peer:
        """A connection on which nothing was sent yet."""
        return self._kept(await Peer.open(port or self.place.port, None, source))

    def _kept(self, peer: Peer) -> Peer:
        self._peers.add(peer)
        return peer

    def drop(self, peer: Peer) -> None:
        """End a connection."""
        self._peers.discard(peer)
        peer.drop()

    def bout(self) -> None:
        """The attack has done what it does, once more."""
        self.bouts += 1
        self._began.set()

    async def began(self) -> None:
        """Wait until it has been done once."""
        await self._began.wait()

    async def pause(self, seconds: float) -> None:
        """Be slow on purpose."""
        await asyncio.sleep(seconds)

    async def again(
        self,
        opened: Callable[[int], Awaitable[Peer]],
        does: Callable[[Peer], Awaitable[None]],
        *,
        connections: int = 1,
    ) -> None:
        """So many connections, each of which `does` something without end, and is opened anew when it was ended.
        `opened` opens the one with a number."""

        async def one(number: int) -> None:
            while True:
                peer = None
                try:
                    peer = await opened(number)
                    while True:
                        await does(peer)
                        self.bout()
                except GONE:
                    self.turned_away += 1
                    self.bout()
                    await self.pause(AGAIN_AFTER_S)
                finally:
                    if peer is not None:
                        self.drop(peer)

        async with asyncio.TaskGroup() as group:
            for number in range(connections):
                group.create_task(one(number))

    async def as_user(
        self, who: Who, does: Callable[[Peer], Awaitable[None]], *, connections: int = 1, addresses: int = 1
    ) -> None:
        """The same with connections of a user, from so many addresses."""
        await self.again(lambda number: self.open(who, source_of(number % addresses)), does, connections=connections)


def source_of(number: int) -> str:
    """An address of loopback for each number: those of 127.0.0.0/8 are all this machine's."""
    return f"127.0.{1 + number // 250}.{1 + number % 250}"


Attack = Callable[[Field], Awaitable[None]]
"""Goes on until it is cancelled, and counts its bouts."""


@dataclass(frozen=True)
class Case:
    """One thing that hostile peers do."""

    name: str
    row: str
    """Of the table in docs/testing/hostile.md; `more` is beyond it."""
    who: Who
    sends: str
    attack: Attack = field(repr=False)
    addresses: int = 1
    """From so many; each may write its lines into the log."""
    may_keep_mib: int = 0
    """Of memory, beyond what every case may: what the broker grants a user until sessions of the user end."""


@contextlib.asynccontextmanager
async def attacked(case: Case, ground: Field) -> Any:
    """The attack of a case while it is entered, from its first bout on."""
    async with ground:
        attack = asyncio.ensure_future(case.attack(ground))
        began = asyncio.ensure_future(ground.began())
        try:
            await asyncio.wait((attack, began), return_when=asyncio.FIRST_COMPLETED)
            if attack.done():
                await attack
                raise AssertionError(f"{case.name} is over before its time")
            yield ground
            if attack.done():
                await attack
        finally:
            for each in (attack, began):
                each.cancel()
            await asyncio.gather(attack, began, return_exceptions=True)
