"""DescribeDelegationToken (key 41), versions 0-3: the delegation tokens of owners (KIP-48).

v2 is the first flexible version, v3 adds who asked for the token.
"""

from eosin.protocol.keys import ApiKey
from eosin.protocol.types import ApiSchema, Int16, Int32, Int64, Layout, Message, array, blob, message, string, when


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
    token_requester_principal_type: str = ""
    token_requester_principal_name: str = ""
    issue_timestamp: int = 0
    expiry_timestamp: int = 0
    max_timestamp: int = 0
    token_id: str = ""
    hmac: bytes = b""
    renewers: tuple[DescribedDelegationTokenRenewer, ...] = ()


class DescribeDelegationTokenResponse(Message):
    error_code: int = 0
    tokens: tuple[DescribedDelegationToken, ...] = ()
    throttle_time_ms: int = 0


def describe_delegation_token_request(version: int) -> Layout:
    """The request at `version`."""
    flexible = version >= 2
    describe_delegation_token_owner = message(
        DescribeDelegationTokenOwner,
        flexible,
        "principal_type" / string(flexible),
        "principal_name" / string(flexible),
    )
    return message(
        DescribeDelegationTokenRequest,
        flexible,
        "owners" / array(describe_delegation_token_owner, flexible, nullable=True),
    )


def describe_delegation_token_response(version: int) -> Layout:
    """The response at `version`."""
    flexible = version >= 2
    described_delegation_token_renewer = message(
        DescribedDelegationTokenRenewer,
        flexible,
        "principal_type" / string(flexible),
        "principal_name" / string(flexible),
    )
    described_delegation_token = message(
        DescribedDelegationToken,
        flexible,
        "principal_type" / string(flexible),
        "principal_name" / string(flexible),
        *when(version >= 3, "token_requester_principal_type" / string(flexible)),
        *when(version >= 3, "token_requester_principal_name" / string(flexible)),
        "issue_timestamp" / Int64,
        "expiry_timestamp" / Int64,
        "max_timestamp" / Int64,
        "token_id" / string(flexible),
        "hmac" / blob(flexible),
        "renewers" / array(described_delegation_token_renewer, flexible),
    )
    return message(
        DescribeDelegationTokenResponse,
        flexible,
        "error_code" / Int16,
        "tokens" / array(described_delegation_token, flexible),
        "throttle_time_ms" / Int32,
    )


SCHEMA = ApiSchema(
    key=ApiKey.DESCRIBE_DELEGATION_TOKEN,
    versions=range(0, 4),
    flexible_from=2,
    request=describe_delegation_token_request,
    response=describe_delegation_token_response,
)
