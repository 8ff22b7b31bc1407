"""The target of a group: when the next one is computed, by which assignor, and what of it is new
(consumer-groups.md 6)."""

from collections.abc import Mapping
from typing import Final

from msgspec.structs import replace

from eosin.coordinator.groups.consumer.assignors import range as by_range
from eosin.coordinator.groups.consumer.assignors import uniform
from eosin.coordinator.groups.consumer.assignors.assignment import Assign, SubscribedMember
from eosin.coordinator.groups.consumer.rules.decision import ConsumerDecision
from eosin.coordinator.groups.consumer.rules.group import NO_PARTITIONS, ConsumerGroup, ConsumerMember
from eosin.coordinator.groups.consumer.rules.records import GroupRecord, Kind
from eosin.coordinator.groups.consumer.rules.topics import topic_ids
from eosin.coordinator.groups.rules.config import RANGE, UNIFORM

ASSIGNORS: Final[Mapping[str, Assign]] = {UNIFORM: uniform.assign, RANGE: by_range.assign}


def compute_target(decision: ConsumerDecision) -> None:
    """Bring the target to the group epoch, if it is behind and its time has come."""
    group, interval_ms = decision.group, decision.config.assignment_interval_ms
    if group.epoch <= group.assignment_epoch:
        return
    since = group.assignment_timestamp_ms
    # A time in the future is that of a clock which was put back since: to wait for it could take for ever.
    if since and interval_ms and since <= decision.now_ms < since + interval_ms:
        return
    assign = ASSIGNORS[assignor_of(group, decision.config.assignors)]
    members = [
        SubscribedMember(
            member.member_id,
            topic_ids(group.names_of(member), decision.topics),
            member.instance_id,
            member.rack_id,
        )
        for member in group.members.values()
    ]
    counts = {
        topic.topic_id: topic.partitions
        for topic in map(decision.topics.get, group.subscribed_names())
        if topic is not None
    }
    computed = assign(members, counts, group.targets)
    targets = {name: computed.get(name, NO_PARTITIONS) for name in group.members}
    for name, target in targets.items():
        if group.target(name) != target or name not in group.targets:
            decision.write(GroupRecord(Kind.TARGET, name, target))
    decision.group = replace(group, targets=targets)
    decision.store_target_epoch(decision.now_ms)


def assignor_of(group: ConsumerGroup, configured: tuple[str, ...]) -> str:
    """The assignor that most members vote for, of several the first by name; without a vote the first of the
    settings."""
    votes: dict[str, int] = {}
    for member in group.members.values():
        if (vote := _vote(member)) in ASSIGNORS:
            votes[vote] = votes.get(vote, 0) + 1
    if votes:
        return min(votes, key=lambda name: (-votes[name], name))
    return next((name for name in configured if name in ASSIGNORS), UNIFORM)


def prevails_anew(decision: ConsumerDecision, before: ConsumerMember, updated: ConsumerMember) -> bool:
    """True if another assignor than before the decision has most votes, by that of a member."""
    if _vote(before) == _vote(updated):
        return False
    configured = decision.config.assignors
    return assignor_of(decision.group, configured) != assignor_of(decision.before, configured)


def _vote(member: ConsumerMember) -> str:
    return "" if member.classic is not None else member.assignor or ""
