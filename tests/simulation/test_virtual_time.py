"""The mark `virtual`: time that jumps, tests that hang, exceptions that nobody catches, a network without sockets."""

import asyncio
import os
import socket
import subprocess
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from asked_broker import KILLED, STOPPED
from virtual_broker import OwnBroker, own_broker
from virtual_network import LATENCY_S
from virtual_time import Hangs, Real, Uncaught, VirtualLoop, now_ms, run
from wire import Wire, exchange

from eosin.runtime.clock import SystemClock

pytestmark = pytest.mark.virtual

HOUR_S = 3600


@pytest.fixture
async def moment() -> AsyncIterator[float]:
    """The time at which the fixtures are made."""
    yield asyncio.get_running_loop().time()
    await asyncio.sleep(HOUR_S / 2)


@pytest.mark.parametrize("sleeps_s", [0.5, HOUR_S / 2])
async def test_time_passes_at_once_and_in_fixtures_too(moment: float, sleeps_s: float) -> None:
    loop, really, wall_ms = asyncio.get_running_loop(), time.monotonic(), now_ms()
    assert isinstance(loop, VirtualLoop)
    await asyncio.sleep(sleeps_s)
    assert loop.time() - moment == sleeps_s
    assert now_ms() - wall_ms == sleeps_s * 1000
    assert time.monotonic() - really < HOUR_S / 4


def test_a_test_that_waits_for_nothing_fails_at_once_and_says_where() -> None:
    async def waits() -> None:
        await asyncio.get_running_loop().create_future()

    with pytest.raises(Hangs, match=r"(?s)virtual seconds.*in waits\n.*create_future"):
        run(waits())


def test_a_test_hangs_though_something_else_goes_on() -> None:
    def tick() -> None:
        asyncio.get_running_loop().call_later(1, tick)

    async def waits() -> None:
        tick()
        await asyncio.get_running_loop().create_future()

    with pytest.raises(Hangs):
        run(waits())


@pytest.mark.parametrize("where", ["task", "callback"])
def test_an_exception_that_nobody_catches_fails_the_test(where: str) -> None:
    def fails() -> None:
        raise ValueError("of the callback")

    async def fails_later() -> None:
        raise ValueError("of the task")

    async def goes_on() -> None:
        if where == "task":
            asyncio.ensure_future(fails_later())  # noqa: RUF006  # nobody looks at it again
        else:
            asyncio.get_running_loop().call_soon(fails)
        await asyncio.sleep(1)

    with pytest.raises(Uncaught, match=f"ValueError\\('of the {where}'\\)"):
        run(goes_on())


def test_an_error_of_the_test_itself_is_raised_as_it_is() -> None:
    async def fails() -> None:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        run(fails())


@pytest.mark.process
@pytest.mark.parametrize(
    ("real", "what"),
    [
        (socket.socket, "a socket"),
        (lambda: subprocess.run(["true"], check=True), "a process"),
        (lambda: os.posix_spawn("/bin/true", ["true"], {}), "a process"),
        (lambda: asyncio.get_running_loop().run_in_executor(None, print), "a thread"),
    ],
)
async def test_nothing_real_is_opened_or_started(real: Callable[[], object], what: str) -> None:
    with pytest.raises(Real, match=f"{what} in a virtual test"):
        real()


async def test_a_clock_of_the_system_tells_the_time_of_the_loop() -> None:
    loop, clock = asyncio.get_running_loop(), SystemClock()
    assert isinstance(loop, VirtualLoop)
    began = clock.elapsed_ms(), clock.running_ms()
    await asyncio.sleep(5)
    assert clock.elapsed_ms() - began[0] == clock.running_ms() - began[1] == 5000
    assert clock.now_ms() == loop.clock.now_ms()


class Sink(asyncio.Protocol):
    """Keeps what comes, and what it is told."""

    def __init__(self) -> None:
        self.received = b""
        self.told: list[str] = []
        self.lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def data_received(self, data: bytes) -> None:
        self.received += data

    def pause_writing(self) -> None:
        self.told.append("pause")

    def resume_writing(self) -> None:
        self.told.append("resume")

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost.set_result(None)


async def connected() -> tuple[asyncio.Transport, Sink, asyncio.Transport, Sink]:
    """Both ends of a connection."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    there = Sink()
    loop.network.listen("there", 1, lambda: (loop, there))
    end, here = await loop.create_connection(Sink, "there", 1)
    assert isinstance(here, Sink)
    return end, here, end.other, there


async def test_bytes_arrive_in_order_and_before_the_end() -> None:
    end, _, _, there = await connected()
    for part in (b"one ", b"two ", b"three"):
        end.write(part)
    end.close()
    assert there.received == b""
    await there.lost
    assert there.received == b"one two three"
    assert asyncio.get_running_loop().time() == LATENCY_S


async def test_a_writer_pauses_while_the_peer_reads_nothing() -> None:
    end, here, other_end, there = await connected()
    other_end.pause_reading()
    end.write(bytes(200_000))
    assert here.told == ["pause"]
    await asyncio.sleep(1)
    assert there.received == b""
    other_end.resume_reading()
    await asyncio.sleep(1)
    assert (here.told, len(there.received)) == (["pause", "resume"], 200_000)


async def test_nobody_listens_at_other_addresses() -> None:
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("there", 2)


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[OwnBroker]:
    async with own_broker(tmp_path / "data") as started:
        yield started


@pytest.mark.parametrize("how", [STOPPED, KILLED])
async def test_a_broker_keeps_its_records_and_its_address_over_a_restart(broker: OwnBroker, how: str) -> None:
    wire = await Wire.open(broker.address)
    partition = await wire.partition()
    await wire.append(partition, 3)
    await broker.restart(how)
    await wire.connection.wait_closed()
    again = await Wire.open(broker.address)
    assert await again.end_offset(partition) == 3
    await again.close()


async def test_two_brokers_of_one_test_know_nothing_of_each_other(broker: OwnBroker, tmp_path: Path) -> None:
    async with own_broker(tmp_path / "other") as other:
        assert other.address != broker.address
        wires = [await Wire.open(each.address) for each in (broker, other)]
        partition = await wires[0].partition()
        await wires[0].append(partition, 3)
        assert (await wires[1].fetch(partition)).error_code != 0


async def test_a_broker_closes_a_connection_that_sends_no_frames(broker: OwnBroker) -> None:
    assert await exchange(broker.address, b"\xff" * 40) == []
