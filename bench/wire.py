"""A transaction at the wire: Produce v12 and EndTxn v5 by a raw client, as little client as possible beside the broker.

Every transaction writes ten records of 100 bytes to each of some partitions and commits. One connection tells the
latency; sixteen, each with one request in flight, tell what a transaction costs a broker that is busy. What is measured
beside it, in turns in the same run: the compiled broker and Apache Kafka with the same requests, a bare uvloop server
that echoes the two requests of a transaction of one partition, `fdatasync` of a file, and Heartbeats as the unit of
CPU: of the same connections, and of sixteen that keep the broker busy, which is the least that a request can cost.
Every figure is taken in several repetitions; its median and range are told.
"""

import os
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from apache_kafka import ApacheKafka
from toolchains import NotHere

from bench.contenders import COMPILED, PLAIN, Contender, apache_kafka, contenders, rows, settings_of_kafka
from bench.raw_connection import RawConnection, cpu_seconds, frame
from bench.report import Row, percentile, repeated
from bench.small_requests import echo, heartbeat, load
from bench.throughput import create_topic
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
HEARTBEATS_BUDGETS: Final = {COMPILED: 8, PLAIN: 15}
"""Of CPU for a transaction of one partition."""
REPETITIONS: Final = 3
ECHOES_BUDGET: Final = 2

