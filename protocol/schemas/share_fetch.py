"""ShareFetch (key 78), versions 1-2: a member of a share group reads and acknowledges records (KIP-932).

v2 adds share_acquire_mode and is_renew_ack to the request.
"""

from __future__ import annotations

from typing import Annotated

from eosin.protocol.keys import ApiKey
from eosin.protocol.names import ZERO_UUID
from eosin.protocol.types import ApiSchema, Int8, Int16, Int32, Int64, Message, Records, Uuid


class AcknowledgementBatch(Message):
    first_offset: Int64 = 0
    last_offset: Int64 = 0
    acknowledge_types: tuple[Int8, ...] = ()


class FetchPartition(Message):
    partition_index: Int32 = 0
    acknowledgement_batches: tuple[AcknowledgementBatch, ...] = ()


class FetchTopic(Message):
    topic_id: Uuid = ZERO_UUID
    partitions: tuple[FetchPartition, ...] = ()


class ForgottenTopic(Message):
    topic_id: Uuid = ZERO_UUID
    partitions: tuple[Int32, ...] = ()


class ShareFetchRequest(Message):
    group_id: str | None = None
    member_id: str | None = ""
    share_session_epoch: Int32 = 0
    max_wait_ms: Int32 = 0
    min_bytes: Int32 = 0
    max_bytes: Int32 = 2147483647
    max_records: Int32 = 0
    batch_size: Int32 = 0
    share_acquire_mode: Annotated[Int8, "2+"] = 0
    is_renew_ack: Annotated[bool, "2+"] = False
    topics: tuple[FetchTopic, ...] = ()
    forgotten_topics_data: tuple[ForgottenTopic, ...] = ()


class LeaderIdAndEpoch(Message):
    leader_id: Int32 = 0
    leader_epoch: Int32 = 0


class AcquiredRecords(Message):
    first_offset: Int64 = 0
    last_offset: Int64 = 0
    delivery_count: Int16 = 0


class PartitionData(Message):
    partition_index: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = None
    acknowledge_error_code: Int16 = 0
    acknowledge_error_message: str | None = None
    current_leader: LeaderIdAndEpoch = LeaderIdAndEpoch()
    records: Records = None
    acquired_records: tuple[AcquiredRecords, ...] = ()


class ShareFetchableTopicResponse(Message):
    topic_id: Uuid = ZERO_UUID
    partitions: tuple[PartitionData, ...] = ()


class NodeEndpoint(Message):
    node_id: Int32 = 0
    host: str = ""
    port: Int32 = 0
    rack: str | None = None


class ShareFetchResponse(Message):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = None
    acquisition_lock_timeout_ms: Int32 = 0
    responses: tuple[ShareFetchableTopicResponse, ...] = ()
    node_endpoints: tuple[NodeEndpoint, ...] = ()


SCHEMA = ApiSchema(
    key=ApiKey.SHARE_FETCH,
    versions=range(1, 3),
    flexible_from=0,
    request=ShareFetchRequest,
    response=ShareFetchResponse,
)
