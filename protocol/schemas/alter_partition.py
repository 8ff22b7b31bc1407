"""AlterPartition (key 56), versions 0-3: a leader asks the metadata quorum for another ISR (KIP-497, cluster.md 4.11).

Flexible from the start. v1 adds leader_recovery_state to both. v2 names topics by id instead of by name. v3 replaces
new_isr by new_isr_with_epochs (KIP-903).
"""

from __future__ import annotations

from typing import Annotated

from eosin.protocol.keys import ApiKey
from eosin.protocol.names import ZERO_UUID
from eosin.protocol.types import ApiSchema, Int8, Int16, Int32, Int64, Message, Uuid


class BrokerState(Message):
    broker_id: Int32 = 0
    broker_epoch: Int64 = -1


class PartitionData(Message):
    partition_index: Int32 = 0
    leader_epoch: Int32 = 0
    new_isr: Annotated[tuple[Int32, ...], "0-2"] = ()
    new_isr_with_epochs: Annotated[tuple[BrokerState, ...], "3+"] = ()
    leader_recovery_state: Annotated[Int8, "1+"] = 0
    partition_epoch: Int32 = 0


class TopicData(Message):
    topic_name: Annotated[str, "0-1"] = ""
    topic_id: Annotated[Uuid, "2+"] = ZERO_UUID
    partitions: tuple[PartitionData, ...] = ()


class AlterPartitionRequest(Message):
    broker_id: Int32 = 0
    broker_epoch: Int64 = -1
    topics: tuple[TopicData, ...] = ()


class ResponsePartitionData(Message):
    partition_index: Int32 = 0
    error_code: Int16 = 0
    leader_id: Int32 = 0
    leader_epoch: Int32 = 0
    isr: tuple[Int32, ...] = ()
    leader_recovery_state: Annotated[Int8, "1+"] = 0
    partition_epoch: Int32 = 0


class ResponseTopicData(Message):
    topic_name: Annotated[str, "0-1"] = ""
    topic_id: Annotated[Uuid, "2+"] = ZERO_UUID
    partitions: tuple[ResponsePartitionData, ...] = ()


class AlterPartitionResponse(Message):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    topics: tuple[ResponseTopicData, ...] = ()


SCHEMA = ApiSchema(
    key=ApiKey.ALTER_PARTITION,
    versions=range(0, 4),
    flexible_from=0,
    request=AlterPartitionRequest,
    response=AlterPartitionResponse,
)
