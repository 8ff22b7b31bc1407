"""ShareAcknowledge (key 79), versions 1-2: a member of a share group acknowledges records (KIP-932).

v2 adds is_renew_ack to the request, acquisition_lock_timeout_ms to the response.
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
    Uuid,
    array,
    message,
    string,
    when,
)


class AcknowledgementBatch(Message):
    first_offset: int = 0
    last_offset: int = 0
    acknowledge_types: tuple[int, ...] = ()


class AcknowledgePartition(Message):
    partition_index: int = 0
    acknowledgement_batches: tuple[AcknowledgementBatch, ...] = ()


class AcknowledgeTopic(Message):
    topic_id: bytes = ZERO_UUID
    partitions: tuple[AcknowledgePartition, ...] = ()


class ShareAcknowledgeRequest(Message):
    group_id: str | None = None
    member_id: str | None = ""
    share_session_epoch: int = 0
    is_renew_ack: bool = False
    topics: tuple[AcknowledgeTopic, ...] = ()


class LeaderIdAndEpoch(Message):
    leader_id: int = 0
    leader_epoch: int = 0


class PartitionData(Message):
    partition_index: int = 0
    error_code: int = 0
    error_message: str | None = None
    current_leader: LeaderIdAndEpoch = LeaderIdAndEpoch()


class ShareAcknowledgeTopicResponse(Message):
    topic_id: bytes = ZERO_UUID
    partitions: tuple[PartitionData, ...] = ()


class NodeEndpoint(Message):
    node_id: int = 0
    host: str = ""
    port: int = 0
    rack: str | None = None


class ShareAcknowledgeResponse(Message):
    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = None
    acquisition_lock_timeout_ms: int = 0
    responses: tuple[ShareAcknowledgeTopicResponse, ...] = ()
    node_endpoints: tuple[NodeEndpoint, ...] = ()


def share_acknowledge_request(version: int) -> Layout:
    """The request at `version`."""
    flexible = True
    acknowledgement_batch = message(
        AcknowledgementBatch,
        flexible,
        "first_offset" / Int64,
        "last_offset" / Int64,
        "acknowledge_types" / array(Int8, flexible),
    )
    acknowledge_partition = message(
        AcknowledgePartition,
        flexible,
        "partition_index" / Int32,
        "acknowledgement_batches" / array(acknowledgement_batch, flexible),
    )
    acknowledge_topic = message(
        AcknowledgeTopic,
        flexible,
        "topic_id" / Uuid,
        "partitions" / array(acknowledge_partition, flexible),
    )
    return message(
        ShareAcknowledgeRequest,
        flexible,
        "group_id" / string(flexible, nullable=True),
        "member_id" / string(flexible, nullable=True),
        "share_session_epoch" / Int32,
        *when(version >= 2, "is_renew_ack" / Boolean),
        "topics" / array(acknowledge_topic, flexible),
    )


def share_acknowledge_response(version: int) -> Layout:
    """The response at `version`."""
    flexible = True
    leader_id_and_epoch = message(
        LeaderIdAndEpoch,
        flexible,
        "leader_id" / Int32,
        "leader_epoch" / Int32,
    )
    partition_data = message(
        PartitionData,
        flexible,
        "partition_index" / Int32,
        "error_code" / Int16,
        "error_message" / string(flexible, nullable=True),
        "current_leader" / leader_id_and_epoch,
    )
    share_acknowledge_topic_response = message(
        ShareAcknowledgeTopicResponse,
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
        ShareAcknowledgeResponse,
        flexible,
        "throttle_time_ms" / Int32,
        "error_code" / Int16,
        "error_message" / string(flexible, nullable=True),
        *when(version >= 2, "acquisition_lock_timeout_ms" / Int32),
        "responses" / array(share_acknowledge_topic_response, flexible),
        "node_endpoints" / array(node_endpoint, flexible),
    )


SCHEMA = ApiSchema(
    key=ApiKey.SHARE_ACKNOWLEDGE,
    versions=range(1, 3),
    flexible_from=0,
    request=share_acknowledge_request,
    response=share_acknowledge_response,
)
