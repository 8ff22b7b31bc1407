"""Translates a log's refusal for the answers of the share coordinator (as Kafka's coordinators do)."""

from typing import Final

from eosin.protocol.errors import ErrorCode

_ANSWERS: Final = {
    **dict.fromkeys(
        (
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            ErrorCode.NOT_ENOUGH_REPLICAS,
            ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
            ErrorCode.REQUEST_TIMED_OUT,
        ),
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ),
    **dict.fromkeys(
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.KAFKA_STORAGE_ERROR),
        ErrorCode.NOT_COORDINATOR,
    ),
    **dict.fromkeys(
        (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE, ErrorCode.INVALID_FETCH_SIZE),
        ErrorCode.UNKNOWN_SERVER_ERROR,
    ),
}


def of_state(error: ErrorCode) -> ErrorCode:
    """The answer when a record of a state could not be written."""
    return _ANSWERS.get(error, error)
