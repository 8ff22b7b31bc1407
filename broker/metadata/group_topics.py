"""Which partitions that a group request names exist: committed offsets are only taken for those (groups.md 8)."""

from eosin.broker.api import Services


def partition_count(services: Services, topic: str) -> int:
    """How many partitions a topic has; 0 when there is no such topic."""
    known = services.cluster.topics.get(topic)
    return 0 if known is None else known.partitions
