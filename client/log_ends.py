"""The question of the ends of replicas' logs, whoever asks it: ListOffsets as Kafka's debug consumers send it."""

from collections.abc import Iterable, Mapping
from typing import Final

from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import TopicPartition
from eosin.protocol.schemas.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)

ANY_REPLICA: Final = -2
"""The replica id of one who asks for the log of whatever replica a broker has."""
A_CONSUMER: Final = -1
"""The replica id of one who is told what consumers may read."""
LATEST: Final = -1


def log_ends_request(partitions: Iterable[TopicPartition], *, replica_id: int = ANY_REPLICA) -> ListOffsetsRequest:
    """A request for the log end of a broker's replica of each partition, led or followed; of `A_CONSUMER`, for the high
    watermark of each that the broker leads."""
    topics: dict[str, list[ListOffsetsPartition]] = {}
    for partition in partitions:
        topics.setdefault(partition.topic, []).append(ListOffsetsPartition(partition.partition, timestamp=LATEST))
    return ListOffsetsRequest(
        replica_id=replica_id,
        topics=tuple(ListOffsetsTopic(name, tuple(asked)) for name, asked in topics.items()),
    )


def reported_log_ends(response: ListOffsetsResponse) -> Mapping[TopicPartition, int]:
    """The ends that the broker tells, without those of partitions that it refuses."""
    return {
        TopicPartition(topic.name, each.partition_index): each.offset
        for topic in response.topics
        for each in topic.partitions
        if each.error_code == ErrorCode.NONE
    }
