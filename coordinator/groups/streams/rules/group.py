"""`StreamsGroup` and `StreamsMember`: a streams group of KIP-1071 as a value (streams-groups.md).

A group is never changed, only replaced, and shares with the next one what has not changed. Its epochs are those of a
consumer group; tasks take the place of partitions, and are run (active) or kept warm (standby) by members, some of
which share a process and so a directory of states.

Always true: a task is active, or pending revocation as such, at no more than one member; member epoch <= assignment
epoch <= group epoch; a member has tasks to revoke if and only if it is in UNREVOKED_TASKS; owners and processes are
what the members say.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from enum import Enum, IntEnum
from typing import Final, NamedTuple

import msgspec
from msgspec.structs import replace

from eosin.coordinator.groups.streams.assignors.tasks import NO_TASKS, MemberTasks, Task, Tasks
from eosin.coordinator.groups.streams.topology.configuration import ConfiguredTopology
from eosin.coordinator.groups.streams.topology.topology import Topology
from eosin.runtime.sorted_map import EMPTY, Editor, SortedMap

JOIN_EPOCH: Final = 0
LEAVE_EPOCH: Final = -1
STATIC_LEAVE_EPOCH: Final = -2
"""A static member that is back before its session ends (KIP-345)."""
INITIAL_EPOCH: Final = 1
"""Of a new group and of its target."""
MAX_GROUP_EPOCH: Final = 2_147_483_647
NOT_VALIDATED: Final = -1
"""The validated topology epoch of a group whose topics are not all there."""

ActiveTasks = Mapping[Task, int]
"""Tasks that a member runs, each with the epoch at which the member got it."""
NONE_ACTIVE: Final[ActiveTasks] = {}


class StreamsMemberState(IntEnum):
    """A member on its way to its target, by the number in its record."""

    STABLE = 0
    UNREVOKED_TASKS = 1
    """It is to give up tasks, and has not said that it did."""
    UNRELEASED_TASKS = 2
    """Others have tasks that are to be its own."""
    UNKNOWN = 127
    """Of a newer version."""


class StreamsGroupState(Enum):
    """The state of a group; the value is the name on the wire."""

    EMPTY = "Empty"
    NOT_READY = "NotReady"
    """Topics of its topology are missing."""
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"
    DEAD = "Dead"


class HeldTasks(NamedTuple):
    """Tasks that a member has, or is to revoke."""

    active: ActiveTasks = NONE_ACTIVE
    standby: Tasks = frozenset()
    warmup: Tasks = frozenset()
    """Read back from a log that has some; Eosin gives out none."""

    @property
    def is_empty(self) -> bool:
        """True if there are none."""
        return not (self.active or self.standby or self.warmup)

    def without_epochs(self) -> MemberTasks:
        """The tasks as a target has them."""
        return MemberTasks(frozenset(self.active), self.standby)


NOTHING_HELD: Final = HeldTasks()


class UserEndpoint(NamedTuple):
    """The address at which a member answers queries of its states."""

    host: str
    port: int


class StreamsMember(msgspec.Struct, frozen=True, gc=False):
    """One member of a group."""

    member_id: str
    instance_id: str | None = None
    """The name of a static member; None for a dynamic one."""
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = -1
    topology_epoch: int = 0
    process_id: str = ""
    endpoint: UserEndpoint | None = None
    tags: tuple[tuple[str, str], ...] = ()
    epoch: int = 0
    previous_epoch: int = 0
    state: StreamsMemberState = StreamsMemberState.STABLE
    assigned: HeldTasks = NOTHING_HELD
    pending: HeldTasks = NOTHING_HELD
    """The tasks that it is to revoke."""

    def active(self) -> Iterator[Task]:
        """Every task that nobody else may run."""
        yield from self.assigned.active
        yield from self.pending.active

    def kept(self) -> Iterator[Task]:
        """Every task of whose state it keeps a copy."""
        for held in (self.assigned, self.pending):
            yield from held.standby
            yield from held.warmup

    def is_reconciled(self, assignment_epoch: int) -> bool:
        """True if the member has come to its target."""
        return self.state is StreamsMemberState.STABLE and self.epoch == assignment_epoch


class Owner(NamedTuple):
    """A member that runs a task, with its process."""

    member_id: str
    process_id: str


class ProcessTask(NamedTuple):
    """A task by the process that has its state."""

    process_id: str
    task: Task


class Description(NamedTuple):
    """The description of a topology that members have told for people (KIP-1331), opaque here."""

    topology_epoch: int = -1
    """The epoch of the topology that it is of; -1 for none."""
    data: bytes = b""
    refused_epoch: int = -1
    """The epoch of a topology whose description is too long; nobody is asked for it again."""
    asked_again_ms: int = 0
    """Until then nobody is asked for one."""
    times_asked: int = 0
    """Members that were asked since the last that was kept."""


NO_DESCRIPTION: Final = Description()


class StreamsGroup(msgspec.Struct, frozen=True, gc=False):
    """One streams group, between two decisions."""

    group_id: str
    epoch: int = INITIAL_EPOCH
    metadata_hash: int = 0
    """Of the topics of the topology as they were at the group epoch."""
    validated_topology_epoch: int = NOT_VALIDATED
    """The epoch of the topology when all its topics were there; else -1."""
    assignment_configs: tuple[tuple[str, str], ...] | None = None
    """The settings that the last target was computed with."""
    assignment_epoch: int = INITIAL_EPOCH
    assignment_timestamp_ms: int = 0
    """The time when the target was computed; 0 if the next one waits for nothing."""
    topology: Topology | None = None
    members: SortedMap[str, StreamsMember] = EMPTY
    targets: SortedMap[str, MemberTasks] = EMPTY
    instances: SortedMap[str, str] = EMPTY
    """The member that holds the name of each static member."""
    owners: Mapping[Task, Owner] = {}
    """The member that runs a task, or is to stop it."""
    copies: Mapping[ProcessTask, int] = {}
    """The number of members of a process that keep a copy of a task's state."""
    plugin_epochs: tuple[int, int] = (-1, -1)
    """The topology epochs that Apache Kafka remembers of its plugin for descriptions (KIP-1331)."""
    is_stored: bool = False
    """True if the log has a record of the group."""
    state_timestamp_ms: int = -1
    """The time of the last change of the group epoch, and so that at which it became empty; -1 if it is not known."""
    # In memory alone, and so forgotten by a broker that dies:
    configured: ConfiguredTopology | None = None
    """The topology over the topics at the last look at them; None before the first."""
    is_delayed: bool = False
    """True while the first members wait for others (group.streams.initial.rebalance.delay.ms)."""
    shutdown_by: str | None = None
    """The member that has asked the whole application to stop."""
    endpoint_epoch: int = 0
    """Grows when an endpoint answers for other partitions."""
    description: Description = NO_DESCRIPTION

    @property
    def is_ready(self) -> bool:
        """True if its tasks can be dealt out."""
        return self.topology is not None and self.validated_topology_epoch == self.topology.epoch

    @property
    def state(self) -> StreamsGroupState:
        """The state that clients see."""
        if not self.members:
            return StreamsGroupState.EMPTY
        if not self.is_ready:
            return StreamsGroupState.NOT_READY
        if self.epoch > self.assignment_epoch:
            return StreamsGroupState.ASSIGNING
        if all(member.is_reconciled(self.assignment_epoch) for member in self.members.values()):
            return StreamsGroupState.STABLE
        return StreamsGroupState.RECONCILING

    def subscribed_names(self) -> frozenset[str]:
        """The topics that the members need; none of a group without members."""
        return self.topology.topics if self.members and self.topology is not None else frozenset()

    def target(self, member_id: str) -> MemberTasks:
        """The tasks that a member is to have."""
        return self.targets.get(member_id, NO_TASKS)

    def holder(self, instance_id: str) -> StreamsMember | None:
        """The member that holds the name of a static member."""
        return self.members.get(self.instances.get(instance_id, ""))


