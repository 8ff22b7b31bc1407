"""ShareAcknowledge (key 79), versions 1-2: a member of a share group acknowledges records (KIP-932).

v2 adds is_renew_ack to the request, acquisition_lock_timeout_ms to the response.
"""

from __future__ import annotations

from typing import Annotated

from eosin.protocol.keys import ApiKey
from eosin.protocol.names import ZERO_UUID
from eosin.protocol.types import ApiSchema, Int8, Int16, Int32, Int64, Message, Uuid


class AcknowledgementBatch(Message):
    first_offset: Int64 = 0
    last_offset: Int64 = 0
    acknowledge_types: tuple[Int8, ...] = ()


class AcknowledgePartition(Message):
    partition_index: Int32 = 0
    acknowledgement_batches: tuple[AcknowledgementBatch, ...] = ()


class AcknowledgeTopic(Message):
    topic_id: Uuid = ZERO_UUID
    partitions: tuple[AcknowledgePartition, ...] = ()


class ShareAcknowledgeRequest(Message):
    group_id: str | None = None
    member_id: str | None = ""
    share_session_epoch: Int32 = 0
    is_renew_ack: Annotated[bool, "2+"] = False
    topics: tuple[AcknowledgeTopic, ...] = ()


class LeaderIdAndEpoch(Message):
    leader_id: Int32 = 0
    leader_epoch: Int32 = 0


class PartitionData(Message):
    partition_index: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = None
    current_leader: LeaderIdAndEpoch = LeaderIdAndEpoch()


class ShareAcknowledgeTopicResponse(Message):
    topic_id: Uuid = ZERO_UUID
    partitions: tuple[PartitionData, ...] = ()


class NodeEndpoint(Message):
    node_id: Int32 = 0
    host: str = ""
    port: Int32 = 0
    rack: str | None = None


class ShareAcknowledgeResponse(Message):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = None
    acquisition_lock_timeout_ms: Annotated[Int32, "2+"] = 0
    responses: tuple[ShareAcknowledgeTopicResponse, ...] = ()
    node_endpoints: tuple[NodeEndpoint, ...] = ()


SCHEMA = ApiSchema(
    key=ApiKey.SHARE_ACKNOWLEDGE,
    versions=range(1, 3),
    flexible_from=0,
    request=ShareAcknowledgeRequest,
    response=ShareAcknowledgeResponse,
)
