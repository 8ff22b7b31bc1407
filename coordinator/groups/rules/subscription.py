"""Topics that a group's members are subscribed to, read from what they said when they joined (groups.md 3). Pure."""

from collections.abc import Callable
from typing import Final

from msgspec.structs import replace

from eosin.coordinator.groups.rules.group import Group
from eosin.protocol.records.internal import decode_value
from eosin.protocol.schemas.records.consumer_protocol import ConsumerProtocolSubscription
from eosin.protocol.types import DecodeError

CONSUMER_PROTOCOL: Final = "consumer"
"""The protocol type of groups whose metadata can be read."""


def metadata_bytes(group: Group) -> int:
    """Size of what `subscribed_topics` reads."""
    if not group.members or group.protocol_type != CONSUMER_PROTOCOL or group.protocol_name is None:
        return 0
    return sum(len(member.metadata(group.protocol_name)) for member in group.members.values())


def subscribed_topics(group: Group) -> frozenset[str] | None:
    """The union of the members' topics; None when it is unknown, which counts as subscribed to everything."""
    if not group.members:
        return frozenset()
    if group.protocol_type != CONSUMER_PROTOCOL or group.protocol_name is None:
        return None
    topics: set[str] = set()
    for member in group.members.values():
        try:
            topics.update(decode_value(ConsumerProtocolSubscription, member.metadata(group.protocol_name)).topics)
        except DecodeError:
            return None
    return frozenset(topics)


def subscribed_among(group: Group, wanted: frozenset[str], rest: Callable[[], None]) -> frozenset[str] | None:
    """The names in `wanted` that are `subscribed_topics`. There may be very many of these: they are let go of member by
    member. `rest` is called after each."""
    topics: frozenset[str] = frozenset()
    for member_id, member in group.members.items():
        of_one = subscribed_topics(replace(group, members={member_id: member}))
        if of_one is None:
            return None
        topics |= wanted & of_one
        rest()
    return topics
