"""The world of one streams group: its coordinator, members that are doubles of real ones, topics, late requests.

A state is a tuple of values that can be compared. As in the model of a consumer group, a request is decided and
answered in one step, since the records of a decision are one batch and an answer waits for it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple

from eosin.coordinator.groups.consumer.rules.events import ConsumerTimer
from eosin.coordinator.groups.streams.assignors.tasks import NO_TASKS, MemberTasks
from eosin.coordinator.groups.streams.rules.events import StreamsHeartbeat, StreamsTargetsComputed
from eosin.coordinator.groups.streams.rules.group import StreamsGroup, StreamsMember
from eosin.coordinator.groups.streams.topology.topology import InternalTopic, Subtopology, Topology
from eosin.protocol.records.scan import KeyValue

NAMES: Final = "abcd"
READ, COUNTED, CHANGELOG = "read", "counted", "changelog"


def _subtopology(name: str, source: str, *changelogs: str) -> Subtopology:
    kept = tuple(InternalTopic(each, 0, -1, ()) for each in changelogs)
    return Subtopology(name, (source,), (), kept, (), (), ())


STATELESS, STATEFUL = _subtopology("0", READ), _subtopology("1", COUNTED, CHANGELOG)
TOPOLOGIES: Final = (Topology(0, (STATELESS, STATEFUL)), Topology(1, (STATEFUL,)))
"""The program before and after its update."""


class Kind(Enum):
    """The kinds of members."""

    DYNAMIC = "dynamic"
    STATIC = "static"


@dataclass(frozen=True)
class Bounds:
    """A configuration: who takes part, and how often what may happen."""

    name: str
    about: str
    kinds: tuple[Kind, ...] = (Kind.DYNAMIC, Kind.DYNAMIC)
    processes: str = NAMES
    """The process of each member: threads of one share its states."""
    partitions: int = 1
    """Of the topic that the stateful subtopology reads; the other has two."""
    standby_replicas: int = 0
    in_parts: bool = False
    """True if targets are computed beside the decisions, and come back member by member."""
    is_delayed: bool = False
    """True if the first members wait for others."""
    losses: int = 0
    """Requests or answers that are lost."""
    copies: int = 0
    """Requests of which a copy arrives later, whatever happened meanwhile."""
    leaves: int = 0
    """Members that leave, for good or to come back; a static one for a while."""
    kills: int = 0
    """Processes that stop without a word, and start anew."""
    upgrades: int = 0
    """Processes that stop, and start anew with the other topology."""
    expiries: int = 0
    """Timers that run out though their member lives."""
    changes: int = 0
    """The first topic grows, goes, and comes back under another id."""
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
    upgrades: int
    expiries: int
    changes: int
    crashes: int


class Topic(NamedTuple):
    """The topic that changes; without partitions it is deleted."""

    partitions: int
    life: int = 0


class Member(NamedTuple):
    """A client's own view."""

    kind: Kind
    topology: int = 0
    """The number of the topology that it runs."""
    life: int = 0
    """The number of its process: each has a member id of its own."""
    epoch: int = 0
    """0 while it is no member."""
    told: MemberTasks = NO_TASKS
    """The tasks that it has heard of."""
    owned: MemberTasks = NO_TASKS
    """The tasks that it runs, and those that it keeps copies of."""
    has_missed: bool = False
    """True if it has missed an answer: its next request says everything."""
    has_said: bool = False
    """True if it has said, since it was last told something new, that it has that."""
    is_gone: bool = False
    """True if it has left for good."""

    def lost(self) -> "Member":
        """The member after it was told that it is none: it has nothing."""
        return self._replace(epoch=0, told=NO_TASKS, owned=NO_TASKS, has_missed=False, has_said=False)

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
        group: StreamsGroup,
        log: Mapping[bytes, KeyValue],
        timers: Mapping[ConsumerTimer, int],
        parts: tuple[StreamsTargetsComputed, ...],
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


def _key_of(group: StreamsGroup) -> object:
    return (
        *(group.epoch, group.metadata_hash, group.validated_topology_epoch),
        *(group.assignment_epoch, group.topology, group.is_stored, group.is_delayed, group.configured is None),
        tuple(_key_of_member(each) for each in group.members.values()),
        tuple(group.targets.items()),
        tuple(group.owners.items()),
    )


def _key_of_member(member: StreamsMember) -> object:
    return (
        *(member.member_id, member.instance_id, member.topology_epoch, member.process_id),
        *(member.epoch, member.previous_epoch, member.state),
        *(tuple(sorted(held.active.items())) for held in (member.assigned, member.pending)),
        *(held.standby for held in (member.assigned, member.pending)),
    )


class State(NamedTuple):
    """All that there is."""

    coordinator: Coordinator
    members: tuple[Member, ...]
    topic: Topic
    late: tuple[StreamsHeartbeat, ...]
    """Copies of requests that are still on their way."""
    budget: Budget
    is_confused: bool = False
    """True if such a copy has come, so that the coordinator takes what a member had said before for what it has."""


class KnownTopic(NamedTuple):
    """A topic as the coordinator sees it."""

    topic_id: bytes
    partitions: int


def known_topics(topic: Topic, bounds: Bounds) -> dict[str, KnownTopic]:
    """The topics that there are."""
    found = {name: KnownTopic(name.encode().ljust(16, b"-"), bounds.partitions) for name in (COUNTED, CHANGELOG)}
    if topic.partitions:
        found[READ] = KnownTopic(b"%016d" % topic.life, topic.partitions)
    return found
