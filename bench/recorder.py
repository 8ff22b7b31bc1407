"""The cost of the flight recorder in a transaction: one broker in this process, which records its decisions in every
other turn.

The broker reads from a fake transport, so nothing but its own work is counted: CPU time of this thread from the bytes
of a request until all that follows from it is done. Sockets, which make a transaction dearer and the share smaller, are
left out. The median of the ratios of neighbouring turns is told, so that what else the machine does falls on both.
"""

import asyncio
import gc
import statistics
import tempfile
import time
from typing import Final

from fake_peer import FakePeer
from local_broker import local_broker

from bench.path import Client
from bench.report import Row
from eosin.coordinator.transactions.ports import TransactionObserver
from eosin.observe.recorder.recorder import FlightRecorder

GROUP: Final = "The flight recorder"
BUDGET: Final = 1.02
_TURNS_AFTER: Final = 3
"""Turns of the event loop after a response: the markers of an EndTxn are written in the first."""


async def _turn(client: Client, transactions: int) -> float:
    """CPU time of one transaction, us."""
    spent = 0
    for _ in range(transactions):
        for request in (client.produce, client.commit):
            key, version, message = request()
            frame = client.peer.frame(key, version, message)
            before = time.thread_time_ns()
            client.peer.transport.feed(frame)
            for _ in range(_TURNS_AFTER):
                await asyncio.sleep(0)
            spent += time.thread_time_ns() - before
            client.take(key, client.peer.answers()[0])
    return spent / transactions / 1000


async def measure(turns: int, transactions: int) -> tuple[list[float], list[float]]:
    """The cost of a transaction without and with the recorder, by turn (us)."""
    without: list[float] = []
    recorded: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        async with local_broker(eosin_durability="os", log_dirs=(folder,)) as server:
            coordinator = server.services.transactions
            recorder = FlightRecorder(server.services.clock)
            client = Client(FakePeer(server.host))
            await client.begin()
            for number in range(2 * turns + 2):
                gc.collect()
                # Two and two, each first as often as the other: what grows with time falls on both.
                is_recorded = number % 4 in (1, 2)
                observer: TransactionObserver | None = recorder if is_recorded else None
                coordinator.observe(observer)
                cost = await _turn(client, transactions)
                if number > 1:  # the first two are to get warm
                    (recorded if is_recorded else without).append(cost)
            assert recorder.stats.outcomes["commit", "tv2"] == (turns + 1) * transactions, "not all were recorded"
    return without, recorded


def run(quick: bool = False) -> list[Row]:
    """Turns without and with it."""
    without, recorded = asyncio.run(measure(*((4, 50) if quick else (60, 400))))
    ratio = statistics.median(with_it / plain for plain, with_it in zip(without, recorded, strict=True))
    plain = statistics.median(without)
    return [
        Row(GROUP, "CPU per transaction, no sockets, not recorded", plain, "us"),
        Row(GROUP, "CPU per transaction, no sockets, recorded", plain * ratio, "us", plain, "not recorded", BUDGET),
    ]
