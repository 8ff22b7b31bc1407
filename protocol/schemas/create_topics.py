"""CreateTopics (key 19), versions 0-7: create topics.

v1 adds validate_only to the request and error_message to the response. v2 adds throttle_time_ms to the response. v5 is
the first flexible version and adds topic_config_error_code, num_partitions, replication_factor and configs to the
response. v7 adds topic_id to the response.
"""

from __future__ import annotations

from typing import Annotated

from eosin.protocol.keys import ApiKey
from eosin.protocol.names import ZERO_UUID
from eosin.protocol.types import ApiSchema, Int8, Int16, Int32, Message, Tag, Uuid


class CreatableReplicaAssignment(Message):
    partition_index: Int32 = 0
    broker_ids: tuple[Int32, ...] = ()


class CreatableTopicConfig(Message):
    name: str = ""
    value: str | None = None


class CreatableTopic(Message):
    name: str = ""
    num_partitions: Int32 = 0  # -1: the broker's default
    replication_factor: Int16 = 0  # -1: the broker's default
    assignments: tuple[CreatableReplicaAssignment, ...] = ()
    configs: tuple[CreatableTopicConfig, ...] = ()


class CreateTopicsRequest(Message):
    topics: tuple[CreatableTopic, ...] = ()
    timeout_ms: Int32 = 60000
    validate_only: Annotated[bool, "1+"] = False  # check, change nothing


class CreatableTopicConfigs(Message):
    name: str = ""
    value: str | None = None
    read_only: bool = False
    config_source: Int8 = -1
    is_sensitive: bool = False


class CreatableTopicResult(Message):
    name: str = ""
    topic_id: Annotated[Uuid, "7+"] = ZERO_UUID
    error_code: Int16 = 0
    error_message: Annotated[str | None, "1+"] = None
    topic_config_error_code: Annotated[Int16, "5+", Tag(0)] = 0
    num_partitions: Annotated[Int32, "5+"] = -1
    replication_factor: Annotated[Int16, "5+"] = -1
    configs: Annotated[tuple[CreatableTopicConfigs, ...] | None, "5+"] = None


class CreateTopicsResponse(Message):
    throttle_time_ms: Annotated[Int32, "2+"] = 0
    topics: tuple[CreatableTopicResult, ...] = ()


SCHEMA = ApiSchema(
    key=ApiKey.CREATE_TOPICS,
    versions=range(0, 8),
    flexible_from=5,
    request=CreateTopicsRequest,
    response=CreateTopicsResponse,
)
