"""A client's knowledge of the cluster: a snapshot of one Metadata response, and no opinion about its age."""

from dataclasses import dataclass
from typing import Final, Self

from eosin.client.addresses import Address
from eosin.client.errors import BrokerError, check
from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import ZERO_UUID, TopicPartition
from eosin.protocol.schemas.metadata import MetadataResponse

_NOT_TOLD: Final = -(2**31)
"""In the place of a set of bits."""


@dataclass(frozen=True, slots=True)
class PartitionInfo:
    """One partition, from a Metadata response."""

    leader: int
    """Node id, -1 for none."""
    leader_epoch: int
    error: int = 0
    replicas: tuple[int, ...] = ()
    """Node ids."""
    in_sync: tuple[int, ...] = ()
    """Node ids."""


@dataclass(frozen=True, slots=True)
class TopicInfo:
    """One topic, from a Metadata response."""

    name: str
    topic_id: bytes
    is_internal: bool
    partitions: dict[int, PartitionInfo]
    error: int = 0
    operations: int | None = None
    """The client's allowed operations, as the set of bits of KIP-430; None when not asked for, or not told."""


@dataclass(frozen=True, slots=True)
class ClusterMetadata:
    """Brokers, topics, partition leaders."""

    cluster_id: str | None
    controller_id: int
    brokers: dict[int, Address]
    topics: dict[str, TopicInfo]

    @classmethod
    def of(cls, response: MetadataResponse) -> Self:
        """The snapshot that `response` is."""
        topics = {}
        for topic in response.topics:
            partitions = {
                each.partition_index: PartitionInfo(
                    each.leader_id, each.leader_epoch, each.error_code, each.replica_nodes, each.isr_nodes
                )
                for each in topic.partitions
            }
            name = topic.name or ""
            operations = None if (bits := topic.topic_authorized_operations) == _NOT_TOLD else bits
            topics[name] = TopicInfo(name, topic.topic_id, topic.is_internal, partitions, topic.error_code, operations)
        brokers = {broker.node_id: Address(broker.host, broker.port) for broker in response.brokers}
        return cls(response.cluster_id, response.controller_id, brokers, topics)

    def topic(self, name: str) -> TopicInfo:
        """A topic that exists, or BrokerError."""
        topic = self.topics.get(name)
        if topic is None:
            raise BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"looking for topic {name}")
        check(topic.error, f"looking for topic {name}")
        return topic

    def leader(self, partition: TopicPartition) -> int:
        """The node that leads a partition, or BrokerError: retriable where waiting may help."""
        info = self.topic(partition.topic).partitions.get(partition.partition)
        if info is None:
            raise BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"looking for {partition}")
        if info.leader < 0:
            raise BrokerError(info.error or ErrorCode.LEADER_NOT_AVAILABLE, f"looking for the leader of {partition}")
        return info.leader

    def topic_id(self, name: str) -> bytes:
        """A topic's id; all zero when it is not known."""
        topic = self.topics.get(name)
        return ZERO_UUID if topic is None else topic.topic_id

    def name_of(self, topic_id: bytes) -> str:
        """The name that goes with a topic id; empty when it is not known."""
        return next((topic.name for topic in self.topics.values() if topic.topic_id == topic_id), "")