_RECORDS: Final = tuple(NewRecord(key=None, value=b"x" * 100) for _ in range(10))
_RETRY_S: Final = 0.001
"""Before a request that came too early is sent again: less than any client library waits."""
_GIVE_UP_S: Final = 30
_SYNCED_BYTES: Final = 2048

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
    """CPU of a process for a request or a transaction, us, of each repetition."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._seconds = 0.0
        self._count = 0
        self.each_us: list[float] = []

    @contextmanager
    def of(self, count: int) -> Iterator[None]:
        """Around `count` more of them."""
        before = cpu_seconds(self._pid)
        yield
        self._seconds += cpu_seconds(self._pid) - before
        self._count += count

    def end(self) -> None:
        """A repetition has ended."""
        self.each_us.append(self._seconds / self._count * 1e6)
        self._seconds, self._count = 0.0, 0


class _Subject:
    """A broker, and what was measured of it so far."""

    def __init__(self, contender: Contender, partitions: int) -> None:
        self.contender = contender
        self._broker = broker = contender.broker
        self.times: list[list[float]] = [[]]
        """Seconds of each transaction that had the broker for itself, by repetition."""
        # By how many connections were busy.
        self.transactions = {busy: _Cost(broker.pid) for busy in (1, BUSY_CONNECTIONS)}
        self.heartbeats = {busy: _Cost(broker.pid) for busy in (1, BUSY_CONNECTIONS)}
        self.least_us: list[list[float]] = [[]]
        """CPU of a Heartbeat while the broker has no pause, by repetition."""
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
            self.times[-1] += times

    def beat(self, busy: int, rounds: int) -> None:
        """So many Heartbeats of each of `busy` connections."""
        connections = [each.connection for each in self._producers[:busy]]
        with self.heartbeats[busy].of(rounds * busy):
            for _ in range(rounds):
                _echo_all(connections, heartbeat())

    def saturate(self, seconds: float) -> None:
        """Heartbeats as fast as they are answered."""
        self.least_us[-1].append(load(self._broker.pid, self._broker.port, heartbeat(), seconds)[1])

    def end(self) -> None:
        """A repetition has ended, and another one follows."""
        for cost in (*self.transactions.values(), *self.heartbeats.values()):
            cost.end()
        self.times.append([])
        self.least_us.append([])

    def microseconds(self, share: float) -> list[float]:
        """A percentile of what transactions took, of each repetition that has ended."""
        return [percentile(times, share) * 1e6 for times in self.times[:-1]]

    def close(self) -> None:
        """Close the connections."""
        for each in self._producers:
            each.connection.close()


class _SyncedFile:
    """Appends to a file, each with its own sync."""

    def __init__(self, folder: Path) -> None:
        self.times: list[list[float]] = [[]]
        """Seconds that each took, by repetition."""
        self._file = os.open(folder / "synced", os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def sync(self, rounds: int) -> None:
        """Append and sync so often."""
        for _ in range(rounds):
            started = time.perf_counter()
            os.write(self._file, bytes(_SYNCED_BYTES))
            os.fdatasync(self._file)
            self.times[-1].append(time.perf_counter() - started)

    def end(self) -> None:
        """A repetition has ended, and another one follows."""
        self.times.append([])

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)


def _kafka(folder: Path, durability: str) -> ApacheKafka | None:
    try:
        return apache_kafka(folder, settings_of_kafka(durability))
    except NotHere as missing:
        print(f"without Apache Kafka: {missing}", flush=True)
        return None


def _measure(durability: str, quick: bool) -> list[Row]:
    rounds, at_once, warm_up_s = (2, 10, 0.5) if quick else (4, 20, 5)
    found: list[Row] = []
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        brokers = stack.enter_context(contenders(folder, durability, _kafka(folder, durability)))
        _, echo_port = stack.enter_context(echo())
        echoing = RawConnection(echo_port)
        for partitions in PARTITIONS:
            subjects = [_Subject(each, partitions) for each in brokers]
            synced = _SyncedFile(folder)
            echoes: list[list[float]] = []
            requests = subjects[0].requests()
            for subject in subjects:
                subject.warm_up(warm_up_s)
            for _ in range(REPETITIONS):
                echoes.append([])
                for _ in range(rounds):
                    for subject in subjects:
                        for busy in (1, BUSY_CONNECTIONS):
                            subject.transact(busy, max(1, at_once // busy))
                            subject.beat(busy, 10 * max(1, at_once // busy))
                        if subject.contender.is_ours and partitions == 1:
                            subject.saturate(0.3)
                    echoes[-1] += [sum(_echo_all([echoing], each) for each in requests) for _ in range(at_once)]
                    synced.sync(at_once)
                synced.end()
                for subject in subjects:
                    subject.end()
            found += _rows(f"{partitions} partitions, {durability}", subjects)
            if partitions == 1:
                for subject in subjects:
                    if subject.contender.is_ours:
                        found += _beside_little(durability, subject, echoes, synced)
            for subject in subjects:
                subject.close()
            synced.close()
        echoing.close()
    return found


def _rows(what: str, subjects: Sequence[_Subject]) -> list[Row]:
    """Beside Apache Kafka, if it is there."""

    def of(name: str, values: Callable[[_Subject], list[float]]) -> list[Row]:
        figures = [(subject.contender, values(subject)) for subject in subjects]
        return rows(GROUP, f"{name}, {what}", figures, "us")

    return [
        *of("latency p50", lambda subject: subject.microseconds(0.5)),
        *of("latency p99", lambda subject: subject.microseconds(0.99)),
        *of("broker CPU, 1 connection", lambda subject: subject.transactions[1].each_us),
        *of(
            f"broker CPU, {BUSY_CONNECTIONS} connections",
            lambda subject: subject.transactions[BUSY_CONNECTIONS].each_us,
        ),
    ]


def _beside_little(
    durability: str, ours: _Subject, echoes: Sequence[Sequence[float]], synced: _SyncedFile
) -> list[Row]:
    """Beside what can hardly be less. The goals are those of durability `os`, where nothing waits for a disk."""
    kind = ours.contender.kind
    where = f"1 partition, {durability}{f', {kind}' if kind == COMPILED else ''}"

    def beside(name: str, values: Sequence[float], references: Sequence[float], peer: str, budget: float | None) -> Row:
        name = f"{name}, {where}"
        return repeated(GROUP, name, values, "us", references=references, reference_name=peer, budget=budget)

    found = []
    for share, name, budget in ((0.5, "p50", ECHOES_BUDGET), (0.99, "p99", None)):
        taken = ours.microseconds(share)
        if durability == "os":
            least = [percentile(times, share) * 1e6 for times in echoes]
            found.append(beside(f"latency {name} beside two echoes", taken, least, "two bare echoes", budget))
        else:
            least = [percentile(times, share) * 1e6 for times in synced.times[:-1]]
            found.append(beside(f"latency {name} beside fdatasync", taken, least, "one fdatasync", None))
    if durability != "os":
        return found
    least = [percentile(each, 0.5) for each in ours.least_us[:-1]]
    for busy in (1, BUSY_CONNECTIONS):
        costs, name = ours.transactions[busy].each_us, f"broker CPU in Heartbeats, {busy} connections"
        found.append(beside(name, costs, ours.heartbeats[busy].each_us, "Heartbeat of the same", None))
        found.append(beside(name, costs, least, "Heartbeat without a pause", HEARTBEATS_BUDGETS[kind]))
    return found


def run(quick: bool = False) -> list[Row]:
    """Both durable levels, each with brokers of its own."""
    return [row for durability in ("os", "fsync") for row in _measure(durability, quick)]
