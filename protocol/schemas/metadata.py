"""Metadata (key 3), versions 0-13: brokers, topics and partition leaders.

v1 adds rack, controller_id and is_internal to the response. v2 adds cluster_id to the response. v3 adds
throttle_time_ms to the response. v4 adds allow_auto_topic_creation to the request. v5 adds offline_replicas to the
response. v7 adds leader_epoch to the response. v8 adds include_cluster_authorized_operations and
include_topic_authorized_operations to the request; topic_authorized_operations and cluster_authorized_operations to the
response. v9 is the first flexible version. v10 adds topic_id to both. v11 drops include_cluster_authorized_operations
from the request and cluster_authorized_operations from the response. v13 adds error_code to the response.
"""

from eosin.protocol.keys import ApiKey
from eosin.protocol.names import ZERO_UUID
from eosin.protocol.types import ApiSchema, Boolean, Int16, Int32, Layout, Message, Uuid, array, message, string, when


class MetadataRequestTopic(Message):
    topic_id: bytes = ZERO_UUID
    name: str | None = ""


class MetadataRequest(Message):
    topics: tuple[MetadataRequestTopic, ...] | None = ()  # null: every topic; in v0 an empty array means so too
    allow_auto_topic_creation: bool = True
    include_cluster_authorized_operations: bool = False
    include_topic_authorized_operations: bool = False


class MetadataResponseBroker(Message):
    node_id: int = 0
    host: str = ""
    port: int = 0
    rack: str | None = None


class MetadataResponsePartition(Message):
    error_code: int = 0
    partition_index: int = 0
    leader_id: int = 0
    leader_epoch: int = -1
    replica_nodes: tuple[int, ...] = ()
    isr_nodes: tuple[int, ...] = ()
    offline_replicas: tuple[int, ...] = ()


class MetadataResponseTopic(Message):
    error_code: int = 0
    name: str | None = ""
    topic_id: bytes = ZERO_UUID
    is_internal: bool = False
    partitions: tuple[MetadataResponsePartition, ...] = ()
    topic_authorized_operations: int = -(2**31)  # a set of bits; the default means: not asked for


class MetadataResponse(Message):
    throttle_time_ms: int = 0
    brokers: tuple[MetadataResponseBroker, ...] = ()
    cluster_id: str | None = None
    controller_id: int = -1
    topics: tuple[MetadataResponseTopic, ...] = ()
    cluster_authorized_operations: int = -(2**31)  # a set of bits; the default means: not asked for
    error_code: int = 0


def metadata_request(version: int) -> Layout:
    """The request at `version`."""
    flexible = version >= 9
    metadata_request_topic = message(
        MetadataRequestTopic,
        flexible,
        *when(version >= 10, "topic_id" / Uuid),
        "name" / string(flexible, nullable=version >= 10),
    )
    return message(
        MetadataRequest,
        flexible,
        "topics" / array(metadata_request_topic, flexible, nullable=version >= 1),
        *when(version >= 4, "allow_auto_topic_creation" / Boolean),
        *when(8 <= version <= 10, "include_cluster_authorized_operations" / Boolean),
        *when(version >= 8, "include_topic_authorized_operations" / Boolean),
    )


def metadata_response(version: int) -> Layout:
    """The response at `version`."""
    flexible = version >= 9
    metadata_response_broker = message(
        MetadataResponseBroker,
        flexible,
        "node_id" / Int32,
        "host" / string(flexible),
        "port" / Int32,
        *when(version >= 1, "rack" / string(flexible, nullable=True)),
    )
    metadata_response_partition = message(
        MetadataResponsePartition,
        flexible,
        "error_code" / Int16,
        "partition_index" / Int32,
        "leader_id" / Int32,
        *when(version >= 7, "leader_epoch" / Int32),
        "replica_nodes" / array(Int32, flexible),
        "isr_nodes" / array(Int32, flexible),
        *when(version >= 5, "offline_replicas" / array(Int32, flexible)),
    )
    metadata_response_topic = message(
        MetadataResponseTopic,
        flexible,
        "error_code" / Int16,
        "name" / string(flexible, nullable=version >= 12),
        *when(version >= 10, "topic_id" / Uuid),
        *when(version >= 1, "is_internal" / Boolean),
        "partitions" / array(metadata_response_partition, flexible),
        *when(version >= 8, "topic_authorized_operations" / Int32),
    )
    return message(
        MetadataResponse,
        flexible,
        *when(version >= 3, "throttle_time_ms" / Int32),
        "brokers" / array(metadata_response_broker, flexible),
        *when(version >= 2, "cluster_id" / string(flexible, nullable=True)),
        *when(version >= 1, "controller_id" / Int32),
        "topics" / array(metadata_response_topic, flexible),
        *when(8 <= version <= 10, "cluster_authorized_operations" / Int32),
        *when(version >= 13, "error_code" / Int16),
    )


SCHEMA = ApiSchema(
    key=ApiKey.METADATA,
    versions=range(0, 14),
    flexible_from=9,
    request=metadata_request,
    response=metadata_response,
)
