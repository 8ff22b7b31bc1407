"""Records what a controller of Apache Kafka answers: the transcripts of `tests/cluster/quorum/transcripts`.

    .venv/bin/python tests/support/record_controller.py        # make transcripts-controller

A transcript is a list of exchanges in the order in which they happened, on one connection or several: the API, the
version, the bodies of request and response in hex. Whatever stands in for a controller in a test must answer so. Needs
`java` 17; the jars come from Maven once (`maven.py`).
"""

import asyncio
import json
import tempfile
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import maven
from apache_kafka import PROJECT
from hand_made_broker import HandMadeBroker
from kraft_node import SHORT_SESSIONS, QuorumController
from msgspec.structs import replace as changed
from waiting import until

from eosin.client.addresses import Address
from eosin.client.peer import LinkDialer, Peer, PeerConnection
from eosin.cluster.quorum.follower import MetadataFollower, ObserverConfig
from eosin.cluster.quorum.observer import METADATA_TOPIC, METADATA_TOPIC_ID
from eosin.protocol.keys import ApiKey
from eosin.protocol.schemas import schema_of
from eosin.protocol.schemas.fetch import FetchPartition, FetchRequest, FetchTopic, ReplicaState, SnapshotId
from eosin.protocol.schemas.fetch_snapshot import FetchSnapshotRequest, PartitionSnapshot, TopicSnapshot
from eosin.protocol.types import Message
from eosin.protocol.wire import codec
from eosin.runtime.clock import SystemClock

FOLDER: Final = Path(__file__).resolve().parents[1] / "cluster" / "quorum" / "transcripts"
_TIMEOUT_MS: Final = 10_000
_NODE_ID: Final = 7
_DIRECTORY_ID: Final = bytes(range(16))


class Transcript:
    """Exchanges with one controller; what dials through it is recorded."""

    def __init__(self, controller: QuorumController) -> None:
        self.controller = controller
        self.exchanges: list[dict[str, Any]] = []

    async def dial(self, address: Address, *, timeout_ms: int) -> Peer:
        """Connect."""
        peer = await LinkDialer("recorder")(address, timeout_ms=timeout_ms)
        return Peer(RecordedConnection(self, peer.connection), peer.versions)

    def write(self, name: str, **facts: object) -> None:
        """Write the file."""
        FOLDER.mkdir(parents=True, exist_ok=True)
        content = {
            "release": maven.version(PROJECT),
            "recorded_by": f"tests/support/{Path(__file__).name}",
            "cluster_id": self.controller.cluster_id,
            "controller": [self.controller.node_id, "127.0.0.1", self.controller.port],
            **facts,
            "exchanges": self.exchanges,
        }
        path = FOLDER / f"{name}.json"
        path.write_text(json.dumps(content, indent=1) + "\n")
        print(path, len(self.exchanges))


class RecordedConnection:
    """A connection that writes down what passes, at the highest version that the controller serves."""

    def __init__(self, transcript: Transcript, connection: PeerConnection) -> None:
        self._transcript = transcript
        self._connection = connection

    @property
    def is_open(self) -> bool:
        """Whether requests can be sent."""
        return self._connection.is_open

    async def request(self, key: ApiKey, message: Message, *, version: int, timeout_ms: int | None = None) -> Any:
        """Send it, and write down both bodies."""
        response = await self._connection.request(key, message, version=version, timeout_ms=timeout_ms)
        schema = schema_of(key)
        assert schema is not None
        self._transcript.exchanges.append(
            {
                "api": key.name,
                "version": version,
                "request": codec.build(schema.request_layout(version), message).hex(),
                "response": codec.encode_body(key, version, response).hex(),
            }
        )
        return response

    async def close(self) -> None:
        """Close."""
        await self._connection.close()


