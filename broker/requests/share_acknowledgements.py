"""The part that ShareFetch and ShareAcknowledge have in common: checks, acknowledgements and the leaders in responses
(share-partitions.md 1, 3)."""

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from eosin.broker.sharing.rules.acknowledgements import acknowledge_types, acknowledgements
from eosin.model.cluster import NO_LEADER
from eosin.model.principals import Principal
from eosin.model.resources import Operation, ResourceType
from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import TopicIdPartition, TopicPartition, Uuid
from eosin.protocol.schemas.share_acknowledge import AcknowledgePartition, AcknowledgeTopic, ShareAcknowledgeRequest
from eosin.protocol.schemas.share_fetch import FetchPartition, FetchTopic, ShareFetchRequest
from eosin.runtime.turns import next_turn

if TYPE_CHECKING:
    from eosin.broker.services import Services
    from eosin.broker.sharing.sharing import Sharing
    from eosin.model.cluster import Endpoint
    from eosin.network.api import RequestContext

LONGEST_MEMBER_ID: Final = 36
"""Characters."""
MOVED: Final = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH})
"""Errors beside which the current leader is named."""
STEPS_PER_TURN: Final = 2_000
"""Each is an acknowledgement, or a partition without one."""
STEPS_OF_A_PARTITION: Final = 20
"""As many as what is written for it counts for."""

Told = tuple[ErrorCode, str | None]
"""An error, and a sentence about it."""
ALL_RIGHT: Final[Told] = (ErrorCode.NONE, None)


_Partition = FetchPartition | AcknowledgePartition
_Topic = FetchTopic | AcknowledgeTopic


def refusal(request: ShareFetchRequest | ShareAcknowledgeRequest) -> Told | None:
    """The reason why nothing of a request is handled; None for one that may be."""
    if not request.group_id:
        return ErrorCode.INVALID_REQUEST, "GroupId is missing."
    if not request.member_id or len(request.member_id) > LONGEST_MEMBER_ID:
        return ErrorCode.INVALID_REQUEST, f"MemberId has 1 to {LONGEST_MEMBER_ID} characters."
    return None


def session_owner(context: "RequestContext") -> tuple[Principal, str]:
    """The user whose share session a request is about, and the listener that it came in on."""
    return context.session.principal, context.listener


def named(topics: Iterable[_Topic]) -> Iterator[TopicIdPartition]:
    """The partitions that a request names."""
    return (TopicIdPartition(topic.topic_id, each.partition_index) for topic in topics for each in topic.partitions)


class BegunAcknowledgement(NamedTuple):
    """The acknowledgements of one partition, under way."""

    wanted: TopicIdPartition
    name: TopicPartition | None
    """None for an unknown topic."""
    outcome: "asyncio.Future[ErrorCode] | Told"

    async def result(self) -> Told:
        """Its end: an acknowledgement without an error is durable."""
        if isinstance(self.outcome, tuple):
            return self.outcome
        # Shielded: whoever asked may go away, the write goes on.
        return await asyncio.shield(self.outcome), None


async def begin_acknowledgements(
    topics: Sequence[_Topic],
    member: "tuple[str, str]",
    *,
    renews: bool,
    context: "RequestContext",
    services: "Services",
) -> list[BegunAcknowledgement]:
    """Begin what a request acknowledges, partition by partition. What it releases may be acquired as soon as that is
    written."""
    sharing = services.sharing
    begun: list[BegunAcknowledgement] = []
    left = STEPS_PER_TURN
    for topic in topics:
        for each in topic.partitions:
            if left <= 0:
                left = STEPS_PER_TURN
                await next_turn()
            left -= 1
            if each.acknowledgement_batches:
                begun.append(_begin(topic.topic_id, each, member, renews, context, services, sharing))
                left -= STEPS_OF_A_PARTITION + acknowledge_types(each.acknowledgement_batches)
    return begun


def _begin(
    topic_id: Uuid,
    partition: _Partition,
    member: "tuple[str, str]",
    renews: bool,
    context: "RequestContext",
    services: "Services",
    sharing: "Sharing",
) -> BegunAcknowledgement:
    group_id, member_id = member
    wanted = TopicIdPartition(topic_id, partition.partition_index)
    topic = services.cluster.topic_by_id(topic_id)
    if topic is None:
        return BegunAcknowledgement(wanted, None, (ErrorCode.UNKNOWN_TOPIC_ID, None))
    name = TopicPartition(topic.name, partition.partition_index)
    if not context.session.may(Operation.READ, ResourceType.TOPIC, topic.name):
        return BegunAcknowledgement(wanted, name, (ErrorCode.TOPIC_AUTHORIZATION_FAILED, None))
    checked = acknowledgements(partition.acknowledgement_batches, renews=renews)
    if isinstance(checked, str):
        return BegunAcknowledgement(wanted, name, (ErrorCode.INVALID_REQUEST, checked))
    log = services.partitions.get(name)
    if isinstance(log, ErrorCode):
        return BegunAcknowledgement(wanted, name, (log, None))
    found = sharing.partitions.known(group_id, topic_id, partition.partition_index)
    if found is None:
        return BegunAcknowledgement(wanted, name, (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None))
    if found.log is not log or found.leader_epoch != log.leader_epoch:
        found.lose(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    outcome = found.acknowledge(member_id, checked)
    return BegunAcknowledgement(wanted, name, (outcome, None) if isinstance(outcome, ErrorCode) else outcome)


def leader_of(name: TopicPartition | None, error: ErrorCode, services: "Services") -> tuple[int, int] | None:
    """The node id and epoch of the leader that a response names beside `error`; None for no leader."""
    if name is None or error not in MOVED:
        return None
    leader = services.partitions.leader(name)
    return None if leader[0] == NO_LEADER else leader


def endpoints(leaders: Iterable[int], context: "RequestContext", services: "Services") -> "list[Endpoint]":
    """The addresses of the leaders that a response names."""
    wanted = set(leaders)
    return [each for each in services.cluster.brokers(context.listener) if each.node_id in wanted] if wanted else []
