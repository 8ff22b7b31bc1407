"""Small requests through the whole server beside a bare uvloop echo, and how late the loop is under load.

16 connections, one request each in flight. The load comes from this process, so a rate alone would mostly measure
Python's client side; the server's own CPU time per request tells what the server costs, and both are reported.
"""

import asyncio
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import cast

import uvloop
from broker_process import BrokerProcess
from confluent_kafka import Producer

from bench.raw_connection import cpu_seconds
from bench.report import Row, percentile
from eosin.protocol.keys import ApiKey
from eosin.protocol.schemas.heartbeat import HeartbeatRequest
from eosin.protocol.wire.codec import encode_request

GROUP = "Small requests"
CONNECTIONS = 16

ECHO = """
import asyncio, struct, sys, uvloop

class Echo(asyncio.Protocol):
    def connection_made(self, transport):
        self.transport, self.data = transport, b""

    def data_received(self, data):
        self.data += data
        while len(self.data) >= 4 and len(self.data) >= (end := 4 + struct.unpack_from(">i", self.data)[0]):
            self.transport.write(self.data[:end])
            self.data = self.data[end:]

async def main():
    server = await asyncio.get_running_loop().create_server(Echo, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()

uvloop.run(main())
"""


@contextmanager
def echo() -> Iterator[tuple[int, int]]:
    """A bare uvloop server that sends back each frame: its process id and its port."""
    process = subprocess.Popen([sys.executable, "-c", ECHO], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield process.pid, int(process.stdout.readline())
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


class _Caller(asyncio.Protocol):
    """Sends a frame, and the next one when the whole answer is there."""

    def __init__(self, frame: bytes, times: list[float]) -> None:
        self._frame = frame
        self._times = times
        self._data = b""
        self._sent = 0.0
        self.stopping = False
        self.stopped: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._call()

    def _call(self) -> None:
        assert self._transport is not None
        self._sent = time.perf_counter()
        self._transport.write(self._frame)

    def data_received(self, data: bytes) -> None:
        self._data += data
        if len(self._data) < 4 or len(self._data) < 4 + struct.unpack_from(">i", self._data)[0]:
            return
        self._data = b""
        self._times.append(time.perf_counter() - self._sent)
        if not self.stopping:
            self._call()
        elif not self.stopped.done():
            assert self._transport is not None
            self._transport.close()
            self.stopped.set_result(None)


async def _callers(port: int, frame: bytes, seconds: float) -> list[float]:
    times: list[float] = []
    loop = asyncio.get_running_loop()
    callers = []
    for _ in range(CONNECTIONS):
        _, caller = await loop.create_connection(lambda: _Caller(frame, times), "127.0.0.1", port)
        callers.append(caller)
    await asyncio.sleep(seconds)
    for caller in callers:
        caller.stopping = True
    await asyncio.gather(*(caller.stopped for caller in callers))
    return times


def load(pid: int, port: int, frame: bytes, seconds: float) -> tuple[float, float]:
    """As many requests as are answered: (requests per second, CPU microseconds of the server per request)."""
    before = cpu_seconds(pid)
    times = uvloop.run(_callers(port, frame, seconds))
    return len(times) / seconds, (cpu_seconds(pid) - before) / len(times) * 1e6


@cache
def heartbeat() -> bytes:
    """The request of a member that nobody knows: nothing is done for it but to answer."""
    request = HeartbeatRequest(group_id="nobody", generation_id=1, member_id="nobody")
    return b"".join(encode_request(ApiKey.HEARTBEAT, 4, 1, "bench", request))


def _loop_lag(broker: BrokerProcess, seconds: float) -> list[float]:
    """Seconds from sending to answer of one idle connection while four producers commit as fast as they can."""
    end = time.perf_counter() + seconds

    def work(index: int) -> None:
        producer = Producer({"bootstrap.servers": broker.address, "transactional.id": f"lag-{index}", "linger.ms": 0})
        producer.init_transactions(30)
        while time.perf_counter() < end:
            producer.begin_transaction()
            for _ in range(20):
                producer.produce("lag", value=b"x" * 1024)
            producer.commit_transaction(30)

    threads = [threading.Thread(target=work, args=(index,)) for index in range(4)]
    for thread in threads:
        thread.start()
    waits = uvloop.run(_pings(broker.port, seconds))
    for thread in threads:
        thread.join()
    return waits


async def _pings(port: int, seconds: float) -> list[float]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    frame, times = heartbeat(), []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        started = time.perf_counter()
        writer.write(frame)
        size = struct.unpack(">i", await reader.readexactly(4))[0]
        await reader.readexactly(size)
        times.append(time.perf_counter() - started)
        await asyncio.sleep(0.002)
    writer.close()
    return times


def run(quick: bool = False) -> list[Row]:
    """Interleaved pairs of the broker and the echo."""
    frame = heartbeat()
    seconds, rounds = (0.5, 2) if quick else (2.0, 5)
    with (
        tempfile.TemporaryDirectory() as folder,
        BrokerProcess(Path(folder) / "data", durability="os") as broker,
        echo() as (echo_pid, echo_port),
    ):
        load(broker.pid, broker.port, frame, 0.3)
        ours, reference = [], []
        for _ in range(rounds):
            ours.append(load(broker.pid, broker.port, frame, seconds))
            reference.append(load(echo_pid, echo_port, frame, seconds))
        lag = _loop_lag(broker, 2 if quick else 6)
    rate, echo_rate = (percentile([each[0] for each in side], 0.5) for side in (ours, reference))
    cpu, echo_cpu = (percentile([each[1] for each in side], 0.5) for side in (ours, reference))
    return [
        Row(GROUP, "Heartbeat, 16 connections", rate, "/s", echo_rate, "bare echo", 0.25, higher_is_better=True),
        Row(GROUP, "server CPU per Heartbeat", cpu, "us", echo_cpu, "bare echo", 4),
        Row(GROUP, "answer time of a quiet connection beside 4 busy ones, p50", percentile(lag, 0.5) * 1e3, "ms"),
        Row(GROUP, "answer time of a quiet connection beside 4 busy ones, p99", percentile(lag, 0.99) * 1e3, "ms"),
    ]
