"""A metadata log in memory, and the answers of a controller that has it: for tests of what follows it."""

import asyncio
from collections.abc import Sequence
from typing import Any, Final

from eosin.client.addresses import Address
from eosin.client.errors import ConnectionFailed
from eosin.client.peer import Peer
from eosin.client.versions import Versions
from eosin.cluster.quorum.observer import METADATA_TOPIC, METADATA_TOPIC_ID
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.records.batch import CONTROL, NewRecord, build_batch
from eosin.protocol.records.fields import encode_record
from eosin.protocol.records.header import assemble
from eosin.protocol.records.metadata import encode_metadata_record, encode_quorum_control
from eosin.protocol.schemas.api_versions import ApiVersion, ApiVersionsResponse
from eosin.protocol.schemas.fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
    SnapshotId,
)
from eosin.protocol.schemas.fetch_snapshot import (
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    PartitionSnapshotData,
    TopicSnapshotData,
)
from eosin.protocol.schemas.records import metadata, quorum
from eosin.protocol.types import Message

HOST: Final = "127.0.0.1"
LISTENER: Final = "CONTROLLER"
TIMESTAMP: Final = 1_700_000_000_000
SERVED: Final = Versions(
    ApiVersionsResponse(api_keys=(ApiVersion(ApiKey.FETCH, 0, 18), ApiVersion(ApiKey.FETCH_SNAPSHOT, 0, 1)))
)
_NEWEST: Final = {schema.struct: schema.versions[-1] for schema in metadata.TYPES.values()}


def batch_of(records: Sequence[Message], *, base_offset: int, epoch: int) -> bytes:
    """One batch of metadata records, each at its newest version."""
    values = [NewRecord(None, encode_metadata_record(record, _NEWEST[type(record)])) for record in records]
    return bytes(build_batch(values, timestamp=TIMESTAMP, base_offset=base_offset, partition_leader_epoch=epoch))


def control_batch_of(records: Sequence[Message], *, base_offset: int, epoch: int) -> bytes:
    """One batch of control records."""
    payload = b"".join(
        encode_record(offset_delta=delta, timestamp_delta=0, key=key, value=value)
        for delta, (key, value) in enumerate(encode_quorum_control(record, 0) for record in records)
    )
    return bytes(
        assemble(
            payload,
            base_offset=base_offset,
            partition_leader_epoch=epoch,
            attributes=CONTROL,
            last_offset_delta=len(records) - 1,
            base_timestamp=TIMESTAMP,
            max_timestamp=TIMESTAMP,
            producer_id=-1,
            producer_epoch=-1,
            base_sequence=-1,
            records_count=len(records),
        )
    )


def snapshot_of(records: Sequence[Message], *, controls: Sequence[Message] = (), epoch: int = 1) -> bytes:
    """A whole snapshot: its header with `controls` behind it, the records, its footer."""
    head = control_batch_of([quorum.SnapshotHeaderRecord(TIMESTAMP), *controls], base_offset=0, epoch=epoch)
    offset = 1 + len(controls)
    body = batch_of(records, base_offset=offset, epoch=epoch) if records else b""
    foot = control_batch_of([quorum.SnapshotFooterRecord()], base_offset=offset + len(records), epoch=epoch)
    return head + body + foot


def fetched(
    *,
    leader: tuple[int, int] = (-1, -1),
    records: bytes | None = None,
    high_watermark: int = -1,
    error: int = ErrorCode.NONE,
    top_level: int = ErrorCode.NONE,
    diverging: tuple[int, int] | None = None,
    snapshot: tuple[int, int] | None = None,
    endpoints: Sequence[NodeEndpoint] = (),
) -> FetchResponse:
    """An answer to Fetch. `leader` is its id and its epoch, `diverging` epoch and end offset, `snapshot` end offset and
    epoch."""
    partition = PartitionData(
        error_code=error,
        high_watermark=high_watermark,
        current_leader=LeaderIdAndEpoch(*leader),
        diverging_epoch=EpochEndOffset(*diverging) if diverging else EpochEndOffset(),
        snapshot_id=SnapshotId(*snapshot) if snapshot else SnapshotId(),
        records=records,
    )
    topic = FetchableTopicResponse(topic_id=METADATA_TOPIC_ID, partitions=(partition,))
    return FetchResponse(error_code=top_level, responses=(topic,), node_endpoints=tuple(endpoints))


def piece(
    data: bytes,
    *,
    snapshot: tuple[int, int],
    position: int,
    size: int,
    leader: tuple[int, int],
    error: int = ErrorCode.NONE,
) -> FetchSnapshotResponse:
    """An answer to FetchSnapshot."""
    partition = PartitionSnapshotData(
        error_code=error,
        snapshot_id=SnapshotId(*snapshot),
        current_leader=LeaderIdAndEpoch(*leader),
        size=size,
        position=position,
        unaligned_records=data,
    )
    return FetchSnapshotResponse(topics=(TopicSnapshotData(METADATA_TOPIC, (partition,)),))


