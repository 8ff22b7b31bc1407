"""SyncGroup (key 14), versions 0-5: hand over the leader's assignments, and learn one's own.

v1 adds throttle_time_ms to the response. v3 adds group_instance_id to the request. v4 is the first flexible version. v5
adds protocol_type and protocol_name to both.
"""

from __future__ import annotations

from typing import Annotated

from eosin.protocol.keys import ApiKey
from eosin.protocol.types import ApiSchema, Int16, Int32, Message


class SyncGroupRequestAssignment(Message):
    member_id: str = ""
    assignment: bytes = b""


class SyncGroupRequest(Message):
    group_id: str = ""
    generation_id: Int32 = 0
    member_id: str = ""
    group_instance_id: Annotated[str | None, "3+"] = None  # of a static member
    protocol_type: Annotated[str | None, "5+"] = None
    protocol_name: Annotated[str | None, "5+"] = None
    assignments: tuple[SyncGroupRequestAssignment, ...] = ()


class SyncGroupResponse(Message):
    throttle_time_ms: Annotated[Int32, "1+"] = 0
    error_code: Int16 = 0
    protocol_type: Annotated[str | None, "5+"] = None
    protocol_name: Annotated[str | None, "5+"] = None
    assignment: bytes = b""


SCHEMA = ApiSchema(
    key=ApiKey.SYNC_GROUP,
    versions=range(0, 6),
    flexible_from=4,
    request=SyncGroupRequest,
    response=SyncGroupResponse,
)
