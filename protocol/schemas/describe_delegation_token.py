"""DescribeDelegationToken (key 41), versions 0-3: the delegation tokens of owners (KIP-48).

v2 is the first flexible version, v3 adds who asked for the token.
"""

from __future__ import annotations

from typing import Annotated

from eosin.protocol.keys import ApiKey
from eosin.protocol.types import ApiSchema, Int16, Int32, Int64, Message


class DescribeDelegationTokenOwner(Message):
    principal_type: str = ""
    principal_name: str = ""


class DescribeDelegationTokenRequest(Message):
    owners: tuple[DescribeDelegationTokenOwner, ...] | None = ()


class DescribedDelegationTokenRenewer(Message):
    principal_type: str = ""
    principal_name: str = ""


class DescribedDelegationToken(Message):
    principal_type: str = ""
    principal_name: str = ""
    token_requester_principal_type: Annotated[str, "3+"] = ""
    token_requester_principal_name: Annotated[str, "3+"] = ""
    issue_timestamp: Int64 = 0
    expiry_timestamp: Int64 = 0
    max_timestamp: Int64 = 0
    token_id: str = ""
    hmac: bytes = b""
    renewers: tuple[DescribedDelegationTokenRenewer, ...] = ()


class DescribeDelegationTokenResponse(Message):
    error_code: Int16 = 0
    tokens: tuple[DescribedDelegationToken, ...] = ()
    throttle_time_ms: Int32 = 0


SCHEMA = ApiSchema(
    key=ApiKey.DESCRIBE_DELEGATION_TOKEN,
    versions=range(0, 4),
    flexible_from=2,
    request=DescribeDelegationTokenRequest,
    response=DescribeDelegationTokenResponse,
)
