"""A classic group with members becomes a consumer group when a member by the new protocol joins it (consumer-groups.md
16). Pure.

Its generation becomes the group epoch, the epoch of its target and that of each member; what its members have becomes
what they are to have. So nothing moves until the member that joins begins the next epoch.
"""

from collections.abc import Iterator
from typing import Final

from msgspec.structs import replace

from eosin.coordinator.groups.consumer.assignors.assignment import Partitions, TopicIdPartition
from eosin.coordinator.groups.consumer.rules.decision import ConsumerDecision
from eosin.coordinator.groups.consumer.rules.embedded_protocol import CustomAssignor, read_assignment, read_subscription
from eosin.coordinator.groups.consumer.rules.events import ConsumerTimerKind
from eosin.coordinator.groups.consumer.rules.group import (
    INITIAL_EPOCH,
    ClassicMember,
    ConsumerGroup,
    ConsumerMember,
    with_member,
)
from eosin.coordinator.groups.consumer.rules.heartbeat import RefusedHeartbeat
from eosin.coordinator.groups.consumer.rules.records import GroupRecord, Kind
from eosin.coordinator.groups.consumer.rules.topics import Topics
from eosin.coordinator.groups.rules.config import ConsumerGroupConfig
from eosin.coordinator.groups.rules.group import Group, GroupState, Member, select_protocol
from eosin.coordinator.groups.rules.subscription import CONSUMER_PROTOCOL
from eosin.protocol.errors import ErrorCode
from eosin.protocol.types import DecodeError

_CUSTOM_ASSIGNOR: Final = (
    "an unsupported custom assignor is in use. Please refer to the documentation or switch to a default assignor before"
    " re-attempting the upgrade"
)


def begin(decision: ConsumerDecision, classic: Group) -> None:
    """Make the decision's group of the classic one, whose tombstone goes before these records. Raises
    RefusedHeartbeat."""
    problem = next(_problems(classic, decision.config), None)
    if problem is None:
        try:
            members = _members(classic, decision.topics)
        except CustomAssignor:
            problem = _CUSTOM_ASSIGNOR
        except DecodeError as error:
            problem = f"the embedded consumer protocol of a member is malformed ({error})"
    if problem is not None:
        text = f"Cannot upgrade classic group {classic.group_id} to consumer group because {problem}."
        raise RefusedHeartbeat(ErrorCode.GROUP_ID_NOT_FOUND, text)
    epoch = max(classic.generation_id, INITIAL_EPOCH)
    decision.group = _consumer_group(ConsumerGroup(classic.group_id, epoch=epoch, assignment_epoch=epoch), members)
    for member in members:
        decision.write(GroupRecord(Kind.MEMBER, member.member_id, member))
    decision.store_group(epoch)
    for member in members:
        decision.write(GroupRecord(Kind.TARGET, member.member_id, decision.group.target(member.member_id)))
    decision.store_target_epoch(0)
    for member in members:
        decision.write(GroupRecord(Kind.CURRENT, member.member_id, member))
        assert member.classic is not None
        decision.start(ConsumerTimerKind.SESSION, member, member.classic.session_timeout_ms)


def _problems(classic: Group, config: ConsumerGroupConfig) -> Iterator[str]:
    if not config.migration_policy.upgrades:
        yield f"group.consumer.migration.policy is {config.migration_policy.value}"
    if classic.protocol_type != CONSUMER_PROTOCOL:
        yield f"its members are no consumers (protocol type {classic.protocol_type})"
    if len(classic.members) > config.max_size:
        yield f"it has more than {config.max_size} members"


def _members(classic: Group, topics: Topics) -> list[ConsumerMember]:
    """The members with what they have. Of two that say that they have one partition the first has it: such an
    assignment is a stale one. Raises DecodeError."""
    protocol_name = _protocol_name(classic)
    epoch = max(classic.generation_id, INITIAL_EPOCH)
    taken: set[TopicIdPartition] = set()
    members = []
    for member in classic.members.values():
        subscription = read_subscription(member.metadata(protocol_name), topics)
        had = _had(classic, member, subscription.owned, topics, protocol_name) - taken
        taken |= had
        members.append(
            ConsumerMember(
                member.member_id,
                instance_id=member.instance_id,
                rack_id=subscription.rack_id,
                client_id=member.client_id,
                client_host=member.client_host,
                topics=subscription.topics,
                rebalance_timeout_ms=member.rebalance_timeout_ms,
                classic=ClassicMember(member.session_timeout_ms, member.protocols),
                epoch=epoch,
                previous_epoch=epoch,
                assigned=dict.fromkeys(sorted(had), epoch),
            )
        )
    return members


def _protocol_name(classic: Group) -> str:
    """The protocol of the group. In its first join phase it has none yet, and in a later one members may have joined
    that do not offer the last one any more: then it is the one that would be selected."""
    members, name = classic.members.values(), classic.protocol_name
    offered = name is not None and all(name in member.protocol_names for member in members)
    return name if name is not None and offered else select_protocol(list(members))


def _had(classic: Group, member: Member, owned: Partitions, topics: Topics, protocol_name: str) -> Partitions:
    """The partitions of a member: those of the last assignment, or, if a rebalance has taken that away, those that it
    has said that it keeps."""
    if not member.assignment and classic.state is not GroupState.STABLE:
        return owned
    return read_assignment(member.assignment, topics, protocol_name)


def _consumer_group(group: ConsumerGroup, members: list[ConsumerMember]) -> ConsumerGroup:
    """The group with its members, whose target is what they have."""
    for member in members:
        group = with_member(group, member)
    targets = {member.member_id: frozenset(member.assigned) for member in members}
    return replace(group, targets=group.targets.changed(targets, ()))
