"""Metrics of consumer groups, with the names of kafka_exporter (console.md 4.3)."""

from collections import Counter
from collections.abc import AsyncIterator
from itertools import islice

from eosin.broker.services import Services
from eosin.observe.metrics.families import Family, Row, gauge, single
from eosin.observe.metrics.record_lag import RecordLags
from eosin.observe.metrics.slices import in_turns
from eosin.protocol.errors import ErrorCode

READ_AT_ONCE = 5
"""Positions of groups, each with up to 64 KiB of its log, before others get a turn."""
_STATES = ("Stable", "Empty", "PreparingRebalance", "CompletingRebalance", "Dead")


class GroupMetrics:
    """Reads the groups that one broker coordinates."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._record_lags = RecordLags()

    async def families(self) -> AsyncIterator[Family]:
        """Every family."""
        services = self._services
        limit = services.config.eosin_metrics_max_partitions
        states: Counter[str] = Counter()
        members: list[Row] = []
        async for some in in_turns(services.groups.live_groups(), services.clock):
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
        count = await services.groups.count_offsets()
        record_lags: list[Row] = []
        everything = list(islice(services.groups.committed_offsets(), limit))
        self._record_lags.begin((group_id, partition) for group_id, partition, _ in everything)
        async for found in in_turns(everything, services.clock, READ_AT_ONCE):
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
                    left = await self._record_lags.lag((group_id, partition), log, committed)
                    record_lags.append(((*labels, "read_committed"), left))
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
