"""The coordinator of a streams group: the rules of the broker."""

from typing import Final

from msgspec.structs import replace

from eosin.coordinator.groups.consumer.rules.targets import MOST_AT_ONCE
from eosin.coordinator.groups.rules.config import StreamsGroupConfig
from eosin.coordinator.groups.streams.log.records import encoded
from eosin.coordinator.groups.streams.log.replay import replayed
from eosin.coordinator.groups.streams.rules.decide import StreamsOutcome, decide, reads_topics
from eosin.coordinator.groups.streams.rules.events import StreamsEvent, StreamsTargetsComputed
from eosin.coordinator.groups.streams.rules.group import StreamsGroup, StreamsMemberState
from eosin.coordinator.groups.streams.rules.targets import target_in_steps
from eosin.coordinator.steps import finished
from model_checker.membership import rules
from model_checker.membership.coordinator import NOW_MS
from model_checker.streams.values import Bounds, Coordinator, KnownTopic

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
        rules.check_epochs(before.group, decided.group, in_parts=bounds.in_parts)
    parts = before.parts
    if decided.wants_target:
        steps = target_in_steps(decided.group, standby_replicas=config.num_standby_replicas, size=1)
        parts = tuple(finished(steps))
    return before.after(decided, encoded("g", decided.records), parts, looks=looks), decided


def loaded(before: Coordinator) -> Coordinator:
    """Another coordinator, which begins with the log: each member has a whole session."""
    group = stored(before) or StreamsGroup("g")
    epochs = {
        name: member.epoch if member.state is StreamsMemberState.UNREVOKED_TASKS else None
        for name, member in group.members.items()
    }
    return before.loaded(group, epochs)


def stored(coordinator: Coordinator) -> StreamsGroup | None:
    """The group that the log tells of. Raises Violation."""
    found = replayed(coordinator.log.values())
    return rules.stored(found.groups, found.left_over)


def durable_part(group: StreamsGroup) -> StreamsGroup:
    """The group without what is in memory alone."""
    return replace(group, configured=None, is_delayed=False, shutdown_by=None, endpoint_epoch=0, state_timestamp_ms=-1)
