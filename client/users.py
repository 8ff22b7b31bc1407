"""The users of a cluster, by SCRAM credentials (KIP-554)."""

from collections.abc import Sequence

from eosin.client.client import Client
from eosin.client.errors import check
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.schemas.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
)
from eosin.protocol.schemas.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
    UserName,
)


class UserAdmin:
    """Operations on the users of a cluster."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def describe(self, user: str | None = None) -> Sequence[DescribeUserScramCredentialsResult]:
        """The credentials of all users, or of one; none when there is no such user. Raises BrokerError."""
        users = None if user is None else (UserName(user),)
        request = DescribeUserScramCredentialsRequest(users=users)
        response: DescribeUserScramCredentialsResponse = await self._client.request(
            ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, request
        )
        check(response.error_code, "describing users", response.error_message)
        found = [each for each in response.results if each.error_code != ErrorCode.RESOURCE_NOT_FOUND]
        for each in found:
            check(each.error_code, f"describing user {each.user}", each.error_message)
        return found

    async def alter(self, request: AlterUserScramCredentialsRequest) -> None:
        """Set and delete credentials, in one request. Raises BrokerError for the first user who is refused; the others
        are changed."""
        response: AlterUserScramCredentialsResponse = await self._client.request(
            ApiKey.ALTER_USER_SCRAM_CREDENTIALS, request
        )
        for each in response.results:
            check(each.error_code, f"changing user {each.user}", each.error_message)
