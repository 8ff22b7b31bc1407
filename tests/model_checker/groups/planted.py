"""Bugs to plant in the code, so that the search can be checked: each is what a careless change might do.

Beside each stand the rules one of which it breaks, and bounds in which that shows.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Final, NamedTuple
from unittest.mock import patch

from msgspec.structs import replace

from eosin.coordinator.groups.consumer.rules import classic_members, commits, decide, decision, heartbeat, targets
from eosin.coordinator.groups.consumer.rules.decision import ConsumerDecision
from eosin.coordinator.groups.consumer.rules.events import TargetsComputed
from eosin.coordinator.groups.consumer.rules.group import ConsumerGroup, ConsumerMember, ConsumerMemberState
from eosin.coordinator.groups.consumer.rules.records import Kind as RecordKind
from eosin.protocol.errors import ErrorCode
from model_checker.groups.coordinating import EPOCHS, REPLAYED
from model_checker.groups.rules import COMES_TO_REST, ONE_COMMITTER, ONE_OWNER, ONE_READER
from model_checker.groups.values import Bounds, Kind


class Planted(NamedTuple):
    """A bug, and where it shows."""

    plant: Callable[[], AbstractContextManager[Any]]
    rules: tuple[str, ...]
    bounds: Bounds


def _bounds(about: str, *kinds: Kind, **bounds: Any) -> Bounds:
    return Bounds("planted", about, kinds or (Kind.DYNAMIC, Kind.DYNAMIC), **bounds)


def owner_lost() -> AbstractContextManager[Any]:
    """A partition to be revoked that goes back to its holder is nobody's (KAFKA-16147)."""
    sound = decision.with_member

    def careless(group: ConsumerGroup, member: ConsumerMember) -> ConsumerGroup:
        before = group.members.get(member.member_id)
        after = sound(group, member)
        if before is None or before.pending is member.pending:
            return after
        return replace(after, owners=after.owners.changed({}, tuple(before.pending)))

    return patch.object(decision, "with_member", careless)


def others_have_nothing() -> AbstractContextManager[Any]:
    """A member gets its target at once, whoever still has it."""
    sound = heartbeat.reconciled
    return patch.object(heartbeat, "reconciled", lambda member, **rest: sound(member, **{**rest, "owners": {}}))


def silence_is_revocation() -> AbstractContextManager[Any]:
    """A member that does not say what it has is taken to have nothing."""
    sound = heartbeat.reconciled

    def careless(member: ConsumerMember, *, owned: Any, **rest: Any) -> ConsumerMember:
        return sound(member, owned=owned or frozenset(), **rest)

    return patch.object(heartbeat, "reconciled", careless)


def any_older_epoch_commits() -> AbstractContextManager[Any]:
    """A member may commit by an epoch that it had once, whatever partition (KIP-1251 forgotten)."""

    def careless(member: ConsumerMember, member_epoch: int, *_: Any) -> ErrorCode:
        return ErrorCode.NONE if member_epoch <= member.epoch else ErrorCode.STALE_MEMBER_EPOCH

    return patch.object(commits, "_of_epoch", careless)


def a_leave_begins_no_epoch() -> AbstractContextManager[Any]:
    """The partitions of a member that is gone are given to nobody."""
    sound = ConsumerDecision.bump

    def careless(self: ConsumerDecision) -> None:
        if len(self.group.members) >= len(self.before.members):
            sound(self)

    return patch.object(ConsumerDecision, "bump", careless)


def epoch_used_twice() -> AbstractContextManager[Any]:
    """The next epoch is counted from the target, which may be behind."""

    def careless(self: ConsumerDecision) -> None:
        self.store_group(self.group.assignment_epoch + 1)

    return patch.object(ConsumerDecision, "bump", careless)


def new_target_at_the_old_epoch() -> AbstractContextManager[Any]:
    """A target is kept as that of the epoch before."""
    sound = ConsumerDecision.store_target_epoch

    def careless(self: ConsumerDecision, timestamp_ms: int, *, epoch: int | None = None) -> None:
        sound(self, timestamp_ms, epoch=None if epoch is None else max(self.group.assignment_epoch, epoch - 1))

    return patch.object(ConsumerDecision, "store_target_epoch", careless)


def waiting_members_are_not_written() -> AbstractContextManager[Any]:
    """What a member has that waits for more is known to the memory alone."""
    sound = ConsumerDecision.put_current

    def careless(self: ConsumerDecision, member: ConsumerMember) -> None:
        sound(self, member)
        if member.state is ConsumerMemberState.UNRELEASED_PARTITIONS:
            self.records.pop()

    return patch.object(ConsumerDecision, "put_current", careless)