def with_member(group: StreamsGroup, member: StreamsMember) -> StreamsGroup:
    """The group with a member that is new, or in the place of what it was."""
    before = group.members.get(member.member_id)
    owners, copies = group.owners, group.copies
    if before is None or (before.assigned, before.pending, before.process_id) != (
        member.assigned,
        member.pending,
        member.process_id,
    ):
        owners, copies = _indexed(group, before, member)
    instances = group.instances
    if (before.instance_id if before else None) != member.instance_id:
        instances = _without_holder(instances, before)
        if member.instance_id is not None:
            instances = instances.put(member.instance_id, member.member_id)
    members = group.members.put(member.member_id, member)
    return replace(group, members=members, instances=instances, owners=owners, copies=copies)


def with_members(group: StreamsGroup, members: Iterable[StreamsMember]) -> StreamsGroup:
    """A group that has had none, with all these members at once."""
    found: Editor[str, StreamsMember] = EMPTY.edit()
    instances: Editor[str, str] = EMPTY.edit()
    owners: dict[Task, Owner] = {}
    copies: Counter[ProcessTask] = Counter()
    for member in members:
        found[member.member_id] = member
        if member.instance_id is not None:
            instances[member.instance_id] = member.member_id
        owners.update(dict.fromkeys(member.active(), Owner(member.member_id, member.process_id)))
        copies.update(ProcessTask(member.process_id, task) for task in member.kept())
    return replace(group, members=found.frozen(), instances=instances.frozen(), owners=owners, copies=dict(copies))


def without_member(group: StreamsGroup, member_id: str) -> StreamsGroup:
    """The group without a member and without its target."""
    before = group.members[member_id]
    owners, copies = _indexed(group, before, None)
    return replace(
        group,
        members=group.members.without(member_id),
        targets=group.targets.without(member_id),
        instances=_without_holder(group.instances, before),
        owners=owners,
        copies=copies,
    )


def _without_holder(instances: SortedMap[str, str], member: StreamsMember | None) -> SortedMap[str, str]:
    """Take the name of a static member away from the member that holds it, and from no other."""
    if member is None or member.instance_id is None or instances.get(member.instance_id) != member.member_id:
        return instances
    return instances.without(member.instance_id)


def _indexed(
    group: StreamsGroup, before: StreamsMember | None, after: StreamsMember | None
) -> tuple[Mapping[Task, Owner], Mapping[ProcessTask, int]]:
    """The indexes of a group in which a member is another one. (At most 10,000 tasks: a copy is made.)"""
    owners, copies = dict(group.owners), dict(group.copies)
    if before is not None:
        for task in before.active():
            if (owner := owners.get(task)) is not None and owner.member_id == before.member_id:
                del owners[task]  # and not that of another member, who has got it since (KAFKA-16147)
        for task in before.kept():
            key = ProcessTask(before.process_id, task)
            left = copies.pop(key, 1) - 1
            if left:
                copies[key] = left
    if after is not None:
        owners.update(dict.fromkeys(after.active(), Owner(after.member_id, after.process_id)))
        for task in after.kept():
            key = ProcessTask(after.process_id, task)
            copies[key] = copies.get(key, 0) + 1
    return owners, copies
