"""Three Eosin brokers beside three of Apache Kafka, each three with a controller of the same kind, and one Eosin alone.

All stay up in one run and are asked in turns by the same clients, at replication factor 3 and `min.insync.replicas` 2.
The brokers of both clusters and their clients share the machine's cores: ratios count, not rates. Each figure is taken
`REPETITIONS` times, and its median and range are told. At the end brokers are killed, and stopped, under a producer
that commits all the time.
"""

import itertools
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from broker_process import BrokerProcess
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient
from joined_broker import JoinedBroker
from kraft_node import SHORT_SESSIONS, KafkaBroker, QuorumController

from bench import throughput
from bench.commits import commit_times, make_topic, producer, rate
from bench.raw_connection import RawConnection, cpu_seconds, memory_bytes
from bench.report import Row, percentile, repeated
from eosin.coordinator.hashing import partition_for
from eosin.protocol.names import TRANSACTION_STATE_TOPIC

GROUP: Final = "Three machines"
KIB, MIB = 1024, 1024 * 1024
NODES: Final = (1, 2, 3)
REPETITIONS: Final = 3
IDLE_PARTITIONS: Final = 600
_TOPICS: Final[Mapping[str, str]] = {"min.insync.replicas": "2", "default.replication.factor": "3"}
_REPLICATED: Final[Mapping[str, str]] = {
    **_TOPICS,
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
}
_GIVE_UP_S: Final = 60
SETTLE_S: Final = 15
"""After its start a broker gives back what that has left, at its first look at its memory (10 s)."""


class Node(Protocol):
    """One broker."""

    node_id: int

    @property
    def address(self) -> str:
        """host:port."""

    @property
    def pid(self) -> int:
        """Of its process."""

    def start(self) -> object:
        """Start it, or start it again."""

    def stop(self) -> object:
        """SIGTERM, and wait."""

    def kill(self) -> object:
        """SIGKILL."""


@dataclass
class Cluster:
    """The measured cluster: its brokers, and the replication of their topics."""

    name: str
    nodes: Sequence[Node]
    replicas: int = 3

    @property
    def cpu_seconds(self) -> float:
        """CPU that all of its brokers have used so far."""
        return sum(cpu_seconds(node.pid) for node in self.nodes)

    @property
    def address(self) -> str:
        """Every broker, for clients."""
        return ",".join(node.address for node in self.nodes)

    def leader(self, topic: str, partition: int) -> Node:
        """The broker that leads a partition now."""
        admin = AdminClient({"bootstrap.servers": self.address})
        end = time.monotonic() + _GIVE_UP_S
        while time.monotonic() < end:
            found = admin.list_topics(topic, timeout=10).topics[topic].partitions
            leader = found[partition].leader if partition in found else -1
            if leader >= 0:
                return next(node for node in self.nodes if node.node_id == leader)
            time.sleep(0.1)
        raise AssertionError(f"{topic}-{partition} has no leader")

    def transaction_partitions(self) -> int:
        """Of the transaction coordinators' topic."""
        admin = AdminClient({"bootstrap.servers": self.address})
        return len(admin.list_topics(TRANSACTION_STATE_TOPIC, timeout=10).topics[TRANSACTION_STATE_TOPIC].partitions)


@contextmanager
def _clusters(folder: Path, durability: str) -> Iterator[tuple[Cluster, Cluster, Cluster]]:
    """Eosin's cluster, Apache Kafka's, and one standalone Eosin. Raises NotHere without java and, the first time,
    Maven."""
    flushes = {"log.flush.interval.messages": "1"} if durability == "fsync" else {}
    with ExitStack() as stack:
        controllers = [
            stack.enter_context(QuorumController(folder / name, settings={**_TOPICS, **SHORT_SESSIONS}))
            for name in ("ours", "theirs")
        ]
        ours = [
            stack.enter_context(
                JoinedBroker(
                    folder / f"eosin-{node_id}",
                    controllers[0],
                    node_id=node_id,
                    durability=durability,
                    settings=_REPLICATED,
                )
            )
            for node_id in NODES
        ]
        theirs = [
            stack.enter_context(
                KafkaBroker(
                    folder / f"kafka-{node_id}", controllers[1], node_id=node_id, settings={**_REPLICATED, **flushes}
                )
            )
            for node_id in NODES
        ]
        alone = stack.enter_context(BrokerProcess(folder / "alone", durability=durability))
        yield Cluster("Eosin", ours), Cluster("Apache Kafka", theirs), Cluster("alone", [_Alone(alone)], replicas=1)


@dataclass
class _Alone:
    """A standalone broker as a node."""

    broker: BrokerProcess
    node_id: int = 1

    @property
    def address(self) -> str:
        return self.broker.address

    @property
    def pid(self) -> int:
        return self.broker.pid

    def start(self) -> object:
        return self.broker.start()

    def stop(self) -> object:
        return self.broker.stop()

    def kill(self) -> object:
        return self.broker.kill()


