"""DescribeAcls (key 29), versions 0-3: the access control entries that a filter means, by resource pattern
(security.md 4.5).

v1 adds pattern types, v2 is the first flexible version, v3 knows users as resources. Without an authorizer the answer
is Kafka's, SECURITY_DISABLED, which consoles take for "no ACLs here".

There may be 100,000 entries: many are looked at in turns with everybody else's work, and encoded in a thread.
"""

import asyncio
from collections.abc import Sequence
from typing import Any, Final, cast

from eosin.broker.services import Services
from eosin.model.acls import Acl
from eosin.model.cluster import Outcome
from eosin.model.resources import Operation
from eosin.network.api import Api, RequestContext
from eosin.network.many_items import dropped
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.schemas.describe_acls import (
    AclDescription,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)
from eosin.protocol.wire.codec import EncodedBody, encode_body
from eosin.runtime.clock import Clock
from eosin.runtime.turns import in_turns
from eosin.security.access import Access, on_the_cluster
from eosin.security.acl_requests import DISABLED, GOOD, filter_of

FEW: Final = 1000
"""Up to so many entries take a few milliseconds."""


async def handle(
    request: DescribeAclsRequest, context: RequestContext, services: Services
) -> DescribeAclsResponse | EncodedBody:
    if services.acls is None:
        return _failed(DISABLED)
    wanted = filter_of(request, context.api_version)
    if isinstance(wanted, Outcome):
        return _failed(wanted)
    found = await services.acls.found(wanted)
    made: list[Any] = [
        DescribeAclsResponse(error_message=GOOD.message, resources=await _by_pattern(found, services.clock))
    ]
    if len(found) <= FEW:
        return cast(DescribeAclsResponse, made.pop())
    body = EncodedBody(await asyncio.to_thread(encode_body, ApiKey.DESCRIBE_ACLS, context.api_version, made[0]))
    await dropped(made)
    return body


async def _by_pattern(acls: Sequence[Acl], clock: Clock) -> tuple[DescribeAclsResource, ...]:
    """The entries of each resource pattern together. They are taken a thousand at a time: a list for each pattern of
    them all would make the garbage collector look at everything there is, which holds up the loop as well."""
    parts: list[list[Acl]] = [[] for _ in range(len(acls) // FEW + 1)]
    by_pattern: dict[tuple[int, str, int], list[AclDescription]] = {}
    resources: list[DescribeAclsResource] = []

    def part(acl: Acl) -> None:
        parts[hash(acl.resource_name) % len(parts)].append(acl)

    def describe(acl: Acl | None) -> None:
        if acl is None:
            resources.extend(DescribeAclsResource(*pattern, tuple(each)) for pattern, each in by_pattern.items())
            by_pattern.clear()
            return
        described = AclDescription(acl.principal, acl.host, acl.operation, acl.permission)
        by_pattern.setdefault((acl.resource_type, acl.resource_name, acl.pattern_type), []).append(described)

    await in_turns(acls, part, clock)
    await in_turns((acl for each in parts for acl in (*each, None)), describe, clock)
    return tuple(resources)


def _failed(outcome: Outcome) -> DescribeAclsResponse:
    return DescribeAclsResponse(error_code=outcome.error, error_message=outcome.message)


def refuse(request: DescribeAclsRequest, context: RequestContext, error: ErrorCode) -> DescribeAclsResponse:
    return _failed(Outcome(error))


API = Api(
    key=ApiKey.DESCRIBE_ACLS,
    versions=range(0, 4),
    handle=handle,
    refuse=refuse,
    access=Access((on_the_cluster(Operation.DESCRIBE),)),
)
