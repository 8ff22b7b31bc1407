"""Finds the topics and partitions that a group request names: committed offsets are only taken for those that exist
(groups.md 8)."""

from eosin.broker.services import Services
from eosin.protocol.names import ZERO_UUID, Uuid


def partition_count(services: Services, topic: str) -> int:
    """Number of partitions that a topic has; 0 when there is no such topic."""
    known = services.cluster.topics.get(topic)
    return 0 if known is None else known.partitions


def topic_id_of(services: Services, topic: str) -> Uuid:
    """The id that a topic has now, which its committed offsets keep; zeros when there is no such topic."""
    known = services.cluster.topics.get(topic)
    return ZERO_UUID if known is None else known.topic_id


def topic_name(services: Services, name: str, topic_id: Uuid, *, by_id: bool) -> str | None:
    """The name of the topic that a request names, `by_id` or as it is; None when no topic has that id."""
    if not by_id:
        return name
    known = services.cluster.topic_by_id(topic_id)
    return None if known is None else known.name
