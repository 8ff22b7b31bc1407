"""The assignor `range`: of each topic a run of partitions for each subscriber, in the same order for all topics
(new-groups.md A7)."""

from collections.abc import Mapping, Sequence
from typing import Final

from eosin.coordinator.groups.consumer.assignors.assignment import SubscribedMember, Target, TopicIdPartition
from eosin.protocol.names import Uuid

NAME: Final = "range"


def assign(members: Sequence[SubscribedMember], topics: Mapping[Uuid, int], previous: Target) -> Target:
    """The target of the members (`Assign`). It does not depend on the previous one."""
    ordered = sorted(members, key=lambda each: (each.instance_id is None, each.instance_id or each.member_id))
    found: dict[str, set[TopicIdPartition]] = {member.member_id: set() for member in ordered}
    for topic_id, count in topics.items():
        subscribers = [member for member in ordered if topic_id in member.topics]
        first = 0
        for place, member in enumerate(subscribers):
            size = count // len(subscribers) + (place < count % len(subscribers))
            found[member.member_id].update(TopicIdPartition(topic_id, each) for each in range(first, first + size))
            first += size
    return {name: frozenset(partitions) for name, partitions in found.items()}
