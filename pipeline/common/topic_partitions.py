"""The current partitions of topics that must exist."""

from collections.abc import Sequence
from dataclasses import dataclass

from eosin.client.client import Client
from eosin.pipeline.common.errors import MissingTopic
from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import ZERO_UUID, TopicPartition, uuid_text


@dataclass(frozen=True, slots=True)
class FoundPartitions:
    """The partitions and ids of some topics."""

    partitions: list[TopicPartition]
    """Topic by topic and in order."""
    topic_ids: dict[str, str]
    """The id of each topic as text. Brokers before KIP-516 have no ids: their topics are left out."""


async def find_partitions(client: Client, topics: Sequence[str]) -> FoundPartitions:
    """All partitions and the ids of the topics, from one response. Raises MissingTopic or a ClientError."""
    metadata = await client.retry(lambda: client.fetch_metadata(topics))
    found = FoundPartitions([], {})
    for name in topics:
        if metadata.topics[name].error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise MissingTopic(f"topic {name} does not exist")
        topic = metadata.topic(name)
        found.partitions.extend(TopicPartition(name, index) for index in sorted(topic.partitions))
        if topic.topic_id != ZERO_UUID:
            found.topic_ids[name] = uuid_text(topic.topic_id)
    return found


async def topic_partitions(client: Client, topics: Sequence[str]) -> list[TopicPartition]:
    """All partitions, topic by topic and in order. Raises MissingTopic or a ClientError."""
    return (await find_partitions(client, topics)).partitions
