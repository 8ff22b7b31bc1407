"""A controller of Apache Kafka and three brokers, of Eosin, of Apache Kafka or of both, with three replicas of all:
who has which part at a moment, and processes that go away and come back.

    with CrashedCluster(folder, form="mixed", durability="os") as cluster:
        cluster.disturb(chance, copied)

One process is away at a time, so that what asks for two replicas goes on; or two that have more than the third, which
an operator then has elected. Operators make mistakes meanwhile, too (`cluster_mistakes.py`). Brokers reach each other
through proxies, which cut one off from the others for longer than requests between them are waited for (cluster.md
6.11).
"""

import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from types import TracebackType
from typing import Final, Self, TypeVar

from cluster_mistakes import Mistakes
from free_ports import free_port
from joined_broker import JoinedBroker
from kraft_node import SHORT_SESSIONS, KafkaBroker, QuorumController
from tcp_proxy import TcpProxy
from three_brokers import REPLICATED
from waiting import HANG_S, wait_until

from eosin.client.client import Client, CoordinatorType
from eosin.client.errors import ClientError
from eosin.protocol.keys import ApiKey
from eosin.protocol.names import TopicPartition
from eosin.protocol.schemas.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponsePartition,
)

Answer = TypeVar("Answer")

EOSIN: Final = "Eosin"
KAFKA: Final = "Apache Kafka"
FORMS: Final = {
    "eosin": (EOSIN, EOSIN, EOSIN),
    "mixed": (EOSIN, EOSIN, KAFKA),
    "kafka": (KAFKA, KAFKA, KAFKA),
}
"""The programs that are the brokers 1, 2 and 3. What clients do to themselves, they do with the last form too."""
NETWORK: Final = "network"
"""Of the broker that leads, to the others. Not where all brokers are Apache Kafka's: markers that they have given
up arrive when a cut is over, and end later transactions."""
LEFT_BEHIND: Final = "left behind"
"""A broker stands still while others go on, and is alone when it goes on itself: an unclean election makes it lead."""
PARTS: Final = {
    "leader": 3,
    "follower": 2,
    "transaction coordinator": 3,
    "group coordinator": 1,
    "controller": 1,
    NETWORK: 2,
    LEFT_BEHIND: 1,
}
"""The parts that are taken away, with their weights."""
PAUSED: Final = "paused"
WAYS: Final = {"killed": 2, "stopped": 1, PAUSED: 2}
"""A paused process (SIGSTOP) comes back as one that has not noticed what it was deposed of meanwhile."""
LONGEST_AWAY_S: Final = 6.0
LONGEST_AHEAD_S: Final = 2.0
"""So long others go on without a broker that is left behind, and it without them."""
MISTAKEN: Final = 0.5
"""The chance that an operator does something wrong while a process is away."""
REQUEST_TIMEOUT_S: Final = 1.5
"""Requests between brokers are given up after this, and cuts last longer."""
_BETWEEN_BROKERS: Final = {
    "inter.broker.listener.name": "REPLICATION",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,REPLICATION:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "request.timeout.ms": f"{REQUEST_TIMEOUT_S * 1000:.0f}",
}
_TOPICS: Final = {name: REPLICATED[name] for name in ("default.replication.factor", "min.insync.replicas")}


class Violation(AssertionError):
    """A thing that must never happen."""


@dataclass(frozen=True)
class Copied:
    """A partition of a topic that a copier writes, and what the copier calls itself, as producer and as group."""

    topic: str
    partition: int
    copier: str


