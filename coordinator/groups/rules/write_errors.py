"""Translates a log's refusal for the answers of the group APIs (groups.md 7, 8, 10)."""

from typing import Final

from eosin.protocol.errors import ErrorCode

_NOT_AVAILABLE: Final = (
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
)
_MOVED: Final = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.KAFKA_STORAGE_ERROR)
_TOO_LARGE: Final = (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE, ErrorCode.INVALID_FETCH_SIZE)


def _mapping(*, timed_out: ErrorCode, too_large: ErrorCode) -> dict[ErrorCode, ErrorCode]:
    return {
        **dict.fromkeys(_NOT_AVAILABLE, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        **dict.fromkeys(_MOVED, ErrorCode.NOT_COORDINATOR),
        **dict.fromkeys(_TOO_LARGE, too_large),
        ErrorCode.REQUEST_TIMED_OUT: timed_out,
        ErrorCode.NETWORK_EXCEPTION: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    }


_GROUP: Final = _mapping(timed_out=ErrorCode.REBALANCE_IN_PROGRESS, too_large=ErrorCode.UNKNOWN_SERVER_ERROR)
_OFFSETS: Final = _mapping(
    timed_out=ErrorCode.COORDINATOR_NOT_AVAILABLE, too_large=ErrorCode.INVALID_COMMIT_OFFSET_SIZE
)

_CONSUMER: Final = _mapping(timed_out=ErrorCode.COORDINATOR_NOT_AVAILABLE, too_large=ErrorCode.UNKNOWN_SERVER_ERROR)


def of_group_record(error: ErrorCode) -> ErrorCode:
    """The answer of JoinGroup and SyncGroup when the group's record could not be written."""
    return _GROUP.get(error, error)


def of_offsets(error: ErrorCode) -> ErrorCode:
    """The answer of the offset APIs when their batch could not be written."""
    return _OFFSETS.get(error, error)


def of_consumer_group(error: ErrorCode) -> ErrorCode:
    """The answer of ConsumerGroupHeartbeat when the group's records could not be written (consumer-groups.md 2)."""
    return _CONSUMER.get(error, error)
