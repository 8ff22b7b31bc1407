"""Several nodes of Apache Kafka that replicate everything to each other: for what a coordinator's failover does."""

import asyncio
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from apache_kafka import ApacheKafka
from waiting import HANG_S, wait_until

from eosin.cli import dump_log
from eosin.client.client import Client, CoordinatorType
from eosin.client.errors import ClientError
from eosin.client.producer import Producer
from eosin.protocol.keys import ApiKey
from eosin.protocol.names import TRANSACTION_STATE_TOPIC
from eosin.protocol.schemas.metadata import MetadataRequest, MetadataResponse

NODES: Final = 3
_HEAP_MB: Final = 256
_REPLICATED: Final = {
    "default.replication.factor": str(NODES),
    "min.insync.replicas": "2",
    "offsets.topic.replication.factor": str(NODES),
    "transaction.state.log.replication.factor": str(NODES),
    "transaction.state.log.min.isr": "2",
    "share.coordinator.state.topic.replication.factor": str(NODES),
    "share.coordinator.state.topic.min.isr": "2",
    # A node that is gone is to be noticed soon; Kafka's defaults are 9 s and 2 s.
    "broker.session.timeout.ms": "2000",
    "broker.heartbeat.interval.ms": "300",
}


class ApacheKafkaCluster:
    """Three nodes. A context manager; leaving it stops them by their process ids."""

    def __init__(self, folder: Path) -> None:
        self.nodes = {
            node_id: ApacheKafka(folder / f"node-{node_id}", settings=_REPLICATED, heap_mb=_HEAP_MB)
            for node_id in range(1, NODES + 1)
        }
        voters = ",".join(f"{node_id}@127.0.0.1:{node.controller_port}" for node_id, node in self.nodes.items())
        for node_id, node in self.nodes.items():
            node.belong(node_id, voters)

    @property
    def address(self) -> str:
        """The bootstrap servers: all nodes."""
        return ",".join(node.address for node in self.nodes.values())

    def start(self) -> Self:
        """Start all nodes and wait until everything has all of its replicas."""
        self._each(lambda node: node.launch())
        try:
            asyncio.run(self._until_it_serves())
            self.wait_replicated()
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """Stop all nodes."""
        self._each(lambda node: node.kill())

    def coordinator(self, transactional_id: str) -> int:
        """The id of the node that coordinates the transactions of an id."""

        async def ask() -> int:
            async with Client(self.address) as client:
                return await client.retry(lambda: client.coordinator(CoordinatorType.TRANSACTION, transactional_id))

        return asyncio.run(ask())

    def restart(self, node_id: int) -> None:
        """Start a node that was killed, and wait until it has caught up."""
        self.nodes[node_id].launch()
        self.wait_replicated()

    def dump(self, *topics: str) -> str:
        """The files of these topics on each node's disk, and of `__transaction_state`: for the message of a failure."""
        return dumped([node.folder / "data" for node in self.nodes.values()], *topics)

    def wait_replicated(self) -> None:
        """Wait until each partition has all of its replicas in sync."""
        wait_until(lambda: asyncio.run(self._is_replicated()), every_s=0.2)

    async def _until_it_serves(self) -> None:
        """Both coordinators' topics are made when they are first asked for."""
        async with Client(self.address, retry_timeout_ms=HANG_S * 1000) as client:
            await client.retry(lambda: client.coordinator(CoordinatorType.GROUP, "is-it-ready"))
            for last in "abcd":  # ids that are spread over the partitions
                await Producer(client, f"is-it-ready-{last}").init()

    async def _is_replicated(self) -> bool:
        async with Client(self.address) as client:
            try:
                answer: MetadataResponse = await client.request(ApiKey.METADATA, MetadataRequest(topics=None))
            except ClientError:
                return False
        partitions = [each for topic in answer.topics for each in topic.partitions]
        return len(answer.brokers) == NODES and all(len(each.isr_nodes) == NODES for each in partitions)

    def _each(self, what: Callable[[ApacheKafka], None]) -> None:
        with ThreadPoolExecutor(NODES) as pool:
            list(pool.map(what, self.nodes.values()))

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def dumped(folders: Iterable[Path], *topics: str) -> str:
    """The files of these topics in the directories of brokers, as text, and of `__transaction_state`."""
    shown = StringIO()
    with redirect_stdout(shown):
        for partition in (each for folder in folders for each in sorted(folder.glob("*-[0-9]*"))):
            topic = partition.name.rpartition("-")[0]
            if topic in (*topics, TRANSACTION_STATE_TOPIC):
                how = "--transaction-log" if topic == TRANSACTION_STATE_TOPIC else "--deep"
                dump_log.main([how, *map(str, sorted(partition.glob("*.log")))])
    return shown.getvalue()
