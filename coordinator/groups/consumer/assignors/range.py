"""The assignor `range`: of each topic a row of partitions for each subscriber, in the order of the members' names
(groups.md 15.3).

Topics with the same subscribers and the same number of partitions give equal numbers to the same member, so that
records with equal keys meet there. The previous target counts for nothing.
"""

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Final

from eosin.coordinator.groups.consumer.assignors.assignment import Steps, SubscribedMember, Target
from eosin.coordinator.groups.consumer.assignors.ownership import Ownership
from eosin.coordinator.steps import finished
from eosin.protocol.names import Uuid

NAME: Final = "range"


def assign(members: Sequence[SubscribedMember], topics: Mapping[Uuid, int], previous: Target) -> Target:
    """The target, which `previous` only saves from being made again where it is equal (`Assign`)."""
    return finished(assign_in_steps(members, topics, previous))


def assign_in_steps(members: Sequence[SubscribedMember], topics: Mapping[Uuid, int], previous: Target) -> Steps:
    """The same (`AssignInSteps`)."""
    ownership = Ownership(members, topics)
    yield
    subscribers: dict[frozenset[Uuid], list[int]] = {}
    for number, member in enumerate(ownership.members):
        subscribers.setdefault(ownership.subscriptions[member.topics], []).append(number)
    rows: dict[tuple[frozenset[Uuid], ...], list[int]] = {}
    for topic_id, owners in ownership.owners.items():
        subscriptions = tuple(each for each in subscribers if topic_id in each)
        if subscriptions not in rows:
            rows[subscriptions] = sorted(chain.from_iterable(subscribers[each] for each in subscriptions))
        owners[:] = _in_rows(len(owners), rows[subscriptions])
        yield
    return (yield from ownership.target(previous))


def _in_rows(partitions: int, members: Sequence[int]) -> list[int]:
    """The owner of each of a topic's partitions: the first members have one more than the others."""
    each, remainder = divmod(partitions, len(members))
    owners: list[int] = []
    for place, number in enumerate(members[:partitions]):
        owners += [number] * (each + (place < remainder))
    return owners
