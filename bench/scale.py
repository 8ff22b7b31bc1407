"""The limits of one broker: connections, partitions and readers that do not read, and their effect on others.

A probe, one connection that appends a record of 100 bytes every few ms, tells how long others wait meanwhile. Where a
reference is given, Apache Kafka was asked for the same in the same run.
"""

import gc
import resource
import select
import socket
import struct
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, Final

from apache_kafka import ApacheKafka
from broker_process import BrokerProcess

from bench.contenders import apache_kafka
from bench.raw_connection import RawConnection, frame, resident_bytes
from bench.report import Row, percentile
from bench.throughput import batch_of, create_topic, produce
from eosin.protocol.keys import ApiKey
from eosin.protocol.records.batch import NewRecord, build_batch
from eosin.protocol.schemas.api_versions import ApiVersionsRequest
from eosin.protocol.schemas.create_topics import CreatableTopic, CreateTopicsRequest
from eosin.protocol.schemas.fetch import FetchPartition, FetchRequest, FetchTopic
from eosin.protocol.schemas.metadata import MetadataRequest
from eosin.protocol.schemas.produce import PartitionProduceData, ProduceRequest, TopicProduceData

GROUP: Final = "Scale"
KIB, MIB = 1024, 1024 * 1024
PROBE_PAUSE_S: Final = 0.005
SLOW_READERS: Final = 40
SLOW_READER_BYTES: Final = 50 * MIB
PARTITIONS_PER_TOPIC: Final = 1000
_SPARE_DESCRIPTORS: Final = 200
_LOOPBACK_SOURCES: Final = 8
"""Source addresses in turns, so that one address does not run out of ports."""
_GIVE_UP_AFTER_S: Final = 120.0
_WAIT_IN_FETCH_MS: Final = 120_000
_UNTIL_ALL_WAIT_S: Final = 3.0
BUDGETS: Final = {
    "2,000 connections at once, until each was answered": 2.0,
    "memory of an idle connection, of 2,000": 8.0,
    "memory of an idle connection, of 10,000": 8.0,
    "memory of a connection that waits in a Fetch, of 2,000": 8.0,
    "memory of a connection that waits in a Fetch, of 10,000": 8.0,
    "an append beside 100,000 partitions, never written, longest": 50.0,
    "an append beside the first record of each of 1,000 partitions, longest": 50.0,
    "a clean stop, 10,000 partitions, each written once": 3.0,
}
"""Limits by the name of a figure, in its unit."""
Broker = BrokerProcess | ApacheKafka


class Probe:
    """Appends a small record again and again, in a thread of its own, and keeps how long each answer took (s)."""

    def __init__(self, port: int) -> None:
        """The topic `probe` must be there."""
        batch = bytes(build_batch([NewRecord(key=None, value=b"x" * 100)], timestamp=int(time.time() * 1000)))
        data = (TopicProduceData(name="probe", partition_data=(PartitionProduceData(index=0, records=batch),)),)
        self._frame = frame(ApiKey.PRODUCE, 9, ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=data))
        self._wire = RawConnection(port)
        self._stopping = False
        self._error: ConnectionError | None = None
        self.times: list[float] = []
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        try:
            while not self._stopping:
                started = time.perf_counter()
                self._wire.send(self._frame)
                self._wire.receive()
                self.times.append(time.perf_counter() - started)
                time.sleep(PROBE_PAUSE_S)
        except ConnectionError as error:
            self._error = error

    def __enter__(self) -> "Probe":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping = True
        self._thread.join()
        self._wire.close()
        if self._error is not None:
            print(f"the probe lost its connection after {len(self.times)} appends: {self._error}", flush=True)

    def milliseconds(self, share: float) -> float:
        """A percentile of what the answers took."""
        return percentile(self.times, share) * 1e3


def _probed(port: int, work: Callable[[], object]) -> Probe:
    with Probe(port) as probe:
        work()
    return probe


