"""A cluster in a virtual test: whole brokers that join the model of the controllers, in the world of the test.

    async with VirtualPair() as pair:
        partition = await pair.create()
        await pair.write(partition, b"a record")

Each is the broker of a simulated machine: the code from `Connection` to the disk, on an event loop of its own. It may
be stopped, killed and started again, and its disk spoiled meanwhile.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final, Self

from joined_broker import QUICK, replicated
from simulation.cluster.machines import JoinedMachine
from simulation.loop import Process
from simulation.machine import LISTENER, Pace
from virtual_broker import DISK_BYTES, SMALL
from virtual_controllers import VirtualControllers
from virtual_network import End
from virtual_time import VirtualLoop
from waiting import HANG_S, until
from wire import unique

from eosin.client.client import Client
from eosin.client.consumer import Consumer
from eosin.client.errors import check
from eosin.client.producer import Producer
from eosin.cluster.quorum.rules.image import PartitionRegistration
from eosin.lab.disk.lying_disk import LyingDisk
from eosin.node.configuration import load_config
from eosin.protocol.keys import ApiKey
from eosin.protocol.names import TopicPartition
from eosin.protocol.records.batch import NewRecord
from eosin.protocol.schemas.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)

HOST: Final = "127.0.0.1"


class VirtualJoinedBroker:
    """Broker `node_id`. The end of the test is its end, too."""

    def __init__(
        self,
        controllers: VirtualControllers,
        node_id: int,
        settings: Mapping[str, str | None] | None = None,
        *,
        durability: str = "fsync",
    ) -> None:
        """`settings` go over those of all; None takes one away."""
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop), "only a test with the mark `virtual` has virtual brokers"
        self.node_id = node_id
        address = HOST, loop.network.free_port()
        self.address = f"{address[0]}:{address[1]}"
        joined: dict[str, str | None] = {
            "process.roles": "broker",
            "node.id": str(node_id),
            "controller.quorum.bootstrap.servers": controllers.address,
            "controller.listener.names": "CONTROLLER",
            "eosin.durability": durability,
            "eosin.cluster.id": controllers.cluster_id,
            **SMALL,
            **QUICK,
            **replicated(2),
            **(settings or {}),
        }
        given = {name: value for name, value in joined.items() if value is not None}
        config = replace(load_config(flags=given).config, listeners=(f"{LISTENER}://{self.address}",))
        self._loop = loop
        self._machine = _MachineInWorld(loop, node_id, address, config=config, seed=self.address, pace=Pace())
        self._machine.disk.total = DISK_BYTES
        loop.network.listen(*address, self._accepted)

    def _accepted(self) -> "tuple[Process, asyncio.BaseProtocol] | None":
        connection = self._machine.accept()
        return None if connection is None or self._machine.process is None else (self._machine.process, connection)

    @property
    def disk(self) -> LyingDisk:
        """Its files, under the paths that the broker uses; to be changed while it is down."""
        return self._machine.disk

    @property
    def data_dir(self) -> str:
        """The path of its data directory."""
        return str(self._machine.config.data_dir)

    def folder(self, partition: TopicPartition) -> str:
        """The path of a replica."""
        return f"{self.data_dir}/{partition}"

    def holds(self, partition: TopicPartition) -> bytes:
        """All of a replica's first segment."""
        return self.disk.read_whole(f"{self.folder(partition)}/{0:020d}.log")

    def pause(self, seconds: float) -> None:
        """Nothing of it runs for so long: SIGSTOP, then SIGCONT."""
        assert self._machine.process is not None
        self._machine.process.paused_until = self._loop.time() + seconds

    @property
    def runs(self) -> bool:
        """True while its process does."""
        return self._machine.process is not None

    async def start(self) -> None:
        """Start, and wait until it serves. Raises StartError."""
        machine = self._machine
        machine.start()
        await self._until(lambda: machine.is_unfenced or machine.process is None)
        if machine.start_error is not None:
            raise machine.start_error

    async def stop(self) -> None:
        """SIGTERM, and wait for the end."""
        process = self._machine.process
        self._machine.ask_to_stop()
        await self.ended()
        self._forget(process)

    def kill(self) -> None:
        """SIGKILL."""
        process = self._machine.process
        self._machine.crash()
        self._forget(process)

    async def ended(self) -> None:
        """Wait until its process has ended."""
        await self._until(lambda: self._machine.process is None)

    def replace_disk(self) -> None:
        """It has an empty one at its next start."""
        self._machine.replace_disk()

    def _forget(self, process: Process | None) -> None:
        if process is not None:
            self._loop.network.forget(process)

    async def _until(self, true: Callable[[], bool]) -> None:
        changed = asyncio.Event()
        self._machine.changed = lambda: self._loop.call_soon(changed.set)  # type: ignore[assignment]
        while not true():
            changed.clear()
            await changed.wait()


