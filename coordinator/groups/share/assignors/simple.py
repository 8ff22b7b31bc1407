"""The assignor `simple`: each partition to one member, or to as many as there are members for it (share-groups.md 5).

With N members and n partitions, each partition has s = ceil(N / n) of them, and the s * n places are dealt out evenly:
so every member has one at least, two at most, where members are the more, and n / N, rounded, where partitions are.
What members had before they keep, as far as that goes. Members that are subscribed to different topics share those of
each topic by itself.
"""

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from eosin.coordinator.groups.consumer.assignors.assignment import Partitions, Steps, SubscribedMember, Target
from eosin.coordinator.groups.consumer.assignors.ownership import in_order
from eosin.coordinator.steps import finished
from eosin.protocol.names import TopicIdPartition, Uuid

NAME: Final = "simple"
PER_STEP: Final = 1000
"""Partitions that one step may look at: each takes about a microsecond."""
_NOTHING: Final[Partitions] = frozenset()

Assignable = Mapping[Uuid, Sequence[int]]
"""The partitions of each topic that members may be given."""


def assign(members: Sequence[SubscribedMember], topics: Assignable, previous: Target) -> Target:
    """The target that follows `previous`."""
    return finished(assign_in_steps(members, topics, previous))


def assign_in_steps(members: Sequence[SubscribedMember], topics: Assignable, previous: Target) -> Steps:
    """The same, in steps. The result does not depend on the order of `members`."""
    ordered = in_order(members)
    shares: dict[str, set[TopicIdPartition]] = {member.member_id: set() for member in ordered}
    yield
    if len(frozenset(member.topics for member in ordered)) == 1:
        partitions: list[TopicIdPartition] = []
        for topic_id in sorted(ordered[0].topics.intersection(topics)):
            partitions += _of(topic_id, topics)
            yield
        yield from _share_out(ordered, partitions, previous, shares)
    else:
        for topic_id in sorted(topics):
            subscribers = [member for member in ordered if topic_id in member.topics]
            yield from _share_out(subscribers, list(_of(topic_id, topics)), previous, shares)
    target: dict[str, Partitions] = {}
    for member_id, share in shares.items():
        before, now = previous.get(member_id), frozenset(share)
        target[member_id] = before if before == now else now
        yield
    return target


def _of(topic_id: Uuid, topics: Assignable) -> Iterator[TopicIdPartition]:
    return (TopicIdPartition(topic_id, number) for number in sorted(topics[topic_id]))


def _share_out(
    members: Sequence[SubscribedMember],
    partitions: Sequence[TopicIdPartition],
    previous: Target,
    shares: Mapping[str, set[TopicIdPartition]],
) -> Iterator[None]:
    """Add partitions to the shares of members which are subscribed to all of them."""
    if not members or not partitions:
        return
    sharing = -(-len(members) // len(partitions))
    places = sharing * len(partitions)
    wishes = [-(-places * (i + 1) // len(members)) + (-places * i // len(members)) for i in range(len(members))]
    holders: dict[TopicIdPartition, list[int]] = {}
    for place, each in enumerate(partitions):
        holders[each] = []
        if not place % PER_STEP:
            yield
    had: list[set[TopicIdPartition]] = []
    for number, member in enumerate(members):
        kept: set[TopicIdPartition] = set()
        for each in sorted(previous.get(member.member_id, _NOTHING)):
            if len(kept) < wishes[number] and each in holders and len(holders[each]) < sharing:
                kept.add(each)
                holders[each].append(number)
        had.append(kept)
        yield
    free = deque(each for each in partitions if len(holders[each]) < sharing)
    steps = 0
    for number, mine in enumerate(had):
        while len(mine) < wishes[number]:
            steps += 1
            if not steps % PER_STEP:
                yield
            for _ in range(len(free)):  # one round at most
                if free[0] not in mine:
                    break
                free.rotate(-1)
            if free[0] in mine:
                _exchange(number, free[0], had, holders, sharing)
            else:
                mine.add(free[0])
                holders[free[0]].append(number)
            if len(holders[free[0]]) == sharing:
                free.popleft()
            else:
                free.rotate(-1)
        yield
    for number, member in enumerate(members):
        shares[member.member_id].update(had[number])


def _exchange(
    number: int,
    free: TopicIdPartition,
    had: list[set[TopicIdPartition]],
    holders: dict[TopicIdPartition, list[int]],
    sharing: int,
) -> None:
    """Give a member a partition although only such as it has are free: another member passes on one of its own, and
    takes a free one instead.

    There is always one that can. Whoever is short of partitions has fewer than two, so it has `free` alone; every other
    partition has all its members, and they are more than `free` has besides this one."""
    for wanted, members in holders.items():
        if wanted in had[number] or len(members) < sharing:
            continue
        for place, other in enumerate(members):
            if free not in had[other]:
                members[place] = number
                had[other].discard(wanted)
                had[other].add(free)
                had[number].add(wanted)
                holders[free].append(other)
                return
    raise AssertionError("every other member has the free partition")
