"""Three Eosin brokers and a controller of Apache Kafka: everything has three replicas, and two must have a write.

with ThreeBrokers(folder) as cluster:
    ...  # cluster.address is what clients bootstrap from
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Final, Self, TypeVar

from apache_kafka_cluster import dumped
from asked_broker import KILLED, STOPPED
from joined_broker import JoinedBroker, replicated
from kraft_node import SHORT_SESSIONS, QuorumController
from waiting import wait_until

from eosin.client.admin import Admin
from eosin.client.client import Client, CoordinatorType
from eosin.client.errors import ClientError
from eosin.protocol.keys import ApiKey
from eosin.protocol.schemas.metadata import MetadataRequest, MetadataResponse

Answer = TypeVar("Answer")

BROKERS: Final = 3
REPLICATED: Final[Mapping[str, str]] = {
    "default.replication.factor": str(BROKERS),
    "min.insync.replicas": "2",
    **replicated(BROKERS, partitions=4, min_isr=2),
}
_OF_TOPICS: Final = {name: REPLICATED[name] for name in ("default.replication.factor", "min.insync.replicas")}


class ThreeBrokers:
    """A context manager; leaving it stops every process."""

    def __init__(
        self, folder: Path, *, durability: str = "os", features: Mapping[str, int | None] | None = None
    ) -> None:
        """`features`: levels that the controller is formatted with. Raises `toolchains.NotHere`."""
        self.controller = QuorumController(
            folder / "controller", settings={**_OF_TOPICS, **SHORT_SESSIONS}, features=features
        )
        self._folder = folder
        self._durability = durability
        self._stack = ExitStack()
        self.nodes: dict[int, JoinedBroker] = {}

    @property
    def address(self) -> str:
        """The bootstrap servers: all brokers."""
        return ",".join(node.address for node in self.nodes.values())

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            stack.enter_context(self.controller)
            for node_id in range(1, BROKERS + 1):
                folder = self._folder / f"broker-{node_id}"
                made = JoinedBroker(
                    folder, self.controller, node_id=node_id, durability=self._durability, settings=REPLICATED
                )
                self.nodes[node_id] = stack.enter_context(made)
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.__exit__(kind, error, trace)

    def coordinator(self, name: str, kind: CoordinatorType = CoordinatorType.TRANSACTION) -> int:
        """The id of the broker that coordinates the transactions of an id, or a group."""

        async def ask(client: Client) -> int:
            return await client.retry(lambda: client.coordinator(kind, name))

        return asyncio.run(self._with_client(ask))

    def leader(self, topic: str, partition: int) -> int:
        """The id of the broker that leads a partition, -1 if none does."""

        async def ask(client: Client) -> int:
            found = await client.fetch_metadata()
            return found.topics[topic].partitions[partition].leader

        return asyncio.run(self._with_client(ask))

    def create(self, topic: str, partitions: int = 1) -> None:
        """A topic with the cluster's defaults."""

        async def ask(client: Client) -> None:
            await Admin(client).create_topic(topic, partitions)

        asyncio.run(self._with_client(ask))

    def restart(self, node_id: int, how: str = STOPPED) -> None:
        """End a broker so if it runs, start it, and wait until it has caught up."""
        node = self.nodes[node_id]
        if node.running and how == KILLED:
            node.kill()
        elif node.running:
            assert node.stop() == 0
        node.start()
        self.wait_replicated()

    def roll(self, how: str = STOPPED) -> None:
        """Restart one broker after the other, each when all replicas are in sync."""
        self.wait_replicated()
        for node_id in self.nodes:
            self.restart(node_id, how)

    def wait_replicated(self) -> None:
        """Wait until each partition has all of its replicas in sync."""
        wait_until(lambda: not self._lacks(), lambda: f"{self._lacks()}\n{self.logs}", every_s=0.2)

    def dump(self, *topics: str) -> str:
        """The files of these topics on each broker's disk, and of `__transaction_state`: for the message of a
        failure."""
        return dumped([node.data_dir for node in self.nodes.values()], *topics)

    @property
    def logs(self) -> str:
        """The end of what each broker has logged."""
        return "\n".join(f"broker {node_id} says:\n{node.log[-3000:]}" for node_id, node in self.nodes.items())

    def _lacks(self) -> str:
        return asyncio.run(self._lacking())

    async def _lacking(self) -> str:
        """The difference from a healthy cluster, in words; empty for none."""
        async with Client(self.address) as client:
            try:
                answer: MetadataResponse = await client.request(ApiKey.METADATA, MetadataRequest(topics=None))
            except ClientError as error:
                return str(error)
        if len(answer.brokers) < BROKERS:
            return f"{len(answer.brokers)} brokers"
        partitions = [(topic.name, each) for topic in answer.topics for each in topic.partitions]
        behind = [name for name, each in partitions if len(each.isr_nodes) < len(each.replica_nodes)]
        return f"replicas of {sorted(set(behind), key=str)} are not in sync" if behind else ""

    async def _with_client(self, ask: Callable[[Client], Awaitable[Answer]]) -> Answer:
        async with Client(self.address) as client:
            return await ask(client)
