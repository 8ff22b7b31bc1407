"""AssignReplicasToDirs (key 73), version 0: a broker tells in which of its directories replicas are (KIP-858,
cluster.md 4.18).

Flexible from the start.
"""

from __future__ import annotations

from eosin.protocol.keys import ApiKey
from eosin.protocol.names import ZERO_UUID
from eosin.protocol.types import ApiSchema, Int16, Int32, Int64, Message, Uuid


class PartitionData(Message):
    partition_index: Int32 = 0


class TopicData(Message):
    topic_id: Uuid = ZERO_UUID
    partitions: tuple[PartitionData, ...] = ()


class DirectoryData(Message):
    id: Uuid = ZERO_UUID
    topics: tuple[TopicData, ...] = ()


class AssignReplicasToDirsRequest(Message):
    broker_id: Int32 = 0
    broker_epoch: Int64 = -1
    directories: tuple[DirectoryData, ...] = ()


class ResponsePartitionData(Message):
    partition_index: Int32 = 0
    error_code: Int16 = 0


class ResponseTopicData(Message):
    topic_id: Uuid = ZERO_UUID
    partitions: tuple[ResponsePartitionData, ...] = ()


class ResponseDirectoryData(Message):
    id: Uuid = ZERO_UUID
    topics: tuple[ResponseTopicData, ...] = ()


class AssignReplicasToDirsResponse(Message):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    directories: tuple[ResponseDirectoryData, ...] = ()


SCHEMA = ApiSchema(
    key=ApiKey.ASSIGN_REPLICAS_TO_DIRS,
    versions=range(0, 1),
    flexible_from=0,
    request=AssignReplicasToDirsRequest,
    response=AssignReplicasToDirsResponse,
)
