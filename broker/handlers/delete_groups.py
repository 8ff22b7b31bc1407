"""DeleteGroups (key 42), versions 0-3: delete empty groups with all their offsets (KIP-229).

A group with members is 68, one that does not exist 69. The offsets that open transactions hold for a group go with it.
Answers once that is durable. From v3 on an error has a sentence beside it (KIP-1331).
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, compress, repeat
from typing import Final

from eosin.broker.services import Services
from eosin.model.resources import Operation, ResourceType
from eosin.network.api import Api, RequestContext
from eosin.network.many_items import in_parts, made_for_each, once
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.schemas.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse
from eosin.runtime.turns import next_turn
from eosin.security.access import Access, on_each

_SENTENCES: Final[Mapping[ErrorCode, str]] = {
    ErrorCode.NON_EMPTY_GROUP: "The group has members: stop them, or wait until their sessions have ended.",
    ErrorCode.GROUP_ID_NOT_FOUND: "There is no such group.",
}
MOST_EXPLAINED: Final = 100
"""In the response to a request of many groups, so many have a sentence: it is longer than most names."""


async def handle(request: DeleteGroupsRequest, context: RequestContext, services: Services) -> DeleteGroupsResponse:
    names = await once(request.groups_names)
    count = len(names)
    may = context.session.may
    allowed = (may(Operation.DELETE, ResourceType.GROUP, name) for name in names)
    mine = list(compress(names, await made_for_each(allowed, len(names), context, services)))
    errors: dict[str, ErrorCode] = {}
    for some in in_parts(mine, str):
        if errors:
            await next_turn()
        errors.update(zip(some, await services.groups.delete_groups(some), strict=True))
    denied = ErrorCode.GROUP_AUTHORIZATION_FAILED
    results = _results((name, errors.get(name, denied)) for name in names)
    return DeleteGroupsResponse(results=tuple(await made_for_each(results, count, context, services)))


def _results(outcomes: Iterable[tuple[str, ErrorCode]]) -> Iterator[DeletableGroupResult]:
    sentences = chain(repeat(_SENTENCES, MOST_EXPLAINED), repeat({}))
    for (name, error), explained in zip(outcomes, sentences, strict=False):
        yield DeletableGroupResult(name, error, explained.get(error))


def refuse(request: DeleteGroupsRequest, context: RequestContext, error: ErrorCode) -> DeleteGroupsResponse:
    names = dict.fromkeys(request.groups_names)
    return DeleteGroupsResponse(results=tuple(DeletableGroupResult(name, error) for name in names))


API = Api(
    key=ApiKey.DELETE_GROUPS,
    versions=range(0, 4),
    handle=handle,
    refuse=refuse,
    access=Access((on_each(Operation.DELETE, ResourceType.GROUP),)),
)
