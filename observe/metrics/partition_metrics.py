"""Metrics of topics and partitions, read from their logs at a scrape (console.md 4.3)."""

from collections.abc import AsyncIterator, Callable, Iterator
from itertools import islice
from typing import Any, Final, NamedTuple

from eosin.broker.hanging_transactions import GRACE_MS
from eosin.broker.services import Services
from eosin.broker.traffic_stats import TopicTraffic, TrafficStats
from eosin.model.cluster import NO_LEADER, PartitionState
from eosin.observe.metrics.families import COUNTER, Family, Row, column, counter, gauge, labels_text, single
from eosin.observe.survey.slices import LOG, Slices
from eosin.observe.survey.survey import Survey
from eosin.protocol.names import TopicPartition
from eosin.storage.log.partition_log import PartitionLog

BY_PARTITION: Final = ("topic", "partition")


class StillReaders(NamedTuple):
    """Since when readers of committed records stand where they stand."""

    last_stable: int
    since_ms: int


class Told(NamedTuple):
    """A partition with series of its own, and its place in the cluster."""

    log: PartitionLog
    state: PartitionState | None
    min_in_sync: int


class PartitionCounts:
    """The counts over all partitions of a broker."""

    def __init__(self) -> None:
        self.hosted = 0
        self.led = 0
        self.under_replicated = 0
        self.under_min_isr = 0
        self.at_min_isr = 0
        self.offline = 0
        self.leaderless = 0
        self.producers = 0
        self.late = 0
        self.written = 0
        self.told: list[Told] = []
        self.keys: list[str] = []
        """The text of the labels of each of them."""
        self.failed: list[tuple[TopicPartition, str]] = []
        self.own_lag = 0
        """By how many offsets this broker is behind, in the followed partition where it is farthest."""
        self.lags: dict[int, int] = {}
        """By how many records each follower is behind, in the partition where it is farthest."""


