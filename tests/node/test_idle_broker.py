"""Whatever wakes a broker that nobody asks for anything, over half an hour: nothing that is not listed here."""

import asyncio
import math
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from simulation.loop import Process
from virtual_broker import VirtualBroker
from wire import Wire

from eosin.protocol.names import TopicPartition

pytestmark = pytest.mark.virtual

IDLE_S = 1800
WAKES_EACH_S = {
    "the look at the event loop": 1,
    "checkpoints": 10,
    "idle files": 10,
    "the report of refused clients": 10,
    "the search for clients that have gone": 10,
    "compaction": 15 / 2,  # a round each 15 s, and one after the longest rest
    "the count of producers": 30,
    "the search for hanging transactions": 60,
    "the search for idle clients": 150,
    "retention": 300,
    "the expiry of shared states": 300,
    "the expiry of offsets": 600,
    "producer expiry": 600,
    "the expiry of transactional ids": 3600,
}
"""The work that goes on in an idle broker, and the seconds from one wake-up for it to the next."""
OF_CALLS = {
    "LoopWatch._due": "the look at the event loop",
    "GroupCoordinator._expire": "the expiry of offsets",
    "RepeatedWork._round": "the expiry of transactional ids",
    "StateCoordinator._prune_all": "the expiry of shared states",
}
"""The names above, of work that has no task."""


class Wakes:
    """Counts the timers of the broker's event loop that come due, by the work that they are for."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.counts: Counter[str] = Counter()
        call_at = Process.call_at

        def counted_at(
            process: Process, when: float, callback: Callable[..., object], *args: Any, context: Any = None
        ) -> asyncio.TimerHandle:
            if not process.name.startswith("broker"):
                return call_at(process, when, callback, *args, context=context)
            name = _work_of(callback)

            def called(*args: Any) -> None:
                self.counts[name] += 1
                callback(*args)

            return call_at(process, when, called, *args, context=context)

        monkeypatch.setattr(Process, "call_at", counted_at)


def _work_of(callback: Callable[..., object]) -> str:
    """The work whose task waits for the timer, or that it calls."""
    called = getattr(callback, "__qualname__", repr(callback))
    task = asyncio.current_task()
    return OF_CALLS.get(called) or (called if task is None else task.get_name())


async def started() -> VirtualBroker:
    """A broker whose event loop is watched, as in a process of its own."""
    broker = VirtualBroker({})
    await broker.start()
    process, server = broker._machine.process, broker.server
    assert process is not None
    process.call_soon(server.host.loop_watch.begin, server.background)
    return broker


@pytest.mark.parametrize("partitions", [0, 40])
async def test_an_idle_broker_is_woken_by_the_listed_work_alone_however_many_partitions_it_has(
    partitions: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    wakes = Wakes(monkeypatch)
    broker = await started()
    wire = await Wire.open(broker.address)
    if partitions:
        topic = await wire.topic(partitions)
        for index in range(partitions):
            await wire.append(TopicPartition(topic, index))
    await wire.close()
    await asyncio.sleep(200)  # everything is saved, and no file is open
    wakes.counts.clear()
    await asyncio.sleep(IDLE_S)
    allowed = {name: math.ceil(IDLE_S / each_s) + 1 for name, each_s in WAKES_EACH_S.items()}
    assert {name: count for name, count in wakes.counts.items() if count > allowed.get(name, 0)} == {}
    assert wakes.counts.total() < 2 * IDLE_S


async def test_a_client_that_comes_to_an_idle_broker_is_watched_from_its_first_request_on() -> None:
    broker = await started()
    await asyncio.sleep(200)
    host = broker.server.host
    assert host.loop_watch.is_resting
    looks: list[int] = []
    sample = host.places.sample
    host.places.sample = lambda: (looks.append(1), sample())[1]  # type: ignore[method-assign]
    wire = await Wire.open(broker.address)
    await wire.topic()
    assert not host.loop_watch.is_resting
    await asyncio.sleep(10)
    assert len(looks) == 10
    assert host.loop_watch.is_resting, "it asks for nothing"
    await wire.close()
    await asyncio.sleep(5)
    looks.clear()
    await asyncio.sleep(100)
    assert len(looks) == 10
