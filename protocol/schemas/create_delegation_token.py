"""CreateDelegationToken (key 38), versions 0-3: a token in place of a password (KIP-48).

v2 is the first flexible version, v3 adds the owner and who asked for the token.
"""

from __future__ import annotations

from typing import Annotated

from eosin.protocol.keys import ApiKey
from eosin.protocol.types import ApiSchema, Int16, Int32, Int64, Message


class CreatableRenewers(Message):
    principal_type: str = ""
    principal_name: str = ""


class CreateDelegationTokenRequest(Message):
    owner_principal_type: Annotated[str | None, "3+"] = None
    owner_principal_name: Annotated[str | None, "3+"] = None
    renewers: tuple[CreatableRenewers, ...] = ()
    max_lifetime_ms: Int64 = 0


class CreateDelegationTokenResponse(Message):
    error_code: Int16 = 0
    principal_type: str = ""
    principal_name: str = ""
    token_requester_principal_type: Annotated[str, "3+"] = ""
    token_requester_principal_name: Annotated[str, "3+"] = ""
    issue_timestamp_ms: Int64 = 0
    expiry_timestamp_ms: Int64 = 0
    max_timestamp_ms: Int64 = 0
    token_id: str = ""
    hmac: bytes = b""
    throttle_time_ms: Int32 = 0


SCHEMA = ApiSchema(
    key=ApiKey.CREATE_DELEGATION_TOKEN,
    versions=range(0, 4),
    flexible_from=2,
    request=CreateDelegationTokenRequest,
    response=CreateDelegationTokenResponse,
)
