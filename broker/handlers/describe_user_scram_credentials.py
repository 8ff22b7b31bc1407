"""DescribeUserScramCredentials (key 50), version 0: the SCRAM credentials of users, of which there are none.

No users, or none named, asks for all of them. A user that is named does not exist (91), and twice is once too often
(92).
"""

from collections import Counter

from eosin.broker.api import Api, RequestContext, Services
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.schemas.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)


def respond(
    request: DescribeUserScramCredentialsRequest, context: RequestContext, services: Services
) -> DescribeUserScramCredentialsResponse:
    times = Counter(each.name for each in request.users or ())
    return DescribeUserScramCredentialsResponse(results=tuple(_result(user, times[user]) for user in times))


def _result(user: str, times: int) -> DescribeUserScramCredentialsResult:
    if times > 1:
        text = f"Cannot describe SCRAM credentials for the same user twice in a single request: {user}"
        return DescribeUserScramCredentialsResult(user, ErrorCode.DUPLICATE_RESOURCE, text)
    text = f"Attempt to describe a user credential that does not exist: {user}"
    return DescribeUserScramCredentialsResult(user, ErrorCode.RESOURCE_NOT_FOUND, text)


def refuse(
    request: DescribeUserScramCredentialsRequest, context: RequestContext, error: ErrorCode
) -> DescribeUserScramCredentialsResponse:
    return DescribeUserScramCredentialsResponse(error_code=error)


API = Api(key=ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, versions=range(0, 1), respond=respond, refuse=refuse)
