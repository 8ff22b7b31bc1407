"""Bugs to plant in the code of consumer groups, beside those of `membership.planted`."""

from contextlib import AbstractContextManager
from typing import Any, Final
from unittest.mock import patch

from msgspec.structs import replace

from eosin.coordinator.groups.consumer.rules import classic_members, commits, decide, decision, heartbeat, targets
from eosin.coordinator.groups.consumer.rules.decision import ConsumerDecision
from eosin.coordinator.groups.consumer.rules.group import ConsumerGroup, ConsumerMember, ConsumerMemberState
from eosin.coordinator.groups.consumer.rules.records import Kind as RecordKind
from eosin.protocol.errors import ErrorCode
from model_checker.groups.rules import COMES_TO_REST, ONE_COMMITTER, ONE_OWNER, ONE_READER
from model_checker.groups.values import Bounds
from model_checker.membership.planted import Code, Planted, planted
from model_checker.membership.rules import EPOCHS
from model_checker.membership.values import Kind

_CODE: Final = Code(
    decide,
    heartbeat,
    targets,
    ConsumerDecision,
    nothing=frozenset(),
    unreleased=ConsumerMemberState.UNRELEASED_PARTITIONS,
    target=RecordKind.TARGET,
)


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


def any_older_epoch_commits() -> AbstractContextManager[Any]:
    """A member may commit by an epoch that it had once, whatever partition (KIP-1251 forgotten)."""

    def careless(member: ConsumerMember, member_epoch: int, *_: Any) -> ErrorCode:
        return ErrorCode.NONE if member_epoch <= member.epoch else ErrorCode.STALE_MEMBER_EPOCH

    return patch.object(commits, "_of_epoch", careless)


def new_target_at_the_old_epoch() -> AbstractContextManager[Any]:
    """A target is kept as that of the epoch before."""
    sound = ConsumerDecision.store_target_epoch

    def careless(self: ConsumerDecision, timestamp_ms: int, *, epoch: int | None = None) -> None:
        sound(self, timestamp_ms, epoch=None if epoch is None else max(self.group.assignment_epoch, epoch - 1))

    return patch.object(ConsumerDecision, "store_target_epoch", careless)


def classic_members_wait_in_silence() -> AbstractContextManager[Any]:
    """A classic member that waits for partitions is not told that they are free."""
    return patch.object(classic_members, "_waits_for_others", lambda *_: True)


PLANTED: Final = planted(
    _CODE,
    within=_bounds,
    owner_lost=owner_lost,
    commits=any_older_epoch_commits,
    one_owner=ONE_OWNER,
    own=ONE_READER,
    one_committer=ONE_COMMITTER,
    rest=COMES_TO_REST,
) | {
    "others-have-nothing": Planted(_CODE.others_have_nothing, (ONE_OWNER,), _bounds("no fault")),
    "new-target-at-the-old-epoch": Planted(new_target_at_the_old_epoch, (EPOCHS, COMES_TO_REST), _bounds("no fault")),
    "classic-members-wait-in-silence": Planted(
        classic_members_wait_in_silence, (COMES_TO_REST,), _bounds("a classic member", Kind.DYNAMIC, Kind.COOPERATIVE)
    ),
}
