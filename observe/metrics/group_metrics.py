"""Metrics of consumer groups, with the names of kafka_exporter (console.md 4.3)."""

from collections import Counter
from collections.abc import AsyncIterator
from itertools import islice

from eosin.broker.services import Services
from eosin.observe.metrics.families import Family, Row, gauge, single
from eosin.observe.survey.slices import ROW, in_slices
from eosin.observe.survey.survey import Survey
from eosin.observe.survey.unread_records import PIECE, UnreadRecords
from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import TopicPartition

BYTES_PER_SCRAPE = 4 * 1024 * 1024
"""Bytes of logs that are read to count records, a piece of each."""
_STATES = ("Stable", "Empty", "PreparingRebalance", "CompletingRebalance", "Dead")


class GroupMetrics:
    """Reads the groups that one broker coordinates."""

    def __init__(self, services: Services, survey: Survey) -> None:
        self._services = services
        self._survey = survey
        self._unread = UnreadRecords(most_bytes=PIECE, bytes_per_round=BYTES_PER_SCRAPE, in_part=True)

    async def families(self) -> AsyncIterator[Family]:
        """Every family."""
        services = self._services
        limit = services.config.eosin_metrics_max_partitions
        states: Counter[str] = Counter()
        members: list[Row] = []
        async for some in self._survey.groups():
            for group in some:
                states[group.state.value] += 1
                if len(members) < limit:
                    members.append(((group.group_id,), len(group.members)))
        prefix = "kafka_coordinator_group_groupmetadatamanager_"
        yield single(f"{prefix}numgroups", "Groups of this broker.", states.total())
        for state in _STATES:
            yield single(f"{prefix}numgroups{state.lower()}", f"Groups in state {state}.", states[state])
        offsets: list[Row] = []
        lags: list[Row] = []
        sums: dict[tuple[str, str], list[int]] = {}
        record_lags: list[Row] = []
        count = 0
        positions: list[tuple[str, TopicPartition, int]] = []
        async for group_id, offsets_of in self._survey.committed():
            count += len(offsets_of)
            for partition, offset in islice(offsets_of.items(), limit - len(positions)):
                positions.append((group_id, partition, offset.offset))
        self._unread.begin_round()
        async for found in in_slices(positions, ROW):
            for group_id, partition, committed in found:
                labels = (group_id, partition.topic, str(partition.partition))
                offsets.append((labels, committed))
                both = sums.setdefault(labels[:2], [0, 0])
                both[0] += committed
                log = services.partitions.get(partition)
                if not isinstance(log, ErrorCode):
                    lag = max(0, log.high_watermark - committed)
                    lags.append((labels, lag))
                    both[1] += lag
                    unread = await self._unread.count(group_id, log, committed)
                    record_lags.append(((*labels, "read_committed"), unread.records + unread.uncounted))
        yield single(f"{prefix}numoffsets", "Committed offsets.", count)
        yield gauge("kafka_consumergroup_members", "Members.", members, "consumergroup")
        by_partition = ("consumergroup", "topic", "partition")
        by_topic = by_partition[:2]
        yield gauge("kafka_consumergroup_current_offset", "Committed.", offsets, *by_partition)
        yield gauge("kafka_consumergroup_lag", "High watermark minus committed.", lags, *by_partition)
        text = "Records that readers of committed records will still be given; never too few."
        yield gauge("eosin_consumergroup_record_lag", text, record_lags, *by_partition, "isolation")
        committed_sums: list[Row] = [(labels, both[0]) for labels, both in sums.items()]
        lag_sums: list[Row] = [(labels, both[1]) for labels, both in sums.items()]
        yield gauge("kafka_consumergroup_current_offset_sum", "Committed.", committed_sums, *by_topic)
        yield gauge("kafka_consumergroup_lag_sum", "High watermark minus committed.", lag_sums, *by_topic)
