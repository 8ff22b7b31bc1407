"""Produce (key 0), versions 0-13: append record batches to partitions.

v1 adds throttle_time_ms to the response. v2 adds log_append_time_ms to the response. v3 adds transactional_id to the
request. v5 adds log_start_offset to the response. v8 adds record_errors and error_message to the response. v9 is the
first flexible version. v10 adds current_leader and node_endpoints to the response. v13 has topic_id in place of name in
both.

v3 is the first with transactions and with record batches of magic 2; older ones carry message sets.
"""

from eosin.protocol.keys import ApiKey
from eosin.protocol.names import ZERO_UUID
from eosin.protocol.types import (
    ApiSchema,
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


class PartitionProduceData(Message):
    index: int = 0
    records: Records = None


class TopicProduceData(Message):
    name: str = ""
    topic_id: bytes = ZERO_UUID
    partition_data: tuple[PartitionProduceData, ...] = ()


class ProduceRequest(Message):
    transactional_id: str | None = None
    acks: int = 0  # -1: every in-sync replica, 1: the leader, 0: do not answer
    timeout_ms: int = 0  # how long to wait for the replicas
    topic_data: tuple[TopicProduceData, ...] = ()


class BatchIndexAndErrorMessage(Message):
    batch_index: int = 0
    batch_index_error_message: str | None = None


class LeaderIdAndEpoch(Message):
    """The leader to try instead, when the one that was asked is not it."""

    leader_id: int = -1
    leader_epoch: int = -1


class PartitionProduceResponse(Message):
    index: int = 0
    error_code: int = 0
    base_offset: int = 0  # of the first record that was appended
    log_append_time_ms: int = -1  # -1 unless the topic uses the time of append
    log_start_offset: int = -1
    record_errors: tuple[BatchIndexAndErrorMessage, ...] = ()
    error_message: str | None = None
    current_leader: LeaderIdAndEpoch = LeaderIdAndEpoch()


class TopicProduceResponse(Message):
    name: str = ""
    topic_id: bytes = ZERO_UUID
    partition_responses: tuple[PartitionProduceResponse, ...] = ()


class NodeEndpoint(Message):
    """The address of a leader named in an answer's `current_leader`."""

    node_id: int = 0
    host: str = ""
    port: int = 0
    rack: str | None = None


class ProduceResponse(Message):
    responses: tuple[TopicProduceResponse, ...] = ()
    throttle_time_ms: int = 0
    node_endpoints: tuple[NodeEndpoint, ...] = ()


def produce_request(version: int) -> Layout:
    """The request at `version`."""
    flexible = version >= 9
    partition_produce_data = message(
        PartitionProduceData,
        flexible,
        "index" / Int32,
        "records" / records(flexible),
    )
    topic_produce_data = message(
        TopicProduceData,
        flexible,
        *when(version <= 12, "name" / string(flexible)),
        *when(version >= 13, "topic_id" / Uuid),
        "partition_data" / array(partition_produce_data, flexible),
    )
    return message(
        ProduceRequest,
        flexible,
        *when(version >= 3, "transactional_id" / string(flexible, nullable=True)),
        "acks" / Int16,
        "timeout_ms" / Int32,
        "topic_data" / array(topic_produce_data, flexible),
    )


def produce_response(version: int) -> Layout:
    """The response at `version`."""
    flexible = version >= 9
    batch_index_and_error_message = message(
        BatchIndexAndErrorMessage,
        flexible,
        "batch_index" / Int32,
        "batch_index_error_message" / string(flexible, nullable=True),
    )
    leader_id_and_epoch = message(
        LeaderIdAndEpoch,
        flexible,
        "leader_id" / Int32,
        "leader_epoch" / Int32,
    )
    partition_produce_response = message(
        PartitionProduceResponse,
        flexible,
        "index" / Int32,
        "error_code" / Int16,
        "base_offset" / Int64,
        *when(version >= 2, "log_append_time_ms" / Int64),
        *when(version >= 5, "log_start_offset" / Int64),
        *when(
            version >= 8,
            "record_errors" / array(batch_index_and_error_message, flexible),
            "error_message" / string(flexible, nullable=True),
        ),
        *when(version >= 10, "current_leader" / tagged(0, leader_id_and_epoch)),
    )
    topic_produce_response = message(
        TopicProduceResponse,
        flexible,
        *when(version <= 12, "name" / string(flexible)),
        *when(version >= 13, "topic_id" / Uuid),
        "partition_responses" / array(partition_produce_response, flexible),
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
        ProduceResponse,
        flexible,
        "responses" / array(topic_produce_response, flexible),
        *when(version >= 1, "throttle_time_ms" / Int32),
        *when(version >= 10, "node_endpoints" / tagged(0, array(node_endpoint, flexible))),
    )


SCHEMA = ApiSchema(
    key=ApiKey.PRODUCE,
    versions=range(0, 14),
    flexible_from=9,
    request=produce_request,
    response=produce_response,
)