class CrashedCluster:
    """A context manager; leaving it stops every process."""

    def __init__(self, folder: Path, *, form: str, durability: str, settings: Mapping[str, str] | None = None) -> None:
        """`form` is one of FORMS, `durability` that of the Eosin brokers, `settings` go over those of all brokers.
        Raises `toolchains.NotHere`."""
        self.folder = folder
        self._settings = dict(settings or {})
        self.losses: Counter[str] = Counter()
        """The number of losses, by kind and victim."""
        self.controller = QuorumController(folder / "controller", settings={**_TOPICS, **SHORT_SESSIONS})
        self.brokers: dict[int, JoinedBroker | KafkaBroker] = {}
        """By their ids; those of Apache Kafka have the last ones."""
        self._to_broker: dict[int, TcpProxy] = {}
        """The proxy through which others reach a broker, by its id."""
        self.mistakes = Mistakes("", ())
        """Made since it runs."""
        self._form = form
        self._durability = durability
        self._stack = ExitStack()

    def _broker(self, node_id: int, program: str) -> JoinedBroker | KafkaBroker:
        folder, proxy = self.folder / f"broker-{node_id}", self._to_broker[node_id]
        bound, told = f"127.0.0.1:{proxy.target}", proxy.address
        settings = {**REPLICATED, **_BETWEEN_BROKERS, **self._settings}
        if program == KAFKA:
            port = free_port()
            settings["listeners"] = f"PLAINTEXT://127.0.0.1:{port},REPLICATION://{bound}"
            settings["advertised.listeners"] = f"PLAINTEXT://127.0.0.1:{port},REPLICATION://{told}"
            return KafkaBroker(folder, self.controller, node_id=node_id, settings=settings, port=port)
        settings["eosin.slow.request.log.ms"] = "5000"
        broker = JoinedBroker(folder, self.controller, node_id=node_id, durability=self._durability, settings=settings)
        broker.options = (*broker.options, "--listen", f"REPLICATION={bound}", "--advertise", f"REPLICATION={told}")
        return broker

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            stack.enter_context(self.controller)
            for node_id, program in enumerate(FORMS[self._form], 1):
                self._to_broker[node_id] = stack.enter_context(TcpProxy(free_port()))
                self.brokers[node_id] = stack.enter_context(self._broker(node_id, program))
            self._stack = stack.pop_all()
        eosin = [directory(each) for each in self.brokers.values() if isinstance(each, JoinedBroker)]
        self.mistakes = Mistakes(self.bootstrap, eosin)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    @property
    def bootstrap(self) -> str:
        """Every broker."""
        return ",".join(broker.address for broker in self.brokers.values())

    @property
    def has_apache_kafka(self) -> bool:
        """True if one of its brokers is Apache Kafka's."""
        return any(isinstance(broker, KafkaBroker) for broker in self.brokers.values())

    # --- who is who

    def holder(self, part: str, of: Copied) -> int | None:
        """The broker that has this part for what is copied. None while nobody has it, or nobody can be asked."""
        try:
            return asyncio.run(self._ask(lambda client: self._holder(client, part, of)))
        except (ClientError, OSError, TimeoutError, LookupError):
            return None

    async def _holder(self, client: Client, part: str, of: Copied) -> int | None:
        if part == "transaction coordinator":
            return await client.coordinator(CoordinatorType.TRANSACTION, of.copier)
        if part == "group coordinator":
            return await client.coordinator(CoordinatorType.GROUP, of.copier)
        info = (await _partitions(client, of.topic))[of.partition]
        if part == "leader":
            return info.leader_id if info.leader_id in self.brokers else None
        return next((each for each in info.isr_nodes if each != info.leader_id), None)

    def wait_in_sync(self, *topics: str) -> None:
        """Until every replica of the topics is in sync again. Raises Violation."""
        deadline = time.monotonic() + HANG_S
        while not asyncio.run(self._in_sync(topics)):
            if time.monotonic() > deadline:
                raise Violation(f"not every replica is in sync after {HANG_S} s")
            time.sleep(0.3)

    async def _in_sync(self, topics: tuple[str, ...]) -> bool:
        try:
            found = await self._ask(lambda client: _partitions(client, *topics))
        except (ClientError, OSError, TimeoutError):
            return False
        return bool(found) and all(len(each.isr_nodes) == len(self.brokers) for each in found)

    async def _ask(self, what: Callable[[Client], Awaitable[Answer]]) -> Answer:
        async with asyncio.timeout(HANG_S), Client(self.bootstrap) as client:
            return await what(client)

    # --- away and back

    def disturb(self, chance: random.Random, of: Copied) -> None:
        """Take one process away that has to do with what is copied, or cut it off, and bring it back after a while."""
        parts = {part: weight for part, weight in PARTS.items() if part != NETWORK or self._form != "kafka"}
        part = chance.choices(tuple(parts), tuple(parts.values()))[0]
        way = chance.choices(tuple(WAYS), tuple(WAYS.values()))[0]
        if part == LEFT_BEHIND:
            self._leave_behind(chance, of)
            return
        away_s = chance.uniform(0.2, LONGEST_AWAY_S)
        spare = chance.choice(tuple(self.brokers))
        away: AbstractContextManager[None]
        if part == "controller":
            self.losses[f"controller {way}"] += 1
            away = _without(self.controller, way)
        else:
            node_id = self.holder("leader" if part == NETWORK else part, of) or spare
            broker = self.brokers[node_id]
            if part == NETWORK:
                self.losses[f"leader on {program_of(broker)} cut off"] += 1
                away_s += REQUEST_TIMEOUT_S
                away = self._to_broker[node_id].cut(backoff=chance)
            else:
                self.losses[f"{part} on {program_of(broker)} {way}"] += 1
                away = _without(broker, way)
        with away:
            before_s = chance.uniform(0, away_s)
            _moment(before_s)
            if chance.random() < MISTAKEN:
                self.mistakes.make_one(chance, TopicPartition(of.topic, of.partition))
            _moment(away_s - before_s)

    def _leave_behind(self, chance: random.Random, of: Copied) -> None:
        """Two brokers go on with what is copied while the third stands still, and both are killed when that one goes
        on. It may lack what is committed; an operator has it elected all the same, and then the others return."""
        partition = TopicPartition(of.topic, of.partition)
        leader = self.holder("leader", of) or chance.choice(tuple(self.brokers))
        behind, other = chance.sample([each for each in self.brokers if each != leader], 2)
        self.losses[f"{program_of(self.brokers[behind])} left behind"] += 1
        with ExitStack() as back:
            with _without(self.brokers[behind], PAUSED):
                wait_until(lambda: not self._is_in_sync(behind, of), every_s=0.3)
                _moment(chance.uniform(0, LONGEST_AHEAD_S))
                for node_id in (leader, other):
                    back.enter_context(_without(self.brokers[node_id], "killed"))
            wait_until(lambda: self._is_told_of(behind) and self.holder("leader", of) in (None, behind), every_s=0.3)
            if isinstance(self.brokers[behind], JoinedBroker):
                self.mistakes.accept_loss(directory(self.brokers[behind]), partition)
            self.mistakes.elect(partition)
            _moment(chance.uniform(0, LONGEST_AHEAD_S))

    def _is_in_sync(self, node_id: int, of: Copied) -> bool:
        """True if a broker is in sync, or if nobody can be asked."""
        try:
            found = asyncio.run(self._ask(lambda client: _partitions(client, of.topic)))
        except (ClientError, OSError, TimeoutError):
            return True
        return node_id in found[of.partition].isr_nodes

    def _is_told_of(self, node_id: int) -> bool:
        """True if clients see that this broker runs, and no other."""

        async def registered(client: Client) -> set[int]:
            answer: MetadataResponse = await client.request(ApiKey.METADATA, MetadataRequest((), False))
            return {each.node_id for each in answer.brokers}

        try:
            return asyncio.run(self._ask(registered)) == {node_id}
        except (ClientError, OSError, TimeoutError):
            return False

    def stop(self) -> None:
        """A clean stop of all brokers."""
        for broker in self.brokers.values():
            _stop(broker)

    # --- what is on the disks

    def agree(self, *topics: str) -> int:
        """Check, when the brokers are stopped, that their directories hold the same below the high watermarks, with
        something of each partition of the topics. Returns the number of equal batches. Raises Violation."""
        batches = 0
        for first, second in combinations(map(directory, self.brokers.values()), 2):
            done = subprocess.run(
                [
                    sys.executable, "-m", "eosin.cli", "compare", "--json",
                    "--data-dir", str(first), "--data-dir", str(second),
                ],
                capture_output=True,
                text=True,
                check=False,
            )  # fmt: skip
            if done.returncode != 0:
                raise Violation(f"replicas differ: {done.stdout}{done.stderr}")
            equal = {each["file"]: each["batches"] for each in map(json.loads, done.stdout.splitlines()[:-1])}
            for topic in topics:
                found = [count for name, count in equal.items() if name.rpartition("-")[0] == topic]
                if not found or not all(found):
                    raise Violation(f"{first} and {second} have nothing committed of {topic}: {done.stdout}")
            batches += sum(equal.values())
        return batches


