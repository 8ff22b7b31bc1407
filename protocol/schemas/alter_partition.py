"""AlterPartition (key 56), versions 0-3: a leader asks the metadata quorum for another ISR (KIP-497, cluster.md 4.11).

Flexible from the start. v1 adds leader_recovery_state to both. v2 names topics by id instead of by name. v3 replaces
new_isr by new_isr_with_epochs (KIP-903).
"""

from eosin.protocol.keys import ApiKey
from eosin.protocol.names import ZERO_UUID
from eosin.protocol.types import (
    ApiSchema,
    Int8,
    Int16,
    Int32,
    Int64,
    Layout,
    Message,
    Uuid,
    array,
    message,
    string,
    when,
)


class BrokerState(Message):
    broker_id: int = 0
    broker_epoch: int = -1


class PartitionData(Message):
    partition_index: int = 0
    leader_epoch: int = 0
    new_isr: tuple[int, ...] = ()
    new_isr_with_epochs: tuple[BrokerState, ...] = ()
    leader_recovery_state: int = 0
    partition_epoch: int = 0


class TopicData(Message):
    topic_name: str = ""
    topic_id: bytes = ZERO_UUID
    partitions: tuple[PartitionData, ...] = ()


class AlterPartitionRequest(Message):
    broker_id: int = 0
    broker_epoch: int = -1
    topics: tuple[TopicData, ...] = ()


class ResponsePartitionData(Message):
    partition_index: int = 0
    error_code: int = 0
    leader_id: int = 0
    leader_epoch: int = 0
    isr: tuple[int, ...] = ()
    leader_recovery_state: int = 0
    partition_epoch: int = 0


class ResponseTopicData(Message):
    topic_name: str = ""
    topic_id: bytes = ZERO_UUID
    partitions: tuple[ResponsePartitionData, ...] = ()


class AlterPartitionResponse(Message):
    throttle_time_ms: int = 0
    error_code: int = 0
    topics: tuple[ResponseTopicData, ...] = ()


def alter_partition_request(version: int) -> Layout:
    """The request at `version`."""
    flexible = True
    broker_state = message(
        BrokerState,
        flexible,
        "broker_id" / Int32,
        "broker_epoch" / Int64,
    )
    partition_data = message(
        PartitionData,
        flexible,
        "partition_index" / Int32,
        "leader_epoch" / Int32,
        *when(version <= 2, "new_isr" / array(Int32, flexible)),
        *when(version >= 3, "new_isr_with_epochs" / array(broker_state, flexible)),
        *when(version >= 1, "leader_recovery_state" / Int8),
        "partition_epoch" / Int32,
    )
    topic_data = message(
        TopicData,
        flexible,
        *when(version <= 1, "topic_name" / string(flexible)),
        *when(version >= 2, "topic_id" / Uuid),
        "partitions" / array(partition_data, flexible),
    )
    return message(
        AlterPartitionRequest,
        flexible,
        "broker_id" / Int32,
        "broker_epoch" / Int64,
        "topics" / array(topic_data, flexible),
    )


def alter_partition_response(version: int) -> Layout:
    """The response at `version`."""
    flexible = True
    partition_data = message(
        ResponsePartitionData,
        flexible,
        "partition_index" / Int32,
        "error_code" / Int16,
        "leader_id" / Int32,
        "leader_epoch" / Int32,
        "isr" / array(Int32, flexible),
        *when(version >= 1, "leader_recovery_state" / Int8),
        "partition_epoch" / Int32,
    )
    topic_data = message(
        ResponseTopicData,
        flexible,
        *when(version <= 1, "topic_name" / string(flexible)),
        *when(version >= 2, "topic_id" / Uuid),
        "partitions" / array(partition_data, flexible),
    )
    return message(
        AlterPartitionResponse,
        flexible,
        "throttle_time_ms" / Int32,
        "error_code" / Int16,
        "topics" / array(topic_data, flexible),
    )


SCHEMA = ApiSchema(
    key=ApiKey.ALTER_PARTITION,
    versions=range(0, 4),
    flexible_from=0,
    request=alter_partition_request,
    response=alter_partition_response,
)
