"""`MemberSeen`: a member of a group as the group's page shows it, and the facts of a group of either protocol that its
members make. Pure, but for the names of topics."""

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from eosin.client.groups import GroupMember, moves_of, subscription_of
from eosin.client.streams_groups import StreamsMemberTasks, task_moves
from eosin.coordinator.groups.consumer.rules.group import ConsumerGroup, ConsumerGroupState, ConsumerMember
from eosin.coordinator.groups.consumer.rules.targets import assignor_of
from eosin.coordinator.groups.rules.group import Group, Member
from eosin.coordinator.groups.share.rules.group import ShareGroup, ShareMember
from eosin.coordinator.groups.streams.rules.group import StreamsGroup, StreamsMember
from eosin.model.cluster import Topic
from eosin.observe.explain.facts import AwaitedPartition
from eosin.observe.explain.streams_group_facts import TaskHolder, awaited_tasks, holders_of, idle_members, streams_facts
from eosin.observe.recorder.events import ClientIdentity
from eosin.observe.survey.assigned_partitions import assigned, named_partitions, read_by_tasks
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
    """`-orders-1` is to be revoked, `+orders-1` is still to come; of a streams group with its tasks, as `+0_1`."""
    tasks: list[str] = []
    """Of a member of a streams group (KIP-1071), as all that follow: the tasks that it runs, as `0_1`."""
    copies: list[str] = []
    """The tasks of whose state it keeps a copy; `0_1 (warm-up)` is one that is to be run there later."""
    topology_epoch: int = -1
    endpoint: str = ""
    """The address at which it answers queries of its states."""


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
    seen = replace(
        _row(member.member_id, member.instance_id, member.client_id, member.host, has),
        epoch=-1 if member.epoch is None else member.epoch,
        rack=member.rack or "",
        subscription=subscription_of(member.topics[:MOST_ASSIGNED], member.regex),
        moves=[] if target is None else moves_of(has, target)[:MOST_ASSIGNED],
    )
    return seen if member.streams is None else _with_tasks(seen, member.streams)


def _with_tasks(seen: MemberSeen, told: StreamsMemberTasks) -> MemberSeen:
    """The same with what a member of a streams group has."""
    copies = [*told.tasks.standby, *(f"{each} (warm-up)" for each in told.tasks.warmup)]
    return replace(
        seen,
        moves=task_moves(told.tasks, told.target)[:MOST_ASSIGNED],
        tasks=list(told.tasks.active[:MOST_ASSIGNED]),
        copies=copies[:MOST_ASSIGNED],
        topology_epoch=told.topology_epoch,
        endpoint=told.endpoint,
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


def share_group_facts(group: ShareGroup, *, assignor: str, topic_by_id: TopicById, heard_ms: HeardMs) -> dict[str, Any]:
    """The fields of `ExplainedGroup` that a share group of this broker gives, but for its partitions."""
    members = group.members.values()
    return {
        "state": group.state.value,
        "members": tuple(map(_identity, members)),
        "protocol": assignor,
        "epoch": group.epoch,
        "assignment_epoch": group.assignment_epoch,
        "idle": tuple(_identity(each) for each in members if not each.assigned and not group.target(each.member_id)),
        "seen_members": tuple(
            _share_member(group, each, topic_by_id, heard_ms) for each in islice(members, MOST_MEMBERS)
        ),
    }


def _share_member(group: ShareGroup, member: ShareMember, topic_by_id: TopicById, heard_ms: HeardMs) -> MemberSeen:
    has = named_partitions(member.assigned, topic_by_id)
    return replace(
        _row(member.member_id, None, member.client_id, member.client_host, has),
        heard_ms=heard_ms(member.member_id),
        epoch=member.epoch,
        rack=member.rack_id or "",
        subscription=subscription_of(member.topics[:MOST_ASSIGNED], ""),
        moves=moves_of(has, named_partitions(group.target(member.member_id), topic_by_id))[:MOST_ASSIGNED],
    )


def streams_group_facts(group: StreamsGroup, *, assignor: str, heard_ms: HeardMs) -> dict[str, Any]:
    """The fields of `ExplainedGroup` that a streams group of this broker gives."""
    members = list(group.members.values())
    holders = holders_of(group)
    configured, topology = group.configured, group.topology
    return {
        "state": group.state.value,
        "members": tuple(map(_identity, members)),
        "protocol": assignor,
        "epoch": group.epoch,
        "assignment_epoch": group.assignment_epoch,
        "awaited": tuple(islice(awaited_tasks(holders), MOST_AWAITED)) if group.is_ready else (),
        "idle": idle_members(holders),
        "streams": streams_facts(
            holders,
            topology_epoch=-1 if topology is None else topology.epoch,
            obstacle="" if configured is None else configured.detail,
            is_delayed=group.is_delayed,
            shutdown_by=group.shutdown_by or "",
        ),
        "seen_members": tuple(
            _streams_member(group, *each, heard_ms) for each in islice(zip(members, holders, strict=True), MOST_MEMBERS)
        ),
    }


def _streams_member(group: StreamsGroup, member: StreamsMember, holder: TaskHolder, heard_ms: HeardMs) -> MemberSeen:
    row = _row(member.member_id, member.instance_id, member.client_id, member.client_host, read_by_tasks(group, member))
    seen = replace(
        row,
        heard_ms=heard_ms(member.member_id),
        epoch=member.epoch,
        rack=member.rack_id or "",
        subscription=[] if group.topology is None else sorted(group.topology.topics)[:MOST_ASSIGNED],
    )
    endpoint = "" if member.endpoint is None else f"{member.endpoint.host}:{member.endpoint.port}"
    told = StreamsMemberTasks(member.topology_epoch, member.process_id, endpoint, holder.tasks, holder.target)
    return _with_tasks(seen, told)


def _identity(member: ConsumerMember | ShareMember | StreamsMember) -> ClientIdentity:
    return ClientIdentity(client_id=member.client_id, peer=member.client_host.lstrip("/"))
