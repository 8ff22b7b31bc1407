"""Is there a broker, and does it answer? The least that a health check needs."""

from eosin.client.addresses import Address
from eosin.client.connection import CLIENT_ID, Connection, Security
from eosin.client.errors import check
from eosin.client.versions import request_versions
from eosin.protocol.schemas.api_versions import ApiVersionsResponse


async def probe(
    address: Address, timeout_ms: int, *, client_id: str = CLIENT_ID, security: Security | None = None
) -> ApiVersionsResponse:
    """Connect and ask for ApiVersions, each within `timeout_ms`. Raises a ClientError that says what went wrong.

    Brokers answer that before a login, so none is needed (security.md 8.3)."""
    async with await Connection.open(
        Address(*address),
        client_id=client_id,
        connect_timeout_ms=timeout_ms,
        request_timeout_ms=timeout_ms,
        security=security,
    ) as connection:
        response = await request_versions(connection)
        check(response.error_code, f"{connection.address} does not tell its versions")
        return response
