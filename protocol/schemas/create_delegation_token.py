"""CreateDelegationToken (key 38), versions 0-3: a token in place of a password (KIP-48).

v2 is the first flexible version, v3 adds the owner and who asked for the token.
"""

from eosin.protocol.keys import ApiKey
from eosin.protocol.types import ApiSchema, Int16, Int32, Int64, Layout, Message, array, blob, message, string, when


class CreatableRenewers(Message):
    principal_type: str = ""
    principal_name: str = ""


class CreateDelegationTokenRequest(Message):
    owner_principal_type: str | None = None
    owner_principal_name: str | None = None
    renewers: tuple[CreatableRenewers, ...] = ()
    max_lifetime_ms: int = 0


class CreateDelegationTokenResponse(Message):
    error_code: int = 0
    principal_type: str = ""
    principal_name: str = ""
    token_requester_principal_type: str = ""
    token_requester_principal_name: str = ""
    issue_timestamp_ms: int = 0
    expiry_timestamp_ms: int = 0
    max_timestamp_ms: int = 0
    token_id: str = ""
    hmac: bytes = b""
    throttle_time_ms: int = 0


def create_delegation_token_request(version: int) -> Layout:
    """The request at `version`."""
    flexible = version >= 2
    creatable_renewers = message(
        CreatableRenewers,
        flexible,
        "principal_type" / string(flexible),
        "principal_name" / string(flexible),
    )
    return message(
        CreateDelegationTokenRequest,
        flexible,
        *when(version >= 3, "owner_principal_type" / string(flexible, nullable=True)),
        *when(version >= 3, "owner_principal_name" / string(flexible, nullable=True)),
        "renewers" / array(creatable_renewers, flexible),
        "max_lifetime_ms" / Int64,
    )


def create_delegation_token_response(version: int) -> Layout:
    """The response at `version`."""
    flexible = version >= 2
    return message(
        CreateDelegationTokenResponse,
        flexible,
        "error_code" / Int16,
        "principal_type" / string(flexible),
        "principal_name" / string(flexible),
        *when(version >= 3, "token_requester_principal_type" / string(flexible)),
        *when(version >= 3, "token_requester_principal_name" / string(flexible)),
        "issue_timestamp_ms" / Int64,
        "expiry_timestamp_ms" / Int64,
        "max_timestamp_ms" / Int64,
        "token_id" / string(flexible),
        "hmac" / blob(flexible),
        "throttle_time_ms" / Int32,
    )


SCHEMA = ApiSchema(
    key=ApiKey.CREATE_DELEGATION_TOKEN,
    versions=range(0, 4),
    flexible_from=2,
    request=create_delegation_token_request,
    response=create_delegation_token_response,
)