def wire_with_topics(broker: Broker, partitions: int = 0) -> RawConnection:
    """A connection, the probe's topic, and topics with so many partitions in all."""
    wire = RawConnection(broker.port)
    create_topic(wire, "probe")
    for number in range(0, partitions, PARTITIONS_PER_TOPIC):
        count = min(PARTITIONS_PER_TOPIC, partitions - number)
        topic = CreatableTopic(name=_topic(number), num_partitions=count, replication_factor=1)
        answer = wire.call(ApiKey.CREATE_TOPICS, 5, CreateTopicsRequest(topics=(topic,), timeout_ms=60_000))
        assert answer.topics[0].error_code == 0, answer
    return wire


def _topic(number: int) -> str:
    return f"many-{number // PARTITIONS_PER_TOPIC}"


# --- connections


def _connect_all(port: int, count: int) -> tuple[list[socket.socket], int]:
    """So many connections at once: those that have been answered one request, and how many were refused or reset."""
    hello = frame(ApiKey.API_VERSIONS, 2, ApiVersionsRequest())
    waiting: dict[int, socket.socket] = {}
    poll = select.epoll(count)
    for number in range(count):
        opened = socket.socket()
        opened.setblocking(False)
        opened.bind((f"127.0.0.{1 + number % _LOOPBACK_SOURCES}", 0))
        opened.connect_ex(("127.0.0.1", port))
        waiting[opened.fileno()] = opened
        poll.register(opened.fileno(), select.EPOLLOUT)
    connected: list[socket.socket] = []
    refused = 0
    deadline = time.perf_counter() + _GIVE_UP_AFTER_S
    while waiting:
        assert time.perf_counter() < deadline, f"{len(waiting)} of {count} connections were not answered"
        for descriptor, events in poll.poll(1):
            opened = waiting[descriptor]
            try:
                answered = _go_on(opened, events, hello)
            except ConnectionError:
                refused += 1
                poll.unregister(descriptor)
                del waiting[descriptor]
                opened.close()
                continue
            if answered:
                connected.append(opened)
                poll.unregister(descriptor)
                del waiting[descriptor]
            elif not events & select.EPOLLIN:
                poll.modify(descriptor, select.EPOLLIN)
    poll.close()
    return connected, refused


def _go_on(opened: socket.socket, events: int, hello: bytes) -> bool:
    """Read the whole answer, or send the request to it; whether it was answered.

    Raises:
        ConnectionError: the connection was refused or reset.
    """
    if events & select.EPOLLIN:
        size = opened.recv(4)
        if len(size) < 4:
            raise ConnectionResetError("the connection ended before its answer")
        opened.settimeout(_GIVE_UP_AFTER_S)
        left = struct.unpack(">i", size)[0]
        while left:
            got = len(opened.recv(left))
            if not got:
                raise ConnectionResetError("the connection ended within its answer")
            left -= got
        return True
    if events & (select.EPOLLERR | select.EPOLLHUP):
        raise ConnectionRefusedError("the connection was refused")
    opened.sendall(hello)
    return False


def _connections(broker: Broker, count: int, seconds: float) -> dict[str, float]:
    wire = wire_with_topics(broker)
    create_topic(wire, "quiet")
    wire.close()
    before = resident_bytes(broker.pid)
    taken = 0.0
    refused = 0
    connected: list[socket.socket] = []

    def storm() -> None:
        nonlocal taken, refused
        started = time.perf_counter()
        opened, refused = _connect_all(broker.port, count)
        connected.extend(opened)
        taken = time.perf_counter() - started

    try:
        during = _probed(broker.port, storm)
        after = _probed(broker.port, lambda: time.sleep(seconds))
        grown = resident_bytes(broker.pid) - before
        idle = len(connected)
        _wait_in_fetch(connected)
        grown_waiting = resident_bytes(broker.pid) - before
        waiting = sum(not _is_closed(each) for each in connected)
    finally:
        for each in connected:
            each.close()
    name = f"{count:,} connections"
    return {
        f"{name} at once, until each was answered|s": taken,
        f"{name} at once, refused or reset|connections": refused,
        f"an append meanwhile, longest, {name}|ms": during.milliseconds(1.0),
        f"an append beside {name} that are idle, p99|ms": after.milliseconds(0.99),
        f"{name}, answered and closed by the broker all the same|connections": idle - waiting,
        f"memory of an idle connection, of {count:,}|KiB": grown / max(1, idle) / KIB,
        f"memory of a connection that waits in a Fetch, of {count:,}|KiB": grown_waiting / max(1, waiting) / KIB,
    }