class QuorumLog:
    """The metadata log of a quorum whose controllers are all in this object: each answers like a raft leader or a
    follower of it. What a `MetadataFollower` dials: `log.dial`.

    Controller n listens on port n. `append` writes a batch, `commit` raises the high watermark.
    """

    def __init__(self, *, cluster_id: str = "cluster", leader: int = 100, epoch: int = 1) -> None:
        self.cluster_id = cluster_id
        self.leader = leader
        self.epoch = epoch
        self.high_watermark = 0
        self.start_offset = 0
        self.snapshot: tuple[SnapshotId, bytes] | None = None
        self.dead: set[int] = set()
        """Controllers that nobody can connect to."""
        self.requests: list[tuple[int, Message]] = []
        """Every request, with the controller that got it."""
        self._batches: list[tuple[int, int, bytes]] = []

    @property
    def end_offset(self) -> int:
        """The next offset."""
        return self._batches[-1][1] if self._batches else self.start_offset

    def append(self, *records: Message, is_committed: bool = True) -> int:
        """Write one batch; return the offset behind it."""
        self._add(batch_of(records, base_offset=self.end_offset, epoch=self.epoch), len(records))
        return self._committed(is_committed)

    def append_control(self, *records: Message, is_committed: bool = True) -> int:
        """Write one control batch; return the offset behind it."""
        self._add(control_batch_of(records, base_offset=self.end_offset, epoch=self.epoch), len(records))
        return self._committed(is_committed)

    def commit(self) -> None:
        """Everything is committed now."""
        self.high_watermark = self.end_offset

    def elect(self, leader: int) -> None:
        """Another controller leads, in a new epoch that begins with a control record."""
        self.leader = leader
        self.epoch += 1
        self.append_control(quorum.LeaderChangeMessage(leader))

    def compact(self, *records: Message, controls: Sequence[Message] = ()) -> None:
        """Put a snapshot of these records in the place of all that is committed."""
        self.snapshot = SnapshotId(self.high_watermark, self.epoch), snapshot_of(records, controls=controls)
        self.start_offset = self.high_watermark
        self._batches = [batch for batch in self._batches if batch[0] >= self.start_offset]

    async def dial(self, address: Address, *, timeout_ms: int) -> Peer:
        """Connect to the controller on a port."""
        if address.port in self.dead:
            raise ConnectionFailed(f"cannot connect to {address}: refused")
        return Peer(QuorumConnection(self, address.port), SERVED)

    def answer(self, controller: int, request: Message) -> Message:
        """The response of a controller."""
        self.requests.append((controller, request))
        if isinstance(request, FetchRequest):
            return self._fetched(controller, request)
        assert isinstance(request, FetchSnapshotRequest)
        [topic] = request.topics
        [partition] = topic.partitions
        assert self.snapshot is not None
        snapshot_id, data = self.snapshot
        end = min(partition.position + request.max_bytes, len(data))
        return piece(
            data[partition.position : end],
            snapshot=(snapshot_id.end_offset, snapshot_id.epoch),
            position=partition.position,
            size=len(data),
            leader=(self.leader, self.epoch),
        )

    def _fetched(self, controller: int, request: FetchRequest) -> Message:
        if request.cluster_id != self.cluster_id:
            return fetched(top_level=ErrorCode.INCONSISTENT_CLUSTER_ID)
        [topic] = request.topics
        [partition] = topic.partitions
        who: dict[str, Any] = {
            "leader": (self.leader, self.epoch),
            "endpoints": [NodeEndpoint(self.leader, HOST, self.leader)],
        }
        if controller != self.leader:
            return fetched(error=ErrorCode.NOT_LEADER_OR_FOLLOWER, **who)
        if partition.current_leader_epoch < self.epoch:
            return fetched(error=ErrorCode.FENCED_LEADER_EPOCH, **who)
        if partition.fetch_offset < self.start_offset or (partition.fetch_offset == 0 and self.snapshot is not None):
            assert self.snapshot is not None
            snapshot_id = self.snapshot[0]
            return fetched(snapshot=(snapshot_id.end_offset, snapshot_id.epoch), **who)
        records = b"".join(data for base, _, data in self._batches if base >= partition.fetch_offset)
        return fetched(records=records, high_watermark=self.high_watermark, **who)

    def _add(self, batch: bytes, records: int) -> None:
        self._batches.append((self.end_offset, self.end_offset + records, batch))

    def _committed(self, is_committed: bool) -> int:
        if is_committed:
            self.commit()
        return self.end_offset


class QuorumConnection:
    """A connection to one controller of a `QuorumLog`. A Fetch that has nothing to bring takes a moment."""

    def __init__(self, log: QuorumLog, controller: int) -> None:
        self._log = log
        self._controller = controller
        self.is_open = True

    async def request(self, key: ApiKey, message: Message, *, version: int, timeout_ms: int | None = None) -> Message:
        """The answer; fails when the controller is dead."""
        await asyncio.sleep(0.001)
        if self._controller in self._log.dead:
            raise ConnectionFailed("the connection was lost")
        return self._log.answer(self._controller, message)

    async def close(self) -> None:
        """Nothing is held."""