def targets_outlive_members() -> AbstractContextManager[Any]:
    """The target of a member that is gone stays in the log."""
    sound = ConsumerDecision.drop_member

    def careless(self: ConsumerDecision, member_id: str) -> None:
        sound(self, member_id)
        self.records = [each for each in self.records if (each.kind, each.value) != (RecordKind.TARGET, None)]

    return patch.object(ConsumerDecision, "drop_member", careless)


def predecessors_stay() -> AbstractContextManager[Any]:
    """A static member is back, and the one that it was is still there."""
    sound = heartbeat.replace_static

    def careless(decided: ConsumerDecision, replaced: ConsumerMember, successor: ConsumerMember) -> ConsumerMember:
        with patch.object(ConsumerDecision, "drop_member", lambda *_: None):
            return sound(decided, replaced, successor)

    return patch.object(heartbeat, "replace_static", careless)


def topics_are_looked_at_once() -> AbstractContextManager[Any]:
    """A group keeps to the topics that it has begun with."""
    sound = decide._decided

    def careless(decided: ConsumerDecision, event: Any, *, topics_changed: bool) -> Any:
        return sound(decided, event, topics_changed=False)

    return patch.object(decide, "_decided", careless)


def classic_members_wait_in_silence() -> AbstractContextManager[Any]:
    """A classic member that waits for partitions is not told that they are free."""
    return patch.object(classic_members, "_waits_for_others", lambda *_: True)


def a_step_is_told_once() -> AbstractContextManager[Any]:
    """A member that has missed a step which kept its epoch is not told again, as in Apache Kafka."""
    return patch.object(heartbeat, "_may_have_missed_a_step", lambda *_: False)


def the_first_part_counts() -> AbstractContextManager[Any]:
    """A target in parts is taken for whole with its first part."""
    sound = targets.computed

    def careless(decided: ConsumerDecision, event: TargetsComputed) -> None:
        sound(decided, replace(event, is_last=True))

    return patch.object(targets, "computed", careless)


_CLASSIC: Final = (Kind.DYNAMIC, Kind.COOPERATIVE)
_STATIC: Final = (Kind.DYNAMIC, Kind.STATIC)

PLANTED: Final = {
    "owner-lost": Planted(owner_lost, (ONE_OWNER,), _bounds("a leave", leaves=1)),
    "others-have-nothing": Planted(others_have_nothing, (ONE_OWNER,), _bounds("no fault")),
    "silence-is-revocation": Planted(silence_is_revocation, (ONE_READER,), _bounds("no fault")),
    "any-older-epoch-commits": Planted(
        any_older_epoch_commits, (ONE_COMMITTER,), _bounds("a late copy", copies=1, fair_every=1000)
    ),
    "a-leave-begins-no-epoch": Planted(a_leave_begins_no_epoch, (COMES_TO_REST,), _bounds("a leave", leaves=1)),
    "epoch-used-twice": Planted(
        epoch_used_twice, (EPOCHS, COMES_TO_REST), _bounds("a target in parts", in_parts=True, leaves=1)
    ),
    "new-target-at-the-old-epoch": Planted(new_target_at_the_old_epoch, (EPOCHS, COMES_TO_REST), _bounds("no fault")),
    "waiting-members-are-not-written": Planted(waiting_members_are_not_written, (REPLAYED,), _bounds("no fault")),
    "targets-outlive-members": Planted(targets_outlive_members, (REPLAYED,), _bounds("a leave", leaves=1)),
    "predecessors-stay": Planted(
        predecessors_stay, (ONE_OWNER, REPLAYED), _bounds("a static member", *_STATIC, leaves=1)
    ),
    "topics-are-looked-at-once": Planted(
        topics_are_looked_at_once, (COMES_TO_REST,), _bounds("a topic grows", changes=1)
    ),
    "classic-members-wait-in-silence": Planted(
        classic_members_wait_in_silence, (COMES_TO_REST,), _bounds("a classic member", *_CLASSIC)
    ),
    "a-step-is-told-once": Planted(a_step_is_told_once, (COMES_TO_REST,), _bounds("a late copy", copies=1)),
    "the-first-part-counts": Planted(the_first_part_counts, (COMES_TO_REST,), _bounds("in parts", in_parts=True)),
}