def _wait_in_fetch(connected: Sequence[socket.socket]) -> None:
    """Each that is still open asks for the next record of the topic `quiet`, which gets none; returns when the broker
    has had the time to let all of them wait."""
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=MIB)
    asked = FetchRequest(
        max_wait_ms=_WAIT_IN_FETCH_MS,
        min_bytes=1,
        max_bytes=MIB,
        isolation_level=1,
        topics=(FetchTopic(topic="quiet", partitions=(partition,)),),
    )
    request = frame(ApiKey.FETCH, 11, asked)
    for each in connected:
        with suppress(ConnectionError):
            each.sendall(request)
    time.sleep(_UNTIL_ALL_WAIT_S)


def _is_closed(opened: socket.socket) -> bool:
    """True if the peer has ended the connection, from which no answer is due."""
    opened.setblocking(False)
    try:
        return not opened.recv(1, socket.MSG_PEEK)
    except BlockingIOError:
        return False
    except ConnectionError:
        return True


# --- readers that do not read


def _slow_readers(broker: Broker, readers: int, seconds: float) -> dict[str, float]:
    wire = wire_with_topics(broker)
    create_topic(wire, "large")
    batch = batch_of(KIB, MIB)
    produce(wire, "large", batch, SLOW_READER_BYTES // len(batch) + 1)
    wire.close()
    before = resident_bytes(broker.pid)
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=SLOW_READER_BYTES)
    asked = FetchRequest(
        max_wait_ms=500,
        min_bytes=1,
        max_bytes=SLOW_READER_BYTES,
        isolation_level=1,
        topics=(FetchTopic(topic="large", partitions=(partition,)),),
    )
    request = frame(ApiKey.FETCH, 11, asked)
    with ExitStack() as stack:
        slow = [stack.enter_context(socket.create_connection(("127.0.0.1", broker.port))) for _ in range(readers)]
        for opened in slow:
            with suppress(ConnectionError):
                opened.sendall(request)
        probe = _probed(broker.port, lambda: time.sleep(seconds))
        grown = resident_bytes(broker.pid) - before
        closed = sum(_is_closed(each) for each in slow)
    name = f"{readers} readers that asked for {SLOW_READER_BYTES // MIB} MiB and do not read"
    return {
        f"{name}, closed by the broker|connections": closed,
        f"memory for {name}|MiB": grown / MIB,
        f"an append beside {name}, p99|ms": probe.milliseconds(0.99),
    }


# --- partitions


def write_each(wire: RawConnection, partitions: int) -> None:
    """One record to each partition."""
    batch = bytes(build_batch([NewRecord(key=None, value=b"x")], timestamp=int(time.time() * 1000)))
    for number in range(0, partitions, PARTITIONS_PER_TOPIC):
        data = tuple(PartitionProduceData(index=each, records=batch) for each in range(_count_in(number, partitions)))
        topics = (TopicProduceData(name=_topic(number), partition_data=data),)
        answer = wire.call(ApiKey.PRODUCE, 9, ProduceRequest(acks=-1, timeout_ms=60_000, topic_data=topics))
        assert not any(each.error_code for each in answer.responses[0].partition_responses)


