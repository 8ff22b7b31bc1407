"""Images of a cluster with a topic or two of one partition, for tests of replication."""

from eosin.cluster.quorum.rules.image import (
    BrokerEndpoint,
    ClusterImage,
    ImageDelta,
    PartitionChange,
    PartitionRegistration,
    RegisteredBroker,
    TopicImage,
)
from eosin.protocol.names import TopicPartition, Uuid
from eosin.runtime.sorted_map import SortedMap

ORDERS_ID: Uuid = b"o" * 16


def broker(node_id: int, *, host: str | None = None) -> RegisteredBroker:
    endpoint = BrokerEndpoint("PLAINTEXT", host or f"host-{node_id}", 9092, 0)
    return RegisteredBroker(
        node_id=node_id,
        epoch=100 + node_id,
        incarnation_id=bytes(16),
        endpoints={"PLAINTEXT": endpoint},
        features={},
        rack=None,
        fenced=False,
        in_controlled_shutdown=False,
        log_dirs=(),
        cordoned_log_dirs=None,
    )


def partition(
    leader: int,
    *,
    epoch: int = 0,
    partition_epoch: int = 0,
    replicas: tuple[int, ...] = (1, 2),
    isr: tuple[int, ...] = (),
) -> PartitionRegistration:
    return PartitionRegistration(
        replicas=replicas,
        isr=isr or replicas,
        removing=(),
        adding=(),
        elr=(),
        last_known_elr=(),
        directories=(),
        leader=leader,
        leader_epoch=epoch,
        partition_epoch=partition_epoch,
        recovering=False,
    )


def topic(registration: PartitionRegistration, *, name: str = "orders", topic_id: Uuid = ORDERS_ID) -> TopicImage:
    return TopicImage(name, topic_id, SortedMap({0: registration}))


def image(*topics: TopicImage, brokers: tuple[RegisteredBroker, ...] = ()) -> ClusterImage:
    found = brokers or (broker(1), broker(2), broker(3))
    return ClusterImage(
        brokers=SortedMap({each.node_id: each for each in found}),
        topics=SortedMap({each.name: each for each in topics}),
        topic_names=SortedMap({each.topic_id: each.name for each in topics}),
    )


def delta(
    before: ClusterImage, after: ClusterImage, *changed: TopicPartition, brokers_changed: bool = False
) -> ImageDelta:
    """The publication of `after`, in which these partitions have changed: one of a topic with another id goes first."""
    changes = []
    for each in changed:
        old, new = before.topics.get(each.topic), after.topics.get(each.topic)
        was = before.partition(*each)
        if was is not None and (old is None or new is None or old.topic_id != new.topic_id):
            changes.append(PartitionChange(each, was, None))
            was = None
        if new is not None:
            changes.append(PartitionChange(each, was, after.partition(*each)))
    return ImageDelta(before, after, partitions_changed=changes, brokers_changed=brokers_changed)