async def record_first_start(controller: QuorumController) -> None:
    """From nothing to a topic that is led, and its deletion: what a follower asks and hears meanwhile."""
    transcript = Transcript(controller)
    async with HandMadeBroker(controller.address, controller.cluster_id, _NODE_ID) as broker:
        follower, task = _follow(transcript)
        await follower.caught_up()
        epoch = await broker.register()
        await follower.reached(epoch)
        await broker.heartbeat(follower.published_offset)
        await until(lambda: not follower.image.brokers[_NODE_ID].fenced)
        topic_id = await broker.create_topic("orders", 2, retention_ms="1000")
        await until(lambda: "orders" in follower.image.topics)
        await broker.heartbeat(follower.published_offset, want_fence=True)
        await until(lambda: follower.image.brokers[_NODE_ID].fenced)
        await broker.heartbeat(follower.published_offset)
        await until(lambda: not follower.image.brokers[_NODE_ID].fenced)
        await broker.create_topic("payments", 1)
        await broker.delete_topic(topic_id)
        await until(lambda: "payments" in follower.image.topics and "orders" not in follower.image.topics)
    await _end(task)
    offset, partition = follower.published_offset, follower.image.topics["payments"].partitions[0]
    transcript.write(
        "log-from-the-start",
        node_id=_NODE_ID,
        offset=offset,
        broker_epoch=epoch,
        payments=[partition.leader, partition.leader_epoch, partition.partition_epoch],
    )


async def record_snapshot(controller: QuorumController) -> None:
    """A follower that begins when the log's beginning is in a snapshot."""
    async with HandMadeBroker(controller.address, controller.cluster_id, _NODE_ID + 1) as broker:
        epoch = await broker.register()
        assert not (await broker.heartbeat(epoch + 100)).is_fenced
        for number in range(3):
            await broker.create_topic(f"topic-{number}", 10, retention_ms="1000")
    await until(lambda: any(int(path.name[:20]) > epoch for path in _snapshots(controller)))
    transcript = Transcript(controller)
    follower, task = _follow(transcript, snapshot_max_bytes=1500)
    await follower.caught_up()
    await _end(task)
    transcript.write(
        "snapshot",
        node_id=_NODE_ID,
        offset=follower.published_offset,
        topics=sorted(follower.image.topics),
        partitions=follower.image.partition_count,
    )


