"""The needs of consumer groups, declared by them: the topics of the cluster, what a client may know of them, the
classic groups beside them, and who hears of decisions."""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from eosin.coordinator.groups.consumer.rules.events import ConsumerEvent
from eosin.coordinator.groups.consumer.rules.group import ConsumerGroup
from eosin.coordinator.groups.consumer.rules.topics import NO_RACKS, PartitionRacks, SubscribedTopic
from eosin.coordinator.groups.rules.group import Group

MayDescribe = Callable[[Sequence[str]], Sequence[bool]]
"""Tells for each of these topics if a member's client may know of it."""


def may_describe_all(names: Sequence[str]) -> Sequence[bool]:
    """The right of a client where there are no rights."""
    return [True] * len(names)


class ClusterTopics(Protocol):
    """The topics of the cluster as they are now."""

    @property
    def topics(self) -> Mapping[str, SubscribedTopic]:
        """The topics by name."""

    @property
    def metadata_version(self) -> int:
        """Another number whenever a topic has changed, and greater than before."""

    def partition_racks(self, topic: str) -> PartitionRacks:
        """The racks of a topic's partitions."""


class ClassicSide(Protocol):
    """The classic groups of a partition, whose names change sides with consumer groups."""

    def begin(self, group: Group, *, rebalances: bool) -> None:
        """The group takes the place of a consumer group of its name."""

    def end(self, group_id: str) -> None:
        """The group has not taken that place after all: the log has failed."""

    def restore(self, group: Group) -> None:
        """No consumer group has taken this group's place after all."""


class ConsumerGroupObserver(Protocol):
    """Hears what was decided about consumer groups (console.md 2.1). It decides nothing, and must not raise."""

    def consumer_decided(
        self, before: ConsumerGroup, after: ConsumerGroup, event: ConsumerEvent | None, now_ms: int
    ) -> None:
        """`event` has turned `before` into `after`; None: the group was read from its log."""


class NoTopics:
    """A cluster without topics, for coordinators that serve no consumer groups."""

    topics: Mapping[str, SubscribedTopic] = {}
    metadata_version = 0

    def partition_racks(self, topic: str) -> PartitionRacks:
        """No topic has partitions."""
        return NO_RACKS
