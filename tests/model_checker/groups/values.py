"""The world of one consumer group: its coordinator, members that are real clients' doubles, topics, late requests.

A state is a tuple of values that can be compared. Requests are decided and answered in one step, since the records of a
decision are one batch and an answer waits for it: a crash before that is a request that was lost. So the log is all
durable in every state.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple

from consumer_group import NamedTopic, topic

from eosin.coordinator.groups.consumer.assignors.assignment import Partitions
from eosin.coordinator.groups.consumer.rules.events import (
    ClassicHeartbeat,
    ConsumerHeartbeat,
    ConsumerTimer,
    ConsumerTimerKind,
    TargetsComputed,
)
from eosin.coordinator.groups.consumer.rules.group import ConsumerGroup, ConsumerMember
from eosin.coordinator.groups.rules.events import Join, Sync
from eosin.protocol.records.scan import KeyValue

Request = ConsumerHeartbeat | Join | Sync | ClassicHeartbeat
NOTHING: Final[Partitions] = frozenset()
NAMES: Final = "abcd"


class Kind(Enum):
    """The kinds of members."""

    DYNAMIC = "dynamic"
    STATIC = "static"
    COOPERATIVE = "cooperative"
    """Of the classic protocol: keeps what it may keep."""
    EAGER = "eager"
    """Of the classic protocol: gives up everything before it joins."""

    @property
    def is_classic(self) -> bool:
        """True if it sends JoinGroup, SyncGroup and Heartbeat."""
        return self in (Kind.COOPERATIVE, Kind.EAGER)


class Phase(Enum):
    """The next request of a classic member."""

    JOIN = "join"
    SYNC = "sync"
    HEARTBEAT = "heartbeat"


@dataclass(frozen=True)
class Bounds:
    """A configuration: who takes part, and how often what may happen."""

    name: str
    about: str
    kinds: tuple[Kind, ...] = (Kind.DYNAMIC, Kind.DYNAMIC)
    topics: tuple[tuple[str, int], ...] = (("t", 2),)
    in_parts: bool = False
    """Whether targets are computed beside the decisions, and come back member by member."""
    losses: int = 0
    """Requests or answers that are lost."""
    copies: int = 0
    """Requests of which a copy arrives later, whatever happened meanwhile."""
    leaves: int = 0
    """Members that leave, for good or to come back; a static one for a while."""
    kills: int = 0
    """Processes that stop without a word, and start anew."""
    expiries: int = 0
    """Timers that run out though their member lives."""
    changes: int = 0
    """Topics that grow, go, and come back under another id."""
    subscriptions: int = 0
    """Members that read other topics from now on."""
    crashes: int = 0
    """Coordinators that start anew, from the log."""
    fair_every: int = 1
    """From every so-manieth state the model runs on, fairly, to the end."""
    max_states: int = 400_000


class Budget(NamedTuple):
    """What may still happen."""

    losses: int
    copies: int
    leaves: int
    kills: int
    expiries: int
    changes: int
    subscriptions: int
    crashes: int


class Topic(NamedTuple):
    """A topic; without partitions it is deleted."""

    name: str
    partitions: int
    life: int = 0


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


def member_id(index: int, member: Member) -> str:
    """The id of a member's process."""
    return f"{NAMES[index]}{member.life}"


def instance_id(member: Member) -> str | None:
    """The name of the only static member."""
    return "s" if member.kind is Kind.STATIC else None


class Coordinator:
    """The group, its log, its timers and the rest of a target. Two are equal if nothing tells them apart."""

    __slots__ = ("_hash", "_key", "group", "has_looked", "log", "parts", "timers")

    def __init__(
        self,
        group: ConsumerGroup,
        log: Mapping[bytes, KeyValue],
        timers: Mapping[ConsumerTimer, int],
        parts: tuple[TargetsComputed, ...],
        *,
        has_looked: bool,
    ) -> None:
        self.group = group
        self.log = log
        """The last record of each key. It is what the group says (`rules.check`), so it is no part of the key."""
        self.timers = timers
        """The epoch with which each was started."""
        self.parts = parts
        """Parts of a target that was computed beside the decisions."""
        self.has_looked = has_looked
        """True if the group has seen the topics as they are."""
        running = sorted((kind.value, name, epoch) for (kind, name), epoch in timers.items())
        computed = tuple((each.epoch, tuple(each.targets.items()), tuple(each.members)) for each in parts)
        self._key = (_key_of(group), tuple(running), computed, has_looked)
        self._hash = hash(self._key)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Coordinator) and self._key == other._key


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


class State(NamedTuple):
    """All that there is."""

    coordinator: Coordinator
    members: tuple[Member, ...]
    topics: tuple[Topic, ...]
    late: tuple[Request, ...]
    """Copies of requests that are still on their way."""
    budget: Budget
    is_confused: bool = False
    """True if such a copy has come, so that the coordinator takes what a member had said before for what it has."""


def known_topics(topics: tuple[Topic, ...]) -> dict[str, NamedTopic]:
    """The topics that there are, as the coordinator sees them."""
    return {each.name: topic(each.name, each.partitions, life=each.life) for each in topics if each.partitions}


def is_needed(timer: ConsumerTimer) -> bool:
    """True if the epoch with which a timer was started decides what its end means."""
    return timer.kind is ConsumerTimerKind.REBALANCE
