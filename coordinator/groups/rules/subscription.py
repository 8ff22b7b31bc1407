"""Topics that a group's members are subscribed to, read from what they said when they joined (groups.md 3). Pure."""

from typing import Final

from eosin.coordinator.groups.rules.group import Group
from eosin.protocol.records.internal import decode_value
from eosin.protocol.schemas.records.consumer_protocol import ConsumerProtocolSubscription
from eosin.protocol.types import DecodeError

CONSUMER_PROTOCOL: Final = "consumer"
"""The protocol type of groups whose metadata can be read."""


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
