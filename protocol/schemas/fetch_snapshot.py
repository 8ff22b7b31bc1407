"""FetchSnapshot (key 59), versions 0-1: read a piece of a snapshot of the metadata log from its leader (KIP-630).

Flexible from the start. v1 adds replica_directory_id to the request and node_endpoints to the response.
"""

from __future__ import annotations

from typing import Annotated

from eosin.protocol.keys import ApiKey
from eosin.protocol.names import ZERO_UUID
from eosin.protocol.schemas.fetch import LeaderIdAndEpoch, SnapshotId
from eosin.protocol.types import ApiSchema, Int16, Int32, Int64, Message, Records, Tag, Uint16, Uuid


class PartitionSnapshot(Message):
    partition: Int32 = 0
    current_leader_epoch: Int32 = 0
    snapshot_id: SnapshotId = SnapshotId(0, 0)
    position: Int64 = 0  # bytes that the reader has already
    replica_directory_id: Annotated[Uuid, "1+", Tag(0)] = ZERO_UUID


class TopicSnapshot(Message):
    name: str = ""
    partitions: tuple[PartitionSnapshot, ...] = ()


class FetchSnapshotRequest(Message):
    cluster_id: Annotated[str | None, Tag(0)] = None
    replica_id: Int32 = -1
    max_bytes: Int32 = 0x7FFFFFFF
    topics: tuple[TopicSnapshot, ...] = ()


class PartitionSnapshotData(Message):
    index: Int32 = 0
    error_code: Int16 = 0
    snapshot_id: SnapshotId = SnapshotId(0, 0)
    current_leader: Annotated[LeaderIdAndEpoch, Tag(0)] = LeaderIdAndEpoch(0, 0)
    size: Int64 = 0  # of the whole snapshot, in bytes
    position: Int64 = 0  # of the first byte in unaligned_records
    unaligned_records: Records = None  # cut anywhere


class TopicSnapshotData(Message):
    name: str = ""
    partitions: tuple[PartitionSnapshotData, ...] = ()


class NodeEndpoint(Message):
    """The address of a leader named in an answer's `current_leader`."""

    node_id: Int32 = 0
    host: str = ""
    port: Uint16 = 0


class FetchSnapshotResponse(Message):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    topics: tuple[TopicSnapshotData, ...] = ()
    node_endpoints: Annotated[tuple[NodeEndpoint, ...], "1+", Tag(0)] = ()


SCHEMA = ApiSchema(
    key=ApiKey.FETCH_SNAPSHOT,
    versions=range(0, 2),
    flexible_from=0,
    request=FetchSnapshotRequest,
    response=FetchSnapshotResponse,
)
