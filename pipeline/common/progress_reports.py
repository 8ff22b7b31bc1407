"""The reports of pipelines about their progress: a micro-batch of the sink, a transaction of the runner.

Always true: both kinds of pipelines write the same fact in the same words, as a line for a person and as a JSON object
on one line for a program; a lag counts offsets up to the known end of the topics, markers and aborted records included.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Self

from eosin.pipeline.common.task_timeouts import duration, metrics
from eosin.protocol.names import TopicPartition

SKIPS: Final = "task_skips_total:"
REMAINING: Final = "task_timeout_remaining_ms:"
"""Prefixes of names among the offsets that a source reports to Spark: how often a partition was left out, and the ms
that a late partition has left."""


@dataclass(frozen=True, slots=True)
class BatchReport:
    """The outcome of one micro-batch, from the sink."""

    batch: int
    skipped: bool
    """The batch was in the output already; nothing was written."""
    rows: int
    transaction_ms: int
    """From the first row to the response of the commit; 0 for a skipped batch."""
    total_ms: int
    retries: int = 0
    """The number of times that a call for the batch timed out and was repeated (KIP-572)."""


@dataclass(frozen=True, slots=True)
class BatchProgress:
    """A committed micro-batch: the sink's report and Spark's progress together."""

    batch: int
    rows_in: int | None
    """None if Spark has not reported it."""
    rows_out: int
    txn_ms: int
    batch_ms: int
    lag: int | None
    already_committed: bool
    """The batch was in the output already; nothing was written."""
    skipped_tasks: Mapping[str, int] = field(default_factory=dict)
    """Input partitions that were left out because they were late, and the ms that each had left."""
    task_skips: Mapping[str, int] = field(default_factory=dict)
    """The number of times that each input partition was left out since the query started."""
    retries: int = 0
    """The number of times that a call for the batch timed out and was repeated."""

    @classmethod
    def of(cls, report: BatchReport, progress: Mapping[str, Any] | None) -> Self:
        """From the sink's report and the JSON of Spark's progress, if there is any."""
        sources = [] if progress is None else progress.get("sources", [])
        skipped: dict[str, int] = {}
        skips: dict[str, int] = {}
        lags = []
        for source in sources:
            latest = dict(_flat(source.get("latestOffset")))
            end = dict(_flat(source.get("endOffset")))
            skipped |= {
                name.removeprefix(REMAINING): left for name, left in latest.items() if name.startswith(REMAINING)
            }
            skips |= {name.removeprefix(SKIPS): times for name, times in latest.items() if name.startswith(SKIPS)}
            lags += [max(0, latest[name] - offset) for name, offset in end.items() if name in latest]
        return cls(
            batch=report.batch,
            rows_in=None if progress is None else sum(int(each.get("numInputRows", 0)) for each in sources),
            rows_out=report.rows,
            txn_ms=report.transaction_ms,
            batch_ms=report.total_ms if progress is None else int(progress.get("batchDuration", report.total_ms)),
            lag=sum(lags) if lags else None,
            already_committed=report.skipped,
            skipped_tasks=skipped,
            task_skips=skips,
            retries=report.retries,
        )

    def line(self) -> str:
        """For people."""
        line = _line(
            ("batch", self.batch),
            ("rows-in", self.rows_in),
            ("rows-out", self.rows_out),
            ("txn", f"{self.txn_ms}ms"),
            ("batch", f"{self.batch_ms}ms"),
            ("lag", self.lag),
            *([("retries", self.retries)] if self.retries else []),
            skipped=self.skipped_tasks,
        )
        return f"{line} (committed before)" if self.already_committed else line

    def json(self) -> str:
        """For programs: one JSON object in a line."""
        names = ("batch", "rows_in", "rows_out", "txn_ms", "batch_ms", "lag", "already_committed", "retries")
        facts = {name: getattr(self, name) for name in names}
        return _json(facts, skipped=self.skipped_tasks, skips=self.task_skips)

    def metrics(self) -> dict[str, int]:
        """Gauges and counters of the input partitions, as Prometheus spells them."""
        return metrics(self.skipped_tasks, self.task_skips)


@dataclass(frozen=True, slots=True)
class CommitReport:
    """A committed transaction of the runner."""

    commit: int
    """The number of the transaction in this run, from 1."""
    records_in: int
    records_out: int
    transaction_ms: int
    positions: Mapping[TopicPartition, int]
    skipped: Mapping[str, int]
    """Late tasks, and the ms that each had left."""
    skips: Mapping[str, int]
    """The number of times that each task has timed out in this run."""

    def line(self) -> str:
        """For people."""
        return _line(
            ("commit", self.commit),
            ("records-in", self.records_in),
            ("records-out", self.records_out),
            ("txn", f"{self.transaction_ms}ms"),
            skipped=self.skipped,
        )

    def json(self) -> str:
        """For programs: one JSON object in a line."""
        facts = {
            "commit": self.commit,
            "records_in": self.records_in,
            "records_out": self.records_out,
            "txn_ms": self.transaction_ms,
            "positions": {str(partition): offset for partition, offset in sorted(self.positions.items())},
        }
        return _json(facts, skipped=self.skipped, skips=self.skips)


def _line(*facts: tuple[str, object], skipped: Mapping[str, int]) -> str:
    """Names and values (a dash for None), then the tasks that were left out and the time that each has left."""
    parts = [f"{name} {'-' if value is None else value}" for name, value in facts]
    if skipped:
        named = ", ".join(f"{task} ({duration(left)} left)" for task, left in sorted(skipped.items()))
        parts.append(f"skipped [{named}]")
    return " ".join(parts)


def _json(facts: Mapping[str, Any], *, skipped: Mapping[str, int], skips: Mapping[str, int]) -> str:
    """The facts, the tasks that were left out with the ms that each has left, and how often each was left out."""
    return json.dumps({**facts, "skipped_tasks": dict(skipped), "task_skips": dict(skips)})


def _flat(offsets: Any, prefix: str = "") -> Iterator[tuple[str, int]]:
    """The numbers in a source's offsets: `txnlog` has one level, Spark's own source one for topics and one below."""
    if isinstance(offsets, str):
        try:
            offsets = json.loads(offsets)
        except json.JSONDecodeError:
            return
    if isinstance(offsets, Mapping):
        for name, value in offsets.items():
            whole = f"{prefix}:{name}" if prefix else name
            if isinstance(value, int):
                yield whole, value
            else:
                yield from _flat(value, whole)
