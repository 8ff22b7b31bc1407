"""The assignor `uniform`: as many partitions for each member, and as few that move as can be (new-groups.md A7)."""

from collections.abc import Mapping, Sequence
from typing import Final

from eosin.coordinator.groups.consumer.assignors.assignment import SubscribedMember, Target, TopicIdPartition
from eosin.protocol.names import Uuid

NAME: Final = "uniform"


def assign(members: Sequence[SubscribedMember], topics: Mapping[Uuid, int], previous: Target) -> Target:
    """The target that follows `previous` (`Assign`)."""
    ordered = sorted(members, key=_order)
    subscribers: dict[Uuid, list[str]] = {}
    for member in ordered:
        for topic_id in member.topics & topics.keys():
            subscribers.setdefault(topic_id, []).append(member.member_id)
    count = sum(topics[topic_id] for topic_id in subscribers)
    quota = -(-count // len(ordered)) if ordered else 0
    kept: dict[str, set[TopicIdPartition]] = {member.member_id: set() for member in ordered}
    taken: set[TopicIdPartition] = set()
    full = count - (quota - 1) * len(ordered)
    for member in ordered:
        mine = sorted(
            each
            for each in previous.get(member.member_id, ())
            if each.topic_id in member.topics and each.partition < topics.get(each.topic_id, 0) and each not in taken
        )
        most = quota if full > 0 else quota - 1
        kept[member.member_id].update(mine[:most])
        full -= len(mine) >= quota and most == quota
        taken |= kept[member.member_id]
    for topic_id, names in sorted(subscribers.items()):
        for partition in range(topics[topic_id]):
            place = TopicIdPartition(topic_id, partition)
            if place not in taken:
                kept[min(names, key=lambda name: len(kept[name]))].add(place)
    return {name: frozenset(partitions) for name, partitions in kept.items()}


def _order(member: SubscribedMember) -> tuple[bool, str]:
    return member.instance_id is None, member.instance_id or member.member_id
