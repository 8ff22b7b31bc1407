"""Bugs to plant in the code, so that the search can be checked: each is what a careless change might do.

Beside each stand the rules one of which it breaks, and bounds in which that shows.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Final, NamedTuple
from unittest.mock import patch

from msgspec.structs import replace

from eosin.coordinator.groups.streams.rules import commits, decide, decision, heartbeat, targets
from eosin.coordinator.groups.streams.rules.decision import StreamsDecision
from eosin.coordinator.groups.streams.rules.events import StreamsTargetsComputed
from eosin.coordinator.groups.streams.rules.group import StreamsGroup, StreamsMember, StreamsMemberState
from eosin.coordinator.groups.streams.rules.reconciliation import OwnedTasks
from eosin.coordinator.groups.streams.rules.records import StreamsKind
from eosin.coordinator.groups.streams.topology.topology import Topology
from model_checker.streams.coordinating import EPOCHS, REPLAYED
from model_checker.streams.rules import COMES_TO_REST, ONE_COMMITTER, ONE_HOLDER, ONE_RUNNER, ONE_TOPOLOGY, OWN_TASKS
from model_checker.streams.values import Bounds, Kind


class Planted(NamedTuple):
    """A bug, and where it shows."""

    plant: Callable[[], AbstractContextManager[Any]]
    rules: tuple[str, ...]
    bounds: Bounds


def _bounds(about: str, *kinds: Kind, **bounds: Any) -> Bounds:
    return Bounds("planted", about, kinds or (Kind.DYNAMIC, Kind.DYNAMIC), **bounds)


def owner_lost() -> AbstractContextManager[Any]:
    """A task to be revoked that goes back to its holder is nobody's (KAFKA-16147)."""
    sound = decision.with_member

    def careless(group: StreamsGroup, member: StreamsMember) -> StreamsGroup:
        before = group.members.get(member.member_id)
        after = sound(group, member)
        lost = set() if before is None or before.pending is member.pending else set(before.pending.active)
        return replace(after, owners={task: owner for task, owner in after.owners.items() if task not in lost})

    return patch.object(decision, "with_member", careless)


def others_run_nothing() -> AbstractContextManager[Any]:
    """A member gets its target at once, whoever still runs it."""
    sound = heartbeat.reconciled
    return patch.object(heartbeat, "reconciled", lambda member, **rest: sound(member, **{**rest, "owners": {}}))


def states_are_shared() -> AbstractContextManager[Any]:
    """A member gets a task whose state another one of its process has open as a copy."""
    sound = heartbeat.reconciled
    return patch.object(heartbeat, "reconciled", lambda member, **rest: sound(member, **{**rest, "copies": {}}))


def silence_is_revocation() -> AbstractContextManager[Any]:
    """A member that does not say what it has is taken to have nothing."""
    sound = heartbeat.reconciled

    def careless(member: StreamsMember, *, owned: OwnedTasks | None, **rest: Any) -> StreamsMember:
        return sound(member, owned=owned or OwnedTasks(), **rest)

    return patch.object(heartbeat, "reconciled", careless)


def any_older_epoch_commits() -> AbstractContextManager[Any]:
    """A member may commit by an epoch that it had once, whatever partition (KIP-1251 forgotten)."""

    def careless(group: StreamsGroup, member: StreamsMember, member_epoch: int, _: object) -> bool:
        return member_epoch <= member.epoch

    return patch.object(commits, "_may", careless)


def a_leave_begins_no_epoch() -> AbstractContextManager[Any]:
    """The tasks of a member that is gone are given to nobody."""
    sound = StreamsDecision.bump

    def careless(self: StreamsDecision) -> None:
        if len(self.group.members) >= len(self.before.members):
            sound(self)

    return patch.object(StreamsDecision, "bump", careless)


def epoch_used_twice() -> AbstractContextManager[Any]:
    """The next epoch is counted from the target, which may be behind."""

    def careless(self: StreamsDecision) -> None:
        self.store_group(self.group.assignment_epoch + 1)

    return patch.object(StreamsDecision, "bump", careless)


def waiting_members_are_not_written() -> AbstractContextManager[Any]:
    """What a member has that waits for more is known to the memory alone."""
    sound = StreamsDecision.put_current

    def careless(self: StreamsDecision, member: StreamsMember) -> None:
        sound(self, member)
        if member.state is StreamsMemberState.UNRELEASED_TASKS:
            self.records.pop()

    return patch.object(StreamsDecision, "put_current", careless)


def targets_outlive_members() -> AbstractContextManager[Any]:
    """The target of a member that is gone stays in the log."""
    sound = StreamsDecision.drop_member

    def careless(self: StreamsDecision, member_id: str) -> None:
        sound(self, member_id)
        self.records = [each for each in self.records if (each.kind, each.value) != (StreamsKind.TARGET, None)]

    return patch.object(StreamsDecision, "drop_member", careless)


