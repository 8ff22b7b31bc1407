"""RenewDelegationToken (key 39), versions 0-2: a delegation token lives longer (KIP-48).

v2 is the first flexible version.
"""

from __future__ import annotations

from eosin.protocol.keys import ApiKey
from eosin.protocol.types import ApiSchema, Int16, Int32, Int64, Message


class RenewDelegationTokenRequest(Message):
    hmac: bytes = b""
    renew_period_ms: Int64 = 0


class RenewDelegationTokenResponse(Message):
    error_code: Int16 = 0
    expiry_timestamp_ms: Int64 = 0
    throttle_time_ms: Int32 = 0


SCHEMA = ApiSchema(
    key=ApiKey.RENEW_DELEGATION_TOKEN,
    versions=range(0, 3),
    flexible_from=2,
    request=RenewDelegationTokenRequest,
    response=RenewDelegationTokenResponse,
)
