"""DeleteTopics (key 20), versions 0-6: delete topics, by name or, from v6 on, by id.

v1 adds throttle_time_ms to the response. v4 is the first flexible version. v5 adds error_message to the response. v6
adds topics to the request and topic_id to the response and drops topic_names from the request.
"""

from __future__ import annotations

from typing import Annotated

from eosin.protocol.keys import ApiKey
from eosin.protocol.names import ZERO_UUID
from eosin.protocol.types import ApiSchema, Int16, Int32, Message, Nullable, Uuid


class DeleteTopicState(Message):
    name: str | None = None
    topic_id: Uuid = ZERO_UUID


class DeleteTopicsRequest(Message):
    topics: Annotated[tuple[DeleteTopicState, ...], "6+"] = ()
    topic_names: Annotated[tuple[str, ...], "0-5"] = ()
    timeout_ms: Int32 = 0


class DeletableTopicResult(Message):
    name: Annotated[str | None, Nullable("6+")] = ""
    topic_id: Annotated[Uuid, "6+"] = ZERO_UUID
    error_code: Int16 = 0
    error_message: Annotated[str | None, "5+"] = None


class DeleteTopicsResponse(Message):
    throttle_time_ms: Annotated[Int32, "1+"] = 0
    responses: tuple[DeletableTopicResult, ...] = ()


SCHEMA = ApiSchema(
    key=ApiKey.DELETE_TOPICS,
    versions=range(0, 7),
    flexible_from=4,
    request=DeleteTopicsRequest,
    response=DeleteTopicsResponse,
)
