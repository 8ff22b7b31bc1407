"""UnregisterController (key 94), version 0: a controller that is gone for good is no member any more.

Flexible from the start.
"""

from __future__ import annotations

from eosin.protocol.keys import ApiKey
from eosin.protocol.types import ApiSchema, Int16, Int32, Message


class UnregisterControllerRequest(Message):
    controller_id: Int32 = 0


class UnregisterControllerResponse(Message):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = None


SCHEMA = ApiSchema(
    key=ApiKey.UNREGISTER_CONTROLLER,
    versions=range(0, 1),
    flexible_from=0,
    request=UnregisterControllerRequest,
    response=UnregisterControllerResponse,
)
