"""ListGroups (key 16), versions 0-5: the groups that this broker coordinates.

v4 can ask for groups in some states (KIP-518), v5 for some types (KIP-848), in any spelling. Every group here is
`classic`. While offsets partitions are being loaded the answer is 14 with what is known so far.
"""

from typing import Final

from eosin.broker.services import Services
from eosin.model.resources import CLUSTER_NAME, Operation, ResourceType
from eosin.network.api import Api, RequestContext
from eosin.network.many_items import made_for_each, written
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.schemas.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse
from eosin.protocol.types import Message
from eosin.protocol.wire.codec import EncodedBody
from eosin.security.access import Access, or_the_next, silently

MOST_FILTERS: Final = 1000
"""There are five states, and three types."""


async def handle(request: ListGroupsRequest, context: RequestContext, services: Services) -> Message | EncodedBody:
    if len(request.states_filter) > MOST_FILTERS or len(request.types_filter) > MOST_FILTERS:
        return refuse(request, context, ErrorCode.INVALID_REQUEST)
    may = context.session.may
    all_of_them = may(Operation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME, quiet=True)
    count = services.groups.group_count
    error, listed = services.groups.list_groups(states=request.states_filter, types=request.types_filter)
    groups = (
        ListedGroup(each.group_id, each.protocol_type, each.state, each.group_type)
        if each is not None and (all_of_them or may(Operation.DESCRIBE, ResourceType.GROUP, each.group_id, quiet=True))
        else None
        for each in listed
    )
    return await written(
        ApiKey.LIST_GROUPS,
        ListGroupsResponse(
            error_code=error, groups=tuple(filter(None, await made_for_each(groups, count, context, services)))
        ),
        count,
        context,
    )


def refuse(request: ListGroupsRequest, context: RequestContext, error: ErrorCode) -> ListGroupsResponse:
    return ListGroupsResponse(error_code=error)


API = Api(
    key=ApiKey.LIST_GROUPS,
    versions=range(0, 6),
    handle=handle,
    refuse=refuse,
    access=Access(
        (
            or_the_next(Operation.DESCRIBE, ResourceType.CLUSTER),
            silently(Operation.DESCRIBE, ResourceType.GROUP),
        )
    ),
)
