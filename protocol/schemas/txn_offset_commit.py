"""TxnOffsetCommit (key 28), versions 0-5: store positions of a consumer group as part of a transaction.

v2 adds committed_leader_epoch to the request. v3 is the first flexible version and adds generation_id, member_id and
group_instance_id to the request.
"""

from eosin.protocol.keys import ApiKey
from eosin.protocol.types import ApiSchema, Int16, Int32, Int64, Layout, Message, array, message, string, when


class TxnOffsetCommitRequestPartition(Message):
    partition_index: int = 0
    committed_offset: int = 0
    committed_leader_epoch: int = -1
    committed_metadata: str | None = None


class TxnOffsetCommitRequestTopic(Message):
    name: str = ""
    partitions: tuple[TxnOffsetCommitRequestPartition, ...] = ()


class TxnOffsetCommitRequest(Message):
    transactional_id: str = ""
    group_id: str = ""
    producer_id: int = 0
    producer_epoch: int = 0
    generation_id: int = -1
    member_id: str = ""
    group_instance_id: str | None = None  # of a static member
    topics: tuple[TxnOffsetCommitRequestTopic, ...] = ()


class TxnOffsetCommitResponsePartition(Message):
    partition_index: int = 0
    error_code: int = 0


class TxnOffsetCommitResponseTopic(Message):
    name: str = ""
    partitions: tuple[TxnOffsetCommitResponsePartition, ...] = ()


class TxnOffsetCommitResponse(Message):
    throttle_time_ms: int = 0
    topics: tuple[TxnOffsetCommitResponseTopic, ...] = ()


def txn_offset_commit_request(version: int) -> Layout:
    """The request at `version`."""
    flexible = version >= 3
    txn_offset_commit_request_partition = message(
        TxnOffsetCommitRequestPartition,
        flexible,
        "partition_index" / Int32,
        "committed_offset" / Int64,
        *when(version >= 2, "committed_leader_epoch" / Int32),
        "committed_metadata" / string(flexible, nullable=True),
    )
    txn_offset_commit_request_topic = message(
        TxnOffsetCommitRequestTopic,
        flexible,
        "name" / string(flexible),
        "partitions" / array(txn_offset_commit_request_partition, flexible),
    )
    return message(
        TxnOffsetCommitRequest,
        flexible,
        "transactional_id" / string(flexible),
        "group_id" / string(flexible),
        "producer_id" / Int64,
        "producer_epoch" / Int16,
        *when(
            version >= 3,
            "generation_id" / Int32,
            "member_id" / string(flexible),
            "group_instance_id" / string(flexible, nullable=True),
        ),
        "topics" / array(txn_offset_commit_request_topic, flexible),
    )


def txn_offset_commit_response(version: int) -> Layout:
    """The response at `version`."""
    flexible = version >= 3
    txn_offset_commit_response_partition = message(
        TxnOffsetCommitResponsePartition,
        flexible,
        "partition_index" / Int32,
        "error_code" / Int16,
    )
    txn_offset_commit_response_topic = message(
        TxnOffsetCommitResponseTopic,
        flexible,
        "name" / string(flexible),
        "partitions" / array(txn_offset_commit_response_partition, flexible),
    )
    return message(
        TxnOffsetCommitResponse,
        flexible,
        "throttle_time_ms" / Int32,
        "topics" / array(txn_offset_commit_response_topic, flexible),
    )


SCHEMA = ApiSchema(
    key=ApiKey.TXN_OFFSET_COMMIT,
    versions=range(0, 6),
    flexible_from=3,
    request=txn_offset_commit_request,
    response=txn_offset_commit_response,
)
