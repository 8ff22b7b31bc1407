"""The world of one consumer group: what it has beside that of all groups (`membership.values`)."""

from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple

from consumer_group import NamedTopic, topic

from eosin.coordinator.groups.consumer.assignors.assignment import Partitions
from eosin.coordinator.groups.consumer.rules.events import (
    ClassicHeartbeat,
    ConsumerHeartbeat,
    TargetsComputed,
)
from eosin.coordinator.groups.consumer.rules.group import ConsumerGroup, ConsumerMember
from eosin.coordinator.groups.rules.events import Join, Sync
from model_checker.membership import values
from model_checker.membership.coordinator import Coordinator as AnyCoordinator
from model_checker.membership.values import Kind, Topic

Request = ConsumerHeartbeat | Join | Sync | ClassicHeartbeat
NOTHING: Final[Partitions] = frozenset()


class Phase(Enum):
    """The next request of a classic member."""

    JOIN = "join"
    SYNC = "sync"
    HEARTBEAT = "heartbeat"


@dataclass(frozen=True)
class Bounds(values.Bounds):
    """A configuration."""

    topics: tuple[tuple[str, int], ...] = (("t", 2),)
    subscriptions: int = 0
    """Members that read other topics from now on."""


class Member(NamedTuple):
    """A client's own view."""

    kind: Kind
    topics: tuple[str, ...]
    life: int = 0
    """The number of its process: each has a member id of its own."""
    epoch: int = 0
    """Its member epoch or generation; 0 while it is no member."""
    told: Partitions = NOTHING
    """The assignment that it has heard of."""
    owned: Partitions = NOTHING
    """The partitions that it reads."""
    has_missed: bool = False
    """True if it has missed an answer: its next request says everything."""
    has_said: bool = False
    """True if it has said, since it was last told something new, that it reads that."""
    phase: Phase = Phase.JOIN
    is_gone: bool = False
    """True if it has left for good."""

    def lost(self) -> "Member":
        """The member after it was told that it is none: it has nothing."""
        return self._replace(epoch=0, told=NOTHING, owned=NOTHING, has_missed=False, has_said=False, phase=Phase.JOIN)

    def started(self) -> "Member":
        """Another process in its place."""
        return self.lost()._replace(life=self.life + 1)


class Coordinator(AnyCoordinator[ConsumerGroup, TargetsComputed]):
    """The coordinator of a consumer group."""

    __slots__ = ()

    @staticmethod
    def _key_of(group: ConsumerGroup) -> object:
        return (
            group.epoch,
            group.metadata_hash,
            group.assignment_epoch,
            group.is_stored,
            tuple(_key_of_member(each) for each in group.members.values()),
            tuple(group.targets.items()),
            tuple(group.owners.items()),
        )


def _key_of_member(member: ConsumerMember) -> object:
    return (
        *(member.member_id, member.instance_id, member.topics, member.classic),
        *(member.epoch, member.previous_epoch, member.state),
        tuple(sorted(member.assigned.items())),
        tuple(sorted(member.pending.items())),
    )


State = values.State[Coordinator, Member, Request]


def known_topics(topics: tuple[Topic, ...]) -> dict[str, NamedTopic]:
    """The topics that there are, as the coordinator sees them."""
    return {each.name: topic(each.name, each.partitions, life=each.life) for each in topics if each.partitions}