def predecessors_stay() -> AbstractContextManager[Any]:
    """A static member is back, and the one that it was is still there."""
    sound = heartbeat.replace_static

    def careless(decided: StreamsDecision, held: StreamsMember, member_id: str) -> StreamsMember:
        with patch.object(StreamsDecision, "drop_member", lambda *_: None):
            return sound(decided, held, member_id)

    return patch.object(heartbeat, "replace_static", careless)


def successors_have_no_target() -> AbstractContextManager[Any]:
    """A static member that is back while a target is computed is left out of it."""
    return patch.object(targets, "_successor", lambda *_: None)


def topics_are_looked_at_once() -> AbstractContextManager[Any]:
    """A group keeps to the topics that it has begun with."""
    sound = decide._decided

    def careless(decided: StreamsDecision, event: Any, *, topics_changed: bool) -> Any:
        return sound(decided, event, topics_changed=False)

    return patch.object(decide, "_decided", careless)


def the_newest_member_says_what_all_run() -> AbstractContextManager[Any]:
    """Whoever joins replaces the topology, whoever else runs another."""

    def careless(decided: StreamsDecision, topology: Topology, *, member_id: str) -> None:
        if decided.group.topology != topology:
            decided.put_topology(topology)

    return patch.object(heartbeat, "_keep_topology", careless)


def a_step_is_told_once() -> AbstractContextManager[Any]:
    """A member that has missed a step which kept its epoch is not told again, as in Apache Kafka."""
    return patch.object(heartbeat, "_may_have_missed_a_step", lambda *_: False)


def the_first_part_counts() -> AbstractContextManager[Any]:
    """A target in parts is taken for whole with its first part."""
    sound = targets.computed

    def careless(decided: StreamsDecision, event: StreamsTargetsComputed) -> None:
        sound(decided, replace(event, is_last=True))

    return patch.object(targets, "computed", careless)


_STATIC: Final = (Kind.DYNAMIC, Kind.STATIC)
_THREE: Final = (Kind.DYNAMIC, Kind.DYNAMIC, Kind.DYNAMIC)

PLANTED: Final = {
    "owner-lost": Planted(owner_lost, (ONE_RUNNER,), _bounds("a leave", leaves=1)),
    "others-run-nothing": Planted(others_run_nothing, (ONE_RUNNER,), _bounds("no fault")),
    "states-are-shared": Planted(
        states_are_shared,
        (ONE_HOLDER,),
        _bounds("threads", *_THREE, processes="ppq", standby_replicas=1, leaves=1, fair_every=1000),
    ),
    "silence-is-revocation": Planted(silence_is_revocation, (OWN_TASKS,), _bounds("no fault")),
    "any-older-epoch-commits": Planted(
        any_older_epoch_commits, (ONE_COMMITTER,), _bounds("a late copy", copies=1, fair_every=1000)
    ),
    "a-leave-begins-no-epoch": Planted(a_leave_begins_no_epoch, (COMES_TO_REST,), _bounds("a leave", leaves=1)),
    "epoch-used-twice": Planted(
        epoch_used_twice, (EPOCHS, COMES_TO_REST), _bounds("a target in parts", in_parts=True, leaves=1)
    ),
    "waiting-members-are-not-written": Planted(waiting_members_are_not_written, (REPLAYED,), _bounds("no fault")),
    "targets-outlive-members": Planted(targets_outlive_members, (REPLAYED,), _bounds("a leave", leaves=1)),
    "predecessors-stay": Planted(
        predecessors_stay, (ONE_RUNNER, REPLAYED), _bounds("a static member", *_STATIC, leaves=1)
    ),
    "successors-have-no-target": Planted(
        successors_have_no_target,
        (ONE_RUNNER, COMES_TO_REST),
        _bounds("a static member", *_STATIC, in_parts=True, leaves=1, fair_every=4),
    ),
    "topics-are-looked-at-once": Planted(
        topics_are_looked_at_once, (COMES_TO_REST,), _bounds("a topic grows", changes=1)
    ),
    "the-newest-member-says-what-all-run": Planted(
        the_newest_member_says_what_all_run, (ONE_TOPOLOGY,), _bounds("an update", upgrades=1, crashes=1)
    ),
    "a-step-is-told-once": Planted(a_step_is_told_once, (COMES_TO_REST,), _bounds("a late copy", copies=1)),
    "the-first-part-counts": Planted(the_first_part_counts, (COMES_TO_REST,), _bounds("in parts", in_parts=True)),
}
