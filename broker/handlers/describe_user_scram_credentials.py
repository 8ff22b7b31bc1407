"""DescribeUserScramCredentials (key 50), version 0: for which mechanisms users have SCRAM credentials (KIP-554).

No users, or none named, asks for all of them. A named user without any is not found (91), and to be named twice is once
too often (92). Neither passwords are told nor what is stored of them.
"""

from collections import Counter
from collections.abc import Iterable, Mapping

from eosin.broker.services import Services
from eosin.model.credentials import StoredCredential
from eosin.model.resources import Operation
from eosin.network.api import Api, RequestContext
from eosin.network.many_items import NAMES_PER_TURN, connection_held, in_parts, made_for_each, written
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.schemas.describe_user_scram_credentials import (
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)
from eosin.protocol.types import Message
from eosin.protocol.wire.codec import EncodedBody
from eosin.runtime.turns import next_turn
from eosin.security.access import Access, on_the_cluster


async def handle(
    request: DescribeUserScramCredentialsRequest, context: RequestContext, services: Services
) -> Message | EncodedBody:
    credentials = services.cluster.credentials
    with connection_held(context):
        times = await _times(each.name for each in request.users or ()) or await _times(credentials.users())
        results = (_result(user, times[user], credentials.of(user)) for user in times)
        return await written(
            ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS,
            DescribeUserScramCredentialsResponse(
                results=tuple(await made_for_each(results, len(times), context, services))
            ),
            len(times),
            context,
        )


async def _times(names: Iterable[str]) -> Counter[str]:
    """Number of times that each user is named."""
    times: Counter[str] = Counter()
    for part in in_parts(names, str, most=NAMES_PER_TURN):
        if times:
            await next_turn()
        times.update(part)
    return times


def _result(user: str, times: int, credentials: Mapping[int, StoredCredential]) -> DescribeUserScramCredentialsResult:
    if times > 1:
        text = f"Cannot describe SCRAM credentials for the same user twice in a single request: {user}"
        return DescribeUserScramCredentialsResult(user, ErrorCode.DUPLICATE_RESOURCE, text)
    if not credentials:
        text = f"Attempt to describe a user credential that does not exist: {user}"
        return DescribeUserScramCredentialsResult(user, ErrorCode.RESOURCE_NOT_FOUND, text)
    infos = tuple(CredentialInfo(mechanism, stored.iterations) for mechanism, stored in sorted(credentials.items()))
    return DescribeUserScramCredentialsResult(user, error_message="", credential_infos=infos)  # as Apache Kafka


def refuse(
    request: DescribeUserScramCredentialsRequest, context: RequestContext, error: ErrorCode
) -> DescribeUserScramCredentialsResponse:
    return DescribeUserScramCredentialsResponse(
        error_code=error,
        results=tuple(DescribeUserScramCredentialsResult(each.name, error) for each in request.users or ()),
    )


API = Api(
    key=ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS,
    versions=range(0, 1),
    handle=handle,
    refuse=refuse,
    access=Access((on_the_cluster(Operation.DESCRIBE),)),
)
