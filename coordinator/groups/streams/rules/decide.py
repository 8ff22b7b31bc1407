"""`decide`: what happens to a streams group. Pure: the same group, event, time and topics always give the same answer.

A decision is a group, the records that lead to it in the order of the log, and timers. All its records are one batch:
they count together or not at all. A refusal changes nothing, and its member's session runs on.
"""

from collections.abc import Sequence
from typing import NamedTuple, assert_never

from eosin.coordinator.groups.consumer.rules.events import MemberTimerFired, TimerEffect
from eosin.coordinator.groups.consumer.rules.topics import HashOf, Topics
from eosin.coordinator.groups.rules.config import StreamsGroupConfig
from eosin.coordinator.groups.streams.rules import description, heartbeat, leaving, targets
from eosin.coordinator.groups.streams.rules.decision import StreamsDecision
from eosin.coordinator.groups.streams.rules.events import (
    DelayEnded,
    RefusedStreamsHeartbeat,
    StreamsEvent,
    StreamsHeartbeat,
    StreamsResult,
    StreamsTargetsComputed,
    TopologyDescribed,
)
from eosin.coordinator.groups.streams.rules.group import JOIN_EPOCH, StreamsGroup
from eosin.coordinator.groups.streams.rules.records import StreamsRecord


def reads_topics(event: StreamsEvent) -> bool:
    """True if the group looks at its topics with an event: whoever leaves has none to look for."""
    return isinstance(event, StreamsHeartbeat) and event.member_epoch >= JOIN_EPOCH


class StreamsOutcome(NamedTuple):
    """A decision."""

    group: StreamsGroup
    records: Sequence[StreamsRecord] = ()
    timers: Sequence[TimerEffect] = ()
    answer: StreamsResult | None = None
    """None where nobody waits for one."""
    wants_target: bool = False
    """True if the target of the group is to be computed, step by step, which takes longer than a decision may."""
    is_refused: bool = False
    """True if nothing has happened, of which the answer tells."""


def decide(
    group: StreamsGroup,
    event: StreamsEvent,
    *,
    now_ms: int,
    config: StreamsGroupConfig,
    topics: Topics,
    topics_changed: bool = False,
    hash_of: HashOf | None = None,
    is_computing: bool = False,
    most_at_once: int = targets.MOST_AT_ONCE,
) -> StreamsOutcome:
    """The group that follows. `topics_changed`: topics may have, since the group's last look at them; `hash_of` is that
    of `topics`, for who remembers it. `is_computing`: a target of the group is being computed; `most_at_once`: of so
    many members and tasks it is computed in the decision."""
    decision = StreamsDecision(
        group,
        now_ms=now_ms,
        config=config,
        topics=topics,
        most_at_once=most_at_once,
        hash_of=hash_of,
        is_computing=is_computing,
    )
    try:
        answer = _decided(decision, event, topics_changed=topics_changed)
    except RefusedStreamsHeartbeat as refusal:
        return StreamsOutcome(group, answer=refusal.result, is_refused=True)
    return StreamsOutcome(
        decision.group, tuple(decision.records), tuple(decision.timers), answer, wants_target=decision.wants_target
    )


def _decided(decision: StreamsDecision, event: StreamsEvent, *, topics_changed: bool) -> StreamsResult | None:
    match event:
        case StreamsHeartbeat() if event.member_epoch < JOIN_EPOCH:
            return leaving.leave(decision, event)
        case StreamsHeartbeat():
            return heartbeat.heartbeat(decision, event, topics_changed=topics_changed)
        case MemberTimerFired():
            leaving.timer_fired(decision, event)
        case DelayEnded():
            heartbeat.delay_ended(decision)
        case TopologyDescribed():
            return description.described(decision, event)
        case StreamsTargetsComputed():
            targets.computed(decision, event)
        case _:
            assert_never(event)
    return None
