"""The coordinator of a consumer group: the rules of the broker."""

from typing import Final

from consumer_group import NamedTopic

from eosin.coordinator.groups.consumer.log.records import encoded
from eosin.coordinator.groups.consumer.log.replay import replayed
from eosin.coordinator.groups.consumer.rules.decide import Decided, decide
from eosin.coordinator.groups.consumer.rules.events import REQUESTS_OF_MEMBERS, ConsumerEvent, TargetsComputed
from eosin.coordinator.groups.consumer.rules.group import ConsumerGroup, ConsumerMember, ConsumerMemberState
from eosin.coordinator.groups.consumer.rules.targets import MOST_AT_ONCE, in_parts, target_in_steps
from eosin.coordinator.groups.rules.config import ConsumerGroupConfig, MigrationPolicy
from eosin.coordinator.steps import finished
from model_checker.groups.values import Bounds, Coordinator
from model_checker.membership import rules
from model_checker.membership.coordinator import NOW_MS

CONFIG: Final = ConsumerGroupConfig(assignment_interval_ms=0, migration_policy=MigrationPolicy.UPGRADE)
"""Every target is due at once, and members of the classic protocol alone are still a consumer group."""
NEW: Final = Coordinator(ConsumerGroup("g"), {}, {}, (), has_looked=False)
Topics = dict[str, NamedTopic]


def happens(before: Coordinator, event: ConsumerEvent, topics: Topics, bounds: Bounds) -> tuple[Coordinator, Decided]:
    """The coordinator after an event, and the decision. Raises Violation."""
    looks = isinstance(event, REQUESTS_OF_MEMBERS)
    decided = decide(
        before.group,
        event,
        now_ms=NOW_MS,
        config=CONFIG,
        topics=topics,
        topics_changed=looks and not before.has_looked,
        is_computing=bool(before.parts),
        most_at_once=0 if bounds.in_parts else MOST_AT_ONCE,
    )
    if decided.is_refused:
        return before, decided
    if not isinstance(event, TargetsComputed):
        rules.check_epochs(before.group, decided.group, in_parts=bounds.in_parts)
    parts = before.parts
    if decided.wants_target:
        target = finished(target_in_steps(decided.group, topics, CONFIG.assignors))
        parts = tuple(in_parts(decided.group, target, size=1))
    return before.after(decided, encoded("g", decided.records), parts, looks=looks), decided


def loaded(before: Coordinator) -> Coordinator:
    """Another coordinator, which begins with the log: each member has a whole session."""
    group = stored(before) or ConsumerGroup("g")
    epochs = {name: member.epoch if _revokes(member) else None for name, member in group.members.items()}
    return before.loaded(group, epochs)


def _revokes(member: ConsumerMember) -> bool:
    return member.state is ConsumerMemberState.UNREVOKED_PARTITIONS and member.classic is None


def stored(coordinator: Coordinator) -> ConsumerGroup | None:
    """The group that the log tells of. Raises Violation."""
    found = replayed(coordinator.log.values())
    return rules.stored(found.groups, found.left_over)