class PartitionMetrics:
    """Reads the partitions of one broker."""

    def __init__(self, services: Services, survey: Survey, traffic: TrafficStats) -> None:
        self._services = services
        self._survey = survey
        self._traffic = traffic
        self._held: dict[TopicPartition, StillReaders] = {}
        self._keys: dict[TopicPartition, str] = {}
        """The text of the labels of the partitions that the last scrape told of."""

    async def families(self) -> AsyncIterator[Family]:
        """Every family."""
        counts = PartitionCounts()
        before, self._keys = self._keys, {}
        async for some in self._survey.logs():
            for log in some:
                self._count(counts, log, before)
        for part in (self._counts, self._replication, self._logs, self._stable_offsets, self._metadata):
            for family in part(counts):
                yield family
        async for family in self._topics():
            yield family

    def _count(self, counts: PartitionCounts, log: PartitionLog, keys: dict[TopicPartition, str]) -> None:
        services, partition = self._services, log.topic_partition
        counts.hosted += 1
        if log.failure is not None:
            counts.offline += 1
            counts.failed.append((partition, str(log.failure)))
        counts.producers += len(log.producer_state)
        late_ms = services.clock.now_ms() - services.config.transaction_max_timeout_ms - GRACE_MS
        counts.late += _has_late(log, late_ms)
        state = services.cluster.partition_state(partition)
        wanted = services.cluster.log_config(partition.topic).min_insync_replicas
        if log.log_end_offset > 0:
            counts.written += 1
            if counts.written <= services.config.eosin_metrics_max_partitions:
                key = keys.get(partition)
                if key is None:
                    key = labels_text(BY_PARTITION, (partition.topic, str(partition.partition)))
                self._keys[partition] = key
                counts.keys.append(key)
                counts.told.append(Told(log, state, wanted))
        if state is None or state.leader_id == NO_LEADER:
            counts.leaderless += 1
        elif state.leader_id == services.cluster.node_id:
            counts.led += 1
            counts.under_replicated += len(state.isr) < len(state.replicas)
            wanted = min(wanted, len(state.replicas))
            counts.under_min_isr += len(state.isr) < wanted
            counts.at_min_isr += len(state.isr) == wanted
            self._count_followers(counts, log)
        else:
            counts.own_lag = max(counts.own_lag, services.partitions.follower_lag(partition))

    def _count_followers(self, counts: PartitionCounts, log: PartitionLog) -> None:
        leading = self._services.led_partitions
        state = None if leading is None else leading.state(log)
        for follower in () if state is None else state.followers:
            if follower.offset >= 0:
                lag = log.log_end_offset - follower.offset
                counts.lags[follower.node_id] = max(counts.lags.get(follower.node_id, 0), lag)

    def _counts(self, counts: PartitionCounts) -> Iterator[Family]:
        prefix = "kafka_server_replicamanager_"
        yield single(f"{prefix}partitioncount", "Partitions of this broker.", counts.hosted)
        yield single(f"{prefix}leadercount", "Partitions that it leads.", counts.led)
        text = "Led partitions that lack a replica in sync."
        yield single(f"{prefix}underreplicatedpartitions", text, counts.under_replicated)
        text = "Led partitions below min.insync.replicas."
        yield single(f"{prefix}underminisrpartitioncount", text, counts.under_min_isr)
        yield single(f"{prefix}atminisrpartitioncount", "Led partitions at min.insync.replicas.", counts.at_min_isr)
        yield single(f"{prefix}offlinereplicacount", "Logs of this broker that have failed.", counts.offline)
        yield single(f"{prefix}produceridcount", "Producers that its logs know.", counts.producers)
        yield single(
            f"{prefix}partitionswithlatetransactionscount",
            "Partitions with a transaction to which nothing was written for longer than any may take (KIP-664).",
            counts.late,
        )
        prefix = "kafka_controller_kafkacontroller_"
        text = "Partitions of this broker without a leader, or with a failed log."
        yield single(f"{prefix}offlinepartitionscount", text, counts.leaderless + counts.offline)
        text = "1 when this broker is its own controller."
        yield single(f"{prefix}activecontrollercount", text, int(not self._services.cluster.is_joined))
        yield counter(
            "kafka_controller_controllerstats_uncleanleaderelections_total", "None by this broker.", [((), 0)]
        )
        text = "Partitions with data that have no series of their own."
        yield single("eosin_metrics_partitions_left_out", text, counts.written - len(counts.told))
        failed: list[Row] = [((each.topic, str(each.partition), why), 1) for each, why in counts.failed]
        yield gauge("eosin_log_offline", "1 for each log that has failed.", failed, *BY_PARTITION, "reason")

    def _replication(self, counts: PartitionCounts) -> Iterator[Family]:
        leading, cluster = self._services.led_partitions, self._services.cluster
        if leading is None:
            return
        prefix = "kafka_server_replicamanager_"
        yield counter(f"{prefix}isrshrinks_total", "ISRs that lost a replica.", [((), leading.shrinks)])
        yield counter(f"{prefix}isrexpands_total", "ISRs that grew.", [((), leading.expansions)])
        text = "Offsets that this broker lacks, in the followed partition where it is farthest behind."
        lag: list[Row] = [(("Replica",), counts.own_lag)]
        yield gauge("kafka_server_replicafetchermanager_maxlag", text, lag, "clientId")
        yield gauge(
            "eosin_follower_max_lag_records",
            "By how many records a broker follows this one, in the partition where it is farthest behind.",
            [((str(node),), max(0, lag)) for node, lag in sorted(counts.lags.items())],
            "follower",
        )
        epoch = cluster.broker_epoch(cluster.node_id)
        yield single("eosin_broker_epoch", "The epoch of this broker's registration.", -1 if epoch is None else epoch)

    def _logs(self, counts: PartitionCounts) -> Iterator[Family]:
        def family(name: str, text: str, read: Callable[[PartitionLog], float]) -> Family:
            return column(name, text, counts.keys, [read(each.log) for each in counts.told])

        yield family("kafka_log_log_size", "Bytes of the log.", lambda log: log.size_bytes)
        yield family("kafka_log_log_logendoffset", "Log end.", lambda log: log.log_end_offset)
        yield family("kafka_log_log_logstartoffset", "Log start.", lambda log: log.log_start_offset)
        yield family("kafka_log_log_numlogsegments", "Segments.", lambda log: len(log.segments))
        yield family("kafka_topic_partition_current_offset", "The high watermark.", lambda log: log.high_watermark)
        yield family("kafka_topic_partition_oldest_offset", "Log start.", lambda log: log.log_start_offset)

    def _stable_offsets(self, counts: PartitionCounts) -> Iterator[Family]:
        now_ms, held = self._services.clock.now_ms(), self._held
        self._held = {}
        lags: list[float] = []
        stuck: list[float] = []
        for log, _, _ in counts.told:
            lag = max(0, log.high_watermark - log.last_stable_offset)
            lags.append(lag)
            seconds = 0.0
            if lag:
                partition = log.topic_partition
                before = held.get(partition)
                if before is None or before.last_stable != log.last_stable_offset:
                    before = StillReaders(log.last_stable_offset, now_ms)
                self._held[partition] = before
                seconds = max(0, now_ms - before.since_ms) / 1000
            stuck.append(seconds)
        text = "Offsets between the last stable offset and the high watermark."
        yield column("kafka_cluster_partition_laststableoffsetlag", text, counts.keys, lags)
        yield column("eosin_partition_lso_lag_records", text, counts.keys, lags)
        yield column(
            "eosin_partition_lso_stuck_seconds",
            "Since a scrape first saw readers of committed records held where they are; 0 when nothing holds them.",
            counts.keys,
            stuck,
        )

    def _metadata(self, counts: PartitionCounts) -> Iterator[Family]:
        known = [(key, each) for key, each in zip(counts.keys, counts.told, strict=True) if each.state is not None]
        keys = [key for key, _ in known]

        def family(name: str, text: str, read: Callable[[PartitionState, int], Any]) -> Family:
            return column(
                name, text, keys, [int(read(each.state, each.min_in_sync)) for _, each in known if each.state]
            )

        yield family(
            "kafka_cluster_partition_underminisr",
            "1 below min.insync.replicas.",
            lambda state, wanted: len(state.isr) < min(wanted, len(state.replicas)),
        )
        yield family(
            "kafka_cluster_partition_atminisr",
            "1 at min.insync.replicas.",
            lambda state, wanted: len(state.isr) == min(wanted, len(state.replicas)),
        )
        yield family("kafka_cluster_partition_replicascount", "Replicas.", lambda state, _: len(state.replicas))
        prefix = "kafka_topic_partition_"
        yield family(f"{prefix}leader", "Node id, -1 for none.", lambda state, _: state.leader_id)
        yield family(f"{prefix}replicas", "Replicas.", lambda state, _: len(state.replicas))
        yield family(f"{prefix}in_sync_replica", "Replicas in sync.", lambda state, _: len(state.isr))
        yield family(
            f"{prefix}under_replicated_partition",
            "1 when a replica lacks.",
            lambda state, _: len(state.isr) < len(state.replicas),
        )
        yield family(
            f"{prefix}leader_is_preferred",
            "1 when the first replica leads.",
            lambda state, _: state.leader_id == (state.replicas or (NO_LEADER,))[0],
        )

    async def _topics(self) -> AsyncIterator[Family]:
        """Topics have the limit of partitions; what all others have done is in the sums."""
        cluster, traffic = self._services.cluster, self._traffic
        limit = self._services.config.eosin_metrics_max_partitions
        counted: list[Row] = [((topic.name,), topic.partitions) for topic in islice(cluster.topics.values(), limit)]
        yield gauge("kafka_topic_partitions", "Partitions of each topic.", counted, "topic")
        slices, told = Slices(), TopicTraffic()
        told.add(traffic.deleted)
        keys: list[str] = []
        rows: list[TopicTraffic] = []
        for topic, counts in list(traffic.topics.items()):
            if topic not in cluster.topics:
                traffic.forget(topic)
            elif len(keys) < limit:
                keys.append(labels_text(("topic",), (topic,)))
                rows.append(counts)
            told.add(counts)
            await slices.worked(LOG)
        for name, text, field in TRAFFIC:
            numbers = [getattr(counts, field) for counts in rows]
            full = f"kafka_server_brokertopicmetrics_{name}_total"
            yield Family(full, text, COUNTER, ["", *keys], [getattr(told, field), *numbers])


TRAFFIC: Final = (
    ("messagesin", "Records written.", "messages_in"),
    ("bytesin", "Bytes of records written.", "bytes_in"),
    ("bytesout", "Bytes of records read.", "bytes_out"),
    ("totalproducerequests", "Produce requests.", "produces"),
    ("totalfetchrequests", "Fetch requests.", "fetches"),
    ("failedproducerequests", "Partitions of Produce requests that were refused.", "failed_produces"),
    ("failedfetchrequests", "Partitions of Fetch requests that were refused.", "failed_fetches"),
)
"""Name, help and field of each counter of a topic's traffic."""


def _has_late(log: PartitionLog, before_ms: int) -> bool:
    return log.producer_state.transactions.first_open is not None and any(
        entry.has_transaction and entry.last_append_ms < before_ms for entry in log.producer_state
    )
