"""`decide`: what happens to a share group. Pure: the same group, event, time and topics always give the same answer.

A decision is a group, the records that lead to it in the order of the log, and timers. All its records are one batch:
they count together or not at all. A refusal changes nothing, and its member's session runs on.
"""

from collections.abc import Collection, Sequence
from typing import NamedTuple, assert_never

from eosin.coordinator.groups.consumer.rules.events import HeartbeatResult, TimerEffect
from eosin.coordinator.groups.consumer.rules.heartbeat import RefusedHeartbeat
from eosin.coordinator.groups.consumer.rules.topics import HashOf, Topics
from eosin.coordinator.groups.rules.config import ShareGroupConfig
from eosin.coordinator.groups.share.rules import heartbeat, states, targets
from eosin.coordinator.groups.share.rules.decision import ShareDecision
from eosin.coordinator.groups.share.rules.events import (
    SessionEnded,
    ShareEvent,
    ShareHeartbeat,
    ShareTargetsComputed,
    StatesDeleted,
    StatesDoomed,
    StatesInitialized,
    StatesWanted,
    TopicsGone,
)
from eosin.coordinator.groups.share.rules.group import JOIN_EPOCH, ShareGroup
from eosin.coordinator.groups.share.rules.records import ShareRecord
from eosin.coordinator.groups.share.rules.states import StateTopics
from eosin.protocol.names import Uuid


class ShareOutcome(NamedTuple):
    """A decision."""

    group: ShareGroup
    records: Sequence[ShareRecord] = ()
    timers: Sequence[TimerEffect] = ()
    answer: HeartbeatResult | None = None
    """None where nobody waits for one."""
    wants_target: bool = False
    """True if the target of the group is to be computed, step by step, which takes longer than a decision may."""
    is_refused: bool = False
    """True if nothing has happened, of which the answer tells."""


def decide(
    group: ShareGroup,
    event: ShareEvent,
    *,
    now_ms: int,
    config: ShareGroupConfig,
    topics: Topics,
    looks: bool = False,
    busy: Collection[Uuid] = (),
    hash_of: HashOf | None = None,
    is_computing: bool = False,
    most_at_once: int = targets.MOST_AT_ONCE,
) -> ShareOutcome:
    """The group that follows. `looks`: topics or states may have changed since the group's last look at them; `busy`
    are topics whose states are being deleted this moment. `hash_of` is that of `topics`, for who remembers it.
    `is_computing`: a target of the group is being computed; `most_at_once`: of so many members and partitions it is
    computed in the decision."""
    decision = ShareDecision(
        group,
        now_ms=now_ms,
        config=config,
        topics=topics,
        most_at_once=most_at_once,
        busy=busy,
        hash_of=hash_of,
        is_computing=is_computing,
    )
    try:
        answer = _decided(decision, event, looks=looks)
    except RefusedHeartbeat as refusal:
        return ShareOutcome(group, answer=refusal.result, is_refused=True)
    return ShareOutcome(
        decision.group, tuple(decision.records), tuple(decision.timers), answer, wants_target=decision.wants_target
    )


def _decided(decision: ShareDecision, event: ShareEvent, *, looks: bool) -> HeartbeatResult | None:
    before = decision.group.states
    match event:
        case ShareHeartbeat() if event.member_epoch < JOIN_EPOCH:
            return heartbeat.leave(decision, event)
        case ShareHeartbeat():
            return heartbeat.heartbeat(decision, event, looks=looks)
        case SessionEnded(member_id):
            if member_id in decision.group.members:
                heartbeat.remove(decision, member_id)
        case ShareTargetsComputed():
            targets.computed(decision, event)
        case StatesInitialized(partitions):
            _put_states(decision, states.initialized(before, partitions))
        case StatesWanted():
            _want_states(decision, event)
        case StatesDoomed(topics):
            _put_states(decision, states.to_delete(before, topics))
        case StatesDeleted(topics):
            _put_states(decision, states.deleted(before, topics))
        case TopicsGone(topics):
            _put_states(decision, states.without_topics(before, topics))
        case _:
            assert_never(event)
    return None


def _put_states(decision: ShareDecision, after: StateTopics) -> None:
    if after != decision.group.states:
        decision.put_states(after)


def _want_states(decision: ShareDecision, event: StatesWanted) -> None:
    """Begin the next epoch, so that whoever has read the states before cannot write into those that follow. A state
    that is there stays initialized while it begins anew: a crash in between leaves it as it was. A topic that has gone
    since it was named is left out: nobody would take it out of the lists."""
    group = decision.group
    decision.store_group(group.epoch + 1 if group.is_stored else group.epoch)
    decision.store_target_epoch(0)
    found = {topic_id: decision.topics.get(name) for topic_id, name in event.names.items()}
    there = {topic_id for topic_id, topic in found.items() if topic is not None and topic.topic_id == topic_id}
    places = frozenset(
        place for place in event.partitions if place.topic_id in there and not group.states.has_state(place)
    )
    if places:
        decision.put_states(states.begun(group.states, states.lists_of(places, event.names)))
