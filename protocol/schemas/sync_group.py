"""SyncGroup (key 14), versions 0-5: hand over the leader's assignments, and learn one's own.

v1 adds throttle_time_ms to the response. v3 adds group_instance_id to the request. v4 is the first flexible version. v5
adds protocol_type and protocol_name to both.
"""

from eosin.protocol.keys import ApiKey
from eosin.protocol.types import ApiSchema, Int16, Int32, Layout, Message, array, blob, message, string, when


class SyncGroupRequestAssignment(Message):
    member_id: str = ""
    assignment: bytes = b""


class SyncGroupRequest(Message):
    group_id: str = ""
    generation_id: int = 0
    member_id: str = ""
    group_instance_id: str | None = None  # of a static member
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignments: tuple[SyncGroupRequestAssignment, ...] = ()


class SyncGroupResponse(Message):
    throttle_time_ms: int = 0
    error_code: int = 0
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignment: bytes = b""


def sync_group_request(version: int) -> Layout:
    """The request at `version`."""
    flexible = version >= 4
    sync_group_request_assignment = message(
        SyncGroupRequestAssignment,
        flexible,
        "member_id" / string(flexible),
        "assignment" / blob(flexible),
    )
    return message(
        SyncGroupRequest,
        flexible,
        "group_id" / string(flexible),
        "generation_id" / Int32,
        "member_id" / string(flexible),
        *when(version >= 3, "group_instance_id" / string(flexible, nullable=True)),
        *when(
            version >= 5,
            "protocol_type" / string(flexible, nullable=True),
            "protocol_name" / string(flexible, nullable=True),
        ),
        "assignments" / array(sync_group_request_assignment, flexible),
    )


def sync_group_response(version: int) -> Layout:
    """The response at `version`."""
    flexible = version >= 4
    return message(
        SyncGroupResponse,
        flexible,
        *when(version >= 1, "throttle_time_ms" / Int32),
        "error_code" / Int16,
        *when(
            version >= 5,
            "protocol_type" / string(flexible, nullable=True),
            "protocol_name" / string(flexible, nullable=True),
        ),
        "assignment" / blob(flexible),
    )


SCHEMA = ApiSchema(
    key=ApiKey.SYNC_GROUP,
    versions=range(0, 6),
    flexible_from=4,
    request=sync_group_request,
    response=sync_group_response,
)
