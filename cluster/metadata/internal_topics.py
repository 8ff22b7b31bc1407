"""The topics that coordinators keep their state in. They exist from the first start, at no cost until they are written
to; the one of share groups comes with the first of these.

Their settings are fixed when they are created (storage.md 14.8); how many partitions they have never changes, since
it decides which of them an id belongs to.
"""

import logging
from collections.abc import Iterator, Mapping
from typing import Final

from eosin.model.cluster import Topic
from eosin.protocol.names import (
    COMPACTED_TOPICS,
    CONSUMER_OFFSETS_TOPIC,
    SHARE_GROUP_STATE_TOPIC,
    TRANSACTION_STATE_TOPIC,
)
from eosin.runtime.chance import Chance
from eosin.settings.broker import BrokerConfig
from eosin.settings.topics import INTERNAL_SEGMENT_BYTES, TOPIC_CONFIGS

_LOG: Final = logging.getLogger("eosin.cluster.metadata")


def missing(config: BrokerConfig, topics: Mapping[str, Topic], chance: Chance) -> Iterator[Topic]:
    """The internal topics that are there from the first start and not in `topics` yet, as they are to be created."""
    wanted = (
        (CONSUMER_OFFSETS_TOPIC, config.offsets_topic_num_partitions, consumer_offsets_configs(config)),
        (TRANSACTION_STATE_TOPIC, config.transaction_state_log_num_partitions, transaction_state_configs(config)),
    )
    for name, partitions, configs in wanted:
        if name not in topics:
            yield Topic(name, chance.uuid(), partitions, configs, internal=True)


def share_group_state(config: BrokerConfig, chance: Chance) -> Topic:
    """`__share_group_state` as it is to be created."""
    configs = share_group_state_configs(config)
    partitions = config.share_coordinator_state_topic_num_partitions
    return Topic(SHARE_GROUP_STATE_TOPIC, chance.uuid(), partitions, configs, internal=True)


def fixed_configs(name: str) -> Mapping[str, str]:
    """The configs of an internal topic that nobody may change: retention, or compaction, would delete what is in
    use."""
    if name in COMPACTED_TOPICS:
        return {"cleanup.policy": "compact"}
    return {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}


_DELETE_RETENTION_MS: Final = "60000"
"""Time that what compaction may drop stays for readers that are on their way. The only reader of these topics is their
coordinator, whose load of a partition takes seconds; Kafka's day of it would keep the markers of a day's transactions,
and every start would read them all."""


def consumer_offsets_configs(config: BrokerConfig) -> dict[str, str]:
    """The configs of `__consumer_offsets`."""
    return {
        "cleanup.policy": "compact",
        "compression.type": "producer",
        "delete.retention.ms": _DELETE_RETENTION_MS,
        **_segment_bytes(config.offsets_topic_segment_bytes),
    }


def transaction_state_configs(config: BrokerConfig) -> dict[str, str]:
    """The configs of `__transaction_state`. With one replica, more than one in sync would never be reached."""
    return {
        "cleanup.policy": "compact",
        "compression.type": "uncompressed",
        "delete.retention.ms": _DELETE_RETENTION_MS,
        "min.insync.replicas": "1",
        "unclean.leader.election.enable": "false",
        **_segment_bytes(config.transaction_state_log_segment_bytes),
    }


def share_group_state_configs(config: BrokerConfig) -> dict[str, str]:
    """The configs of `__share_group_state`. Its coordinator deletes what it does not need (share-state.md 5)."""
    return {
        "cleanup.policy": "delete",
        "compression.type": "producer",
        "min.insync.replicas": "1",
        "retention.bytes": "-1",
        "retention.ms": "-1",
        "unclean.leader.election.enable": "false",
        **_segment_bytes(config.share_coordinator_state_topic_segment_bytes),
    }


def joined_configs(name: str, config: BrokerConfig) -> dict[str, str]:
    """The configs of an internal topic that several brokers hold (cluster.md 5.6). A replica that was away may need
    what compaction drops for as long as any other topic's (cluster.md 4.1)."""
    if name == CONSUMER_OFFSETS_TOPIC:
        configs = consumer_offsets_configs(config)
    elif name == SHARE_GROUP_STATE_TOPIC:
        min_isr = str(config.share_coordinator_state_topic_min_isr)
        return share_group_state_configs(config) | {"min.insync.replicas": min_isr}
    else:
        configs = transaction_state_configs(config) | {"min.insync.replicas": str(config.transaction_state_log_min_isr)}
    configs.pop("delete.retention.ms", None)
    return configs


def _segment_bytes(size: int) -> dict[str, str]:
    lowest = TOPIC_CONFIGS["segment.bytes"].at_least or 0
    return {"segment.bytes" if size >= lowest else INTERNAL_SEGMENT_BYTES: str(size)}


def warn_of_capped_replication(config: BrokerConfig, *, brokers: int) -> None:
    """One warning about every setting that asks for more replicas than there are brokers."""
    settings = (
        "default.replication.factor",
        "offsets.topic.replication.factor",
        "transaction.state.log.replication.factor",
        "transaction.state.log.min.isr",
        "share.coordinator.state.topic.replication.factor",
        "share.coordinator.state.topic.min.isr",
    )
    capped = [f"{name}={config.text(name)}" for name in settings if config.value(name) > brokers]
    if capped:
        _LOG.warning("%s: capped at the number of brokers, which is %d", ", ".join(capped), brokers)
