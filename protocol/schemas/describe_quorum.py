"""DescribeQuorum (key 55), versions 0-2: the state of the metadata quorum.

Flexible from the start. v1 adds last_fetch_timestamp and last_caught_up_timestamp to the response. v2 adds
error_message, nodes and replica_directory_id to the response.
"""

from eosin.protocol.keys import ApiKey
from eosin.protocol.names import ZERO_UUID
from eosin.protocol.types import (
    ApiSchema,
    Int16,
    Int32,
    Int64,
    Layout,
    Message,
    Uint16,
    Uuid,
    array,
    message,
    string,
    when,
)


class PartitionData(Message):
    partition_index: int = 0


class TopicData(Message):
    topic_name: str = ""
    partitions: tuple[PartitionData, ...] = ()


class DescribeQuorumRequest(Message):
    topics: tuple[TopicData, ...] = ()


class ReplicaState(Message):
    replica_id: int = 0
    replica_directory_id: bytes = ZERO_UUID
    log_end_offset: int = 0
    last_fetch_timestamp: int = -1
    last_caught_up_timestamp: int = -1


class ResponsePartitionData(Message):
    partition_index: int = 0
    error_code: int = 0
    error_message: str | None = None
    leader_id: int = 0
    leader_epoch: int = 0
    high_watermark: int = 0
    current_voters: tuple[ReplicaState, ...] = ()
    observers: tuple[ReplicaState, ...] = ()


class ResponseTopicData(Message):
    topic_name: str = ""
    partitions: tuple[ResponsePartitionData, ...] = ()


class Listener(Message):
    name: str = ""
    host: str = ""
    port: int = 0


class Node(Message):
    node_id: int = 0
    listeners: tuple[Listener, ...] = ()


class DescribeQuorumResponse(Message):
    error_code: int = 0
    error_message: str | None = None
    topics: tuple[ResponseTopicData, ...] = ()
    nodes: tuple[Node, ...] = ()


def describe_quorum_request(version: int) -> Layout:
    """The request at `version`."""
    flexible = True
    partition_data = message(
        PartitionData,
        flexible,
        "partition_index" / Int32,
    )
    topic_data = message(
        TopicData,
        flexible,
        "topic_name" / string(flexible),
        "partitions" / array(partition_data, flexible),
    )
    return message(
        DescribeQuorumRequest,
        flexible,
        "topics" / array(topic_data, flexible),
    )


def describe_quorum_response(version: int) -> Layout:
    """The response at `version`."""
    flexible = True
    replica_state = message(
        ReplicaState,
        flexible,
        "replica_id" / Int32,
        *when(version >= 2, "replica_directory_id" / Uuid),
        "log_end_offset" / Int64,
        *when(version >= 1, "last_fetch_timestamp" / Int64, "last_caught_up_timestamp" / Int64),
    )
    partition_data = message(
        ResponsePartitionData,
        flexible,
        "partition_index" / Int32,
        "error_code" / Int16,
        *when(version >= 2, "error_message" / string(flexible, nullable=True)),
        "leader_id" / Int32,
        "leader_epoch" / Int32,
        "high_watermark" / Int64,
        "current_voters" / array(replica_state, flexible),
        "observers" / array(replica_state, flexible),
    )
    topic_data = message(
        ResponseTopicData,
        flexible,
        "topic_name" / string(flexible),
        "partitions" / array(partition_data, flexible),
    )
    listener = message(
        Listener,
        flexible,
        "name" / string(flexible),
        "host" / string(flexible),
        "port" / Uint16,
    )
    node = message(
        Node,
        flexible,
        "node_id" / Int32,
        "listeners" / array(listener, flexible),
    )
    return message(
        DescribeQuorumResponse,
        flexible,
        "error_code" / Int16,
        *when(version >= 2, "error_message" / string(flexible, nullable=True)),
        "topics" / array(topic_data, flexible),
        *when(version >= 2, "nodes" / array(node, flexible)),
    )


SCHEMA = ApiSchema(
    key=ApiKey.DESCRIBE_QUORUM,
    versions=range(0, 3),
    flexible_from=0,
    request=describe_quorum_request,
    response=describe_quorum_response,
)
