"""The coordinator of the model: the rules of the broker, its records written and kept, its timers as a set."""

from typing import Final

from msgspec.structs import replace

from eosin.coordinator.groups.consumer.rules.events import (
    CancelMemberTimer,
    ConsumerTimer,
    ConsumerTimerKind,
    StartMemberTimer,
)
from eosin.coordinator.groups.consumer.rules.targets import MOST_AT_ONCE
from eosin.coordinator.groups.rules.config import StreamsGroupConfig
from eosin.coordinator.groups.streams.log.records import encoded
from eosin.coordinator.groups.streams.log.replay import replayed
from eosin.coordinator.groups.streams.rules.decide import StreamsOutcome, decide, reads_topics
from eosin.coordinator.groups.streams.rules.events import StreamsEvent, StreamsTargetsComputed
from eosin.coordinator.groups.streams.rules.group import STATIC_LEAVE_EPOCH, StreamsGroup, StreamsMemberState
from eosin.coordinator.groups.streams.rules.targets import target_in_steps
from eosin.coordinator.steps import finished
from eosin.protocol.records.scan import KeyValue
from model_checker.streams.values import Bounds, Coordinator, KnownTopic
from model_checker.violation import Violation

NOW_MS: Final = 1000
EPOCHS: Final = "epochs never go down, and none is used twice"
REPLAYED: Final = "memory is what the log tells"
NEW: Final = Coordinator(StreamsGroup("g"), {}, {}, (), has_looked=False)
Topics = dict[str, KnownTopic]


def config_of(bounds: Bounds) -> StreamsGroupConfig:
    """Every target is due at once, and nobody is asked for a description."""
    return StreamsGroupConfig(
        assignment_interval_ms=0,
        initial_rebalance_delay_ms=1 if bounds.is_delayed else 0,
        num_standby_replicas=bounds.standby_replicas,
        eosin_topology_description_max_bytes=0,
    )


def happens(
    before: Coordinator, event: StreamsEvent, topics: Topics, bounds: Bounds
) -> tuple[Coordinator, StreamsOutcome]:
    """The coordinator after an event, and the decision. Raises Violation."""
    looks, config = reads_topics(event), config_of(bounds)
    decided = decide(
        before.group,
        event,
        now_ms=NOW_MS,
        config=config,
        topics=topics,
        topics_changed=looks and not before.has_looked,
        is_computing=bool(before.parts),
        most_at_once=0 if bounds.in_parts else MOST_AT_ONCE,
    )
    if decided.is_refused:
        return before, decided
    if not isinstance(event, StreamsTargetsComputed):
        _check_epochs(before.group, decided.group, in_parts=bounds.in_parts)
    log = dict(before.log)
    for record in encoded("g", decided.records):
        assert record.key is not None
        log[record.key] = KeyValue(len(log), record.key, record.value)
    parts = before.parts
    if decided.wants_target:
        steps = target_in_steps(decided.group, standby_replicas=config.num_standby_replicas, size=1)
        parts = tuple(finished(steps))
    after = Coordinator(decided.group, log, _timers(before, decided), parts, has_looked=before.has_looked or looks)
    return after, decided


def _timers(before: Coordinator, decided: StreamsOutcome) -> dict[ConsumerTimer, int]:
    timers = dict(before.timers)
    for effect in decided.timers:
        match effect:
            case StartMemberTimer(timer, _, epoch, unless_runs):
                if not (unless_runs and timer in timers):
                    timers[timer] = epoch if timer.kind is ConsumerTimerKind.REBALANCE else 0
            case CancelMemberTimer(timer):
                timers.pop(timer, None)
    return timers


def part_kept(before: Coordinator, topics: Topics, bounds: Bounds) -> Coordinator:
    """The next part of a target that was computed beside the decisions."""
    part, *rest = before.parts
    without = Coordinator(before.group, before.log, before.timers, tuple(rest), has_looked=before.has_looked)
    return happens(without, part, topics, bounds)[0]


def without_timer(before: Coordinator, timer: ConsumerTimer) -> Coordinator:
    """The same, a timer of which has run out."""
    timers = {each: epoch for each, epoch in before.timers.items() if each != timer}
    return Coordinator(before.group, before.log, timers, before.parts, has_looked=before.has_looked)


def with_other_topics(before: Coordinator) -> Coordinator:
    """The same, where topics have changed."""
    return Coordinator(before.group, before.log, before.timers, before.parts, has_looked=False)


def loaded(before: Coordinator) -> Coordinator:
    """Another coordinator, which begins with the log: each member has a whole session."""
    group = stored(before) or StreamsGroup("g")
    timers: dict[ConsumerTimer, int] = {}
    for name, member in group.members.items():
        timers[ConsumerTimer(ConsumerTimerKind.SESSION, name)] = 0
        if member.state is StreamsMemberState.UNREVOKED_TASKS:
            timers[ConsumerTimer(ConsumerTimerKind.REBALANCE, name)] = member.epoch
    return Coordinator(group, before.log, timers, (), has_looked=False)


def stored(coordinator: Coordinator) -> StreamsGroup | None:
    """The group that the log tells of. Raises Violation."""
    found = replayed(coordinator.log.values())
    if found.left_over:
        raise Violation(REPLAYED, f"left over is {found.left_over}")
    return found.groups.get("g")


def durable_part(group: StreamsGroup) -> StreamsGroup:
    """The group without what is in memory alone."""
    return replace(group, configured=None, is_delayed=False, shutdown_by=None, endpoint_epoch=0, state_timestamp_ms=-1)


def _check_epochs(before: StreamsGroup, after: StreamsGroup, *, in_parts: bool) -> None:
    if after.epoch < before.epoch or after.assignment_epoch < before.assignment_epoch:
        raise Violation(EPOCHS, f"from {before.epoch}, {before.assignment_epoch} to {after.epoch}")
    for name, member in after.members.items():
        known = before.members.get(name)
        if known is None:
            continue
        if member.epoch not in (known.epoch, STATIC_LEAVE_EPOCH) and member.epoch < known.epoch:
            raise Violation(EPOCHS, f"that of {name} goes from {known.epoch} to {member.epoch}")
        is_same = before.assignment_epoch == after.assignment_epoch and not in_parts
        if is_same and before.target(name) != after.target(name):
            raise Violation(EPOCHS, f"{name} has two targets at {after.assignment_epoch}")
