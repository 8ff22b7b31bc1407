"""Metrics of consumer groups, with the names of kafka_exporter (console.md 4.3)."""

from collections import Counter
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice

from eosin.broker.services import Services
from eosin.coordinator.groups.share.rules.group import ShareGroup
from eosin.coordinator.groups.streams.rules.group import StreamsGroup
from eosin.observe.metrics.families import Family, Row, gauge, single
from eosin.observe.metrics.group_counts import group_counts, unrevoked_partitions
from eosin.observe.survey.assigned_partitions import AssignedPartitions, owned
from eosin.observe.survey.slices import ROW, Slices, in_slices
from eosin.observe.survey.survey import Survey
from eosin.observe.survey.unread_records import PIECE, UnreadRecords
from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import TopicPartition

NOTHING_COMMITTED = -1
BYTES_PER_SCRAPE = 4 * 1024 * 1024
"""Bytes of logs that are read to count records, a piece of each."""
_STATES = ("Stable", "Empty", "PreparingRebalance", "CompletingRebalance", "Dead")


@dataclass(slots=True)
class _Sums:
    """Of a group in one topic."""

    committed: int = 0
    lag: int = 0
    to_end: int = 0
    """Offsets up to the high watermark, where nothing is committed from the log's start."""
    uncommitted: int = 0
    """Partitions that a member has and the group has committed nothing for."""
    last_commit_ms: int = -1


class GroupMetrics:
    """Reads the groups that one broker coordinates."""

    def __init__(self, services: Services, survey: Survey) -> None:
        self._services = services
        self._survey = survey
        self._unread = UnreadRecords(most_bytes=PIECE, bytes_per_round=BYTES_PER_SCRAPE, in_part=True)
        self._assigned = AssignedPartitions()

    async def families(self) -> AsyncIterator[Family]:
        """Every family."""
        services, groups = self._services, self._services.groups
        limit = services.config.eosin_metrics_max_partitions
        states: Counter[str] = Counter()
        members: list[Row] = []
        assigned: dict[str, tuple[TopicPartition, ...]] = {}
        async for some in self._survey.groups():
            for group in some:
                states[group.state.value] += 1
                if len(members) < limit:
                    members.append(((group.group_id,), len(group.members)))
                if len(assigned) < limit and (has := self._assigned.of(group)):
                    assigned[group.group_id] = has
        unrevoked: list[Row] = []
        consumers = await self._consumers(limit, members, unrevoked, assigned)
        prefix = "kafka_coordinator_group_groupmetadatamanager_"
        yield single(f"{prefix}numgroups", "Classic groups of this broker.", states.total())
        for state in _STATES:
            yield single(f"{prefix}numgroups{state.lower()}", f"Groups in state {state}.", states[state])
        shares, streams = [await self._states(each.live_groups()) for each in (groups.share, groups.streams)]
        for family in group_counts(states.total(), consumers, shares, streams, groups.stats):
            yield family
        text = "Partitions of a consumer group (KIP-848) that a member was told to give up, and has not yet."
        yield gauge("eosin_consumergroup_unrevoked_partitions", text, unrevoked, "consumergroup")
        offsets: list[Row] = []
        lags: list[Row] = []
        sums: dict[tuple[str, str], _Sums] = {}
        record_lags: list[Row] = []
        count = 0
        positions: list[tuple[str, TopicPartition, int, int]] = []
        async for group_id, offsets_of in self._survey.committed():
            count += len(offsets_of)
            for partition, offset in islice(offsets_of.items(), limit - len(positions)):
                positions.append((group_id, partition, offset.offset, offset.commit_timestamp_ms))
            if group_id in assigned:
                assigned[group_id] = tuple(each for each in assigned[group_id] if each not in offsets_of)
        async for some_groups in in_slices(list(assigned.items()), ROW):
            for group_id, uncommitted in some_groups:
                for partition in islice(uncommitted, limit - len(positions)):
                    positions.append((group_id, partition, NOTHING_COMMITTED, -1))
        self._unread.begin_round()
        async for found in in_slices(positions, ROW):
            for group_id, partition, committed, at_ms in found:
                labels = (group_id, partition.topic, str(partition.partition))
                sum_of = sums.setdefault(labels[:2], _Sums())
                if committed >= 0:
                    offsets.append((labels, committed))
                    sum_of.committed += committed
                    sum_of.last_commit_ms = max(sum_of.last_commit_ms, at_ms)
                else:
                    sum_of.uncommitted += 1
                log = services.partitions.get(partition)
                if not isinstance(log, ErrorCode):
                    if committed >= 0:
                        lag = max(0, log.high_watermark - committed)
                        lags.append((labels, lag))
                        sum_of.lag += lag
                    sum_of.to_end += max(0, log.high_watermark - max(committed, log.log_start_offset))
                    unread = await self._unread.count(group_id, log, committed)
                    record_lags.append(((*labels, "read_committed"), unread.records + unread.uncounted))
        yield single(f"{prefix}numoffsets", "Committed offsets.", count)
        yield gauge("kafka_consumergroup_members", "Members.", members, "consumergroup")
        by_partition = ("consumergroup", "topic", "partition")
        yield gauge("kafka_consumergroup_current_offset", "Committed.", offsets, *by_partition)
        yield gauge("kafka_consumergroup_lag", "High watermark minus committed.", lags, *by_partition)
        text = "Records that readers of committed records will still be given; never too few."
        yield gauge("eosin_consumergroup_record_lag", text, record_lags, *by_partition, "isolation")
        for family in _sums_by_topic(sums):
            yield family

    async def _states(self, groups: Iterable[ShareGroup | StreamsGroup]) -> Counter[str]:
        """Number of groups in each state."""
        states: Counter[str] = Counter()
        async for some in in_slices(groups):
            states.update(group.state.value for group in some)
        return states

    async def _consumers(
        self,
        limit: int,
        members: list[Row],
        unrevoked: list[Row],
        assigned: dict[str, tuple[TopicPartition, ...]],
    ) -> Counter[str]:
        """Read the groups of KIP-848, of which `limit` have rows of their own; returns how many are in each state."""
        states: Counter[str] = Counter()
        topic_by_id = self._services.cluster.topic_by_id
        slices = Slices()
        for group in self._services.groups.live_consumer_groups():
            await slices.worked(1 + len(group.members))
            states[group.state.value] += 1
            if len(members) < limit:
                members.append(((group.group_id,), len(group.members)))
                unrevoked.append(((group.group_id,), unrevoked_partitions(group)))
            if len(assigned) < limit and (has := owned(group, topic_by_id, most=limit)):
                assigned[group.group_id] = has
        return states