def _rows(
    name: str,
    measured: Mapping[str, Sequence[float]],
    unit: str,
    *,
    goal: float | None = None,
    higher: bool = False,
) -> list[Row]:
    """The figure, by repetition, beside Apache Kafka's cluster, and beside the standalone broker's own."""

    def beside(other: str, name: str, reference_name: str, goal: float | None) -> Row:
        return repeated(
            GROUP,
            name,
            measured["Eosin"],
            unit,
            references=measured[other],
            reference_name=reference_name,
            budget=goal,
            higher_is_better=higher,
        )

    rows = [beside("Apache Kafka", name, "three Apache Kafka brokers", goal)]
    if "alone" in measured:
        rows.append(beside("alone", f"{name}, beside one", "one Eosin", None))
    return rows


def _warm_up(clusters: Sequence[Cluster], transactions: int) -> None:
    for each in clusters:
        make_topic(each.address, "warm", 3, each.replicas)
        commit_times(producer({"bootstrap.servers": each.address, "transactional.id": "warm"}), "warm", transactions)


def _latency(clusters: Sequence[Cluster], durability: str, rounds: int) -> list[Row]:
    made = []
    for each in clusters:
        make_topic(each.address, "latency", 1, each.replicas)
        made.append(producer({"bootstrap.servers": each.address, "transactional.id": "latency"}))
    taken: dict[str, list[list[float]]] = {each.name: [[] for _ in range(REPETITIONS)] for each in clusters}
    for repetition in range(REPETITIONS):
        for _ in range(rounds):
            for each, commits in zip(clusters, made, strict=True):
                taken[each.name][repetition] += commit_times(commits, "latency", 20)
    rows = []
    for share, name, goal in ((0.5, "p50", 0.5), (0.99, "p99", None)):
        measured = {kind: [percentile(times, share) * 1e6 for times in each] for kind, each in taken.items()}
        rows += _rows(f"commit {name}, 1 producer, {durability}", measured, "us", goal=goal)
    return rows


def _rates(
    clusters: Sequence[Cluster],
    durability: str,
    seconds: float,
    repetitions: int,
    *,
    counts: Sequence[int] = (1, 4, 16),
    beside: str = "",
) -> list[Row]:
    """Transactions a second of so many producers, and the CPU of all brokers of a cluster for each."""
    rows = []
    for producers in counts:
        rates: defaultdict[str, list[float]] = defaultdict(list)
        costs: defaultdict[str, list[float]] = defaultdict(list)
        for number in range(repetitions):
            for each in clusters:
                topic = f"rate{beside.replace(' ', '-')}-{producers}-{number}"
                before = each.cpu_seconds
                rates[each.name].append(rate(each.address, producers, seconds, topic, each.replicas))
                spent = each.cpu_seconds - before
                costs[each.name].append(spent / (rates[each.name][-1] * seconds) * 1e6)
        what = f"{producers} producers{beside}, {durability}"
        rows += _rows(f"transactions, {what}", rates, "/s", goal=1.5, higher=True)
        rows += _rows(f"CPU of all brokers per transaction, {what}", costs, "us")
    return rows


def _beside_idle(clusters: Sequence[Cluster], durability: str, seconds: float, repetitions: int) -> list[Row]:
    """The same where nearly all that followers fetch has nothing new."""
    for each in clusters:
        make_topic(each.address, "idle", IDLE_PARTITIONS, each.replicas)
    time.sleep(SETTLE_S)
    beside = f" beside {IDLE_PARTITIONS} idle partitions"
    return _rates(clusters, durability, seconds, repetitions, counts=(16,), beside=beside)


