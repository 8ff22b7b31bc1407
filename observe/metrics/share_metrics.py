"""Metrics of share groups at the leader of their partitions (KIP-932; share-partitions.md 5)."""

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from eosin.broker.services import Services
from eosin.observe.metrics.families import Family, Row, counter, gauge, single
from eosin.observe.survey.slices import ROW, in_slices

if TYPE_CHECKING:
    from eosin.broker.sharing.led_share_partition import LedSharePartition

_LETTERS = "kafka_server_sharegroupmetrics_deadletterqueue"
"""The beginning of Kafka's names (KIP-1191)."""
_BY_PARTITION = ("sharegroup", "topic", "partition")


class ShareMetrics:
    """Reads one broker. One on which nobody has fetched for a share group has no such metrics."""

    def __init__(self, services: Services) -> None:
        self._services = services

    async def families(self) -> AsyncIterator[Family]:
        """Every family."""
        sharing = self._services.sharing
        if sharing.running is None:
            return
        counts, now_ms = sharing.running.counts, sharing.elapsed_ms()
        yield single(
            "eosin_share_sessions", "Share sessions: members that fetch from this broker.", sharing.session_count
        )
        yield single("eosin_share_partitions", "Partitions as share groups read them here.", len(sharing.running))
        acquired: list[Row] = []
        waiting: list[Row] = []
        stuck: list[Row] = []
        archiving: list[Row] = []
        limit = self._services.config.eosin_metrics_max_partitions
        async for some in in_slices(list(sharing.running), ROW):
            for each in some:
                if each.window is not None and len(acquired) < limit:
                    labels = _labels(each)
                    acquired.append((labels, each.window.acquired))
                    waiting.append((labels, each.window.available))
                    archiving.append((labels, each.window.archiving))
                    is_busy = each.window.end > each.window.start
                    stuck.append((labels, (now_ms - each.moved_ms) / 1000 if is_busy else 0))
        yield gauge("eosin_share_acquired_records", "Records that members have.", acquired, *_BY_PARTITION)
        text = "Records that were fetched before, and wait to be delivered again."
        yield gauge("eosin_share_returned_records", text, waiting, *_BY_PARTITION)
        text = "Records that are given up, and whose dead letters are not durable yet."
        yield gauge("eosin_share_archiving_records", text, archiving, *_BY_PARTITION)
        text = "Time for which the oldest record that is not done has held back the start of the partition's window."
        yield gauge("eosin_share_oldest_record_seconds", text, stuck, *_BY_PARTITION)
        for name, text, value in (
            ("delivered_records", "Records handed out to members, each time.", counts.delivered),
            ("redelivered_records", "The part of them that had been handed out before.", counts.redelivered),
            ("lock_timeouts", "Records that a member had for too long.", counts.lock_timeouts),
            ("archived_records", "Records given up at the limit of deliveries.", counts.archived_at_limit),
            ("refused_sessions", "Share sessions for which there was no room.", counts.refused_sessions),
        ):
            yield counter(f"eosin_share_{name}_total", text, [((), value)])
        groups = list(counts.letters.items())[:limit]
        for name, text, values in (
            ("record_count", "Dead letters that were written.", [each.records for _, each in groups]),
            ("total_produce_requests", "Attempts to write dead letters.", [each.requests for _, each in groups]),
            ("failed_produce_requests", "The part of them that left some out.", [each.failed for _, each in groups]),
        ):
            rows: list[Row] = [((group,), value) for (group, _), value in zip(groups, values, strict=True)]
            yield counter(f"{_LETTERS}{name.replace('_', '')}_total", text, rows, "group")


def _labels(each: "LedSharePartition") -> tuple[str, str, str]:
    return each.key.group_id, each.name.topic, str(each.name.partition)
