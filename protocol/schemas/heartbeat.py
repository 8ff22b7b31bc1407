"""Heartbeat (key 12), versions 0-4: a group member is alive.

v1 adds throttle_time_ms to the response. v3 adds group_instance_id to the request. v4 is the first flexible version.
"""

from __future__ import annotations

from typing import Annotated

from eosin.protocol.keys import ApiKey
from eosin.protocol.types import ApiSchema, Int16, Int32, Message


class HeartbeatRequest(Message):
    group_id: str = ""
    generation_id: Int32 = 0
    member_id: str = ""
    group_instance_id: Annotated[str | None, "3+"] = None  # of a static member


class HeartbeatResponse(Message):
    throttle_time_ms: Annotated[Int32, "1+"] = 0
    error_code: Int16 = 0


SCHEMA = ApiSchema(
    key=ApiKey.HEARTBEAT,
    versions=range(0, 5),
    flexible_from=4,
    request=HeartbeatRequest,
    response=HeartbeatResponse,
)
