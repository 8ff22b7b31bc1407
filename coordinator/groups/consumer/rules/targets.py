"""The target of a group: when the next one is computed, by which assignor, and what of it is new
(consumer-groups.md 6).

The target of a small group is a part of the decision that asks for it. That of a large one takes longer than others may
wait, so it is computed beside the decisions, from the group as it was, and comes back in parts (`TargetsComputed`).
Meanwhile members may have come and gone: the group epoch tells, and the next target is due at once.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Final, Protocol, TypeVar

from eosin.coordinator.groups.consumer.assignors import range as by_range
from eosin.coordinator.groups.consumer.assignors import uniform
from eosin.coordinator.groups.consumer.assignors.assignment import (
    AssignInSteps,
    Partitions,
    Steps,
    SubscribedMember,
    Target,
)
from eosin.coordinator.groups.consumer.rules.decision import ConsumerDecision
from eosin.coordinator.groups.consumer.rules.events import TargetsComputed
from eosin.coordinator.groups.consumer.rules.group import NO_PARTITIONS, ConsumerGroup, ConsumerMember, vote_of
from eosin.coordinator.groups.consumer.rules.topics import Topics, topic_ids
from eosin.coordinator.groups.rules.config import RANGE, UNIFORM
from eosin.coordinator.steps import InSteps, finished
from eosin.protocol.names import Uuid

ASSIGNORS: Final[Mapping[str, AssignInSteps]] = {UNIFORM: uniform.assign_in_steps, RANGE: by_range.assign_in_steps}

_Share = TypeVar("_Share")
"""The part of a target that one member gets."""

MOST_AT_ONCE: Final = 500
"""Members and partitions of a group whose target is computed with a decision: it takes some milliseconds, most of them
for the records of the members whose target has changed."""
PART: Final = 100
"""Members and partitions in one part of a target that was computed beside the decisions: their records are a batch."""
CHARS_PER_MEMBER: Final = 200
"""Each record of a member has the name of the group: one of 32 KiB weighs as much as many members."""


def compute_target(decision: ConsumerDecision) -> None:
    """Bring the target to the group epoch if it is behind and its time has come, or ask for it if that takes long."""
    group = decision.group
    if decision.is_computing or not is_due(
        group, interval_ms=decision.config.assignment_interval_ms, now_ms=decision.now_ms
    ):
        return
    counts = partition_counts(group, decision.topics)
    if len(group.members) * weight_of(group.group_id) + sum(counts.values()) > decision.most_at_once:
        decision.wants_target = True
        return
    target = finished(target_in_steps(group, decision.topics, decision.config.assignors))
    computed(decision, TargetsComputed(group.epoch, target, group.members, is_last=True))


class Targeted(Protocol):
    """A group of any kind that has targets."""

    @property
    def epoch(self) -> int:
        """The group epoch."""

    @property
    def assignment_epoch(self) -> int:
        """The group epoch that its target was computed at."""

    @property
    def assignment_timestamp_ms(self) -> int:
        """The time when it was; 0 if the next one waits for nothing."""


def is_due(group: Targeted, *, interval_ms: int, now_ms: int) -> bool:
    """True if the target is behind the group epoch, and may be computed now."""
    if group.epoch <= group.assignment_epoch:
        return False
    since = group.assignment_timestamp_ms
    # A time in the future is that of a clock which was put back since: to wait for it could take for ever.
    return not (since and interval_ms and since <= now_ms < since + interval_ms)


def weight_of(group_id: str) -> int:
    """Number of members that one counts as where records of members are put into a batch."""
    return 1 + len(group_id) // CHARS_PER_MEMBER


def partition_counts(group: ConsumerGroup, topics: Topics) -> dict[Uuid, int]:
    """The numbers of partitions of the topics that the members are subscribed to."""
    known = (topics.get(name) for name in group.subscribed_names())
    return {topic.topic_id: topic.partitions for topic in known if topic is not None}


def target_in_steps(group: ConsumerGroup, topics: Topics, configured: tuple[str, ...]) -> Steps:
    """Compute the target of a group, each of its members in it, in steps of at most about a millisecond."""
    assign = ASSIGNORS[assignor_of(group, configured)]
    counts = partition_counts(group, topics)
    subscriptions: dict[tuple[tuple[str, ...], str], frozenset[Uuid]] = {}
    members: list[SubscribedMember] = []
    for member in group.members.values():
        subscription = member.topics, member.regex
        ids = subscriptions.get(subscription)
        if ids is None:
            ids = subscriptions[subscription] = topic_ids(group.names_of(member), topics)
        members.append(SubscribedMember(member.member_id, ids, member.instance_id, member.rack_id))
        yield
    target = yield from assign(members, counts, dict(group.targets.items()))
    return {member.member_id: target.get(member.member_id, NO_PARTITIONS) for member in members}


def in_parts(group: ConsumerGroup, target: Target, *, size: int = PART) -> Iterator[TargetsComputed]:
    """A target that was computed of `group`, in parts whose records are quickly written."""
    for part, is_last in in_pieces(target, weight=weight_of(group.group_id), size=size, count=len):
        yield TargetsComputed(group.epoch, part, group.members, is_last)


def in_pieces(
    target: Mapping[str, _Share], *, weight: int, size: int, count: Callable[[_Share], int]
) -> Iterator[tuple[dict[str, _Share], bool]]:
    """Parts of a target of about this size, each member of this weight and what it is given counted; and whether it is
    the last."""
    part: dict[str, _Share] = {}
    room = size
    for name, share in target.items():
        part[name] = share
        room -= weight + count(share)
        if room <= 0:
            yield part, False
            part, room = {}, size
    yield part, True


def computation(
    group: ConsumerGroup, topics: Topics, configured: tuple[str, ...]
) -> InSteps[Iterator[TargetsComputed]]:
    """Compute the target of a group as it is now, in steps, and in parts."""
    subscribed = {name: topics[name] for name in group.subscribed_names() if name in topics}
    target = yield from target_in_steps(group, subscribed, configured)
    return in_parts(group, target)


def computed(decision: ConsumerDecision, event: TargetsComputed) -> None:
    """Keep a part of a target: of the members that are still there, and of those that have replaced a static one. The
    target counts when its last part is kept. One that is not newer than the present one is of no use any more."""
    before = decision.group
    if event.epoch <= before.assignment_epoch:
        return
    changed: dict[str, Partitions] = {}
    for name, target in event.targets.items():
        member_id = name if name in before.members else _successor(before, event.members.get(name), event)
        if member_id is not None and before.targets.get(member_id) != target:
            changed[member_id] = target
    decision.put_targets(changed)
    if event.is_last:
        decision.store_target_epoch(decision.now_ms, epoch=event.epoch)


def _successor(group: ConsumerGroup, gone: ConsumerMember | None, event: TargetsComputed) -> str | None:
    """The member that has replaced a static one since a target was computed; None if there is none."""
    holder = None if gone is None or gone.instance_id is None else group.holder(gone.instance_id)
    return None if holder is None or holder.member_id in event.members else holder.member_id


def assignor_of(group: ConsumerGroup, configured: tuple[str, ...]) -> str:
    """The assignor that most members vote for, of several the first by name; without a vote the first of the
    settings."""
    votes = {name: count for name, count in group.counts.votes.items() if name in ASSIGNORS}
    if votes:
        return min(votes, key=lambda name: (-votes[name], name))
    return next((name for name in configured if name in ASSIGNORS), UNIFORM)


def prevails_anew(decision: ConsumerDecision, before: ConsumerMember, updated: ConsumerMember) -> bool:
    """True if another assignor than before the decision has most votes, by that of a member."""
    if vote_of(before) == vote_of(updated):
        return False
    configured = decision.config.assignors
    return assignor_of(decision.group, configured) != assignor_of(decision.before, configured)