def _sums_by_topic(sums: Mapping[tuple[str, str], _Sums]) -> Iterator[Family]:
    """The families of a group in one topic. Those with Kafka's names are as kafka_exporter's, which knows nothing of
    what a group has not committed."""
    by_topic = ("consumergroup", "topic")
    kafkas = [(labels, each) for labels, each in sums.items() if each.last_commit_ms >= 0]
    committed_sums: list[Row] = [(labels, each.committed) for labels, each in kafkas]
    lag_sums: list[Row] = [(labels, each.lag) for labels, each in kafkas]
    yield gauge("kafka_consumergroup_current_offset_sum", "Committed.", committed_sums, *by_topic)
    yield gauge("kafka_consumergroup_lag_sum", "High watermark minus committed.", lag_sums, *by_topic)
    text = "Partitions that a member has and the group has committed nothing for."
    uncommitted_rows: list[Row] = [(labels, each.uncommitted) for labels, each in sums.items()]
    yield gauge("eosin_consumergroup_uncommitted_partitions", text, uncommitted_rows, *by_topic)
    text = "Offsets up to the high watermark, from the log's start in partitions without a commit."
    unread_rows: list[Row] = [(labels, each.to_end) for labels, each in sums.items()]
    yield gauge("eosin_consumergroup_unread_offsets", text, unread_rows, *by_topic)
    text = "Time of the last commit of any offset."
    commit_rows: list[Row] = [(labels, each.last_commit_ms / 1000) for labels, each in kafkas]
    yield gauge("eosin_consumergroup_last_commit_timestamp_seconds", text, commit_rows, *by_topic)
