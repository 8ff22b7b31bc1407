"""Checks of a ConsumerGroupHeartbeat that need no group (consumer-groups.md 2). Pure."""

from collections.abc import Iterator
from typing import Final

from eosin.coordinator.groups.consumer.rules.events import ConsumerHeartbeat, HeartbeatResult
from eosin.coordinator.groups.consumer.rules.group import JOIN_EPOCH, LEAVE_EPOCH, STATIC_LEAVE_EPOCH
from eosin.coordinator.groups.consumer.rules.targets import ASSIGNORS
from eosin.coordinator.groups.rules.config import ConsumerGroupConfig
from eosin.protocol.errors import ErrorCode

LONGEST_MEMBER_ID: Final = 256
"""Clients make 22 characters; this bounds what they may fill."""
LONGEST_REGEX: Final = 4096


def refusal(
    group_id: str, request: ConsumerHeartbeat, *, config: ConsumerGroupConfig, makes_member_id: bool
) -> HeartbeatResult | None:
    """The refusal of a request that can be of no use; None if it can. `makes_member_id`: clients of its version make
    their own."""
    problem = next(_problems(group_id, request, config, makes_member_id=makes_member_id), None)
    if problem is not None:
        return HeartbeatResult(ErrorCode.INVALID_REQUEST, problem)
    wanted = request.assignor
    configured = [name for name in config.assignors if name in ASSIGNORS]
    if wanted is not None and wanted not in configured:
        text = f"ServerAssignor {wanted} is not supported. Supported assignors: {', '.join(configured)}."
        return HeartbeatResult(ErrorCode.UNSUPPORTED_ASSIGNOR, text)
    return None


def _problems(
    group_id: str, request: ConsumerHeartbeat, config: ConsumerGroupConfig, *, makes_member_id: bool
) -> Iterator[str]:
    """Every problem, the first of which is told."""
    epoch = request.member_epoch
    if not request.member_id.strip() and (makes_member_id or epoch > JOIN_EPOCH or epoch == LEAVE_EPOCH):
        yield "MemberId can't be empty."
    if not group_id.strip():
        yield "GroupId can't be empty."
    if request.instance_id is not None and not request.instance_id.strip():
        yield "InstanceId can't be empty."
    if request.rack_id is not None and not request.rack_id.strip():
        yield "RackId can't be empty."
    if epoch == JOIN_EPOCH:
        if request.rebalance_timeout_ms == -1:
            yield "RebalanceTimeoutMs must be provided in first request."
        if request.owned is None or request.owned:
            yield "TopicPartitions must be empty when (re-)joining."
        if request.topics is None and request.regex is None:
            yield "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining."
        if request.rebalance_timeout_ms == 0:
            yield "RebalanceTimeoutMs must be greater than 0."
    if epoch == STATIC_LEAVE_EPOCH and request.instance_id is None:
        yield "InstanceId can't be null."
    if epoch < STATIC_LEAVE_EPOCH:
        yield f"MemberEpoch {epoch} is not supported."
    # What follows bounds what a client may fill; Apache Kafka takes it.
    if request.rebalance_timeout_ms < -1:
        yield "RebalanceTimeoutMs must be greater than 0."
    if len(request.member_id) > LONGEST_MEMBER_ID:
        yield f"MemberId has more than {LONGEST_MEMBER_ID} characters."
    if any(place.partition < 0 for place in request.owned or ()):
        yield "TopicPartitions name a partition below 0."
    most = config.eosin_subscription_max_topics
    if len(request.topics or ()) > most:
        yield f"SubscribedTopicNames has more than {most} names."
    if len(request.regex or "") > LONGEST_REGEX:
        yield f"SubscribedTopicRegex has more than {LONGEST_REGEX} characters."
