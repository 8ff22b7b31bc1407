"""CreateTopics (key 19), versions 0-7: create topics.

v1 adds validate_only to the request and error_message to the response. v2 adds throttle_time_ms to the response. v5 is
the first flexible version and adds topic_config_error_code, num_partitions, replication_factor and configs to the
response. v7 adds topic_id to the response.
"""

from eosin.protocol.keys import ApiKey
from eosin.protocol.names import ZERO_UUID
from eosin.protocol.types import (
    ApiSchema,
    Boolean,
    Int8,
    Int16,
    Int32,
    Layout,
    Message,
    Uuid,
    array,
    message,
    string,
    tagged,
    when,
)


class CreatableReplicaAssignment(Message):
    partition_index: int = 0
    broker_ids: tuple[int, ...] = ()


class CreatableTopicConfig(Message):
    name: str = ""
    value: str | None = None


class CreatableTopic(Message):
    name: str = ""
    num_partitions: int = 0  # -1: the broker's default
    replication_factor: int = 0  # -1: the broker's default
    assignments: tuple[CreatableReplicaAssignment, ...] = ()
    configs: tuple[CreatableTopicConfig, ...] = ()


class CreateTopicsRequest(Message):
    topics: tuple[CreatableTopic, ...] = ()
    timeout_ms: int = 60000
    validate_only: bool = False  # check, change nothing


class CreatableTopicConfigs(Message):
    name: str = ""
    value: str | None = None
    read_only: bool = False
    config_source: int = -1
    is_sensitive: bool = False


class CreatableTopicResult(Message):
    name: str = ""
    topic_id: bytes = ZERO_UUID
    error_code: int = 0
    error_message: str | None = None
    topic_config_error_code: int = 0
    num_partitions: int = -1
    replication_factor: int = -1
    configs: tuple[CreatableTopicConfigs, ...] | None = None


class CreateTopicsResponse(Message):
    throttle_time_ms: int = 0
    topics: tuple[CreatableTopicResult, ...] = ()


def create_topics_request(version: int) -> Layout:
    """The request at `version`."""
    flexible = version >= 5
    creatable_replica_assignment = message(
        CreatableReplicaAssignment,
        flexible,
        "partition_index" / Int32,
        "broker_ids" / array(Int32, flexible),
    )
    creatable_topic_config = message(
        CreatableTopicConfig,
        flexible,
        "name" / string(flexible),
        "value" / string(flexible, nullable=True),
    )
    creatable_topic = message(
        CreatableTopic,
        flexible,
        "name" / string(flexible),
        "num_partitions" / Int32,
        "replication_factor" / Int16,
        "assignments" / array(creatable_replica_assignment, flexible),
        "configs" / array(creatable_topic_config, flexible),
    )
    return message(
        CreateTopicsRequest,
        flexible,
        "topics" / array(creatable_topic, flexible),
        "timeout_ms" / Int32,
        *when(version >= 1, "validate_only" / Boolean),
    )


def create_topics_response(version: int) -> Layout:
    """The response at `version`."""
    flexible = version >= 5
    creatable_topic_configs = message(
        CreatableTopicConfigs,
        flexible,
        "name" / string(flexible),
        "value" / string(flexible, nullable=True),
        "read_only" / Boolean,
        "config_source" / Int8,
        "is_sensitive" / Boolean,
    )
    creatable_topic_result = message(
        CreatableTopicResult,
        flexible,
        "name" / string(flexible),
        *when(version >= 7, "topic_id" / Uuid),
        "error_code" / Int16,
        *when(version >= 1, "error_message" / string(flexible, nullable=True)),
        *when(
            version >= 5,
            "topic_config_error_code" / tagged(0, Int16),
            "num_partitions" / Int32,
            "replication_factor" / Int16,
            "configs" / array(creatable_topic_configs, flexible, nullable=True),
        ),
    )
    return message(
        CreateTopicsResponse,
        flexible,
        *when(version >= 2, "throttle_time_ms" / Int32),
        "topics" / array(creatable_topic_result, flexible),
    )


SCHEMA = ApiSchema(
    key=ApiKey.CREATE_TOPICS,
    versions=range(0, 8),
    flexible_from=5,
    request=create_topics_request,
    response=create_topics_response,
)
