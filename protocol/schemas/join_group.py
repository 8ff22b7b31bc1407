"""JoinGroup (key 11), versions 0-9: enter a consumer group, or stay in it when it rebalances.

v1 adds rebalance_timeout_ms to the request. v2 adds throttle_time_ms to the response. v5 adds group_instance_id to
both. v6 is the first flexible version. v7 adds protocol_type to the response. v8 adds reason to the request. v9 adds
skip_assignment to the response.
"""

from __future__ import annotations

from typing import Annotated

from eosin.protocol.keys import ApiKey
from eosin.protocol.types import ApiSchema, Int16, Int32, Message, Nullable


class JoinGroupRequestProtocol(Message):
    name: str = ""
    metadata: bytes = b""


class JoinGroupRequest(Message):
    group_id: str = ""
    session_timeout_ms: Int32 = 0
    rebalance_timeout_ms: Annotated[Int32, "1+"] = -1
    member_id: str = ""  # empty: not yet a member
    group_instance_id: Annotated[str | None, "5+"] = None  # of a static member
    protocol_type: str = ""
    protocols: tuple[JoinGroupRequestProtocol, ...] = ()
    reason: Annotated[str | None, "8+"] = None


class JoinGroupResponseMember(Message):
    member_id: str = ""
    group_instance_id: Annotated[str | None, "5+"] = None  # of a static member
    metadata: bytes = b""


class JoinGroupResponse(Message):
    throttle_time_ms: Annotated[Int32, "2+"] = 0
    error_code: Int16 = 0
    generation_id: Int32 = -1
    protocol_type: Annotated[str | None, "7+"] = None
    protocol_name: Annotated[str | None, Nullable("7+")] = ""
    leader: str = ""
    skip_assignment: Annotated[bool, "9+"] = False
    member_id: str = ""
    members: tuple[JoinGroupResponseMember, ...] = ()  # the leader alone is told them


SCHEMA = ApiSchema(
    key=ApiKey.JOIN_GROUP,
    versions=range(0, 10),
    flexible_from=6,
    request=JoinGroupRequest,
    response=JoinGroupResponse,
)
