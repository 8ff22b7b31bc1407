"""ListGroups (key 16), versions 0-5: the groups that this broker coordinates.

v4 can ask for groups in some states (KIP-518), v5 for some types (KIP-848), in any spelling. Every group here is
`classic`. While offsets partitions are being loaded the answer is 14 with what is known so far.
"""

from itertools import compress
from typing import Final

from eosin.broker.services import Services
from eosin.model.resources import CLUSTER_NAME, Operation, ResourceType
from eosin.network.api import Api, RequestContext
from eosin.network.many_items import made_for_each
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.schemas.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse
from eosin.security.access import Access, or_the_next, silently

MOST_FILTERS: Final = 1000
"""There are five states, and three types."""


async def handle(request: ListGroupsRequest, context: RequestContext, services: Services) -> ListGroupsResponse:
    if len(request.states_filter) > MOST_FILTERS or len(request.types_filter) > MOST_FILTERS:
        return refuse(request, context, ErrorCode.INVALID_REQUEST)
    error, listed = services.groups.list_groups(states=request.states_filter, types=request.types_filter)
    session = context.session
    if not session.may(Operation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME, quiet=True):
        may = session.may
        allowed = (may(Operation.DESCRIBE, ResourceType.GROUP, each.group_id, quiet=True) for each in listed)
        listed = list(compress(listed, await made_for_each(allowed, len(listed), context, services)))
    groups = (ListedGroup(each.group_id, each.protocol_type, each.state, each.group_type) for each in listed)
    return ListGroupsResponse(
        error_code=error, groups=tuple(await made_for_each(groups, len(listed), context, services))
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