class VirtualPair:
    """Controllers, two brokers, and a client of both. A context manager."""

    node_ids: Final = (1, 2)

    def __init__(self, settings: Mapping[str, str | None] | None = None) -> None:
        self.controllers = VirtualControllers()
        made = [VirtualJoinedBroker(self.controllers, each, settings) for each in self.node_ids]
        self.brokers = self.first, self.second = made[0], made[1]
        self.client = Client(",".join(each.address for each in made), retry_timeout_ms=HANG_S * 1000)

    async def __aenter__(self) -> Self:
        for broker in self.brokers:
            await broker.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.client.close()

    async def create(self, name: str | None = None, **configs: str) -> TopicPartition:
        """The partition of a new topic: on both, led by the first."""
        topic = CreatableTopic(
            name=name or unique("topic"),
            num_partitions=-1,
            replication_factor=-1,
            assignments=(CreatableReplicaAssignment(0, self.node_ids),),
            configs=tuple(CreatableTopicConfig(key.replace("_", "."), value) for key, value in configs.items()),
        )
        request = CreateTopicsRequest((topic,), timeout_ms=10_000)
        answer: CreateTopicsResponse = await self.client.request(ApiKey.CREATE_TOPICS, request)
        check(answer.topics[0].error_code, "creating a topic", answer.topics[0].error_message)
        return TopicPartition(topic.name, 0)

    def now(self, partition: TopicPartition) -> PartitionRegistration:
        """The partition as the controllers have it."""
        return self.controllers.quorum.model.image.topics[partition.topic].partitions[partition.partition]

    async def led_by(self, partition: TopicPartition, node_id: int) -> None:
        """Wait until it is."""
        await until(lambda: self.now(partition).leader == node_id, lambda: self.now(partition))

    async def in_sync(self, partition: TopicPartition, *node_ids: int) -> None:
        """Wait until these are in sync, and no others."""
        await until(lambda: set(self.now(partition).isr) == set(node_ids), lambda: self.now(partition))

    async def write(self, partition: TopicPartition, *values: bytes, acks: int = -1) -> None:
        """Acknowledged by all that are in sync, or with `acks` 1 by the leader."""
        producer = Producer(self.client, acks=acks)
        await producer.init()
        for value in values:
            await producer.send(partition, [NewRecord(None, value)])

    async def read(self, partition: TopicPartition) -> list[bytes | None]:
        """All that is committed."""
        consumer = Consumer(self.client)
        consumer.assign({partition: 0})
        return [each.record.value for each in await consumer.read_to_end()]


class _MachineInWorld(JoinedMachine):
    """A machine in the world of a test."""

    def __init__(self, loop: VirtualLoop, *where: Any, **how: Any) -> None:
        super().__init__(loop.scheduler, *where, **how)
        self._loop = loop

    def _networked(self, name: str) -> Process:
        return self._loop.adopt(_Networked(self._loop, name))


class _Networked(Process):
    """A process that reaches whoever listens in the world."""

    def __init__(self, loop: VirtualLoop, name: str) -> None:
        super().__init__(loop.scheduler, name)
        self._network = loop.network

    async def create_connection(  # type: ignore[override]
        self, protocol_factory: Callable[[], asyncio.BaseProtocol], host: str, port: int, **_: Any
    ) -> tuple[End, asyncio.BaseProtocol]:
        await asyncio.sleep(0)
        protocol = protocol_factory()
        end = self._network.connect(self, protocol, host, port)
        await asyncio.sleep(0)  # the protocol hears of it before the caller does
        return end, protocol
