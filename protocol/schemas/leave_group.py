"""LeaveGroup (key 13), versions 0-5: members leave a consumer group.

v1 adds throttle_time_ms to the response. v3 adds members to both and drops member_id from the request. v4 is the first
flexible version. v5 adds reason to the request.
"""

from eosin.protocol.keys import ApiKey
from eosin.protocol.types import ApiSchema, Int16, Int32, Layout, Message, array, message, string, when


class MemberIdentity(Message):
    member_id: str = ""
    group_instance_id: str | None = None  # of a static member
    reason: str | None = None


class LeaveGroupRequest(Message):
    group_id: str = ""
    member_id: str = ""
    members: tuple[MemberIdentity, ...] = ()


class MemberResponse(Message):
    member_id: str = ""
    group_instance_id: str | None = None  # of a static member
    error_code: int = 0


class LeaveGroupResponse(Message):
    throttle_time_ms: int = 0
    error_code: int = 0
    members: tuple[MemberResponse, ...] = ()


def leave_group_request(version: int) -> Layout:
    """The request at `version`."""
    flexible = version >= 4
    member_identity = message(
        MemberIdentity,
        flexible,
        "member_id" / string(flexible),
        "group_instance_id" / string(flexible, nullable=True),
        *when(version >= 5, "reason" / string(flexible, nullable=True)),
    )
    return message(
        LeaveGroupRequest,
        flexible,
        "group_id" / string(flexible),
        *when(version <= 2, "member_id" / string(flexible)),
        *when(version >= 3, "members" / array(member_identity, flexible)),
    )


def leave_group_response(version: int) -> Layout:
    """The response at `version`."""
    flexible = version >= 4
    member_response = message(
        MemberResponse,
        flexible,
        "member_id" / string(flexible),
        "group_instance_id" / string(flexible, nullable=True),
        "error_code" / Int16,
    )
    return message(
        LeaveGroupResponse,
        flexible,
        *when(version >= 1, "throttle_time_ms" / Int32),
        "error_code" / Int16,
        *when(version >= 3, "members" / array(member_response, flexible)),
    )


SCHEMA = ApiSchema(
    key=ApiKey.LEAVE_GROUP,
    versions=range(0, 6),
    flexible_from=4,
    request=leave_group_request,
    response=leave_group_response,
)