def _streams(clusters: Sequence[Cluster], durability: str, volume: int) -> list[Row]:
    """MB/s of one producer whose records every replica has before they are acknowledged."""
    batch = throughput.batch_of(KIB, 64 * KIB)
    leaders = {}
    for each in clusters:
        admin = RawConnection(int(each.nodes[0].address.rpartition(":")[2]))
        throughput.create_topic(admin, "stream", replicas=each.replicas)
        admin.close()
        time.sleep(2)  # brokers hear of a new topic after the client that made it
        leaders[each.name] = RawConnection(int(each.leader("stream", 0).address.rpartition(":")[2]))
        throughput.produce(leaders[each.name], "stream", batch, 20)
    measured: defaultdict[str, list[float]] = defaultdict(list)
    for _ in range(REPETITIONS):
        for name, leader in leaders.items():
            measured[name].append(throughput.produce(leader, "stream", batch, volume // len(batch)))
    for leader in leaders.values():
        leader.close()
    return _rows(f"produce, acks of all, 1 KiB records, {durability}", measured, "MB/s", goal=1.0, higher=True)


def _memory(clusters: Sequence[Cluster], when: str) -> list[Row]:
    """Of each broker: resident, its share of what it shares (PSS), and what is its own alone (USS)."""
    found = {each.name: [memory_bytes(node.pid) for node in each.nodes] for each in clusters}
    # One Eosin alone is one broker beside three.
    counts = {name: REPETITIONS // len(sizes) for name, sizes in found.items()}
    rows = []
    for kind, goal in (("resident", 0.125), ("PSS", None), ("USS", None)):
        measured = {name: [each[kind] / MIB for each in sizes * counts[name]] for name, sizes in found.items()}
        rows += _rows(f"{kind} memory of a broker, {when}", measured, "MiB", goal=goal)
    return rows


# --- a broker is lost


class _Committing:
    """A producer that commits one record after the other in a thread, on whatever brokers there are."""

    def __init__(self, cluster: Cluster, topic: str, transactional_id: str) -> None:
        self._config = {
            "bootstrap.servers": cluster.address,
            "transactional.id": transactional_id,
            "transaction.timeout.ms": 60_000,
            # Else its pauses between attempts to reach the lost broker, up to 10 s, would be measured.
            "reconnect.backoff.max.ms": 200,
        }
        self._topic = topic
        self.times: list[float] = []
        """The times at which commits were acknowledged."""
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._work)

    def __enter__(self) -> "_Committing":
        self._thread.start()
        self.wait_for(20)
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()

    def wait_for(self, more: int) -> None:
        """Until so many more transactions are committed."""
        wanted, end = len(self.times) + more, time.monotonic() + _GIVE_UP_S
        while len(self.times) < wanted:
            assert time.monotonic() < end, f"no commit in {_GIVE_UP_S} s"
            time.sleep(0.01)

    def _work(self) -> None:
        made = producer(self._config)
        while not self._is_over.is_set():
            made.begin_transaction()
            made.produce(self._topic, value=b"x" * 100, partition=0)
            self._end(made, made.commit_transaction)
            self.times.append(time.perf_counter())

    def _end(self, made: Producer, end: Callable[[float], None]) -> None:
        while not self._is_over.is_set():
            try:
                end(5)
            except KafkaException as error:
                what = error.args[0]
                if what.txn_requires_abort():
                    self._end(made, made.abort_transaction)
                    return
                if not what.retriable():
                    raise
            else:
                return

    def gap_after(self, moment: float) -> float:
        """Seconds from the last commit before a moment to the next after it that took longest."""
        times = [each for each in self.times if each > moment - 1]
        return max(later - earlier for earlier, later in itertools.pairwise(times))


def _gap(cluster: Cluster, name: str, victim: Callable[[Node], object], *, of_coordinator: bool) -> float:
    """The longest time without a commit around the loss of a partition's leader, or of the coordinator."""
    make_topic(cluster.address, name, 1, cluster.replicas)
    transactional_id = f"{name}-0"
    with _Committing(cluster, name, transactional_id) as committing:
        if of_coordinator:
            index = partition_for(transactional_id, cluster.transaction_partitions())
            lost = cluster.leader(TRANSACTION_STATE_TOPIC, index)
        else:
            lost = cluster.leader(name, 0)
        moment = time.perf_counter()
        victim(lost)
        committing.wait_for(50)
        time.sleep(1)
        gap = committing.gap_after(moment)
    lost.start()
    time.sleep(8)  # until it is in sync again
    return gap


def _losses(clusters: Sequence[Cluster], rounds: int) -> list[Row]:
    rows = []
    kinds = (
        ("kill -9 of a leader to the next commit", lambda node: node.kill(), False),
        ("kill -9 of a coordinator to the next commit", lambda node: node.kill(), True),
        ("controlled shutdown of a leader, longest time without a commit", lambda node: node.stop(), False),
    )
    for index, (name, victim, of_coordinator) in enumerate(kinds):
        gaps: defaultdict[str, list[float]] = defaultdict(list)
        for number in range(rounds):
            for each in clusters:
                gaps[each.name].append(_gap(each, f"lost-{index}-{number}", victim, of_coordinator=of_coordinator))
        rows += _rows(name, gaps, "s", goal=1.0)
    return rows


def run(quick: bool = False) -> list[Row]:
    """All of it. Raises NotHere without java and, the first time, Maven."""
    rows: list[Row] = []
    for durability in ("os", "fsync"):
        with (
            tempfile.TemporaryDirectory() as folder,
            _clusters(Path(folder), durability) as clusters,
        ):
            if durability == "os":
                time.sleep(SETTLE_S)
                rows += _memory(clusters, "after its start")
            _warm_up(clusters, 20 if quick else 1500)
            rows += _latency(clusters, durability, 2 if quick else 7)
            rows += _rates(clusters, durability, 1 if quick else 5, 1 if quick else REPETITIONS)
            rows += _streams(clusters, durability, (8 if quick else 128) * MIB)
            if durability == "os":
                rows += _memory(clusters, "after that work")
                rows += _losses(clusters[:2], 1 if quick else REPETITIONS)
                rows += _beside_idle(clusters, durability, 1 if quick else 5, 1 if quick else REPETITIONS)
    return rows
