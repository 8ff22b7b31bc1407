"""BrokerHeartbeat (key 63), versions 0-2: a registered broker shows the metadata quorum that it lives (cluster.md 2.5).

Flexible from the start. v1 adds offline_log_dirs and v2 adds cordoned_log_dirs to the request.
"""

from __future__ import annotations

from typing import Annotated

from eosin.protocol.keys import ApiKey
from eosin.protocol.types import ApiSchema, Int16, Int32, Int64, Message, Tag, Uuid


class BrokerHeartbeatRequest(Message):
    broker_id: Int32 = 0
    broker_epoch: Int64 = -1
    current_metadata_offset: Int64 = 0
    want_fence: bool = False
    want_shut_down: bool = False
    offline_log_dirs: Annotated[tuple[Uuid, ...], "1+", Tag(0)] = ()
    cordoned_log_dirs: Annotated[tuple[Uuid, ...] | None, "2+", Tag(1)] = None


class BrokerHeartbeatResponse(Message):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    is_caught_up: bool = False
    is_fenced: bool = True
    should_shut_down: bool = False


SCHEMA = ApiSchema(
    key=ApiKey.BROKER_HEARTBEAT,
    versions=range(0, 3),
    flexible_from=0,
    request=BrokerHeartbeatRequest,
    response=BrokerHeartbeatResponse,
)
