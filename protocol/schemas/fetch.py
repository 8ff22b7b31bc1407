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

from __future__ import annotations

from typing import Annotated

from eosin.protocol.keys import ApiKey
from eosin.protocol.names import ZERO_UUID
from eosin.protocol.types import ApiSchema, Int8, Int16, Int32, Int64, Message, Records, Tag, Uuid


class ReplicaState(Message):
    replica_id: Int32 = -1
    replica_epoch: Int64 = -1


class FetchPartition(Message):
    partition: Int32 = 0
    current_leader_epoch: Annotated[Int32, "9+"] = -1
    fetch_offset: Int64 = 0
    last_fetched_epoch: Annotated[Int32, "12+"] = -1
    log_start_offset: Annotated[Int64, "5+"] = -1
    partition_max_bytes: Int32 = 0
    replica_directory_id: Annotated[Uuid, "17+", Tag(0)] = ZERO_UUID
    high_watermark: Annotated[Int64, "18+", Tag(1)] = 2**63 - 1


class FetchTopic(Message):
    topic: Annotated[str, "0-12"] = ""
    topic_id: Annotated[Uuid, "13+"] = ZERO_UUID
    partitions: tuple[FetchPartition, ...] = ()


class ForgottenTopic(Message):
    topic: Annotated[str, "0-12"] = ""
    topic_id: Annotated[Uuid, "13+"] = ZERO_UUID
    partitions: tuple[Int32, ...] = ()


class FetchRequest(Message):
    cluster_id: Annotated[str | None, "12+", Tag(0)] = None
    replica_id: Annotated[Int32, "0-14"] = -1  # -1: a consumer
    replica_state: Annotated[ReplicaState, "15+", Tag(1)] = ReplicaState()
    max_wait_ms: Int32 = 0
    min_bytes: Int32 = 0
    max_bytes: Annotated[Int32, "3+"] = 0x7FFFFFFF  # a soft limit: the first batch is returned whatever its size
    isolation_level: Annotated[Int8, "4+"] = 0  # 0: read_uncommitted, 1: read_committed
    session_id: Annotated[Int32, "7+"] = 0  # 0: none yet
    session_epoch: Annotated[Int32, "7+"] = -1  # 0: open a session, -1: no session
    topics: tuple[FetchTopic, ...] = ()
    forgotten_topics_data: Annotated[tuple[ForgottenTopic, ...], "7+"] = ()  # partitions to drop from the session
    rack_id: Annotated[str, "11+"] = ""


class EpochEndOffset(Message):
    epoch: Int32 = -1
    end_offset: Int64 = -1


class LeaderIdAndEpoch(Message):
    """The leader to try instead, when the one that was asked is not it."""

    leader_id: Int32 = -1
    leader_epoch: Int32 = -1


class SnapshotId(Message):
    end_offset: Int64 = -1
    epoch: Int32 = -1


class AbortedTransaction(Message):
    """An aborted transaction whose records the reader must drop, from `first_offset` on."""

    producer_id: Int64 = 0
    first_offset: Int64 = 0


class PartitionData(Message):
    partition_index: Int32 = 0
    error_code: Int16 = 0
    high_watermark: Int64 = 0
    last_stable_offset: Annotated[Int64, "4+"] = -1
    log_start_offset: Annotated[Int64, "5+"] = -1
    diverging_epoch: Annotated[EpochEndOffset, "12+", Tag(0)] = EpochEndOffset()
    current_leader: Annotated[LeaderIdAndEpoch, "12+", Tag(1)] = LeaderIdAndEpoch()
    snapshot_id: Annotated[SnapshotId, "12+", Tag(2)] = SnapshotId()
    aborted_transactions: Annotated[tuple[AbortedTransaction, ...] | None, "4+"] = None
    preferred_read_replica: Annotated[Int32, "11+"] = -1
    records: Records = None


class FetchableTopicResponse(Message):
    topic: Annotated[str, "0-12"] = ""
    topic_id: Annotated[Uuid, "13+"] = ZERO_UUID
    partitions: tuple[PartitionData, ...] = ()


class NodeEndpoint(Message):
    """The address of a leader named in an answer's `current_leader`."""

    node_id: Int32 = 0
    host: str = ""
    port: Int32 = 0
    rack: str | None = None


class FetchResponse(Message):
    throttle_time_ms: Annotated[Int32, "1+"] = 0
    error_code: Annotated[Int16, "7+"] = 0
    session_id: Annotated[Int32, "7+"] = 0  # 0: no session
    responses: tuple[FetchableTopicResponse, ...] = ()
    node_endpoints: Annotated[tuple[NodeEndpoint, ...], "16+", Tag(0)] = ()


SCHEMA = ApiSchema(
    key=ApiKey.FETCH,
    versions=range(0, 19),
    flexible_from=12,
    request=FetchRequest,
    response=FetchResponse,
)
