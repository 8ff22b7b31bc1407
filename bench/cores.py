"""Two event loops in one process: what a second one costs the first, and what a request costs that another loop serves.

Each loop has a thread and a whole broker of its own, without sockets, and sixteen producers that commit transactions of
one partition as fast as they are answered: as little shared as two loops can share, so the most that they could gain.
A share of the transactions goes to the broker of the other loop and back, as it would in one broker whose partitions
belong to loops, since a client's connection is on one of them. Run it with an interpreter without a global lock, too;
with the lock, two loops only take turns (ADR 61).
"""

import asyncio
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

from fake_peer import FakePeer
from fake_transport import FakeTransport
from local_broker import local_broker

from bench.path import Client
from bench.report import Row, repeated

GROUP: Final = "Two event loops in one process"
PRODUCERS: Final = 16
"""Of each loop, each with one request in flight."""
SHARES: Final = (0.0, 0.5, 1.0)
"""Of the transactions that the other loop's broker serves."""
_LONGEST_START_S: Final = 60


class _Transport(FakeTransport):
    """Says when an answer was written."""

    def __init__(self, answered: Callable[[], object]) -> None:
        super().__init__()
        self._answered = answered

    def writelines(self, list_of_data: Iterable[Any]) -> None:
        super().writelines(list_of_data)
        self._answered()


class _Side:
    """A broker, and its loop in a thread. A context manager."""

    def __init__(self, folder: Path) -> None:
        self.loop = asyncio.new_event_loop()
        self.transactions = 0
        """Number of those that this side's producers have committed."""
        self._folder = folder
        self._is_up = threading.Event()
        self._stop = asyncio.Event()
        self._thread = threading.Thread(target=self.loop.run_until_complete, args=(self._serve(),))

    async def _serve(self) -> None:
        async with local_broker(eosin_durability="os", log_dirs=(str(self._folder),)) as broker:
            self.host = broker.host
            self._is_up.set()
            await self._stop.wait()

    def __enter__(self) -> "_Side":
        self._thread.start()
        assert self._is_up.wait(_LONGEST_START_S), "the broker does not start"
        return self

    def __exit__(self, *_: object) -> None:
        self.loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()
        self.loop.close()


class _Producer:
    """A client of one side's broker, in the loop of `user`."""

    def __init__(self, home: _Side, user: _Side, name: str) -> None:
        self._home, self._user, self._name = home, user, name
        self._waiting: asyncio.Future[None] | None = None

    async def open(self) -> None:
        """Connect, and get a producer id. In the loop of the broker."""
        self._client = Client(FakePeer(self._home.host, transport=_Transport(self._answered)), self._name)
        await self._client.begin()

    def _answered(self) -> None:
        if self._home is self._user:
            self._go_on()
        else:
            self._user.loop.call_soon_threadsafe(self._go_on)

    def _go_on(self) -> None:
        if self._waiting is not None:
            self._waiting.set_result(None)
            self._waiting = None

    async def transact(self) -> None:
        """One transaction. In the loop of the user."""
        peer = self._client.peer
        for request in (self._client.produce, self._client.commit):
            key, version, message = request()
            frame = peer.frame(key, version, message)
            answered = self._waiting = self._user.loop.create_future()
            if self._home is self._user:
                peer.transport.feed(frame)
            else:
                self._home.loop.call_soon_threadsafe(peer.transport.feed, frame)
            await answered
            self._client.take(key, peer.answers()[0])


async def _produce(near: _Producer, far: _Producer | None, share: float, side: _Side, ended: threading.Event) -> None:
    """Commit one transaction after another, a share of them at the other side."""
    due = 0.0
    while not ended.is_set():
        due += share
        if due >= 1 and far is not None:
            due -= 1
            await far.transact()
        else:
            await near.transact()
        side.transactions += 1


async def _work(side: _Side, other: _Side | None, share: float, ended: threading.Event) -> None:
    """All producers of one side, until the end."""
    producers = []
    for number in range(PRODUCERS):
        near = _Producer(side, side, f"near-{number}")
        await near.open()
        far = None
        if other is not None:
            far = _Producer(other, side, f"far-{number}")
            await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(far.open(), other.loop))
        producers.append(_produce(near, far, share, side, ended))
    await asyncio.gather(*producers)


def measure(loops: int, share: float, seconds: float, turns: int) -> tuple[list[float], list[float]]:
    """CPU of the process for each transaction (us), and transactions in a second, by turn; the first is to get warm."""
    ended = threading.Event()
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        sides = [stack.enter_context(_Side(Path(folder) / str(number))) for number in range(loops)]
        work = [
            asyncio.run_coroutine_threadsafe(_work(side, other, share, ended), side.loop)
            for side, other in zip(sides, [*sides[1:], sides[0]] if loops > 1 else [None], strict=True)
        ]
        costs, rates = [], []
        for turn in range(turns + 1):
            count, cpu, begun = _count(sides), time.process_time(), time.perf_counter()
            time.sleep(seconds)
            done, taken = _count(sides) - count, time.perf_counter() - begun
            if turn:
                costs.append((time.process_time() - cpu) / done * 1e6)
                rates.append(done / taken)
        ended.set()
        for each in work:
            each.result()
    return costs, rates


def _count(sides: Sequence[_Side]) -> int:
    return sum(each.transactions for each in sides)


def run(quick: bool = False) -> list[Row]:
    """One loop alone, then two."""
    seconds, turns = (0.5, 2) if quick else (2.0, 5)
    has_lock = getattr(sys, "_is_gil_enabled", lambda: True)()
    alone, alone_rates = measure(1, 0, seconds, turns)
    rows = [
        repeated(GROUP, "CPU per transaction, one loop", alone, "us"),
        repeated(GROUP, "transactions, one loop", alone_rates, "/s"),
    ]
    for share in SHARES:
        costs, rates = measure(2, share, seconds, turns)
        name = f"two loops, {share:.0%} of them handed over, {'with' if has_lock else 'without'} a global lock"
        for what, values, unit, references in (
            ("CPU per transaction", costs, "us", alone),
            ("transactions", rates, "/s", alone_rates),
        ):
            rows.append(
                repeated(
                    GROUP,
                    f"{what}, {name}",
                    values,
                    unit,
                    references=references,
                    reference_name="one loop",
                    higher_is_better=unit == "/s",
                )
            )
    return rows
