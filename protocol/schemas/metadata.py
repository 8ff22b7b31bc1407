"""Metadata (key 3), versions 0-13: brokers, topics and partition leaders.

v1 adds rack, controller_id and is_internal to the response. v2 adds cluster_id to the response. v3 adds
throttle_time_ms to the response. v4 adds allow_auto_topic_creation to the request. v5 adds offline_replicas to the
response. v7 adds leader_epoch to the response. v8 adds include_cluster_authorized_operations and
include_topic_authorized_operations to the request; topic_authorized_operations and cluster_authorized_operations to the
response. v9 is the first flexible version. v10 adds topic_id to both. v11 drops include_cluster_authorized_operations
from the request and cluster_authorized_operations from the response. v13 adds error_code to the response.
"""

from __future__ import annotations

from typing import Annotated

from eosin.protocol.keys import ApiKey
from eosin.protocol.names import ZERO_UUID
from eosin.protocol.types import ApiSchema, Int16, Int32, Message, Nullable, Uuid


class MetadataRequestTopic(Message):
    topic_id: Annotated[Uuid, "10+"] = ZERO_UUID
    name: Annotated[str | None, Nullable("10+")] = ""


class MetadataRequest(Message):
    topics: Annotated[tuple[MetadataRequestTopic, ...] | None, Nullable("1+")] = ()
    """Null: every topic; in v0 an empty array means so too."""
    allow_auto_topic_creation: Annotated[bool, "4+"] = True
    include_cluster_authorized_operations: Annotated[bool, "8-10"] = False
    include_topic_authorized_operations: Annotated[bool, "8+"] = False


class MetadataResponseBroker(Message):
    node_id: Int32 = 0
    host: str = ""
    port: Int32 = 0
    rack: Annotated[str | None, "1+"] = None


class MetadataResponsePartition(Message):
    error_code: Int16 = 0
    partition_index: Int32 = 0
    leader_id: Int32 = 0
    leader_epoch: Annotated[Int32, "7+"] = -1
    replica_nodes: tuple[Int32, ...] = ()
    isr_nodes: tuple[Int32, ...] = ()
    offline_replicas: Annotated[tuple[Int32, ...], "5+"] = ()


class MetadataResponseTopic(Message):
    error_code: Int16 = 0
    name: Annotated[str | None, Nullable("12+")] = ""
    topic_id: Annotated[Uuid, "10+"] = ZERO_UUID
    is_internal: Annotated[bool, "1+"] = False
    partitions: tuple[MetadataResponsePartition, ...] = ()
    topic_authorized_operations: Annotated[Int32, "8+"] = -(2**31)  # a set of bits; the default means: not asked for


class MetadataResponse(Message):
    throttle_time_ms: Annotated[Int32, "3+"] = 0
    brokers: tuple[MetadataResponseBroker, ...] = ()
    cluster_id: Annotated[str | None, "2+"] = None
    controller_id: Annotated[Int32, "1+"] = -1
    topics: tuple[MetadataResponseTopic, ...] = ()
    cluster_authorized_operations: Annotated[Int32, "8-10"] = -(2**31)
    """A set of bits; the default means: not asked for."""
    error_code: Annotated[Int16, "13+"] = 0


SCHEMA = ApiSchema(
    key=ApiKey.METADATA,
    versions=range(0, 14),
    flexible_from=9,
    request=MetadataRequest,
    response=MetadataResponse,
)
