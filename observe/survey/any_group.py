"""`AnyGroup`: a group of any kind, as this broker coordinates it."""

from collections.abc import Iterator
from itertools import chain

from eosin.coordinator.groups.consumer.rules.group import ConsumerGroup
from eosin.coordinator.groups.coordinator import GroupCoordinator
from eosin.coordinator.groups.rules.group import Group
from eosin.coordinator.groups.rules.listing import CLASSIC, CONSUMER, SHARE, STREAMS
from eosin.coordinator.groups.share.rules.group import ShareGroup
from eosin.coordinator.groups.streams.rules.group import StreamsGroup
from eosin.protocol.errors import ErrorCode

AnyGroup = Group | ConsumerGroup | ShareGroup | StreamsGroup


def described(groups: GroupCoordinator, group_id: str) -> AnyGroup | ErrorCode:
    """The group of that name; GROUP_ID_NOT_FOUND if there is none."""
    for describe in (groups.describe, groups.describe_consumer, groups.share.describe, groups.streams.describe):
        group = describe(group_id)
        if group is not ErrorCode.GROUP_ID_NOT_FOUND:
            return group
    return ErrorCode.GROUP_ID_NOT_FOUND


def live(groups: GroupCoordinator) -> Iterator[AnyGroup]:
    """Every group that is there, as it is when it is taken; others may run in between."""
    return chain(
        groups.live_groups(),
        groups.live_consumer_groups(),
        groups.share.live_groups(),
        groups.streams.live_groups(),
    )


def kind_of(group: AnyGroup) -> str:
    """The kind of a group, as ListGroups names it."""
    match group:
        case ShareGroup():
            return SHARE
        case StreamsGroup():
            return STREAMS
        case ConsumerGroup():
            return CONSUMER
        case Group():
            return CLASSIC
