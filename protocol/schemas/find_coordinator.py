"""FindCoordinator (key 10), versions 0-6: the broker that coordinates a group or a transactional id.

v1 adds key_type to the request; throttle_time_ms and error_message to the response. v3 is the first flexible version.
v4 adds coordinator_keys to the request and coordinators to the response and drops key from the request; error_code,
error_message, node_id, host and port from the response.
"""

from __future__ import annotations

from typing import Annotated

from eosin.protocol.keys import ApiKey
from eosin.protocol.types import ApiSchema, Int8, Int16, Int32, Message


class FindCoordinatorRequest(Message):
    key: Annotated[str, "0-3"] = ""
    key_type: Annotated[Int8, "1+"] = 0  # 0: group, 1: transactional id, 2: share group
    coordinator_keys: Annotated[tuple[str, ...], "4+"] = ()


class Coordinator(Message):
    key: str = ""
    node_id: Int32 = 0
    host: str = ""
    port: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = None


class FindCoordinatorResponse(Message):
    throttle_time_ms: Annotated[Int32, "1+"] = 0
    error_code: Annotated[Int16, "0-3"] = 0
    error_message: Annotated[str | None, "1-3"] = None
    node_id: Annotated[Int32, "0-3"] = 0
    host: Annotated[str, "0-3"] = ""
    port: Annotated[Int32, "0-3"] = 0
    coordinators: Annotated[tuple[Coordinator, ...], "4+"] = ()


SCHEMA = ApiSchema(
    key=ApiKey.FIND_COORDINATOR,
    versions=range(0, 7),
    flexible_from=3,
    request=FindCoordinatorRequest,
    response=FindCoordinatorResponse,
)
