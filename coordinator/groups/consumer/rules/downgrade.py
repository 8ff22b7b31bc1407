"""A consumer group whose last member by the new protocol goes becomes a classic group (consumer-groups.md 17). Pure.

The group epoch becomes the generation, and what members have, or are to revoke, becomes their assignment: that of two
members never has a partition in common. They rebalance at once, unless nobody has left and all have come to their
targets. (Apache Kafka writes the targets, which others may still have a part of.)
"""

from collections.abc import Collection, Mapping

from msgspec.structs import replace

from eosin.coordinator.groups.consumer.rules.decision import ConsumerDecision
from eosin.coordinator.groups.consumer.rules.embedded_protocol import assignment_bytes, names_by_id
from eosin.coordinator.groups.consumer.rules.group import ConsumerGroup, ConsumerMember
from eosin.coordinator.groups.consumer.rules.records import GroupRecord, Kind, end_records
from eosin.coordinator.groups.consumer.rules.topics import Topics
from eosin.coordinator.groups.rules.group import Group, GroupState, Member, select_protocol
from eosin.coordinator.groups.rules.subscription import CONSUMER_PROTOCOL


def is_due(decision: ConsumerDecision, *, without: Collection[str] = ()) -> bool:
    """True if a group that loses some members has only classic ones left, and may become a classic group."""
    config = decision.config
    if not decision.may_convert or not config.migration_policy.downgrades:
        return False
    members = decision.group.members
    staying = len(members) - len(without)
    classic = decision.group.counts.classic - sum(members[name].classic is not None for name in without)
    return classic == staying and 0 < staying <= config.classic_max_size


def convert(decision: ConsumerDecision, *, without: Collection[str] = (), joining: str = "") -> None:
    """End the consumer group and begin the classic one, without some members. It rebalances unless a member, `joining`,
    has only taken the place of another and all have come to their targets."""
    group = decision.group
    staying = {name: member for name, member in group.members.items() if name not in without}
    classic = _classic_group(group, staying, decision.topics, now_ms=decision.now_ms)
    for record in end_records(group):
        decision.write(record)
    decision.write(GroupRecord(Kind.CLASSIC_GROUP, value=classic))
    decision.classic = classic
    reconciled = all(member.is_reconciled(group.epoch) for member in staying.values())
    decision.classic_rebalances = not (joining and reconciled)


def _classic_group(
    group: ConsumerGroup, staying: Mapping[str, ConsumerMember], topics: Topics, *, now_ms: int
) -> Group:
    members = {name: _member(member) for name, member in staying.items()}
    protocol_name = select_protocol(list(members.values()))
    names = names_by_id(group.subscribed_names(), topics)
    for name, member in members.items():
        like = member.metadata(protocol_name)
        assignment = assignment_bytes(staying[name].owned(), names, like=like)
        members[name] = replace(member, assignment=assignment)
    return Group(
        group.group_id,
        state=GroupState.STABLE,
        state_timestamp_ms=now_ms,
        generation_id=group.epoch,
        protocol_type=CONSUMER_PROTOCOL,
        protocol_name=protocol_name,
        leader_id=min(members),
        members=members,
    )


def _member(member: ConsumerMember) -> Member:
    classic = member.classic
    assert classic is not None
    return Member(
        member_id=member.member_id,
        instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        session_timeout_ms=classic.session_timeout_ms,
        rebalance_timeout_ms=max(member.rebalance_timeout_ms, 0),
        protocols=classic.protocols,
    )
