"""Bugs to plant in the code of streams groups, beside those of `membership.planted`."""

from contextlib import AbstractContextManager
from typing import Any, Final
from unittest.mock import patch

from msgspec.structs import replace

from eosin.coordinator.groups.streams.rules import commits, decide, decision, heartbeat, targets
from eosin.coordinator.groups.streams.rules.decision import StreamsDecision
from eosin.coordinator.groups.streams.rules.group import StreamsGroup, StreamsMember, StreamsMemberState
from eosin.coordinator.groups.streams.rules.reconciliation import OwnedTasks
from eosin.coordinator.groups.streams.rules.records import StreamsKind
from eosin.coordinator.groups.streams.topology.topology import Topology
from model_checker.membership.planted import STATIC, Code, Planted, planted
from model_checker.membership.values import Kind
from model_checker.streams.rules import COMES_TO_REST, ONE_COMMITTER, ONE_HOLDER, ONE_RUNNER, ONE_TOPOLOGY, OWN_TASKS
from model_checker.streams.values import Bounds

_CODE: Final = Code(
    decide,
    heartbeat,
    targets,
    StreamsDecision,
    nothing=OwnedTasks(),
    unreleased=StreamsMemberState.UNRELEASED_TASKS,
    target=StreamsKind.TARGET,
)


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


def states_are_shared() -> AbstractContextManager[Any]:
    """A member gets a task whose state another one of its process has open as a copy."""
    return _CODE.reconciled_with(copies={})


def any_older_epoch_commits() -> AbstractContextManager[Any]:
    """A member may commit by an epoch that it had once, whatever partition (KIP-1251 forgotten)."""

    def careless(group: StreamsGroup, member: StreamsMember, member_epoch: int, _: object) -> bool:
        return member_epoch <= member.epoch

    return patch.object(commits, "_may", careless)


def successors_have_no_target() -> AbstractContextManager[Any]:
    """A static member that is back while a target is computed is left out of it."""
    return patch.object(targets, "_successor", lambda *_: None)


def the_newest_member_says_what_all_run() -> AbstractContextManager[Any]:
    """Whoever joins replaces the topology, whoever else runs another."""

    def careless(decided: StreamsDecision, topology: Topology, *, member_id: str) -> None:
        if decided.group.topology != topology:
            decided.put_topology(topology)

    return patch.object(heartbeat, "_keep_topology", careless)


_THREE: Final = (Kind.DYNAMIC, Kind.DYNAMIC, Kind.DYNAMIC)

PLANTED: Final = planted(
    _CODE,
    within=_bounds,
    owner_lost=owner_lost,
    commits=any_older_epoch_commits,
    one_owner=ONE_RUNNER,
    own=OWN_TASKS,
    one_committer=ONE_COMMITTER,
    rest=COMES_TO_REST,
) | {
    "others-run-nothing": Planted(_CODE.others_have_nothing, (ONE_RUNNER,), _bounds("no fault")),
    "states-are-shared": Planted(
        states_are_shared,
        (ONE_HOLDER,),
        _bounds("threads", *_THREE, processes="ppq", standby_replicas=1, leaves=1, fair_every=1000),
    ),
    "successors-have-no-target": Planted(
        successors_have_no_target,
        (ONE_RUNNER, COMES_TO_REST),
        _bounds("a static member", *STATIC, in_parts=True, leaves=1, fair_every=4),
    ),
    "the-newest-member-says-what-all-run": Planted(
        the_newest_member_says_what_all_run, (ONE_TOPOLOGY,), _bounds("an update", upgrades=1, crashes=1)
    ),
}
