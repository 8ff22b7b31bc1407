"""FetchSnapshot (key 59), versions 0-1: read a piece of a snapshot of the metadata log from its leader (KIP-630).

Flexible from the start. v1 adds replica_directory_id to the request and node_endpoints to the response.
"""

from eosin.protocol.keys import ApiKey
from eosin.protocol.names import ZERO_UUID
from eosin.protocol.schemas.fetch import LeaderIdAndEpoch, SnapshotId
from eosin.protocol.types import (
    ApiSchema,
    Int16,
    Int32,
    Int64,
    Layout,
    Message,
    Records,
    Uint16,
    Uuid,
    array,
    message,
    records,
    string,
    tagged,
    when,
)


class PartitionSnapshot(Message):
    partition: int = 0
    current_leader_epoch: int = 0
    snapshot_id: SnapshotId = SnapshotId(0, 0)
    position: int = 0  # bytes that the reader has already
    replica_directory_id: bytes = ZERO_UUID


class TopicSnapshot(Message):
    name: str = ""
    partitions: tuple[PartitionSnapshot, ...] = ()


class FetchSnapshotRequest(Message):
    cluster_id: str | None = None
    replica_id: int = -1
    max_bytes: int = 0x7FFFFFFF
    topics: tuple[TopicSnapshot, ...] = ()


class PartitionSnapshotData(Message):
    index: int = 0
    error_code: int = 0
    snapshot_id: SnapshotId = SnapshotId(0, 0)
    current_leader: LeaderIdAndEpoch = LeaderIdAndEpoch(0, 0)
    size: int = 0  # of the whole snapshot, in bytes
    position: int = 0  # of the first byte in unaligned_records
    unaligned_records: Records = None  # cut anywhere


class TopicSnapshotData(Message):
    name: str = ""
    partitions: tuple[PartitionSnapshotData, ...] = ()


class NodeEndpoint(Message):
    """The address of a leader named in an answer's `current_leader`."""

    node_id: int = 0
    host: str = ""
    port: int = 0


class FetchSnapshotResponse(Message):
    throttle_time_ms: int = 0
    error_code: int = 0
    topics: tuple[TopicSnapshotData, ...] = ()
    node_endpoints: tuple[NodeEndpoint, ...] = ()


def _snapshot_id() -> Layout:
    return message(SnapshotId, True, "end_offset" / Int64, "epoch" / Int32)


def fetch_snapshot_request(version: int) -> Layout:
    """The request at `version`."""
    flexible = True
    partition = message(
        PartitionSnapshot,
        flexible,
        "partition" / Int32,
        "current_leader_epoch" / Int32,
        "snapshot_id" / _snapshot_id(),
        "position" / Int64,
        *when(version >= 1, "replica_directory_id" / tagged(0, Uuid)),
    )
    topic = message(
        TopicSnapshot,
        flexible,
        "name" / string(flexible),
        "partitions" / array(partition, flexible),
    )
    return message(
        FetchSnapshotRequest,
        flexible,
        "cluster_id" / tagged(0, string(flexible, nullable=True)),
        "replica_id" / Int32,
        "max_bytes" / Int32,
        "topics" / array(topic, flexible),
    )


def fetch_snapshot_response(version: int) -> Layout:
    """The response at `version`."""
    flexible = True
    leader_id_and_epoch = message(
        LeaderIdAndEpoch,
        flexible,
        "leader_id" / Int32,
        "leader_epoch" / Int32,
    )
    partition = message(
        PartitionSnapshotData,
        flexible,
        "index" / Int32,
        "error_code" / Int16,
        "snapshot_id" / _snapshot_id(),
        "current_leader" / tagged(0, leader_id_and_epoch),
        "size" / Int64,
        "position" / Int64,
        "unaligned_records" / records(flexible),
    )
    topic = message(
        TopicSnapshotData,
        flexible,
        "name" / string(flexible),
        "partitions" / array(partition, flexible),
    )
    node_endpoint = message(
        NodeEndpoint,
        flexible,
        "node_id" / Int32,
        "host" / string(flexible),
        "port" / Uint16,
    )
    return message(
        FetchSnapshotResponse,
        flexible,
        "throttle_time_ms" / Int32,
        "error_code" / Int16,
        "topics" / array(topic, flexible),
        *when(version >= 1, "node_endpoints" / tagged(0, array(node_endpoint, flexible))),
    )


SCHEMA = ApiSchema(
    key=ApiKey.FETCH_SNAPSHOT,
    versions=range(0, 2),
    flexible_from=0,
    request=fetch_snapshot_request,
    response=fetch_snapshot_response,
)