def _count_in(number: int, partitions: int) -> int:
    return min(PARTITIONS_PER_TOPIC, partitions - number)


def _partitions(broker: BrokerProcess, count: int, seconds: float, *, written: bool) -> dict[str, float]:
    """Starts and stops the broker itself."""
    broker.start()
    wire = wire_with_topics(broker, count)
    figures = {}
    if written:
        during = _probed(broker.port, lambda: write_each(wire, count))
        figures[f"an append beside the first record of each of {count:,} partitions, longest|ms"] = during.milliseconds(
            1.0
        )
    probe = _probed(broker.port, lambda: time.sleep(seconds))
    request = MetadataRequest(topics=None)
    listed = []
    for _ in range(5):
        started = time.perf_counter()
        wire.send(frame(ApiKey.METADATA, 5, request))
        wire.receive()
        listed.append(time.perf_counter() - started)
    memory = resident_bytes(broker.pid)
    wire.close()
    started = time.perf_counter()
    code = broker.stop()
    stopped = time.perf_counter() - started
    assert code == 0, broker.log[-2000:]
    started = time.perf_counter()
    broker.start()
    restarted = time.perf_counter() - started
    broker.stop()
    name = f"{count:,} partitions" + (", each written once" if written else ", never written")
    return figures | {
        f"an append beside {name}, p50|ms": probe.milliseconds(0.5),
        f"an append beside {name}, p99|ms": probe.milliseconds(0.99),
        f"an append beside {name}, longest|ms": probe.milliseconds(1.0),
        f"Metadata of all topics, {name}|ms": percentile(listed, 0.5) * 1e3,
        f"resident memory, {name}|MiB": memory / MIB,
        f"a clean stop, {name}|s": stopped,
        f"a start after it, {name}|s": restarted,
    }


def _rows(ours: dict[str, float], theirs: dict[str, float] | None = None, peer: str = "") -> list[Row]:
    """A figure with a budget of its own is not judged by the peer's, which has a row of its own then."""
    rows = []
    for key, value in ours.items():
        name, _, unit = key.partition("|")
        if name in BUDGETS:
            rows.append(Row(GROUP, name, value, unit, budget=BUDGETS[name]))
            if theirs is not None:
                rows.append(Row(GROUP, f"the same of {peer}", theirs[key], unit))
        else:
            rows.append(Row(GROUP, name, value, unit, None if theirs is None else theirs[key], peer))
    return rows


def _measured(
    measure: Callable[..., dict[str, float]], counts: Sequence[int], seconds: float, beside_kafka: bool
) -> list[Row]:
    rows: list[Row] = []
    for count in counts:
        gc.collect()
        with ExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            ours = measure(stack.enter_context(BrokerProcess(folder / "data")), count, seconds)
            theirs: dict[str, float] | None = None
            peer = ""
            if beside_kafka:
                kafka: Any = stack.enter_context(apache_kafka(folder))
                theirs, peer = measure(kafka, count, seconds), f"Apache Kafka {kafka.version}"
            rows += _rows(ours, theirs, peer)
    return rows


def run(quick: bool = False) -> list[Row]:
    """All of it; without the largest sizes, and without Apache Kafka, when `quick`."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    try:
        most = hard - _SPARE_DESCRIPTORS
        counts = [count for count in ((1, 100) if quick else (1, 100, 1000, 2000, 10_000)) if count <= most]
        seconds = 0.5 if quick else 5.0
        rows = _measured(_connections, counts, seconds, beside_kafka=not quick)
        rows += _measured(_slow_readers, (4,) if quick else (SLOW_READERS,), seconds, beside_kafka=not quick)
        sizes = ((10, True),) if quick else ((10, True), (1000, True), (10_000, True), (100_000, False))
        for count, written in sizes:
            with tempfile.TemporaryDirectory() as folder:
                broker = BrokerProcess(Path(folder) / "data")
                rows += _rows(_partitions(broker, count, seconds, written=written))
        return rows
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
