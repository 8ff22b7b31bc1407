"""Produce (key 0), versions 0-13: append record batches to partitions.

v1 adds throttle_time_ms to the response. v2 adds log_append_time_ms to the response. v3 adds transactional_id to the
request. v5 adds log_start_offset to the response. v8 adds record_errors and error_message to the response. v9 is the
first flexible version. v10 adds current_leader and node_endpoints to the response. v13 has topic_id in place of name in
both.

v3 is the first with transactions and with record batches of magic 2; older ones carry message sets.
"""

from __future__ import annotations

from typing import Annotated

from eosin.protocol.keys import ApiKey
from eosin.protocol.names import ZERO_UUID
from eosin.protocol.types import ApiSchema, Int16, Int32, Int64, Message, Records, Tag, Uuid


class PartitionProduceData(Message):
    index: Int32 = 0
    records: Records = None


class TopicProduceData(Message):
    name: Annotated[str, "0-12"] = ""
    topic_id: Annotated[Uuid, "13+"] = ZERO_UUID
    partition_data: tuple[PartitionProduceData, ...] = ()


class ProduceRequest(Message):
    transactional_id: Annotated[str | None, "3+"] = None
    acks: Int16 = 0  # -1: every in-sync replica, 1: the leader, 0: do not answer
    timeout_ms: Int32 = 0  # how long to wait for the replicas
    topic_data: tuple[TopicProduceData, ...] = ()


class BatchIndexAndErrorMessage(Message):
    batch_index: Int32 = 0
    batch_index_error_message: str | None = None


class LeaderIdAndEpoch(Message):
    """The leader to try instead, when the one that was asked is not it."""

    leader_id: Int32 = -1
    leader_epoch: Int32 = -1


class PartitionProduceResponse(Message):
    index: Int32 = 0
    error_code: Int16 = 0
    base_offset: Int64 = 0  # of the first record that was appended
    log_append_time_ms: Annotated[Int64, "2+"] = -1  # -1 unless the topic uses the time of append
    log_start_offset: Annotated[Int64, "5+"] = -1
    record_errors: Annotated[tuple[BatchIndexAndErrorMessage, ...], "8+"] = ()
    error_message: Annotated[str | None, "8+"] = None
    current_leader: Annotated[LeaderIdAndEpoch, "10+", Tag(0)] = LeaderIdAndEpoch()


class TopicProduceResponse(Message):
    name: Annotated[str, "0-12"] = ""
    topic_id: Annotated[Uuid, "13+"] = ZERO_UUID
    partition_responses: tuple[PartitionProduceResponse, ...] = ()


class NodeEndpoint(Message):
    """The address of a leader named in an answer's `current_leader`."""

    node_id: Int32 = 0
    host: str = ""
    port: Int32 = 0
    rack: str | None = None


class ProduceResponse(Message):
    responses: tuple[TopicProduceResponse, ...] = ()
    throttle_time_ms: Annotated[Int32, "1+"] = 0
    node_endpoints: Annotated[tuple[NodeEndpoint, ...], "10+", Tag(0)] = ()


SCHEMA = ApiSchema(
    key=ApiKey.PRODUCE,
    versions=range(0, 14),
    flexible_from=9,
    request=ProduceRequest,
    response=ProduceResponse,
)
