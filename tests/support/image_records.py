"""A cluster image as the records that lead to it: what a controller puts into a snapshot, for `quorum_log.py`."""

from collections.abc import Iterator

from eosin.cluster.quorum.rules.image import ClusterImage, RegisteredBroker, TopicImage
from eosin.protocol.schemas.records import metadata as records
from eosin.protocol.types import Message


def image_records(image: ClusterImage) -> Iterator[Message]:
    """Features, brokers, topics, settings and producer ids: all that a `FakeController` ever writes."""
    for name, level in image.features.items():
        yield records.FeatureLevelRecord(name, level)
    for broker in image.brokers.values():
        yield _broker(broker)
    for topic in image.topics.values():
        yield from _topic(topic)
    for (kind, resource), settings in image.configs.items():
        for name, value in settings.items():
            yield records.ConfigRecord(kind, resource, name, value)
    if image.next_producer_id:
        yield records.ProducerIdsRecord(next_producer_id=image.next_producer_id)


def _broker(broker: RegisteredBroker) -> Message:
    return records.RegisterBrokerRecord(
        broker_id=broker.node_id,
        incarnation_id=broker.incarnation_id,
        broker_epoch=broker.epoch,
        end_points=tuple(
            records.BrokerEndpoint(each.listener, each.host, each.port, each.security_protocol)
            for each in broker.endpoints.values()
        ),
        features=tuple(records.BrokerFeature(name, *levels) for name, levels in broker.features.items()),
        rack=broker.rack,
        fenced=broker.fenced,
        in_controlled_shutdown=broker.in_controlled_shutdown,
        log_dirs=broker.log_dirs,
        cordoned_log_dirs=broker.cordoned_log_dirs,
    )


def _topic(topic: TopicImage) -> Iterator[Message]:
    yield records.TopicRecord(topic.name, topic.topic_id)
    for index, each in topic.partitions.items():
        yield records.PartitionRecord(
            partition_id=index,
            topic_id=topic.topic_id,
            replicas=each.replicas,
            isr=each.isr,
            removing_replicas=each.removing,
            adding_replicas=each.adding,
            leader=each.leader,
            leader_recovery_state=int(each.recovering),
            leader_epoch=each.leader_epoch,
            partition_epoch=each.partition_epoch,
            directories=each.directories,
            eligible_leader_replicas=each.elr or None,
            last_known_elr=each.last_known_elr or None,
        )
