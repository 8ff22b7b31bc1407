"""`MemberSeen`: a member of a group as the group's page shows it, and the facts of a group of either protocol that its
members make. Pure, but for the names of topics."""

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from eosin.client.groups import GroupMember, moves_of, subscription_of
from eosin.coordinator.groups.consumer.rules.group import ConsumerGroup, ConsumerGroupState, ConsumerMember
from eosin.coordinator.groups.consumer.rules.targets import assignor_of
from eosin.coordinator.groups.rules.group import Group, Member
from eosin.model.cluster import Topic
from eosin.observe.explain.facts import AwaitedPartition
from eosin.observe.recorder.events import ClientIdentity
from eosin.observe.survey.assigned_partitions import assigned, named_partitions
from eosin.protocol.names import TopicPartition, Uuid

MOST_MEMBERS: Final = 200
MOST_ASSIGNED: Final = 50
MOST_AWAITED: Final = 10
NOT_HEARD: Final = -1
"""The last sign of life of a member, which Kafka's protocol does not tell."""

TopicById = Callable[[Uuid], Topic | None]
HeardMs = Callable[[str], int]
"""The time of a member's last sign of life, by its id; -1 if it is not known."""


class MemberSeen(msgspec.Struct, frozen=True, omit_defaults=True):
    """A member of a group, as far as the group's page shows it."""

    member_id: str
    instance_id: str | None
    """The name of a static member; None for others."""
    client_id: str
    peer: str
    session_timeout_ms: int
    is_leader: bool
    """True if it assigns partitions for all."""
    assigned: list[str]
    """Partitions; none while the group rebalances, and where it is no group of consumers."""
    assigned_more: int
    """Partitions beyond those."""
    heard_ms: int
    """The time of its last sign of life; -1 while it waits for others to join, and where it is not told."""
    epoch: int = -1
    """Of a member of a consumer group (KIP-848), as the next three; -1 for others."""
    rack: str = ""
    subscription: list[str] = []
    """Names, and a regular expression in slashes."""
    moves: list[str] = []
    """`-orders-1` is to be revoked, `+orders-1` is still to come."""


def classic_member(group: Group, member: Member, heard_ms: int) -> MemberSeen:
    """A member of a classic group of this broker."""
    names = sorted(map(str, assigned(group, member)))
    return MemberSeen(
        member.member_id,
        member.instance_id,
        member.client_id,
        member.client_host.lstrip("/"),
        member.session_timeout_ms,
        member.member_id == group.leader_id,
        names[:MOST_ASSIGNED],
        max(0, len(names) - MOST_ASSIGNED),
        heard_ms,
    )


def described_member(member: GroupMember) -> MemberSeen:
    """A member as any broker of Kafka's protocol describes it."""
    has, target = sorted(member.partitions), member.target
    return replace(
        _row(member.member_id, member.instance_id, member.client_id, member.host, has),
        epoch=-1 if member.epoch is None else member.epoch,
        rack=member.rack or "",
        subscription=subscription_of(member.topics[:MOST_ASSIGNED], member.regex),
        moves=[] if target is None else moves_of(has, target)[:MOST_ASSIGNED],
    )


def _consumer_member(
    group: ConsumerGroup, member: ConsumerMember, topic_by_id: TopicById, heard_ms: HeardMs
) -> MemberSeen:
    has = named_partitions(member.owned(), topic_by_id)
    return replace(
        _row(member.member_id, member.instance_id, member.client_id, member.client_host, has),
        heard_ms=heard_ms(member.member_id),
        epoch=member.epoch,
        rack=member.rack_id or "",
        subscription=subscription_of(member.topics[:MOST_ASSIGNED], member.regex),
        moves=moves_of(has, named_partitions(group.target(member.member_id), topic_by_id))[:MOST_ASSIGNED],
    )


def _row(
    member_id: str, instance_id: str | None, client_id: str, host: str, has: Sequence[TopicPartition]
) -> MemberSeen:
    """A member that does not lead its group, with the first of what it has."""
    return MemberSeen(
        member_id,
        instance_id,
        client_id,
        host.lstrip("/"),
        0,
        is_leader=False,
        assigned=[str(each) for each in has[:MOST_ASSIGNED]],
        assigned_more=max(0, len(has) - MOST_ASSIGNED),
        heard_ms=NOT_HEARD,
    )


def consumer_group_facts(
    group: ConsumerGroup, *, assignors: tuple[str, ...], topic_by_id: TopicById, heard_ms: HeardMs
) -> dict[str, Any]:
    """The fields of `ExplainedGroup` that a consumer group of this broker gives."""
    return {
        "state": group.state.value,
        "members": tuple(map(_identity, group.members.values())),
        "protocol": assignor_of(group, assignors),
        "epoch": group.epoch,
        "assignment_epoch": group.assignment_epoch,
        "awaited": tuple(islice(_awaited(group, topic_by_id), MOST_AWAITED)),
        "seen_members": tuple(
            _consumer_member(group, each, topic_by_id, heard_ms)
            for each in islice(group.members.values(), MOST_MEMBERS)
        ),
    }


def _awaited(group: ConsumerGroup, topic_by_id: TopicById) -> Iterator[AwaitedPartition]:
    """The partitions that members are to have, and others have not given up."""
    if group.state is ConsumerGroupState.STABLE:
        return
    for member in group.members.values():
        for partition in sorted(group.target(member.member_id)):
            holder = group.members.get(group.owners.get(partition, ""))
            if holder is not None and holder is not member:
                for name in named_partitions((partition,), topic_by_id):
                    yield AwaitedPartition(str(name), _identity(member), _identity(holder), holder.member_id)


def _identity(member: ConsumerMember) -> ClientIdentity:
    return ClientIdentity(client_id=member.client_id, peer=member.client_host.lstrip("/"))
