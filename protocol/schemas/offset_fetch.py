"""OffsetFetch (key 9), versions 0-10: read the positions of one or, from v8 on, of many consumer groups.

v2 adds error_code to the response. v3 adds throttle_time_ms to the response. v5 adds committed_leader_epoch to the
response. v6 is the first flexible version. v7 adds require_stable to the request. v8 adds groups to both and drops
group_id and topics from the request; topics and error_code from the response. v9 adds member_id and member_epoch to the
request. v10 has topic_id in place of name in both.
"""

from __future__ import annotations

from typing import Annotated

from eosin.protocol.keys import ApiKey
from eosin.protocol.names import ZERO_UUID
from eosin.protocol.types import ApiSchema, Int16, Int32, Int64, Message, Nullable, Uuid


class OffsetFetchRequestTopic(Message):
    name: str = ""
    partition_indexes: tuple[Int32, ...] = ()


class OffsetFetchRequestTopics(Message):
    name: Annotated[str, "0-9"] = ""
    topic_id: Annotated[Uuid, "10+"] = ZERO_UUID
    partition_indexes: tuple[Int32, ...] = ()


class OffsetFetchRequestGroup(Message):
    group_id: str = ""
    member_id: Annotated[str | None, "9+"] = None
    member_epoch: Annotated[Int32, "9+"] = -1
    topics: tuple[OffsetFetchRequestTopics, ...] | None = None  # null: every topic of the group


class OffsetFetchRequest(Message):
    group_id: Annotated[str, "0-7"] = ""
    topics: Annotated[tuple[OffsetFetchRequestTopic, ...] | None, "0-7", Nullable("2+")] = ()
    """Null: every topic of the group."""
    groups: Annotated[tuple[OffsetFetchRequestGroup, ...], "8+"] = ()
    require_stable: Annotated[bool, "7+"] = False


class OffsetFetchResponsePartition(Message):
    partition_index: Int32 = 0
    committed_offset: Int64 = 0
    committed_leader_epoch: Annotated[Int32, "5+"] = -1
    metadata: str | None = None
    error_code: Int16 = 0


class OffsetFetchResponseTopic(Message):
    name: str = ""
    partitions: tuple[OffsetFetchResponsePartition, ...] = ()


class OffsetFetchResponsePartitions(Message):
    partition_index: Int32 = 0
    committed_offset: Int64 = 0
    committed_leader_epoch: Int32 = -1
    metadata: str | None = None
    error_code: Int16 = 0


class OffsetFetchResponseTopics(Message):
    name: Annotated[str, "0-9"] = ""
    topic_id: Annotated[Uuid, "10+"] = ZERO_UUID
    partitions: tuple[OffsetFetchResponsePartitions, ...] = ()


class OffsetFetchResponseGroup(Message):
    group_id: str = ""
    topics: tuple[OffsetFetchResponseTopics, ...] = ()
    error_code: Int16 = 0


class OffsetFetchResponse(Message):
    throttle_time_ms: Annotated[Int32, "3+"] = 0
    topics: Annotated[tuple[OffsetFetchResponseTopic, ...], "0-7"] = ()
    error_code: Annotated[Int16, "2-7"] = 0
    groups: Annotated[tuple[OffsetFetchResponseGroup, ...], "8+"] = ()


SCHEMA = ApiSchema(
    key=ApiKey.OFFSET_FETCH,
    versions=range(0, 11),
    flexible_from=6,
    request=OffsetFetchRequest,
    response=OffsetFetchResponse,
)
