"""ExpireDelegationToken (key 40), versions 0-2: a delegation token ends earlier (KIP-48).

v2 is the first flexible version.
"""

from eosin.protocol.keys import ApiKey
from eosin.protocol.types import ApiSchema, Int16, Int32, Int64, Layout, Message, blob, message


class ExpireDelegationTokenRequest(Message):
    hmac: bytes = b""
    expiry_time_period_ms: int = 0


class ExpireDelegationTokenResponse(Message):
    error_code: int = 0
    expiry_timestamp_ms: int = 0
    throttle_time_ms: int = 0


def expire_delegation_token_request(version: int) -> Layout:
    """The request at `version`."""
    flexible = version >= 2
    return message(
        ExpireDelegationTokenRequest,
        flexible,
        "hmac" / blob(flexible),
        "expiry_time_period_ms" / Int64,
    )


def expire_delegation_token_response(version: int) -> Layout:
    """The response at `version`."""
    flexible = version >= 2
    return message(
        ExpireDelegationTokenResponse,
        flexible,
        "error_code" / Int16,
        "expiry_timestamp_ms" / Int64,
        "throttle_time_ms" / Int32,
    )


SCHEMA = ApiSchema(
    key=ApiKey.EXPIRE_DELEGATION_TOKEN,
    versions=range(0, 3),
    flexible_from=2,
    request=expire_delegation_token_request,
    response=expire_delegation_token_response,
)
