"""The world of one streams group: what it has beside that of all groups (`membership.values`)."""

from dataclasses import dataclass
from typing import Final, NamedTuple

from eosin.coordinator.groups.streams.assignors.tasks import NO_TASKS, MemberTasks
from eosin.coordinator.groups.streams.rules.events import StreamsHeartbeat, StreamsTargetsComputed
from eosin.coordinator.groups.streams.rules.group import StreamsGroup, StreamsMember
from eosin.coordinator.groups.streams.topology.topology import InternalTopic, Subtopology, Topology
from model_checker.membership import values
from model_checker.membership.coordinator import Coordinator as AnyCoordinator
from model_checker.membership.values import NAMES, Kind, Topic

READ, COUNTED, CHANGELOG = "read", "counted", "changelog"


def _subtopology(name: str, source: str, *changelogs: str) -> Subtopology:
    kept = tuple(InternalTopic(each, 0, -1, ()) for each in changelogs)
    return Subtopology(name, (source,), (), kept, (), (), ())


STATELESS, STATEFUL = _subtopology("0", READ), _subtopology("1", COUNTED, CHANGELOG)
TOPOLOGIES: Final = (Topology(0, (STATELESS, STATEFUL)), Topology(1, (STATEFUL,)))
"""The program before and after its update."""


@dataclass(frozen=True)
class Bounds(values.Bounds):
    """A configuration. Of the topics only the first changes."""

    processes: str = NAMES
    """The process of each member: threads of one share its states."""
    partitions: int = 1
    """Of the topic that the stateful subtopology reads; the other has two."""
    standby_replicas: int = 0
    is_delayed: bool = False
    """True if the first members wait for others."""
    upgrades: int = 0
    """Processes that stop, and start anew with the other topology."""


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


class Coordinator(AnyCoordinator[StreamsGroup, StreamsTargetsComputed]):
    """The coordinator of a streams group."""

    __slots__ = ()

    @staticmethod
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


State = values.State[Coordinator, Member, StreamsHeartbeat]


class KnownTopic(NamedTuple):
    """A topic as the coordinator sees it."""

    topic_id: bytes
    partitions: int


def known_topics(topics: tuple[Topic, ...], bounds: Bounds) -> dict[str, KnownTopic]:
    """The topics that there are."""
    found = {name: KnownTopic(name.encode().ljust(16, b"-"), bounds.partitions) for name in (COUNTED, CHANGELOG)}
    for each in topics:
        if each.partitions:
            found[each.name] = KnownTopic(b"%016d" % each.life, each.partitions)
    return found
