"""The part of `uniform` for members that are not all subscribed to the same topics (groups.md 15.3).

Each member keeps what it had of its topics, the least loaded subscriber of a topic has what is free of it, and then
partitions move within topics while an owner has two more than a subscriber. The result is as even as single moves make
it: no owner of a topic's partition has two partitions more than a subscriber of that topic.
"""

from collections.abc import Iterator
from heapq import heapify, heappop, heappush, heapreplace
from typing import Final

from eosin.coordinator.groups.consumer.assignors.assignment import Target
from eosin.coordinator.groups.consumer.assignors.ownership import NOBODY, PER_STEP, Ownership
from eosin.coordinator.steps import InSteps
from eosin.protocol.names import TopicIdPartition, Uuid

MOST_ROUNDS: Final = 16
"""Number of times that all topics are evened out, since one that was even may no longer be when loads have changed.
Members whose topics form a long chain would need a round for each link; Apache Kafka ends here, too."""


def distribute(ownership: Ownership, previous: Target) -> Iterator[None]:
    """Give every partition to a subscriber of its topic, in steps."""
    loads = _Loads(ownership)
    for number in range(len(ownership.members)):
        for each in ownership.still_wanted(number, previous):
            ownership.give(each, number)
            loads.add(number, 1)
        yield
    for topic_id in loads.hardest_first():
        yield from _give_away(topic_id, ownership, loads)
    shared = [topic_id for topic_id in loads.hardest_first() if loads.subscriber_counts[topic_id] > 1]
    for _ in range(MOST_ROUNDS):
        moved = False
        for topic_id in shared:
            moved = (yield from _even_out(topic_id, ownership, loads, previous)) or moved
        if not moved:
            break


def _give_away(topic_id: Uuid, ownership: Ownership, loads: "_Loads") -> Iterator[None]:
    """Give what is free of a topic to its least loaded subscribers."""
    yield
    owners = ownership.owners[topic_id]
    if NOBODY not in owners:
        return
    subscribers = _Subscribers(topic_id, loads)
    for partition, owner in enumerate(owners):
        if owner == NOBODY:
            owners[partition] = subscribers.least_loaded
            loads.add(owners[partition], 1)
        if not partition % PER_STEP:
            yield


def _even_out(topic_id: Uuid, ownership: Ownership, loads: "_Loads", previous: Target) -> InSteps[bool]:
    """Move partitions of a topic from its most loaded owner to its least loaded subscriber while that makes them more
    even; return False if none moved."""
    yield
    owners = ownership.owners[topic_id]
    most = max((loads.of[owner] for owner in owners), default=0)
    subscribers = _Subscribers(topic_id, loads)
    if most - loads.of[subscribers.least_loaded] <= 1:
        return False
    held: dict[int, list[int]] = {}
    for partition, owner in enumerate(owners):
        held.setdefault(owner, []).append(partition)
    for owner, partitions in held.items():  # from the end: what it has not had before goes first
        had = previous.get(ownership.members[owner].member_id, ())
        partitions.sort(key=lambda each: (TopicIdPartition(topic_id, each) not in had, each))
        yield
    fullest = [(-loads.of[owner], owner) for owner in held]
    heapify(fullest)
    while fullest:
        yield
        load, giver = heappop(fullest)
        if -load != loads.of[giver]:
            continue  # it has been pushed again since
        taker = subscribers.least_loaded
        if loads.of[giver] - loads.of[taker] <= 1:
            break
        partition = held[giver].pop()
        owners[partition] = taker
        held.setdefault(taker, []).append(partition)
        loads.add(giver, -1)
        loads.add(taker, 1)
        subscribers.has_less(giver)
        for each in (giver, taker):
            if held[each]:
                heappush(fullest, (-loads.of[each], each))
    return True


class _Loads:
    """The number of partitions of each member, and the least loaded of those that have one subscription.

    A change pushes a member once more on the heap of its subscription; an older entry is dropped when it comes up."""

    def __init__(self, ownership: Ownership) -> None:
        self.of = [0] * len(ownership.members)
        """By number of the member."""
        numbers: dict[frozenset[Uuid], int] = {}
        for topics in ownership.subscriptions.values():
            numbers.setdefault(topics, len(numbers))
        self._subscription_of = [numbers[ownership.subscriptions[member.topics]] for member in ownership.members]
        self._heaps: list[list[tuple[int, int]]] = [[] for _ in numbers]
        for number, subscription in enumerate(self._subscription_of):
            self._heaps[subscription].append((0, number))
        self.subscriptions_of: Final[dict[Uuid, list[int]]] = {topic_id: [] for topic_id in ownership.owners}
        """The subscriptions that hold a topic."""
        self.subscriber_counts: Final = dict.fromkeys(ownership.owners, 0)
        for topics, subscription in numbers.items():
            for topic_id in topics:
                self.subscriptions_of[topic_id].append(subscription)
                self.subscriber_counts[topic_id] += len(self._heaps[subscription])
        self._partition_counts = {topic_id: len(owners) for topic_id, owners in ownership.owners.items()}

    def hardest_first(self) -> list[Uuid]:
        """The topics, those first that give their subscribers the most and have the fewest of them."""
        counts = self.subscriber_counts
        return sorted(counts, key=lambda each: (-self._partition_counts[each] / counts[each], counts[each], each))

    def add(self, number: int, partitions: int) -> None:
        """Count more partitions for a member, or fewer."""
        self.of[number] += partitions
        heappush(self._heaps[self._subscription_of[number]], (self.of[number], number))

    def subscription_of(self, number: int) -> int:
        """The subscription of a member."""
        return self._subscription_of[number]

    def least_loaded(self, subscription: int) -> tuple[int, int]:
        """The load and the number of the least loaded member of a subscription."""
        heap = self._heaps[subscription]
        while heap[0][0] != self.of[heap[0][1]]:
            heappop(heap)
        return heap[0]


class _Subscribers:
    """The least loaded subscriber of one topic, while loads change. Always true: an entry of the heap is not above what
    its subscription has, or a later one of it is not."""

    def __init__(self, topic_id: Uuid, loads: _Loads) -> None:
        self._loads = loads
        self._heap = [(*loads.least_loaded(each), each) for each in loads.subscriptions_of[topic_id]]
        heapify(self._heap)

    @property
    def least_loaded(self) -> int:
        """Its number."""
        while True:
            load, number, subscription = self._heap[0]
            now = self._loads.least_loaded(subscription)
            if now == (load, number):
                return number
            heapreplace(self._heap, (*now, subscription))

    def has_less(self, number: int) -> None:
        """Follow a member whose load has fallen."""
        subscription = self._loads.subscription_of(number)
        heappush(self._heap, (*self._loads.least_loaded(subscription), subscription))
