"""What members of a group send, and what they make of an answer, as Apache Kafka's Java clients do.

A member of the consumer protocol says what it has once it has come to what it was told, and all about itself after it
has missed an answer; one that is fenced gives up everything and joins again under its id. A classic one joins, fetches
its assignment and sends heartbeats until it is told to join again.
"""

from typing import Final

from consumer_group import NamedTopic
from migrating_group import metadata

from eosin.coordinator.groups.consumer.rules.decide import Answer
from eosin.coordinator.groups.consumer.rules.embedded_protocol import read_assignment
from eosin.coordinator.groups.consumer.rules.events import ClassicHeartbeat, ConsumerHeartbeat, HeartbeatResult
from eosin.coordinator.groups.rules.effects import JoinResult, SyncResult
from eosin.coordinator.groups.rules.events import Join, Sync
from eosin.protocol.errors import ErrorCode
from model_checker.groups.values import NOTHING, Member, Phase, Request
from model_checker.membership.values import Kind, instance_id, member_id

TIMEOUT_MS: Final = 60_000
_LOST: Final = (
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.FENCED_MEMBER_EPOCH,
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.FENCED_INSTANCE_ID,
)
Topics = dict[str, NamedTopic]


def sending(index: int, member: Member, topics: Topics) -> tuple[Member, Request]:
    """The member as it sends its next request, and that."""
    name = member_id(index, member)
    if not member.kind.is_classic:
        return member, _consumer_heartbeat(name, member)
    match member.phase:
        case Phase.JOIN:
            if member.kind is Kind.EAGER:
                member = member._replace(owned=NOTHING, told=NOTHING)
            return member, _join(name, member, topics)
        case Phase.SYNC:
            sync = Sync(
                0, name, None, generation_id=member.epoch, protocol_type=None, protocol_name=None, assignments=()
            )
            return member, sync
        case Phase.HEARTBEAT:
            return member, ClassicHeartbeat(name, member.epoch)


def _consumer_heartbeat(name: str, member: Member) -> ConsumerHeartbeat:
    instance = instance_id(member)
    if member.epoch == 0 or member.has_missed:
        return ConsumerHeartbeat(
            name,
            member.epoch,
            instance_id=instance,
            rebalance_timeout_ms=TIMEOUT_MS,
            topics=member.topics,
            owned=member.owned,
        )
    owned = None if member.has_said or member.owned != member.told else member.owned
    return ConsumerHeartbeat(name, member.epoch, instance_id=instance, owned=owned)


def _join(name: str, member: Member, topics: Topics) -> Join:
    owned = {
        topic: tuple(sorted(each.partition for each in member.owned if each.topic_id == known.topic_id))
        for topic, known in topics.items()
    }
    kept = {topic: numbers for topic, numbers in owned.items() if numbers}
    return Join(
        request_id=0,
        member_id=name,
        instance_id=None,
        protocol_type="consumer",
        protocols=(("range", metadata(*member.topics, owned=kept)),),
        session_timeout_ms=TIMEOUT_MS,
        rebalance_timeout_ms=TIMEOUT_MS,
        client_id="c",
        client_host="/h",
        fresh_member_id="",
    )


def hears(member: Member, request: Request, answer: Answer | None, topics: Topics) -> Member:
    """The member after the answer to its request."""
    match answer:
        case JoinResult():
            return _hears_join(member, answer)
        case SyncResult():
            return _hears_sync(member, answer, topics)
        case HeartbeatResult():
            if isinstance(request, ConsumerHeartbeat):
                return _hears_consumer_heartbeat(member, request, answer)
            if answer.error in _LOST:
                return member.lost()
            return member if answer.error is ErrorCode.NONE else member._replace(phase=Phase.JOIN)
        case _:
            raise AssertionError(answer)


def _hears_consumer_heartbeat(member: Member, request: ConsumerHeartbeat, answer: HeartbeatResult) -> Member:
    if answer.error in _LOST:
        return member.lost()
    if answer.error is ErrorCode.UNRELEASED_INSTANCE_ID:
        return member  # whoever runs it starts it again
    assert answer.error is ErrorCode.NONE, answer
    told = member.told if answer.assignment is None else answer.assignment
    says = member.has_said if request.owned is None else request.owned == told
    return member._replace(epoch=answer.epoch, told=told, has_missed=False, has_said=says and told == member.told)


def _hears_join(member: Member, answer: JoinResult) -> Member:
    if answer.error in _LOST:
        return member.lost()
    assert answer.error is ErrorCode.NONE, answer
    return member._replace(epoch=answer.generation_id, phase=Phase.SYNC)


def _hears_sync(member: Member, answer: SyncResult, topics: Topics) -> Member:
    if answer.error in _LOST:
        return member.lost()
    if answer.error is not ErrorCode.NONE:
        return member._replace(phase=Phase.JOIN)
    given = read_assignment(answer.assignment, topics, "range")
    # What a cooperative member has to give up it has given up when it joins again.
    gives_up = member.kind is Kind.COOPERATIVE and not member.owned <= given
    return member._replace(owned=given, told=given, phase=Phase.JOIN if gives_up else Phase.HEARTBEAT)


def misses(member: Member) -> Member:
    """The member after a request whose answer does not come."""
    if not member.kind.is_classic:
        return member._replace(has_missed=True)
    return member._replace(phase=Phase.JOIN) if member.phase is Phase.SYNC else member
