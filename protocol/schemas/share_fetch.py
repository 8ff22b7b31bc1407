"""ShareFetch (key 78), versions 1-2: a member of a share group reads and acknowledges records (KIP-932).

v2 adds share_acquire_mode and is_renew_ack to the request.
"""

from eosin.protocol.keys import ApiKey
from eosin.protocol.names import ZERO_UUID
from eosin.protocol.types import (
    ApiSchema,
    Boolean,
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
    when,
)


class AcknowledgementBatch(Message):
    first_offset: int = 0
    last_offset: int = 0
    acknowledge_types: tuple[int, ...] = ()


class FetchPartition(Message):
    partition_index: int = 0
    acknowledgement_batches: tuple[AcknowledgementBatch, ...] = ()


class FetchTopic(Message):
    topic_id: bytes = ZERO_UUID
    partitions: tuple[FetchPartition, ...] = ()


class ForgottenTopic(Message):
    topic_id: bytes = ZERO_UUID
    partitions: tuple[int, ...] = ()


class ShareFetchRequest(Message):
    group_id: str | None = None
    member_id: str | None = ""
    share_session_epoch: int = 0
    max_wait_ms: int = 0
    min_bytes: int = 0
    max_bytes: int = 2147483647
    max_records: int = 0
    batch_size: int = 0
    share_acquire_mode: int = 0
    is_renew_ack: bool = False
    topics: tuple[FetchTopic, ...] = ()
    forgotten_topics_data: tuple[ForgottenTopic, ...] = ()


class LeaderIdAndEpoch(Message):
    leader_id: int = 0
    leader_epoch: int = 0


class AcquiredRecords(Message):
    first_offset: int = 0
    last_offset: int = 0
    delivery_count: int = 0


class PartitionData(Message):
    partition_index: int = 0
    error_code: int = 0
    error_message: str | None = None
    acknowledge_error_code: int = 0
    acknowledge_error_message: str | None = None
    current_leader: LeaderIdAndEpoch = LeaderIdAndEpoch()
    records: Records = None
    acquired_records: tuple[AcquiredRecords, ...] = ()


class ShareFetchableTopicResponse(Message):
    topic_id: bytes = ZERO_UUID
    partitions: tuple[PartitionData, ...] = ()


class NodeEndpoint(Message):
    node_id: int = 0
    host: str = ""
    port: int = 0
    rack: str | None = None


class ShareFetchResponse(Message):
    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = None
    acquisition_lock_timeout_ms: int = 0
    responses: tuple[ShareFetchableTopicResponse, ...] = ()
    node_endpoints: tuple[NodeEndpoint, ...] = ()


def share_fetch_request(version: int) -> Layout:
    """The request at `version`."""
    flexible = True
    acknowledgement_batch = message(
        AcknowledgementBatch,
        flexible,
        "first_offset" / Int64,
        "last_offset" / Int64,
        "acknowledge_types" / array(Int8, flexible),
    )
    fetch_partition = message(
        FetchPartition,
        flexible,
        "partition_index" / Int32,
        "acknowledgement_batches" / array(acknowledgement_batch, flexible),
    )
    fetch_topic = message(
        FetchTopic,
        flexible,
        "topic_id" / Uuid,
        "partitions" / array(fetch_partition, flexible),
    )
    forgotten_topic = message(
        ForgottenTopic,
        flexible,
        "topic_id" / Uuid,
        "partitions" / array(Int32, flexible),
    )
    return message(
        ShareFetchRequest,
        flexible,
        "group_id" / string(flexible, nullable=True),
        "member_id" / string(flexible, nullable=True),
        "share_session_epoch" / Int32,
        "max_wait_ms" / Int32,
        "min_bytes" / Int32,
        "max_bytes" / Int32,
        "max_records" / Int32,
        "batch_size" / Int32,
        *when(version >= 2, "share_acquire_mode" / Int8, "is_renew_ack" / Boolean),
        "topics" / array(fetch_topic, flexible),
        "forgotten_topics_data" / array(forgotten_topic, flexible),
    )


def share_fetch_response(version: int) -> Layout:
    """The response at `version`."""
    flexible = True
    leader_id_and_epoch = message(
        LeaderIdAndEpoch,
        flexible,
        "leader_id" / Int32,
        "leader_epoch" / Int32,
    )
    acquired_records = message(
        AcquiredRecords,
        flexible,
        "first_offset" / Int64,
        "last_offset" / Int64,
        "delivery_count" / Int16,
    )
    partition_data = message(
        PartitionData,
        flexible,
        "partition_index" / Int32,
        "error_code" / Int16,
        "error_message" / string(flexible, nullable=True),
        "acknowledge_error_code" / Int16,
        "acknowledge_error_message" / string(flexible, nullable=True),
        "current_leader" / leader_id_and_epoch,
        "records" / records(flexible),
        "acquired_records" / array(acquired_records, flexible),
    )
    share_fetchable_topic_response = message(
        ShareFetchableTopicResponse,
        flexible,
        "topic_id" / Uuid,
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
        ShareFetchResponse,
        flexible,
        "throttle_time_ms" / Int32,
        "error_code" / Int16,
        "error_message" / string(flexible, nullable=True),
        "acquisition_lock_timeout_ms" / Int32,
        "responses" / array(share_fetchable_topic_response, flexible),
        "node_endpoints" / array(node_endpoint, flexible),
    )


SCHEMA = ApiSchema(
    key=ApiKey.SHARE_FETCH,
    versions=range(1, 3),
    flexible_from=0,
    request=share_fetch_request,
    response=share_fetch_response,
)
