"""DescribeQuorum (key 55), versions 0-2: the state of the metadata quorum.

Flexible from the start. v1 adds last_fetch_timestamp and last_caught_up_timestamp to the response. v2 adds
error_message, nodes and replica_directory_id to the response.
"""

from __future__ import annotations

from typing import Annotated

from eosin.protocol.keys import ApiKey
from eosin.protocol.names import ZERO_UUID
from eosin.protocol.types import ApiSchema, Int16, Int32, Int64, Message, Uint16, Uuid


class PartitionData(Message):
    partition_index: Int32 = 0


class TopicData(Message):
    topic_name: str = ""
    partitions: tuple[PartitionData, ...] = ()


class DescribeQuorumRequest(Message):
    topics: tuple[TopicData, ...] = ()


class ReplicaState(Message):
    replica_id: Int32 = 0
    replica_directory_id: Annotated[Uuid, "2+"] = ZERO_UUID
    log_end_offset: Int64 = 0
    last_fetch_timestamp: Annotated[Int64, "1+"] = -1
    last_caught_up_timestamp: Annotated[Int64, "1+"] = -1


class ResponsePartitionData(Message):
    partition_index: Int32 = 0
    error_code: Int16 = 0
    error_message: Annotated[str | None, "2+"] = None
    leader_id: Int32 = 0
    leader_epoch: Int32 = 0
    high_watermark: Int64 = 0
    current_voters: tuple[ReplicaState, ...] = ()
    observers: tuple[ReplicaState, ...] = ()


class ResponseTopicData(Message):
    topic_name: str = ""
    partitions: tuple[ResponsePartitionData, ...] = ()


class Listener(Message):
    name: str = ""
    host: str = ""
    port: Uint16 = 0


class Node(Message):
    node_id: Int32 = 0
    listeners: tuple[Listener, ...] = ()


class DescribeQuorumResponse(Message):
    error_code: Int16 = 0
    error_message: Annotated[str | None, "2+"] = None
    topics: tuple[ResponseTopicData, ...] = ()
    nodes: Annotated[tuple[Node, ...], "2+"] = ()


SCHEMA = ApiSchema(
    key=ApiKey.DESCRIBE_QUORUM,
    versions=range(0, 3),
    flexible_from=0,
    request=DescribeQuorumRequest,
    response=DescribeQuorumResponse,
)
