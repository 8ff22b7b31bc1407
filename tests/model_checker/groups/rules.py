"""What must be true of every state, and how it is said that it is not."""

from typing import Final

from msgspec.structs import replace

from eosin.coordinator.groups.consumer.rules import commits
from eosin.coordinator.groups.consumer.rules.group import (
    STATIC_LEAVE_EPOCH,
    ConsumerGroup,
    ConsumerGroupState,
    ConsumerMemberState,
)
from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import TopicIdPartition, TopicPartition
from model_checker.groups.coordinating import stored
from model_checker.groups.values import Phase, State, known_topics
from model_checker.membership.rules import COMMON, EPOCHS, LAST_VERSION, check_replayed
from model_checker.membership.values import instance_id, member_id
from model_checker.violation import Violation

ONE_OWNER: Final = "a partition has one owner"
ONE_COMMITTER: Final = "a partition has one member whose commits count"
ONE_READER: Final = "what a member reads is its own"
COMES_TO_REST: Final = "in the end every partition is read, by who is to read it"

RULES: Final = {
    ONE_OWNER: "no two members have a partition, assigned or to be revoked, and the owners are what members say",
    ONE_READER: "each partition that a member reads is assigned to it or to be revoked, unless a late copy of a request"
    " has come, or the member was removed and has not heard of it",
    ONE_COMMITTER: "of all who read a partition at most one could commit an offset of it now, by its epoch",
    **COMMON,
    COMES_TO_REST: "from every state, without new faults, the group gets stable: each member that lives has its target,"
    " reads that and nothing else, and no partition of a topic that somebody is subscribed to is left out",
}


def check(state: State) -> None:
    """Raises Violation."""
    group = state.coordinator.group
    _check_owners(group)
    if not state.is_confused:
        _check_readers(state)
    _check_committers(state)
    kept = stored(state.coordinator)
    check_replayed(kept and _without_time(kept), _without_time(group), is_stored=group.is_stored)


def _without_time(group: ConsumerGroup) -> ConsumerGroup:
    return replace(group, state_timestamp_ms=0)


def _check_owners(group: ConsumerGroup) -> None:
    owners: dict[TopicIdPartition, str] = {}
    for name, member in group.members.items():
        if bool(member.pending) != (member.state is ConsumerMemberState.UNREVOKED_PARTITIONS):
            raise Violation(ONE_OWNER, f"{name} is {member.state.name} and is to revoke {sorted(member.pending)}")
        if not member.epoch <= group.assignment_epoch <= group.epoch:
            raise Violation(EPOCHS, f"{name} is at {member.epoch}, the group at {group.assignment_epoch}")
        for place, epoch in (*member.assigned.items(), *member.pending.items()):
            if place in owners:
                raise Violation(ONE_OWNER, f"{place} is that of {owners[place]} and of {name}")
            if epoch > member.epoch and member.epoch != STATIC_LEAVE_EPOCH:
                raise Violation(EPOCHS, f"{name} has {place} since {epoch}, and is at {member.epoch}")
            owners[place] = name
    if owners != dict(group.owners):
        raise Violation(ONE_OWNER, f"the members have {owners}, the group {dict(group.owners)}")


def _check_readers(state: State) -> None:
    ids = {known.topic_id for known in known_topics(state.topics).values()}
    for index, member in enumerate(state.members):
        known = state.coordinator.group.members.get(member_id(index, member))
        if known is None or member.epoch == 0:
            continue
        others = {place for place in member.owned.difference(known.owned()) if place.topic_id in ids}
        if others:
            raise Violation(ONE_READER, f"{known.member_id} reads {sorted(others)}, and has {sorted(known.owned())}")


def _check_committers(state: State) -> None:
    topics = known_topics(state.topics)
    names = {known.topic_id: name for name, known in topics.items()}
    committers: dict[TopicIdPartition, str] = {}
    for index, member in enumerate(state.members):
        name = member_id(index, member)
        if member.kind.is_classic and member.phase is Phase.SYNC:
            continue  # Java's consumer commits nothing until it has fetched its assignment
        for place in member.owned:
            if place.topic_id not in names:
                continue
            error = commits.commit(
                state.coordinator.group,
                member_id=name,
                instance_id=instance_id(member),
                member_epoch=member.epoch,
                partitions=(TopicPartition(names[place.topic_id], place.partition),),
                topics=topics,
                api_version=LAST_VERSION,
            )
            if error is not ErrorCode.NONE:
                continue
            if place in committers:
                raise Violation(ONE_COMMITTER, f"{committers[place]} and {name} may commit {place}")
            committers[place] = name


def unfinished(state: State) -> Violation | None:
    """The reason why a group that comes to rest so is not as it should be."""
    group = state.coordinator.group
    alive = {member_id(index, each): each for index, each in enumerate(state.members) if not each.is_gone}
    if group.state not in (ConsumerGroupState.STABLE, ConsumerGroupState.EMPTY):
        return Violation(COMES_TO_REST, f"the group is {group.state.value}: {group.members}")
    for name, member in alive.items():
        known = group.members.get(name)
        if known is None:
            if member.kind.is_classic and not group.members:
                continue
            return Violation(COMES_TO_REST, f"{name} is no member")
        if member.epoch != known.epoch or member.owned != known.assigned.keys():
            return Violation(COMES_TO_REST, f"{name} reads {sorted(member.owned)}, and is to read {known.assigned}")
    ghosts = [name for name in group.members if name not in alive]
    if ghosts:
        return Violation(COMES_TO_REST, f"{ghosts} stay members for ever")
    topics = known_topics(state.topics)
    wanted = {
        TopicIdPartition(topics[topic].topic_id, number)
        for name in group.members
        for topic in alive[name].topics
        if topic in topics
        for number in range(topics[topic].partitions)
    }
    if wanted != set(group.owners):
        return Violation(COMES_TO_REST, f"read are {sorted(group.owners)}, of {sorted(wanted)}")
    return None
