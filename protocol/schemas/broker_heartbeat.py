"""BrokerHeartbeat (key 63), versions 0-2: a registered broker shows the metadata quorum that it lives (cluster.md 2.5).

Flexible from the start. v1 adds offline_log_dirs and v2 adds cordoned_log_dirs to the request.
"""

from eosin.protocol.keys import ApiKey
from eosin.protocol.types import (
    ApiSchema,
    Boolean,
    Int16,
    Int32,
    Int64,
    Layout,
    Message,
    Uuid,
    array,
    message,
    tagged,
    when,
)


class BrokerHeartbeatRequest(Message):
    broker_id: int = 0
    broker_epoch: int = -1
    current_metadata_offset: int = 0
    want_fence: bool = False
    want_shut_down: bool = False
    offline_log_dirs: tuple[bytes, ...] = ()
    cordoned_log_dirs: tuple[bytes, ...] | None = None


class BrokerHeartbeatResponse(Message):
    throttle_time_ms: int = 0
    error_code: int = 0
    is_caught_up: bool = False
    is_fenced: bool = True
    should_shut_down: bool = False


def broker_heartbeat_request(version: int) -> Layout:
    """The request at `version`."""
    flexible = True
    return message(
        BrokerHeartbeatRequest,
        flexible,
        "broker_id" / Int32,
        "broker_epoch" / Int64,
        "current_metadata_offset" / Int64,
        "want_fence" / Boolean,
        "want_shut_down" / Boolean,
        *when(version >= 1, "offline_log_dirs" / tagged(0, array(Uuid, flexible))),
        *when(version >= 2, "cordoned_log_dirs" / tagged(1, array(Uuid, flexible, nullable=True))),
    )


def broker_heartbeat_response(version: int) -> Layout:
    """The response at `version`."""
    return message(
        BrokerHeartbeatResponse,
        True,
        "throttle_time_ms" / Int32,
        "error_code" / Int16,
        "is_caught_up" / Boolean,
        "is_fenced" / Boolean,
        "should_shut_down" / Boolean,
    )


SCHEMA = ApiSchema(
    key=ApiKey.BROKER_HEARTBEAT,
    versions=range(0, 3),
    flexible_from=0,
    request=broker_heartbeat_request,
    response=broker_heartbeat_response,
)
