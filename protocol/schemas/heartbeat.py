"""Heartbeat (key 12), versions 0-4: a group member is alive.

v1 adds throttle_time_ms to the response. v3 adds group_instance_id to the request. v4 is the first flexible version.
"""

from eosin.protocol.keys import ApiKey
from eosin.protocol.types import ApiSchema, Int16, Int32, Layout, Message, message, string, when


class HeartbeatRequest(Message):
    group_id: str = ""
    generation_id: int = 0
    member_id: str = ""
    group_instance_id: str | None = None  # of a static member


class HeartbeatResponse(Message):
    throttle_time_ms: int = 0
    error_code: int = 0


def heartbeat_request(version: int) -> Layout:
    """The request at `version`."""
    flexible = version >= 4
    return message(
        HeartbeatRequest,
        flexible,
        "group_id" / string(flexible),
        "generation_id" / Int32,
        "member_id" / string(flexible),
        *when(version >= 3, "group_instance_id" / string(flexible, nullable=True)),
    )


def heartbeat_response(version: int) -> Layout:
    """The response at `version`."""
    flexible = version >= 4
    return message(
        HeartbeatResponse,
        flexible,
        *when(version >= 1, "throttle_time_ms" / Int32),
        "error_code" / Int16,
    )


SCHEMA = ApiSchema(
    key=ApiKey.HEARTBEAT,
    versions=range(0, 5),
    flexible_from=4,
    request=heartbeat_request,
    response=heartbeat_response,
)
