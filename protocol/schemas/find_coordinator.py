"""FindCoordinator (key 10), versions 0-6: the broker that coordinates a group or a transactional id.

v1 adds key_type to the request; throttle_time_ms and error_message to the response. v3 is the first flexible version.
v4 adds coordinator_keys to the request and coordinators to the response and drops key from the request; error_code,
error_message, node_id, host and port from the response.
"""

from eosin.protocol.keys import ApiKey
from eosin.protocol.types import ApiSchema, Int8, Int16, Int32, Layout, Message, array, message, string, when


class FindCoordinatorRequest(Message):
    key: str = ""
    key_type: int = 0  # 0: group, 1: transactional id, 2: share group
    coordinator_keys: tuple[str, ...] = ()


class Coordinator(Message):
    key: str = ""
    node_id: int = 0
    host: str = ""
    port: int = 0
    error_code: int = 0
    error_message: str | None = None


class FindCoordinatorResponse(Message):
    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = None
    node_id: int = 0
    host: str = ""
    port: int = 0
    coordinators: tuple[Coordinator, ...] = ()


def find_coordinator_request(version: int) -> Layout:
    """The request at `version`."""
    flexible = version >= 3
    return message(
        FindCoordinatorRequest,
        flexible,
        *when(version <= 3, "key" / string(flexible)),
        *when(version >= 1, "key_type" / Int8),
        *when(version >= 4, "coordinator_keys" / array(string(flexible), flexible)),
    )


def find_coordinator_response(version: int) -> Layout:
    """The response at `version`."""
    flexible = version >= 3
    coordinator = message(
        Coordinator,
        flexible,
        "key" / string(flexible),
        "node_id" / Int32,
        "host" / string(flexible),
        "port" / Int32,
        "error_code" / Int16,
        "error_message" / string(flexible, nullable=True),
    )
    return message(
        FindCoordinatorResponse,
        flexible,
        *when(version >= 1, "throttle_time_ms" / Int32),
        *when(version <= 3, "error_code" / Int16),
        *when(1 <= version <= 3, "error_message" / string(flexible, nullable=True)),
        *when(version <= 3, "node_id" / Int32, "host" / string(flexible), "port" / Int32),
        *when(version >= 4, "coordinators" / array(coordinator, flexible)),
    )


SCHEMA = ApiSchema(
    key=ApiKey.FIND_COORDINATOR,
    versions=range(0, 7),
    flexible_from=3,
    request=find_coordinator_request,
    response=find_coordinator_response,
)
