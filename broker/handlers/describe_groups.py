"""DescribeGroups (key 15), versions 0-6: the state of groups, and their members.

A group that does not exist is `Dead` without an error; v6 has 69 and a message (KIP-1043). Metadata and assignments are
returned for a stable group only, since in any other state they are about to change. A group that is named again and
again is described once: the response would be many times what the broker holds. v3 can ask what the client may do,
v4 has static members.
"""

from collections.abc import Iterator
from typing import Final

from eosin.broker.services import Services
from eosin.coordinator.groups.rules.group import Group, GroupState
from eosin.coordinator.steps import InSteps
from eosin.model.resources import Operation, ResourceType
from eosin.network.api import Api, RequestContext
from eosin.network.many_items import made_for_each, once, weight_of, written
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.schemas.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from eosin.protocol.types import Message
from eosin.protocol.wire.codec import EncodedBody
from eosin.security.access import Access, on_each
from eosin.security.authorized_operations import NOT_ASKED

ITEMS_PER_MEMBER: Final = 3
"""Of a description: the member, and its two lists of bytes."""


async def handle(request: DescribeGroupsRequest, context: RequestContext, services: Services) -> Message | EncodedBody:
    names = await once(request.groups)
    size = weight_of(names)
    size += sum(await made_for_each((_size(name, services) for name in names), size, context, services))
    made: list[DescribedGroup] = []

    def work() -> Iterator[None]:
        for group_id in names:
            made.append((yield from _describe(group_id, request, context, services)))

    await made_for_each(work(), size, context, services)
    responses = [DescribeGroupsResponse(groups=tuple(made))]
    made.clear()
    return await written(ApiKey.DESCRIBE_GROUPS, responses.pop(), size, context)


def _size(group_id: str, services: Services) -> int:
    """About how many items the description of a group has."""
    group = services.groups.describe(group_id)
    return ITEMS_PER_MEMBER * len(group.members) if isinstance(group, Group) else 0


def _describe(
    group_id: str, request: DescribeGroupsRequest, context: RequestContext, services: Services
) -> InSteps[DescribedGroup]:
    """Describe a group as it is now, a member in each step."""
    yield
    session = context.session
    if not session.may(Operation.DESCRIBE, ResourceType.GROUP, group_id):
        return DescribedGroup(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED, group_id=group_id)
    operations = NOT_ASKED
    if request.include_authorized_operations:
        operations = session.operations(ResourceType.GROUP, group_id)
    group = services.groups.describe(group_id)
    if isinstance(group, Group):
        if group.state is not GroupState.DEAD:
            return (yield from _described(group, operations))
        group = ErrorCode.GROUP_ID_NOT_FOUND
    if group is not ErrorCode.GROUP_ID_NOT_FOUND:
        return DescribedGroup(error_code=group, group_id=group_id)
    tells_why = context.api_version >= 6
    return DescribedGroup(
        error_code=group if tells_why else ErrorCode.NONE,
        error_message=_why(group_id, services) if tells_why else None,
        group_id=group_id,
        group_state=GroupState.DEAD.value,
        authorized_operations=operations,
    )


def _why(group_id: str, services: Services) -> str:
    if isinstance(services.groups.describe_consumer(group_id), ErrorCode):
        return f"Group {group_id} not found."
    return f"Group {group_id} is not a classic group."


def _described(group: Group, operations: int) -> InSteps[DescribedGroup]:
    stable = group.state is GroupState.STABLE
    members: list[DescribedGroupMember] = []
    for member in group.members.values():
        members.append(
            DescribedGroupMember(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                member_metadata=member.metadata(group.protocol_name) if stable else b"",
                member_assignment=member.assignment if stable else b"",
            )
        )
        yield
    return DescribedGroup(
        group_id=group.group_id,
        group_state=group.state.value,
        protocol_type=group.protocol_type or "",
        protocol_data=(group.protocol_name or "") if stable else "",
        members=tuple(members),
        authorized_operations=operations,
    )


def refuse(request: DescribeGroupsRequest, context: RequestContext, error: ErrorCode) -> DescribeGroupsResponse:
    return DescribeGroupsResponse(
        groups=tuple(DescribedGroup(error_code=error, group_id=group_id) for group_id in request.groups)
    )


API = Api(
    key=ApiKey.DESCRIBE_GROUPS,
    versions=range(0, 7),
    handle=handle,
    refuse=refuse,
    access=Access((on_each(Operation.DESCRIBE, ResourceType.GROUP),)),
)
