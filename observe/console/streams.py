"""`Streams`: the pages that watch, and what each is sent as Server-Sent Events (console.md 5.1).

Always true: nobody looks at the broker while no page watches; a round begins `SHORTEST_MS` after the last one ended at
the earliest, and later where rounds take long, so that they take a tenth of the time at most; a page that reads slowly
is sent less often, and nothing is kept for it.
"""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any, Final, Protocol

import msgspec

from eosin.observe.console.feed import Feed
from eosin.observe.console.rounds import TABLES
from eosin.observe.console.tables import Table
from eosin.runtime.clock import Clock

_LOG: Final = logging.getLogger(__name__)

SHORTEST_MS: Final = 250
LONGEST_MS: Final = 5000
SHARE: Final = 10
"""A round may take one part in so many of the time."""
ROWS_PER_FRAME: Final = 400
HEARTBEAT_MS: Final = 15_000
MOST_STREAMS: Final = 20
HEARTBEAT: Final = b": alive\n\n"
CROWDED: Final = b"event: crowded\ndata: {}\n\n"


class Changed(msgspec.Struct, frozen=True, omit_defaults=True):
    """The changes of one table in a frame."""

    reset: bool = False
    rows: Sequence[msgspec.Raw] = ()
    gone: Sequence[Any] = ()


class Frame(msgspec.Struct, frozen=True):
    """One message: a page applies it as it comes."""

    now_ms: int
    """The broker's clock, which countdowns go by."""
    is_last: bool
    """True if this frame completes the version."""
    tables: dict[str, Changed]


class _PageStream:
    """One page."""

    __slots__ = ("is_crowded", "is_over", "wake")

    def __init__(self) -> None:
        self.wake = asyncio.Event()
        self.is_crowded = False
        self.is_over = False


class Surveyed(Protocol):
    """The tables that pages watch, and how they are brought up to date: `Rounds` of a broker, `ClusterRounds` of a
    cluster."""

    version: int
    """Of the last round that is whole."""
    tables: dict[str, Table[Any]]

    async def round(self) -> None:
        """Look at everything once."""