async def record_refusals(controller: QuorumController) -> None:
    """Requests of an observer that a leader refuses, one by one (cluster.md 3.1, 3.2 and 3.5)."""
    transcript = Transcript(controller)
    connection = await transcript.dial(Address.parse(controller.address), timeout_ms=_TIMEOUT_MS)
    names = []

    async def ask(name: str, key: ApiKey, message: Message) -> Any:
        names.append(name)
        return await connection.request(key, message, timeout_ms=_TIMEOUT_MS)

    partition = FetchPartition(
        current_leader_epoch=0, last_fetched_epoch=0, partition_max_bytes=1 << 20, replica_directory_id=_DIRECTORY_ID
    )
    cluster_id = controller.cluster_id

    def fetch(changed_partition: FetchPartition, **fields: Any) -> FetchRequest:
        topic = FetchTopic(topic_id=METADATA_TOPIC_ID, partitions=(changed_partition,))
        request = FetchRequest(
            cluster_id=cluster_id, replica_state=ReplicaState(_NODE_ID, -1), max_wait_ms=100, topics=(topic,)
        )
        return changed(request, **fields)

    first = await ask("an epoch that is over", ApiKey.FETCH, fetch(partition))
    epoch = first.responses[0].partitions[0].current_leader.leader_epoch
    now = changed(partition, current_leader_epoch=epoch)
    await ask("another cluster", ApiKey.FETCH, fetch(now, cluster_id="AAAAAAAAAAAAAAAAAAAAAA"))
    await ask("an epoch to come", ApiKey.FETCH, fetch(changed(now, current_leader_epoch=epoch + 5)))
    await ask("a last epoch of -1", ApiKey.FETCH, fetch(changed(now, last_fetched_epoch=-1)))
    await ask("a last epoch to come", ApiKey.FETCH, fetch(changed(now, last_fetched_epoch=epoch + 5)))
    await ask("beyond the end", ApiKey.FETCH, fetch(changed(now, fetch_offset=10**6, last_fetched_epoch=epoch)))
    await ask("no replica", ApiKey.FETCH, fetch(now, replica_state=ReplicaState(-1, -1)))
    await ask(
        "another topic", ApiKey.FETCH, fetch(now, topics=(FetchTopic(topic_id=bytes(range(16)), partitions=(now,)),))
    )
    await ask("no topic", ApiKey.FETCH, fetch(now, topics=()))

    def snapshot(piece: PartitionSnapshot, **fields: Any) -> FetchSnapshotRequest:
        request = FetchSnapshotRequest(
            cluster_id=cluster_id, replica_id=_NODE_ID, topics=(TopicSnapshot(METADATA_TOPIC, (piece,)),)
        )
        return changed(request, **fields)

    snapshots = [path.stem.split("-") for path in _snapshots(controller)]
    newest = max(snapshots, key=lambda parts: int(parts[0]))
    there = SnapshotId(int(newest[0]), int(newest[1]))
    piece = PartitionSnapshot(current_leader_epoch=epoch, snapshot_id=there, replica_directory_id=_DIRECTORY_ID)
    await ask("a snapshot", ApiKey.FETCH_SNAPSHOT, snapshot(piece, max_bytes=100))
    await ask("no such snapshot", ApiKey.FETCH_SNAPSHOT, snapshot(changed(piece, snapshot_id=SnapshotId(3, 1))))
    await ask("behind its end", ApiKey.FETCH_SNAPSHOT, snapshot(changed(piece, position=10**7)))
    await ask("at a position of -1", ApiKey.FETCH_SNAPSHOT, snapshot(changed(piece, position=-1)))
    await ask("of an epoch that is over", ApiKey.FETCH_SNAPSHOT, snapshot(changed(piece, current_leader_epoch=0)))
    await ask("of an epoch to come", ApiKey.FETCH_SNAPSHOT, snapshot(changed(piece, current_leader_epoch=epoch + 5)))
    await ask("of another cluster", ApiKey.FETCH_SNAPSHOT, snapshot(piece, cluster_id="AAAAAAAAAAAAAAAAAAAAAA"))
    await ask("of another topic", ApiKey.FETCH_SNAPSHOT, snapshot(piece, topics=(TopicSnapshot("orders", (piece,)),)))
    await connection.close()
    for name, exchange in zip(names, transcript.exchanges, strict=True):
        exchange["case"] = name
    transcript.write("refusals", node_id=_NODE_ID)


def _follow(transcript: Transcript, **limits: int) -> tuple[MetadataFollower, asyncio.Task[None]]:
    config = ObserverConfig(
        cluster_id=transcript.controller.cluster_id,
        node_id=_NODE_ID,
        directory_id=_DIRECTORY_ID,
        listener="CONTROLLER",
        bootstrap=(Address.parse(transcript.controller.address),),
    )
    follower = MetadataFollower(replace(config, **limits), clock=SystemClock(), dial=transcript.dial)
    return follower, asyncio.create_task(follower.run())


def _snapshots(controller: QuorumController) -> list[Path]:
    return list((controller.folder / "data" / "__cluster_metadata-0").glob("*.checkpoint"))


async def _end(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def main() -> None:
    """Record everything."""
    quiet = {"metadata.max.idle.interval.ms": "0"}  # no NoOpRecords: transcripts stay short
    small = {**quiet, "metadata.log.max.record.bytes.between.snapshots": "1500"}
    recordings: list[tuple[dict[str, str], list[Callable[[QuorumController], Awaitable[None]]]]] = [
        (quiet, [record_first_start]),
        (small, [record_snapshot, record_refusals]),
    ]
    for settings, scenes in recordings:
        with (
            tempfile.TemporaryDirectory() as folder,
            QuorumController(Path(folder) / "controller", settings={**SHORT_SESSIONS, **settings}) as controller,
        ):
            for scene in scenes:
                asyncio.run(scene(controller))  # type: ignore[arg-type]


if __name__ == "__main__":
    main()
