"""The partitions of topics that must be there, as brokers tell them now."""

from collections.abc import Sequence

from eosin.client.client import Client
from eosin.pipeline.errors import MissingTopic
from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import TopicPartition


async def topic_partitions(client: Client, topics: Sequence[str]) -> list[TopicPartition]:
    """Every partition, topic by topic and in order. Raises MissingTopic or a ClientError."""
    metadata = await client.retry(lambda: client.fetch_metadata(topics))
    found = []
    for name in topics:
        if metadata.topics[name].error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise MissingTopic(f"topic {name} does not exist")
        found += [TopicPartition(name, index) for index in sorted(metadata.topic(name).partitions)]
    return found
