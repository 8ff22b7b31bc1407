"""Errors of the share coordinator as leaders of share partitions take them (share-partitions.md 3.5)."""

from typing import Final

from eosin.protocol.errors import ErrorCode

LOST: Final = {
    ErrorCode.FENCED_LEADER_EPOCH: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.FENCED_STATE_EPOCH: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.GROUP_ID_NOT_FOUND: ErrorCode.GROUP_ID_NOT_FOUND,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.INVALID_REQUEST: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
}
"""Errors of the share coordinator after which this share partition is none any more, as clients are told them
(share-partitions.md 3.5). INVALID_REQUEST: nobody has initialized it."""
PASSING: Final = frozenset(
    {ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR}
)
"""The share coordinator moves, or starts: it is asked again."""


def client_error(error: ErrorCode) -> ErrorCode:
    """The share coordinator's error as a client is told it."""
    if error in PASSING:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    return LOST.get(error, ErrorCode.UNKNOWN_SERVER_ERROR if error else ErrorCode.NONE)
