"""A transaction at the wire: Produce v12 and EndTxn v5 by a raw client, as little client as possible beside the broker.

Every transaction writes ten records of 100 bytes to each of some partitions and commits. One connection tells the
latency; sixteen, each with one request in flight, tell what a transaction costs a broker that is busy. What is measured
beside it, in turns in the same run: Apache Kafka with the same requests, a bare uvloop server that echoes the two
requests of a transaction of one partition, `fdatasync` of a file, and Heartbeats as the unit of CPU: of the same
connections, and of sixteen that keep the broker busy, which is the least that a request can cost.
"""

import os
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from apache_kafka import PUBLISHED_JVM, ApacheKafka
from broker_process import BrokerProcess
from toolchains import NotHere

from bench.raw_connection import RawConnection, cpu_seconds, frame
from bench.report import Row, percentile
from bench.small_requests import echo, heartbeat, load
from bench.throughput import create_topic
from eosin.network import connection as connection_module
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.records.batch import NewRecord, build_batch
from eosin.protocol.schemas.end_txn import EndTxnRequest
from eosin.protocol.schemas.init_producer_id import InitProducerIdRequest
from eosin.protocol.schemas.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from eosin.protocol.wire.codec import decode_response

GROUP: Final = "A transaction at the wire"
PARTITIONS: Final = (1, 16, 64)
BUSY_CONNECTIONS: Final = 16
HEARTBEATS_BUDGET: Final = 8 if str(connection_module.__file__).endswith(".so") else 15
"""Of CPU for a transaction of one partition; the lower one is for compiled modules."""
ECHOES_BUDGET: Final = 2

_RECORDS: Final = tuple(NewRecord(key=None, value=b"x" * 100) for _ in range(10))
_RETRY_S: Final = 0.001
"""Before a request that came too early is sent again: less than any client library waits."""
_GIVE_UP_S: Final = 30
_SYNCED_BYTES: Final = 2048

Broker = BrokerProcess | ApacheKafka
Accepted = Callable[[memoryview], bool]
"""Returns True if an answer is the final one, and False if its request came too early."""


class _Producer:
    """A connection and its transactional id, whose pair changes with each transaction (KIP-890)."""

    def __init__(self, port: int, name: str, topic: str, partitions: int) -> None:
        self.connection = RawConnection(port)
        self._name = name
        self._topic = topic
        self._partitions = partitions
        self._pair = (-1, -1)
        _exchange([self.connection], [self._introduction()], [self._introduced])

    def _introduction(self) -> bytes:
        request = InitProducerIdRequest(transactional_id=self._name, transaction_timeout_ms=60_000)
        return frame(ApiKey.INIT_PRODUCER_ID, 4, request)

    def _introduced(self, answer: memoryview) -> bool:
        found = decode_response(ApiKey.INIT_PRODUCER_ID, 4, answer)[1]
        self._pair = found.producer_id, found.producer_epoch
        return _is_final(found.error_code)

    def produce(self) -> bytes:
        """The request that writes the next transaction."""
        producer_id, epoch = self._pair
        batch = build_batch(
            _RECORDS,
            timestamp=int(time.time() * 1000),
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=0,
            transactional=True,
        )
        data = tuple(PartitionProduceData(index=index, records=batch) for index in range(self._partitions))
        topics = (TopicProduceData(name=self._topic, partition_data=data),)
        request = ProduceRequest(transactional_id=self._name, acks=-1, timeout_ms=30_000, topic_data=topics)
        return frame(ApiKey.PRODUCE, 12, request)

    def produced(self, answer: memoryview) -> bool:
        """Take the answer to `produce`."""
        topics = decode_response(ApiKey.PRODUCE, 12, answer)[1].responses
        return all(_is_final(each.error_code) for topic in topics for each in topic.partition_responses)

    def commit(self) -> bytes:
        """The request that commits it."""
        producer_id, epoch = self._pair
        return frame(ApiKey.END_TXN, 5, EndTxnRequest(self._name, producer_id, epoch, committed=True))

    def committed(self, answer: memoryview) -> bool:
        """Take the answer to `commit`: the pair to go on with is in it."""
        found = decode_response(ApiKey.END_TXN, 5, answer)[1]
        if not _is_final(found.error_code):
            return False
        self._pair = found.producer_id, found.producer_epoch
        return True


