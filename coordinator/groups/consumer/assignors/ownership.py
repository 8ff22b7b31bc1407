"""`Ownership`: the owner of each partition while an assignor works.

Members are numbers here: their places in `in_order`, which depends on their names alone, so that an assignor gives one
result whatever order its members come in. Always true: only a subscriber of a topic owns a partition of it.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from eosin.coordinator.groups.consumer.assignors.assignment import Partitions, Steps, SubscribedMember, Target
from eosin.protocol.names import TopicIdPartition, Uuid

NOBODY: Final = -1
"""In place of an owner's number."""
PER_STEP: Final = 1000
"""Partitions that one step of an assignor may look at: each takes a part of a microsecond."""
_NOTHING: Final[Partitions] = frozenset()


def in_order(members: Iterable[SubscribedMember]) -> list[SubscribedMember]:
    """The members in the order of assignors: static ones first, by instance id, then the others, by member id."""
    return sorted(members, key=_rank)


def _rank(member: SubscribedMember) -> tuple[bool, str, str]:
    return member.instance_id is None, member.instance_id or "", member.member_id


class Ownership:
    """The partitions of the subscribed topics, of which an assignor gives each to a member."""

    def __init__(self, members: Sequence[SubscribedMember], topics: Mapping[Uuid, int]) -> None:
        self.members: Final = in_order(members)
        different = dict.fromkeys(member.topics for member in self.members)
        subscriptions = {each: frozenset(filter(topics.__contains__, each)) for each in different}
        self.subscriptions: Final[Mapping[frozenset[Uuid], frozenset[Uuid]]] = subscriptions
        """Each of the members' subscriptions, and the topics in it that exist."""
        subscribed = sorted(frozenset[Uuid]().union(*subscriptions.values()))
        self.owners: Final[dict[Uuid, list[int]]] = {each: [NOBODY] * topics[each] for each in subscribed}
        """The owner of each partition, by topic and in the order of ids."""

    @property
    def partition_count(self) -> int:
        """Number of partitions that need an owner."""
        return sum(map(len, self.owners.values()))

    def still_wanted(self, number: int, previous: Target) -> list[TopicIdPartition]:
        """The partitions of a member's previous target that exist, that it is subscribed to, and that nobody owns."""
        member = self.members[number]
        found = []
        for each in previous.get(member.member_id, _NOTHING):
            topic_id, partition = each
            owners = self.owners.get(topic_id)
            if owners is None or topic_id not in member.topics or not 0 <= partition < len(owners):
                continue
            if owners[partition] == NOBODY:
                found.append(each)
        return found

    def give(self, partition: TopicIdPartition, number: int) -> None:
        """Make a member the owner of a partition."""
        self.owners[partition.topic_id][partition.partition] = number

    def free(self) -> Iterator[TopicIdPartition]:
        """The partitions that nobody owns, by topic and number; each may be given away as it comes out."""
        for topic_id, owners in self.owners.items():
            for partition, owner in enumerate(owners):
                if owner == NOBODY:
                    yield TopicIdPartition(topic_id, partition)

    def target(self, previous: Target) -> Steps:
        """Make the partitions of every member; a set that is as before is the same object."""
        lists: list[list[TopicIdPartition]] = [[] for _ in self.members]
        for topic_id, owners in self.owners.items():
            for partition, owner in enumerate(owners):
                lists[owner].append(TopicIdPartition(topic_id, partition))
                if not partition % PER_STEP:
                    yield
        made: dict[str, Partitions] = {}
        for member, partitions in zip(self.members, lists, strict=True):
            before = previous.get(member.member_id)
            now = frozenset(partitions) if partitions else _NOTHING
            made[member.member_id] = before if before == now else now
            yield
        return made
