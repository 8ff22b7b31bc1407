"""Metrics of groups under the names that Apache Kafka's group coordinator gives them (KIP-848, KIP-932, KIP-1071;
console.md 4.3)."""

from collections import Counter
from collections.abc import Iterator
from typing import Final

from eosin.coordinator.groups.consumer.rules.group import ConsumerGroup, ConsumerGroupState
from eosin.coordinator.groups.rules.listing import CLASSIC, CONSUMER, SHARE, STREAMS
from eosin.coordinator.groups.rules.stats import GroupStats
from eosin.coordinator.groups.share.rules.group import ShareGroupState
from eosin.coordinator.groups.streams.rules.group import StreamsGroupState
from eosin.observe.metrics.families import Family, Row, gauge, single

PREFIX: Final = "kafka_server_group_coordinator_metrics_"


def unrevoked_partitions(group: ConsumerGroup) -> int:
    """The number of partitions that members were told to give up, and have not."""
    return sum(len(member.pending) for member in group.members.values())


def group_counts(
    classic: int,
    consumers: Counter[str],
    shares: Counter[str],
    streams: Counter[str],
    stats: GroupStats,
) -> Iterator[Family]:
    """Groups of all kinds, those of the new ones by their state, and what they have done."""
    totals = {CLASSIC: classic, CONSUMER: consumers.total(), SHARE: shares.total(), STREAMS: streams.total()}
    kinds: list[Row] = [((kind,), total) for kind, total in totals.items()]
    yield gauge(f"{PREFIX}group_count", "Groups of this broker, by protocol.", kinds, "protocol")
    states: list[Row] = [((state.value,), consumers[state.value]) for state in ConsumerGroupState]
    yield gauge(f"{PREFIX}consumer_group_count", "Consumer groups (KIP-848), by state.", states, "state")
    states = [((state.value,), shares[state.value]) for state in ShareGroupState]
    yield gauge(f"{PREFIX}share_group_count", "Share groups (KIP-932), by state.", states, "state")
    states = [((state.value,), streams[state.value]) for state in StreamsGroupState]
    yield gauge(f"{PREFIX}streams_group_count", "Streams groups (KIP-1071), by state.", states, "state")
    # Kafka's exporters make gauges of these, though they only grow.
    text = "Rebalances of consumer groups, but for those that follow from a departure."
    yield single(f"{PREFIX}consumer_group_rebalance_count", text, stats.consumer_rebalances)
    text = "Rebalances of share groups, but for those that follow from a departure."
    yield single(f"{PREFIX}share_group_rebalance_count", text, stats.share_rebalances)
    text = "Rebalances of streams groups, but for those that follow from a departure."
    yield single(f"{PREFIX}streams_group_rebalance_count", text, stats.streams_rebalances)
    text = "Generations of classic groups that became stable."
    yield single(f"{PREFIX}group_completed_rebalance_count", text, stats.completed_rebalances)
    yield single(f"{PREFIX}offset_commit_count", "Offsets committed outside of transactions.", stats.commits)
    yield single(f"{PREFIX}offset_expiration_count", "Offsets whose retention had passed.", stats.expirations)
    yield single(f"{PREFIX}offset_deletion_count", "Offsets that clients have deleted.", stats.deletions)
