"""`decide`: what happens to a consumer group. Pure: the same group, event, time and topics always give the same answer.

A decision is a group, the records that lead to it in the order of the log, and timers. All its records are one batch:
they count together or not at all. A refusal changes nothing, and its member's session runs on.
"""

from collections.abc import Sequence
from typing import NamedTuple, assert_never

from eosin.coordinator.groups.consumer.rules import classic_members, leaving, regexes, targets, upgrade
from eosin.coordinator.groups.consumer.rules.classic_members import RefusedClassicRequest
from eosin.coordinator.groups.consumer.rules.decision import ConsumerDecision
from eosin.coordinator.groups.consumer.rules.events import (
    ClassicHeartbeat,
    ConsumerEvent,
    ConsumerHeartbeat,
    HeartbeatResult,
    MembersLeft,
    MemberTimerFired,
    RegexesResolved,
    TargetsComputed,
    TimerEffect,
    Upgrade,
)
from eosin.coordinator.groups.consumer.rules.group import JOIN_EPOCH, ConsumerGroup
from eosin.coordinator.groups.consumer.rules.heartbeat import RefusedHeartbeat, heartbeat
from eosin.coordinator.groups.consumer.rules.records import GroupRecord
from eosin.coordinator.groups.consumer.rules.topics import HashOf, Topics
from eosin.coordinator.groups.rules.config import ConsumerGroupConfig
from eosin.coordinator.groups.rules.effects import JoinResult, LeaveResult, SyncResult
from eosin.coordinator.groups.rules.events import Join, Sync
from eosin.coordinator.groups.rules.group import Group

Answer = HeartbeatResult | LeaveResult | JoinResult | SyncResult


class Decided(NamedTuple):
    """A decision."""

    group: ConsumerGroup
    records: Sequence[GroupRecord] = ()
    timers: Sequence[TimerEffect] = ()
    answer: Answer | None = None
    """None where nobody waits for one."""
    wants_target: bool = False
    """True if the target of the group is to be computed, step by step, which takes longer than a decision may."""
    is_refused: bool = False
    """True if nothing has happened, of which the answer tells."""
    classic: Group | None = None
    """The classic group that takes the place of this one."""
    classic_rebalances: bool = False
    """True if that one begins with a rebalance."""


def decide(
    group: ConsumerGroup,
    event: ConsumerEvent,
    *,
    now_ms: int,
    config: ConsumerGroupConfig,
    topics: Topics,
    topics_changed: bool = False,
    hash_of: HashOf | None = None,
    is_computing: bool = False,
    most_at_once: int = targets.MOST_AT_ONCE,
    may_convert: bool = True,
) -> Decided:
    """The group that follows. `topics_changed`: topics may have, since the group's last look at them. `hash_of` is that
    of `topics`, for who remembers it. `is_computing`: a target of the group is being computed; `most_at_once`: of so
    many members and partitions it is computed in the decision. `may_convert`: no other change of its kind is on its way
    to the disk."""
    decision = ConsumerDecision(
        group,
        now_ms=now_ms,
        config=config,
        topics=topics,
        most_at_once=most_at_once,
        hash_of=hash_of,
        is_computing=is_computing,
        may_convert=may_convert,
    )
    try:
        answer = _decided(decision, event, topics_changed=topics_changed)
    except (RefusedHeartbeat, RefusedClassicRequest) as refusal:
        return Decided(group, answer=refusal.result, is_refused=True)
    return Decided(
        decision.group,
        tuple(decision.records),
        tuple(decision.timers),
        answer,
        wants_target=decision.wants_target,
        classic=decision.classic,
        classic_rebalances=decision.classic_rebalances,
    )


def _decided(decision: ConsumerDecision, event: ConsumerEvent, *, topics_changed: bool) -> Answer | None:
    match event:
        case ConsumerHeartbeat() if event.member_epoch < JOIN_EPOCH:
            return leaving.leave(decision, event)
        case ConsumerHeartbeat():
            return heartbeat(decision, event, topics_changed=topics_changed)
        case Upgrade():
            upgrade.begin(decision, event.classic)
            return heartbeat(decision, event.heartbeat, topics_changed=True)
        case Join():
            return classic_members.join(decision, event, topics_changed=topics_changed)
        case Sync():
            return classic_members.sync(decision, event)
        case ClassicHeartbeat():
            return classic_members.heartbeat(decision, event, topics_changed=topics_changed)
        case MembersLeft():
            return leaving.members_left(decision, event)
        case MemberTimerFired():
            leaving.timer_fired(decision, event)
        case RegexesResolved():
            regexes.resolved(decision, event)
        case TargetsComputed():
            targets.computed(decision, event)
        case _:
            assert_never(event)
    return None
