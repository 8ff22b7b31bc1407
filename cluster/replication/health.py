"""`ReplicationHealth`: one line when more or fewer partitions than before are in danger (cluster.md 14).

Counted are those that this broker leads and that lack a replica in sync, those of them that take no acks=all for that,
and those of this broker's replicas that nobody leads. Always true: a publication costs what it changes, and a broker of
thousands of partitions that loses a peer says so in one line.
"""

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple

from eosin.model.cluster import NO_LEADER
from eosin.protocol.config_resources import ConfigResourceType
from eosin.protocol.names import TopicPartition

if TYPE_CHECKING:
    from eosin.cluster.quorum.rules.image import ClusterImage, ImageDelta, PartitionRegistration

_LOG: Final = logging.getLogger(__name__)


class InDanger(NamedTuple):
    """Numbers of partitions that lack replicas, in-sync replicas or a leader."""

    under_replicated: int = 0
    under_min_isr: int = 0
    leaderless: int = 0


class ReplicationHealth:
    """The partitions of one broker that are in danger."""

    def __init__(self, node_id: int, image: "ClusterImage", *, min_in_sync: Callable[[str], int]) -> None:
        """`min_in_sync` is a topic's `min.insync.replicas` as of now."""
        self._node_id = node_id
        self._min_in_sync = min_in_sync
        self._under_replicated: set[TopicPartition] = set()
        self._under_min_isr: set[TopicPartition] = set()
        self._leaderless: set[TopicPartition] = set()
        self._told = InDanger()
        self._judge_all(image)

    @property
    def counts(self) -> InDanger:
        """As of the last publication."""
        return InDanger(len(self._under_replicated), len(self._under_min_isr), len(self._leaderless))

    def apply(self, delta: "ImageDelta") -> None:
        """Follow a publication."""
        for each in delta.partitions_changed:
            self._judge(each.partition, each.after)
        for kind, name in delta.configs_changed:
            if kind == ConfigResourceType.BROKER:
                self._judge_all(delta.after)
            elif kind == ConfigResourceType.TOPIC:
                self._judge_topic(delta.after, name)

    def log_counts(self) -> None:
        """Log the counts if they are others than the last ones that were logged."""
        counts = self.counts
        if counts == self._told:
            return
        self._told = counts
        if not any(counts):
            _LOG.info("every partition of this broker has a leader and all its replicas in sync")
            return
        _LOG.warning(
            "of the partitions that this broker leads, %d lack a replica in sync, and %d are below min.insync.replicas;"
            " %d of its partitions have no leader",
            *counts,
        )

    def _judge_all(self, image: "ClusterImage") -> None:
        for name in image.topics:
            self._judge_topic(image, name)

    def _judge_topic(self, image: "ClusterImage", name: str) -> None:
        topic = image.topics.get(name)
        for index, registration in () if topic is None else topic.partitions.items():
            self._judge(TopicPartition(name, index), registration)

    def _judge(self, partition: TopicPartition, registration: "PartitionRegistration | None") -> None:
        under_replicated = under_min_isr = leaderless = False
        if registration is not None and registration.leader == self._node_id:
            in_sync = len(registration.isr)
            under_replicated = in_sync < len(registration.replicas)
            under_min_isr = in_sync < self._min_in_sync(partition.topic)
        elif registration is not None and registration.leader == NO_LEADER:
            leaderless = self._node_id in registration.replicas
        for judged, holds in (
            (self._under_replicated, under_replicated),
            (self._under_min_isr, under_min_isr),
            (self._leaderless, leaderless),
        ):
            if holds:
                judged.add(partition)
            else:
                judged.discard(partition)
