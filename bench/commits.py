"""Commits by librdkafka: latency beside its in-process mock cluster, rate, and what transactions cost a producer."""

import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from broker_process import BrokerProcess
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from bench.report import Row, percentile

GROUP = "Commits (librdkafka)"


def producer(config: dict[str, Any]) -> Producer:
    """A producer that sends at once; initialised if it is transactional."""
    producer = Producer({"linger.ms": 0, "queue.buffering.max.messages": 1_000_000, **config})
    if "transactional.id" in config:
        producer.init_transactions(30)
    return producer


def commit_times(made: Producer, topic: str, count: int) -> list[float]:
    """Seconds that each commit of one 100-byte record took, with the record's own way to the broker."""
    times = []
    for _ in range(count):
        made.begin_transaction()
        made.produce(topic, value=b"x" * 100, partition=0)
        started = time.perf_counter()
        made.commit_transaction(30)
        times.append(time.perf_counter() - started)
    return times


def _latency(broker: BrokerProcess, quick: bool) -> list[Row]:
    ours = producer({"bootstrap.servers": broker.address, "transactional.id": "bench-latency"})
    mock = producer({"test.mock.num.brokers": 1, "transactional.id": "bench-latency"})
    make_topic(broker.address, "latency", 1)
    commit_times(ours, "latency", 50)
    commit_times(mock, "latency", 50)
    measured: tuple[list[float], list[float]] = ([], [])
    for _ in range(3 if quick else 20):
        measured[0].extend(commit_times(ours, "latency", 50))
        measured[1].extend(commit_times(mock, "latency", 50))
    rows = []
    for share, name in ((0.5, "p50"), (0.99, "p99")):
        value, reference = (percentile(times, share) * 1e6 for times in measured)
        budget = 1.3 if name == "p50" and broker.durability == "os" else None
        title = f"commit latency {name}, 1 producer, {broker.durability}"
        rows.append(Row(GROUP, title, value, "us", reference, "mock cluster", budget))
    return rows


def make_topic(address: str, name: str, partitions: int, replicas: int = 1) -> None:
    """A topic on the broker at host:port, or on the cluster that it belongs to."""
    admin = AdminClient({"bootstrap.servers": address})
    for future in admin.create_topics([NewTopic(name, partitions, replicas)]).values():
        future.result(10)


def rate(address: str, producers: int, seconds: float, topic: str, replicas: int = 1) -> float:
    """Transactions per second of so many producers side by side, a thread each, to a partition each of a new topic."""
    make_topic(address, topic, producers, replicas)
    counts = [0] * producers
    made = [
        producer({"bootstrap.servers": address, "transactional.id": f"{topic}-{index}"}) for index in range(producers)
    ]
    end = time.perf_counter() + seconds

    def work(index: int) -> None:
        while time.perf_counter() < end:
            made[index].begin_transaction()
            made[index].produce(topic, value=b"x" * 100, partition=index)
            made[index].commit_transaction(30)
            counts[index] += 1

    threads = [threading.Thread(target=work, args=(index,)) for index in range(producers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(counts) / seconds


def _stream(made: Producer, topic: str, seconds: float, turn: Callable[[], object]) -> float:
    """MB/s of 1 KiB records, calling `turn` every 100 ms."""
    value = b"x" * 1024
    sent, started = 0, time.perf_counter()
    next_turn = started + 0.1
    while (now := time.perf_counter()) < started + seconds:
        if now >= next_turn:
            turn()
            next_turn = time.perf_counter() + 0.1
        for _ in range(100):
            try:
                made.produce(topic, value=value, partition=0)
                sent += 1
            except BufferError:
                made.poll(0.01)
        made.poll(0)
    made.flush(60)
    return sent * len(value) / (time.perf_counter() - started) / 1e6


def _transactional_cost(broker: BrokerProcess, quick: bool) -> list[Row]:
    """The cost of transactions for a stream. A commit first waits for all that was sent, and so does a flush without
    any transaction. The client pays for the flush, and the broker for the further cost of a commit."""
    common = {"bootstrap.servers": broker.address, "linger.ms": 5, "queue.buffering.max.messages": 10_000}
    plain = producer({**common, "enable.idempotence": True})
    flushing = producer({**common, "enable.idempotence": True})
    transactional = producer({**common, "transactional.id": "bench-cost"})
    make_topic(broker.address, "cost", 1)

    def commit() -> None:
        transactional.commit_transaction(30)
        transactional.begin_transaction()

    rates: tuple[list[float], list[float], list[float]] = ([], [], [])
    for _ in range(2 if quick else 8):
        rates[0].append(_stream(plain, "cost", 1.5, lambda: None))
        rates[1].append(_stream(flushing, "cost", 1.5, lambda: flushing.flush(30)))
        transactional.begin_transaction()
        rates[2].append(_stream(transactional, "cost", 1.5, commit))
        transactional.commit_transaction(30)
    plain_rate, flushing_rate, transactional_rate = (percentile(each, 0.5) for each in rates)
    name = f"transactional produce, commit every 100 ms, {broker.durability}"
    beside = f"the same beside a flush every 100 ms, {broker.durability}"
    return [
        Row(GROUP, name, transactional_rate, "MB/s", plain_rate, "plain", 0.97, higher_is_better=True),
        Row(GROUP, beside, transactional_rate, "MB/s", flushing_rate, "plain with flushes", higher_is_better=True),
    ]


def run(quick: bool = False) -> list[Row]:
    """All of it, at both durable levels."""
    rows: list[Row] = []
    for durability in ("os", "fsync"):
        with (
            tempfile.TemporaryDirectory() as folder,
            BrokerProcess(Path(folder) / "data", durability=durability) as broker,
        ):
            rows += _latency(broker, quick)
            for producers in (1, 4, 16):
                found = rate(broker.address, producers, 2 if quick else 5, f"rate-{producers}")
                rows.append(Row(GROUP, f"transactions, {producers} producers, {durability}", found, "/s"))
            rows += _transactional_cost(broker, quick)
    return rows
