"""LeaveGroup (key 13), versions 0-5: members leave a consumer group.

v1 adds throttle_time_ms to the response. v3 adds members to both and drops member_id from the request. v4 is the first
flexible version. v5 adds reason to the request.
"""

from __future__ import annotations

from typing import Annotated

from eosin.protocol.keys import ApiKey
from eosin.protocol.types import ApiSchema, Int16, Int32, Message


class MemberIdentity(Message):
    member_id: str = ""
    group_instance_id: str | None = None  # of a static member
    reason: Annotated[str | None, "5+"] = None


class LeaveGroupRequest(Message):
    group_id: str = ""
    member_id: Annotated[str, "0-2"] = ""
    members: Annotated[tuple[MemberIdentity, ...], "3+"] = ()


class MemberResponse(Message):
    member_id: str = ""
    group_instance_id: str | None = None  # of a static member
    error_code: Int16 = 0


class LeaveGroupResponse(Message):
    throttle_time_ms: Annotated[Int32, "1+"] = 0
    error_code: Int16 = 0
    members: Annotated[tuple[MemberResponse, ...], "3+"] = ()


SCHEMA = ApiSchema(
    key=ApiKey.LEAVE_GROUP,
    versions=range(0, 6),
    flexible_from=4,
    request=LeaveGroupRequest,
    response=LeaveGroupResponse,
)
