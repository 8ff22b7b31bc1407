"""Fetch (key 1), versions 0-18: read record batches from partitions, waiting for new ones if asked to.

v1 adds throttle_time_ms to the response. v3 adds max_bytes to the request. v4 adds isolation_level to the request;
last_stable_offset and aborted_transactions to the response. v5 adds log_start_offset to both. v7 adds session_id,
session_epoch and forgotten_topics_data to the request; error_code and session_id to the response. v9 adds
current_leader_epoch to the request. v11 adds rack_id to the request and preferred_read_replica to the response. v12 is
the first flexible version and adds cluster_id and last_fetched_epoch to the request; diverging_epoch, current_leader
and snapshot_id to the response. v13 has topic_id in place of topic in both. v15 adds replica_state to the request and
drops replica_id from the request. v16 adds node_endpoints to the response. v17 adds replica_directory_id to the
request. v18 adds high_watermark to the request.

v4 is the first with isolation levels, v7 with fetch sessions.
"""

from eosin.protocol.keys import ApiKey
from eosin.protocol.names import ZERO_UUID
from eosin.protocol.types import (
    ApiSchema,
    Int8,
    Int16,
    Int32,
    Int64,
    Layout,
    Message,
    Records,
    Uuid,
    array,
    message,
    records,
    string,
    tagged,
    when,
)


class ReplicaState(Message):
    replica_id: int = -1
    replica_epoch: int = -1


class FetchPartition(Message):
    partition: int = 0
    current_leader_epoch: int = -1
    fetch_offset: int = 0
    last_fetched_epoch: int = -1
    log_start_offset: int = -1
    partition_max_bytes: int = 0
    replica_directory_id: bytes = ZERO_UUID
    high_watermark: int = 2**63 - 1


class FetchTopic(Message):
    topic: str = ""
    topic_id: bytes = ZERO_UUID
    partitions: tuple[FetchPartition, ...] = ()


class ForgottenTopic(Message):
    topic: str = ""
    topic_id: bytes = ZERO_UUID
    partitions: tuple[int, ...] = ()


class FetchRequest(Message):
    cluster_id: str | None = None
    replica_id: int = -1  # -1: a consumer
    replica_state: ReplicaState = ReplicaState()
    max_wait_ms: int = 0
    min_bytes: int = 0
    max_bytes: int = 0x7FFFFFFF  # a soft limit: the first batch is returned whatever its size
    isolation_level: int = 0  # 0: read_uncommitted, 1: read_committed
    session_id: int = 0  # 0: none yet
    session_epoch: int = -1  # 0: open a session, -1: no session
    topics: tuple[FetchTopic, ...] = ()
    forgotten_topics_data: tuple[ForgottenTopic, ...] = ()  # partitions to drop from the session
    rack_id: str = ""


class EpochEndOffset(Message):
    epoch: int = -1
    end_offset: int = -1


class LeaderIdAndEpoch(Message):
    """The leader to try instead, when the one that was asked is not it."""

    leader_id: int = -1
    leader_epoch: int = -1


class SnapshotId(Message):
    end_offset: int = -1
    epoch: int = -1


class AbortedTransaction(Message):
    """An aborted transaction whose records the reader must drop, from `first_offset` on."""

    producer_id: int = 0
    first_offset: int = 0


class PartitionData(Message):
    partition_index: int = 0
    error_code: int = 0
    high_watermark: int = 0
    last_stable_offset: int = -1
    log_start_offset: int = -1
    diverging_epoch: EpochEndOffset = EpochEndOffset()
    current_leader: LeaderIdAndEpoch = LeaderIdAndEpoch()
    snapshot_id: SnapshotId = SnapshotId()
    aborted_transactions: tuple[AbortedTransaction, ...] | None = None
    preferred_read_replica: int = -1
    records: Records = None


class FetchableTopicResponse(Message):
    topic: str = ""
    topic_id: bytes = ZERO_UUID
    partitions: tuple[PartitionData, ...] = ()


class NodeEndpoint(Message):
    """The address of a leader named in an answer's `current_leader`."""

    node_id: int = 0
    host: str = ""
    port: int = 0
    rack: str | None = None


class FetchResponse(Message):
    throttle_time_ms: int = 0
    error_code: int = 0
    session_id: int = 0  # 0: no session
    responses: tuple[FetchableTopicResponse, ...] = ()
    node_endpoints: tuple[NodeEndpoint, ...] = ()


