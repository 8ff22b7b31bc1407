"""UnregisterBroker (key 64), version 0: a broker that is gone for good is no member any more (KIP-500).

Flexible from the start.
"""

from eosin.protocol.keys import ApiKey
from eosin.protocol.types import ApiSchema, Int16, Int32, Layout, Message, message, string


class UnregisterBrokerRequest(Message):
    broker_id: int = 0


class UnregisterBrokerResponse(Message):
    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = None


def unregister_broker_request(version: int) -> Layout:
    """The request at `version`."""
    flexible = True
    return message(
        UnregisterBrokerRequest,
        flexible,
        "broker_id" / Int32,
    )


def unregister_broker_response(version: int) -> Layout:
    """The response at `version`."""
    flexible = True
    return message(
        UnregisterBrokerResponse,
        flexible,
        "throttle_time_ms" / Int32,
        "error_code" / Int16,
        "error_message" / string(flexible, nullable=True),
    )


SCHEMA = ApiSchema(
    key=ApiKey.UNREGISTER_BROKER,
    versions=range(0, 1),
    flexible_from=0,
    request=unregister_broker_request,
    response=unregister_broker_response,
)
