"""Checks of a ShareGroupHeartbeat that need no group (share-groups.md 2). Pure."""

from collections.abc import Iterator
from typing import Final

from eosin.coordinator.groups.consumer.rules.events import HeartbeatResult
from eosin.coordinator.groups.rules.config import ShareGroupConfig
from eosin.coordinator.groups.share.rules.events import ShareHeartbeat
from eosin.coordinator.groups.share.rules.group import JOIN_EPOCH, LEAVE_EPOCH
from eosin.protocol.errors import ErrorCode

LONGEST_MEMBER_ID: Final = 36
"""Characters: those of a UUID with its dashes."""


def refusal(group_id: str, request: ShareHeartbeat, *, config: ShareGroupConfig) -> HeartbeatResult | None:
    """The refusal of a request that can be of no use; None if it can."""
    problem = next(_problems(group_id, request, config), None)
    return None if problem is None else HeartbeatResult(ErrorCode.INVALID_REQUEST, problem)


def _problems(group_id: str, request: ShareHeartbeat, config: ShareGroupConfig) -> Iterator[str]:
    """Every problem, the first of which is told."""
    if not request.member_id.strip():
        yield "MemberId can't be empty."
    if len(request.member_id) > LONGEST_MEMBER_ID:
        yield f"MemberId has more than {LONGEST_MEMBER_ID} characters."
    if not group_id.strip():
        yield "GroupId can't be empty."
    if request.rack_id is not None and not request.rack_id.strip():
        yield "RackId can't be empty."
    if request.member_epoch == JOIN_EPOCH and not request.topics:
        yield "SubscribedTopicNames must be set in first request."
    if request.member_epoch < LEAVE_EPOCH:
        yield f"MemberEpoch {request.member_epoch} is not supported."
    most = config.eosin_subscription_max_topics  # Apache Kafka has no limit
    if len(request.topics or ()) > most:
        yield f"SubscribedTopicNames has more than {most} names."