_COME_BACK: Final = frozenset(
    {
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
)
"""While markers are written; and of Apache Kafka, while a topic that was made just now reaches its leader."""


def _is_final(code: int) -> bool:
    """True if it is NONE; False for an error after which a client asks again."""
    if code == ErrorCode.NONE:
        return True
    assert code in _COME_BACK, ErrorCode(code)
    return False


def _exchange(connections: Sequence[RawConnection], requests: Sequence[bytes], accepted: Sequence[Accepted]) -> float:
    """Send one request on each connection, again as long as it comes too early; seconds that their answers took."""
    left = list(zip(connections, requests, accepted, strict=True))
    started = time.perf_counter()
    taken = 0.0
    while left:
        sent = time.perf_counter()
        for connection, request, _ in left:
            connection.send(request)
        answers = [connection.receive() for connection, _, _ in left]
        taken += time.perf_counter() - sent
        left = [each for each, answer in zip(left, answers, strict=True) if not each[2](answer)]
        if left:
            assert time.perf_counter() - started < _GIVE_UP_S, "the broker does not get ready"
            time.sleep(_RETRY_S)
            taken += _RETRY_S
    return taken


def _transact_all(producers: Sequence[_Producer]) -> float:
    """A transaction of each, side by side; seconds from requests to answers, this client's own work left out."""
    connections = [each.connection for each in producers]
    produced = _exchange(connections, [each.produce() for each in producers], [each.produced for each in producers])
    return produced + _exchange(
        connections, [each.commit() for each in producers], [each.committed for each in producers]
    )


def _echo_all(connections: Sequence[RawConnection], request: bytes) -> float:
    """The same request on each connection; seconds until all are answered."""
    return _exchange(connections, [request] * len(connections), [lambda _: True] * len(connections))


# --- what is measured in turns


class _Cost:
    """CPU seconds of a process over so many requests or transactions."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._seconds = 0.0
        self._count = 0

    @contextmanager
    def of(self, count: int) -> Iterator[None]:
        """Around `count` more of them."""
        before = cpu_seconds(self._pid)
        yield
        self._seconds += cpu_seconds(self._pid) - before
        self._count += count

    @property
    def each_us(self) -> float:
        """Of one."""
        return self._seconds / self._count * 1e6


class _Subject:
    """A broker, and what was measured of it so far."""

    def __init__(self, broker: Broker, partitions: int) -> None:
        self._broker = broker
        self.times: list[float] = []
        """Seconds of each transaction that had the broker for itself."""
        # By how many connections were busy.
        self.transactions = {busy: _Cost(broker.pid) for busy in (1, BUSY_CONNECTIONS)}
        self.heartbeats = {busy: _Cost(broker.pid) for busy in (1, BUSY_CONNECTIONS)}
        self.least_us: list[float] = []
        """CPU of a Heartbeat while the broker has no pause."""
        topic = f"wire-{partitions}"
        admin = RawConnection(broker.port)
        create_topic(admin, topic, partitions)
        admin.close()
        self._producers = [
            _Producer(broker.port, f"{topic}-{index}", topic, partitions) for index in range(BUSY_CONNECTIONS)
        ]

    def warm_up(self, seconds: float) -> None:
        """Transactions that are not measured."""
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            _transact_all(self._producers[:1])
            _transact_all(self._producers)

    def requests(self) -> tuple[bytes, bytes]:
        """The requests of a transaction."""
        return self._producers[0].produce(), self._producers[0].commit()

    def transact(self, busy: int, rounds: int) -> None:
        """So many transactions of each of `busy` connections."""
        producers = self._producers[:busy]
        with self.transactions[busy].of(rounds * busy):
            times = [_transact_all(producers) for _ in range(rounds)]
        if busy == 1:
            self.times += times

    def beat(self, busy: int, rounds: int) -> None:
        """So many Heartbeats of each of `busy` connections."""
        connections = [each.connection for each in self._producers[:busy]]
        with self.heartbeats[busy].of(rounds * busy):
            for _ in range(rounds):
                _echo_all(connections, heartbeat())

    def saturate(self, seconds: float) -> None:
        """Heartbeats as fast as they are answered."""
        self.least_us.append(load(self._broker.pid, self._broker.port, heartbeat(), seconds)[1])

    def close(self) -> None:
        """Close the connections."""
        for each in self._producers:
            each.connection.close()


class _SyncedFile:
    """Appends to a file, each with its own sync."""

    def __init__(self, folder: Path) -> None:
        self.times: list[float] = []
        self._file = os.open(folder / "synced", os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def sync(self, rounds: int) -> None:
        """Append and sync so often."""
        for _ in range(rounds):
            started = time.perf_counter()
            os.write(self._file, bytes(_SYNCED_BYTES))
            os.fdatasync(self._file)
            self.times.append(time.perf_counter() - started)

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)


def _kafka(folder: Path, durability: str) -> ApacheKafka | None:
    settings = {"log.flush.interval.messages": "1"} if durability == "fsync" else {}
    try:
        return ApacheKafka(folder / "kafka", settings=settings, heap_mb=1024, jvm=PUBLISHED_JVM)
    except NotHere as missing:
        print(f"without Apache Kafka: {missing}", flush=True)
        return None


def _measure(durability: str, quick: bool) -> list[Row]:
    rounds, at_once, warm_up_s = (2, 10, 0.5) if quick else (15, 20, 10)
    rows: list[Row] = []
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        ours = stack.enter_context(BrokerProcess(folder / "data", durability=durability))
        kafka = _kafka(folder, durability)
        peer = "" if kafka is None else f"Apache Kafka {kafka.version}"
        brokers: list[Broker] = [ours] if kafka is None else [ours, stack.enter_context(kafka)]
        _, echo_port = stack.enter_context(echo())
        echoing = RawConnection(echo_port)
        for partitions in PARTITIONS:
            subjects = [_Subject(broker, partitions) for broker in brokers]
            synced = _SyncedFile(folder)
            echoes: list[float] = []
            requests = subjects[0].requests()
            for subject in subjects:
                subject.warm_up(warm_up_s)
            for _ in range(rounds):
                for subject in subjects:
                    for busy in (1, BUSY_CONNECTIONS):
                        subject.transact(busy, max(1, at_once // busy))
                        subject.beat(busy, 10 * max(1, at_once // busy))
                subjects[0].saturate(0.3)
                echoes += [sum(_echo_all([echoing], each) for each in requests) for _ in range(at_once)]
                synced.sync(at_once)
            rows += _rows(f"{partitions} partitions, {durability}", peer, subjects)
            if partitions == 1:
                rows += _beside_little(durability, subjects[0], echoes, synced)
            for subject in subjects:
                subject.close()
            synced.close()
        echoing.close()
    return rows


def _rows(what: str, peer: str, subjects: Sequence[_Subject]) -> list[Row]:
    """Beside Apache Kafka, if it is there."""

    def row(name: str, value: Callable[[_Subject], float]) -> Row:
        values = [value(subject) for subject in subjects]
        return Row(GROUP, f"{name}, {what}", values[0], "us", values[1] if len(values) > 1 else None, peer)

    return [
        row("latency p50", lambda subject: percentile(subject.times, 0.5) * 1e6),
        row("latency p99", lambda subject: percentile(subject.times, 0.99) * 1e6),
        row("broker CPU, 1 connection", lambda subject: subject.transactions[1].each_us),
        row(
            f"broker CPU, {BUSY_CONNECTIONS} connections",
            lambda subject: subject.transactions[BUSY_CONNECTIONS].each_us,
        ),
    ]


def _beside_little(durability: str, ours: _Subject, echoes: Sequence[float], synced: _SyncedFile) -> list[Row]:
    """Beside what can hardly be less. The goals are those of durability `os`, where nothing waits for a disk."""
    p50, p99 = (percentile(ours.times, share) * 1e6 for share in (0.5, 0.99))
    echo_p50, echo_p99 = (percentile(echoes, share) * 1e6 for share in (0.5, 0.99))
    sync_p50, sync_p99 = (percentile(synced.times, share) * 1e6 for share in (0.5, 0.99))
    where = f"1 partition, {durability}"
    if durability != "os":
        return [
            Row(GROUP, f"latency p50 beside fdatasync, {where}", p50, "us", sync_p50, "one fdatasync"),
            Row(GROUP, f"latency p99 beside fdatasync, {where}", p99, "us", sync_p99, "one fdatasync"),
        ]
    peer = "two bare echoes"
    rows = [
        Row(GROUP, f"latency p50 beside two echoes, {where}", p50, "us", echo_p50, peer, ECHOES_BUDGET),
        Row(GROUP, f"latency p99 beside two echoes, {where}", p99, "us", echo_p99, peer),
    ]
    least = percentile(ours.least_us, 0.5)
    for busy in (1, BUSY_CONNECTIONS):
        cost, unit = ours.transactions[busy].each_us, ours.heartbeats[busy].each_us
        name = f"broker CPU in Heartbeats, {busy} connections, {where}"
        rows.append(Row(GROUP, name, cost, "us", unit, "Heartbeat of the same"))
        rows.append(Row(GROUP, name, cost, "us", least, "Heartbeat without a pause", HEARTBEATS_BUDGET))
    return rows


def run(quick: bool = False) -> list[Row]:
    """Both durable levels, each with brokers of its own."""
    return [row for durability in ("os", "fsync") for row in _measure(durability, quick)]