def _moment(seconds: float) -> None:
    """Something is done for so long."""
    time.sleep(seconds)


@contextmanager
def _without(node: JoinedBroker | KafkaBroker | QuorumController, way: str) -> Iterator[None]:
    """A process is away meanwhile."""
    if way == PAUSED:
        os.kill(node.pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(node.pid, signal.SIGCONT)
        return
    if way == "killed":
        node.kill()
    else:
        _stop(node)
    yield
    node.start()


def _stop(node: JoinedBroker | KafkaBroker | QuorumController) -> None:
    if not isinstance(node, JoinedBroker):
        node.stop()
    elif node.running and (code := node.stop()):
        raise Violation(f"broker {node.node_id} ended with {code}:\n{node.log[-3000:]}")


async def _partitions(client: Client, *topics: str) -> list[MetadataResponsePartition]:
    """The partitions of the topics that exist, in order."""
    wanted = tuple(MetadataRequestTopic(name=each) for each in topics)
    answer: MetadataResponse = await client.request(ApiKey.METADATA, MetadataRequest(wanted, False))
    return [
        each
        for topic in answer.topics
        for each in sorted(topic.partitions, key=lambda partition: partition.partition_index)
    ]


def program_of(broker: JoinedBroker | KafkaBroker) -> str:
    """The name of the program."""
    return KAFKA if isinstance(broker, KafkaBroker) else EOSIN


def directory(broker: JoinedBroker | KafkaBroker) -> Path:
    """The directory of its logs."""
    return broker.folder / "data" if isinstance(broker, KafkaBroker) else broker.data_dir
