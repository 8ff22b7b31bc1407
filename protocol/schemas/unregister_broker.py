"""UnregisterBroker (key 64), version 0: a broker that is gone for good is no member any more (KIP-500).

Flexible from the start.
"""

from __future__ import annotations

from eosin.protocol.keys import ApiKey
from eosin.protocol.types import ApiSchema, Int16, Int32, Message


class UnregisterBrokerRequest(Message):
    broker_id: Int32 = 0


class UnregisterBrokerResponse(Message):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = None


SCHEMA = ApiSchema(
    key=ApiKey.UNREGISTER_BROKER,
    versions=range(0, 1),
    flexible_from=0,
    request=UnregisterBrokerRequest,
    response=UnregisterBrokerResponse,
)
