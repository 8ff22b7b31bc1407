"""DeleteTopics (key 20), versions 0-6: delete topics, by name or, from v6 on, by id.

v1 adds throttle_time_ms to the response. v4 is the first flexible version. v5 adds error_message to the response. v6
adds topics to the request and topic_id to the response and drops topic_names from the request.
"""

from eosin.protocol.keys import ApiKey
from eosin.protocol.names import ZERO_UUID
from eosin.protocol.types import ApiSchema, Int16, Int32, Layout, Message, Uuid, array, message, string, when


class DeleteTopicState(Message):
    name: str | None = None
    topic_id: bytes = ZERO_UUID


class DeleteTopicsRequest(Message):
    topics: tuple[DeleteTopicState, ...] = ()
    topic_names: tuple[str, ...] = ()
    timeout_ms: int = 0


class DeletableTopicResult(Message):
    name: str | None = ""
    topic_id: bytes = ZERO_UUID
    error_code: int = 0
    error_message: str | None = None


class DeleteTopicsResponse(Message):
    throttle_time_ms: int = 0
    responses: tuple[DeletableTopicResult, ...] = ()


def delete_topics_request(version: int) -> Layout:
    """The request at `version`."""
    flexible = version >= 4
    delete_topic_state = message(
        DeleteTopicState,
        flexible,
        "name" / string(flexible, nullable=True),
        "topic_id" / Uuid,
    )
    return message(
        DeleteTopicsRequest,
        flexible,
        *when(version >= 6, "topics" / array(delete_topic_state, flexible)),
        *when(version <= 5, "topic_names" / array(string(flexible), flexible)),
        "timeout_ms" / Int32,
    )


def delete_topics_response(version: int) -> Layout:
    """The response at `version`."""
    flexible = version >= 4
    deletable_topic_result = message(
        DeletableTopicResult,
        flexible,
        "name" / string(flexible, nullable=version >= 6),
        *when(version >= 6, "topic_id" / Uuid),
        "error_code" / Int16,
        *when(version >= 5, "error_message" / string(flexible, nullable=True)),
    )
    return message(
        DeleteTopicsResponse,
        flexible,
        *when(version >= 1, "throttle_time_ms" / Int32),
        "responses" / array(deletable_topic_result, flexible),
    )


SCHEMA = ApiSchema(
    key=ApiKey.DELETE_TOPICS,
    versions=range(0, 7),
    flexible_from=4,
    request=delete_topics_request,
    response=delete_topics_response,
)
