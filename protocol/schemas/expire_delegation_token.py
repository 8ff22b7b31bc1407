"""ExpireDelegationToken (key 40), versions 0-2: a delegation token ends earlier (KIP-48).

v2 is the first flexible version.
"""

from __future__ import annotations

from eosin.protocol.keys import ApiKey
from eosin.protocol.types import ApiSchema, Int16, Int32, Int64, Message


class ExpireDelegationTokenRequest(Message):
    hmac: bytes = b""
    expiry_time_period_ms: Int64 = 0


class ExpireDelegationTokenResponse(Message):
    error_code: Int16 = 0
    expiry_timestamp_ms: Int64 = 0
    throttle_time_ms: Int32 = 0


SCHEMA = ApiSchema(
    key=ApiKey.EXPIRE_DELEGATION_TOKEN,
    versions=range(0, 3),
    flexible_from=2,
    request=ExpireDelegationTokenRequest,
    response=ExpireDelegationTokenResponse,
)