def fetch_request(version: int) -> Layout:
    """The request at `version`."""
    flexible = version >= 12
    replica_state = message(
        ReplicaState,
        flexible,
        "replica_id" / Int32,
        "replica_epoch" / Int64,
    )
    fetch_partition = message(
        FetchPartition,
        flexible,
        "partition" / Int32,
        *when(version >= 9, "current_leader_epoch" / Int32),
        "fetch_offset" / Int64,
        *when(version >= 12, "last_fetched_epoch" / Int32),
        *when(version >= 5, "log_start_offset" / Int64),
        "partition_max_bytes" / Int32,
        *when(version >= 17, "replica_directory_id" / tagged(0, Uuid)),
        *when(version >= 18, "high_watermark" / tagged(1, Int64)),
    )
    fetch_topic = message(
        FetchTopic,
        flexible,
        *when(version <= 12, "topic" / string(flexible)),
        *when(version >= 13, "topic_id" / Uuid),
        "partitions" / array(fetch_partition, flexible),
    )
    forgotten_topic = message(
        ForgottenTopic,
        flexible,
        *when(version <= 12, "topic" / string(flexible)),
        *when(version >= 13, "topic_id" / Uuid),
        "partitions" / array(Int32, flexible),
    )
    return message(
        FetchRequest,
        flexible,
        *when(version >= 12, "cluster_id" / tagged(0, string(flexible, nullable=True))),
        *when(version <= 14, "replica_id" / Int32),
        *when(version >= 15, "replica_state" / tagged(1, replica_state)),
        "max_wait_ms" / Int32,
        "min_bytes" / Int32,
        *when(version >= 3, "max_bytes" / Int32),
        *when(version >= 4, "isolation_level" / Int8),
        *when(version >= 7, "session_id" / Int32, "session_epoch" / Int32),
        "topics" / array(fetch_topic, flexible),
        *when(version >= 7, "forgotten_topics_data" / array(forgotten_topic, flexible)),
        *when(version >= 11, "rack_id" / string(flexible)),
    )


def fetch_response(version: int) -> Layout:
    """The response at `version`."""
    flexible = version >= 12
    epoch_end_offset = message(
        EpochEndOffset,
        flexible,
        "epoch" / Int32,
        "end_offset" / Int64,
    )
    leader_id_and_epoch = message(
        LeaderIdAndEpoch,
        flexible,
        "leader_id" / Int32,
        "leader_epoch" / Int32,
    )
    snapshot_id = message(
        SnapshotId,
        flexible,
        "end_offset" / Int64,
        "epoch" / Int32,
    )
    aborted_transaction = message(
        AbortedTransaction,
        flexible,
        "producer_id" / Int64,
        "first_offset" / Int64,
    )
    partition_data = message(
        PartitionData,
        flexible,
        "partition_index" / Int32,
        "error_code" / Int16,
        "high_watermark" / Int64,
        *when(version >= 4, "last_stable_offset" / Int64),
        *when(version >= 5, "log_start_offset" / Int64),
        *when(
            version >= 12,
            "diverging_epoch" / tagged(0, epoch_end_offset),
            "current_leader" / tagged(1, leader_id_and_epoch),
            "snapshot_id" / tagged(2, snapshot_id),
        ),
        *when(version >= 4, "aborted_transactions" / array(aborted_transaction, flexible, nullable=True)),
        *when(version >= 11, "preferred_read_replica" / Int32),
        "records" / records(flexible),
    )
    fetchable_topic_response = message(
        FetchableTopicResponse,
        flexible,
        *when(version <= 12, "topic" / string(flexible)),
        *when(version >= 13, "topic_id" / Uuid),
        "partitions" / array(partition_data, flexible),
    )
    node_endpoint = message(
        NodeEndpoint,
        flexible,
        "node_id" / Int32,
        "host" / string(flexible),
        "port" / Int32,
        "rack" / string(flexible, nullable=True),
    )
    return message(
        FetchResponse,
        flexible,
        *when(version >= 1, "throttle_time_ms" / Int32),
        *when(version >= 7, "error_code" / Int16, "session_id" / Int32),
        "responses" / array(fetchable_topic_response, flexible),
        *when(version >= 16, "node_endpoints" / tagged(0, array(node_endpoint, flexible))),
    )


SCHEMA = ApiSchema(
    key=ApiKey.FETCH,
    versions=range(0, 19),
    flexible_from=12,
    request=fetch_request,
    response=fetch_response,
)