class Streams:
    """All pages of one broker, or of one cluster."""

    def __init__(
        self, rounds: Surveyed, feed: Feed | None, clock: Clock, *, run: str, shortest_ms: int | None = None
    ) -> None:
        """`run` tells this start of the broker from others: versions begin anew with it. `shortest_ms` is the pause
        between rounds, `SHORTEST_MS` unless it is given."""
        self.rounds = rounds
        self._feed = feed
        self._clock = clock
        self._run = run
        self._shortest_ms = shortest_ms
        self._streams: dict[_PageStream, None] = {}
        self._running: asyncio.Task[None] | None = None
        self.is_stopped = False
        self.longest_round_ms = 0
        """For tests and figures."""

    @property
    def count(self) -> int:
        """Pages that watch."""
        return len(self._streams)

    @property
    def is_running(self) -> bool:
        """True while rounds go on."""
        return self._running is not None and not self._running.done()

    async def stop(self) -> None:
        """End every stream."""
        self.is_stopped = True
        self._end_all()
        if self._running is not None:
            self._running.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._running

    async def frames(self, last_id: str, tables: Sequence[str], *, once: bool = False) -> AsyncIterator[bytes]:
        """The events of one page that has everything up to `last_id`. `once`: what it lacks now, and the end."""
        stream = _PageStream()
        if len(self._streams) >= MOST_STREAMS and not once:
            oldest = next((each for each in self._streams if not each.is_crowded), None)
            if oldest is not None:
                oldest.is_crowded = True
                oldest.wake.set()
        self._streams[stream] = None
        try:
            version = self._version(last_id)
            if self._feed is not None:
                self._feed.watch()
            if self._running is None or self._running.done():
                self._begin()
            elif self.rounds.version > version:
                stream.wake.set()
            async for event in self._events(stream, version, tables, once=once):
                yield event
        finally:
            self._streams.pop(stream, None)
            if not self._streams and self._feed is not None:
                self._feed.unwatch()

    async def _events(
        self, stream: _PageStream, version: int, tables: Sequence[str], *, once: bool
    ) -> AsyncIterator[bytes]:
        yield b"retry: 1000\n\n"
        while True:
            try:
                async with asyncio.timeout(HEARTBEAT_MS / 1000):
                    await stream.wake.wait()
            except TimeoutError:
                yield HEARTBEAT
                continue
            stream.wake.clear()
            if stream.is_over or self.is_stopped:
                return
            if stream.is_crowded:
                yield CROWDED
                return
            reached = self.rounds.version
            for event in self.changes(version, reached, tables):
                yield event
                await asyncio.sleep(0)
            version = reached
            if once:
                return

    def changes(self, version: int, reached: int, tables: Sequence[str]) -> Iterator[bytes]:
        """The events that bring a page from one version to the next; none when nothing has changed."""
        now_ms = self._clock.now_ms()
        pieces: list[tuple[str, Changed]] = []
        for name in tables:
            changes = self.rounds.tables[name].since(version)
            if not (changes.is_reset or changes.rows or changes.gone):
                continue
            rows, gone, is_reset = changes.rows, changes.gone, changes.is_reset
            for first in range(0, max(1, len(rows)), ROWS_PER_FRAME):
                pieces.append((name, Changed(is_reset, rows[first : first + ROWS_PER_FRAME], gone)))
                gone, is_reset = [], False
        frames = _gathered(pieces)
        for left, each in zip(range(len(frames) - 1, -1, -1), frames, strict=True):
            yield _event(Frame(now_ms, not left, each), "" if left else f"{self._run}.{reached}")

    def _version(self, last_id: str) -> int:
        run, _, version = last_id.rpartition(".")
        known = run == self._run and version.isascii() and version.isdecimal() and len(version) < 16
        return min(int(version), self.rounds.version) if known else 0

    def _begin(self) -> None:
        self._running = asyncio.get_running_loop().create_task(self._check())
        self._running.add_done_callback(self._ended)

    def _ended(self, rounds: "asyncio.Task[None]") -> None:
        error = None if rounds.cancelled() else rounds.exception()
        if error is not None:
            _LOG.error("the console could not look at the broker", exc_info=error)
            self._end_all()  # its pages come back

    def _end_all(self) -> None:
        for each in self._streams:
            each.is_over = True
            each.wake.set()

    async def _check(self) -> None:
        while self._streams and not self.is_stopped:
            begun = self._clock.elapsed_ms()
            await self.rounds.round()
            took = self._clock.elapsed_ms() - begun
            self.longest_round_ms = max(self.longest_round_ms, took)
            for each in self._streams:
                each.wake.set()
            shortest_ms = SHORTEST_MS if self._shortest_ms is None else self._shortest_ms
            await self._clock.sleep(min(LONGEST_MS, max(shortest_ms, SHARE * took)))


def tables_of(text: str) -> tuple[str, ...]:
    """The tables that a page names with commas; all of them when it names none that there is."""
    asked = text.split(",")
    return tuple(each for each in TABLES if each in asked) or TABLES


def _gathered(pieces: list[tuple[str, Changed]]) -> list[dict[str, Changed]]:
    """Pieces of tables as frames of at most `ROWS_PER_FRAME` rows each, in order."""
    frames: list[dict[str, Changed]] = []
    size = ROWS_PER_FRAME
    for name, piece in pieces:
        if not frames or name in frames[-1] or size + len(piece.rows) > ROWS_PER_FRAME:
            frames.append({})
            size = 0
        frames[-1][name] = piece
        size += len(piece.rows)
    return frames


def _event(frame: Frame, identity: str) -> bytes:
    head = b"id: " + identity.encode() + b"\n" if identity else b""
    return head + b"data: " + msgspec.json.encode(frame) + b"\n\n"
