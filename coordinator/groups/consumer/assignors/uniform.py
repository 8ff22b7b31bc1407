"""The assignor `uniform`: as many partitions for each member, and as few that move as can be (groups.md 15.3).

Members that are all subscribed to the same topics have the same number of partitions, or one more. Of others the least
loaded subscriber has what is free, and then partitions move from more to less loaded ones (`mixed_subscriptions`).
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Final

from eosin.coordinator.groups.consumer.assignors import mixed_subscriptions
from eosin.coordinator.groups.consumer.assignors.assignment import Steps, SubscribedMember, Target
from eosin.coordinator.groups.consumer.assignors.ownership import Ownership
from eosin.coordinator.steps import finished
from eosin.protocol.names import Uuid

NAME: Final = "uniform"


def assign(members: Sequence[SubscribedMember], topics: Mapping[Uuid, int], previous: Target) -> Target:
    """The target that follows `previous` (`Assign`)."""
    return finished(assign_in_steps(members, topics, previous))


def assign_in_steps(members: Sequence[SubscribedMember], topics: Mapping[Uuid, int], previous: Target) -> Steps:
    """The same (`AssignInSteps`)."""
    ownership = Ownership(members, topics)
    yield
    if len(frozenset(ownership.subscriptions.values())) > 1:
        yield from mixed_subscriptions.distribute(ownership, previous)
    elif members:
        yield from _distribute(ownership, previous)
    return (yield from ownership.target(previous))


def _distribute(ownership: Ownership, previous: Target) -> Iterator[None]:
    """Give every partition to one of members that are subscribed to all topics.

    Each member has its quota, and the remainder of the division is one more for some: for those that would otherwise
    lose a partition, as far as it goes, so that no other choice of them moves fewer."""
    count = len(ownership.members)
    quota, remainder = divmod(ownership.partition_count, count)
    missing = []
    for number in range(count):
        kept = ownership.still_wanted(number, previous)
        has_one_more = remainder > 0 and (len(kept) > quota or count - number <= remainder)
        remainder -= has_one_more
        most = quota + has_one_more
        if len(kept) > most:
            kept = sorted(kept)[:most]
        for each in kept:
            ownership.give(each, number)
        missing.append(most - len(kept))
        yield
    free = ownership.free()
    for number, wanted in enumerate(missing):
        for each in islice(free, wanted):
            ownership.give(each, number)
        yield
