"""JoinGroup (key 11), versions 0-9: enter a consumer group, or stay in it when it rebalances.

v1 adds rebalance_timeout_ms to the request. v2 adds throttle_time_ms to the response. v5 adds group_instance_id to
both. v6 is the first flexible version. v7 adds protocol_type to the response. v8 adds reason to the request. v9 adds
skip_assignment to the response.
"""

from eosin.protocol.keys import ApiKey
from eosin.protocol.types import ApiSchema, Boolean, Int16, Int32, Layout, Message, array, blob, message, string, when


class JoinGroupRequestProtocol(Message):
    name: str = ""
    metadata: bytes = b""


class JoinGroupRequest(Message):
    group_id: str = ""
    session_timeout_ms: int = 0
    rebalance_timeout_ms: int = -1
    member_id: str = ""  # empty: not yet a member
    group_instance_id: str | None = None  # of a static member
    protocol_type: str = ""
    protocols: tuple[JoinGroupRequestProtocol, ...] = ()
    reason: str | None = None


class JoinGroupResponseMember(Message):
    member_id: str = ""
    group_instance_id: str | None = None  # of a static member
    metadata: bytes = b""


class JoinGroupResponse(Message):
    throttle_time_ms: int = 0
    error_code: int = 0
    generation_id: int = -1
    protocol_type: str | None = None
    protocol_name: str | None = ""
    leader: str = ""
    skip_assignment: bool = False
    member_id: str = ""
    members: tuple[JoinGroupResponseMember, ...] = ()  # the leader alone is told them


def join_group_request(version: int) -> Layout:
    """The request at `version`."""
    flexible = version >= 6
    join_group_request_protocol = message(
        JoinGroupRequestProtocol,
        flexible,
        "name" / string(flexible),
        "metadata" / blob(flexible),
    )
    return message(
        JoinGroupRequest,
        flexible,
        "group_id" / string(flexible),
        "session_timeout_ms" / Int32,
        *when(version >= 1, "rebalance_timeout_ms" / Int32),
        "member_id" / string(flexible),
        *when(version >= 5, "group_instance_id" / string(flexible, nullable=True)),
        "protocol_type" / string(flexible),
        "protocols" / array(join_group_request_protocol, flexible),
        *when(version >= 8, "reason" / string(flexible, nullable=True)),
    )


def join_group_response(version: int) -> Layout:
    """The response at `version`."""
    flexible = version >= 6
    join_group_response_member = message(
        JoinGroupResponseMember,
        flexible,
        "member_id" / string(flexible),
        *when(version >= 5, "group_instance_id" / string(flexible, nullable=True)),
        "metadata" / blob(flexible),
    )
    return message(
        JoinGroupResponse,
        flexible,
        *when(version >= 2, "throttle_time_ms" / Int32),
        "error_code" / Int16,
        "generation_id" / Int32,
        *when(version >= 7, "protocol_type" / string(flexible, nullable=True)),
        "protocol_name" / string(flexible, nullable=version >= 7),
        "leader" / string(flexible),
        *when(version >= 9, "skip_assignment" / Boolean),
        "member_id" / string(flexible),
        "members" / array(join_group_response_member, flexible),
    )


SCHEMA = ApiSchema(
    key=ApiKey.JOIN_GROUP,
    versions=range(0, 10),
    flexible_from=6,
    request=join_group_request,
    response=join_group_response,
)
