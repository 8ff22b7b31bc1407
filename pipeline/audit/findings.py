"""The findings of an audit for people: a summary, the rows that need attention, and a verdict in one sentence.

Always true: a list has at most `MAX_ROWS` rows, while counts cover all rows.
"""

from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

if TYPE_CHECKING:
    from eosin.pipeline.audit.report import AuditReport

MAX_ROWS: Final = 100

Row = dict[str, Any]


class Findings(NamedTuple):
    """A few rows of Python, however large the logs are."""

    summary: Row
    hanging: list[Row]
    sequence_faults: list[Row]
    problems: list[Row]
    longest_blocks: list[Row]
    """The transactions that held the last stable offset back for longest."""

    @classmethod
    def of(cls, report: "AuditReport") -> Self:
        """Compute the findings of a report."""
        from pyspark.sql import functions as f

        summary = report.summary.collect()[0].asDict()
        has_problems = summary["errors"] or summary["torn_tails"]
        return cls(
            summary,
            _rows(report.hanging.orderBy("begin_time")) if summary["hanging"] else [],
            _rows(report.sequence_faults.orderBy("topic", "partition", "offset")) if summary["sequence_faults"] else [],
            _rows(report.problems.orderBy("severity", "topic", "partition", "offset")) if has_problems else [],
            _rows(report.lso_blocked.orderBy(f.desc("duration_ms"), "topic", "partition"), 10),
        )

    @property
    def is_clean(self) -> bool:
        """True if nothing needs attention: no hanging transaction, no sequence fault, no damage."""
        return not (self.summary["hanging"] or self.summary["sequence_faults"] or self.summary["errors"])

    @property
    def verdict(self) -> str:
        """The verdict in one sentence."""
        told = [
            _counted(self.summary["hanging"], "hanging transaction"),
            _counted(self.summary["sequence_faults"], "sequence fault"),
            _counted(self.summary["errors"], "damaged place"),
        ]
        wrong = [each for each in told if each]
        return f"Needs attention: {', '.join(wrong)}." if wrong else "Nothing hangs, no sequence is broken."

    def as_json(self) -> Row:
        """The findings for programs, with times as ISO 8601 in UTC."""
        fields = self._asdict() | {"verdict": self.verdict, "clean": self.is_clean}
        return {name: _plain(value) for name, value in fields.items()}


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}" if count else ""


def _rows(frame: Any, limit: int = MAX_ROWS) -> list[Row]:
    return [row.asDict() for row in frame.limit(limit).collect()]


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    return value.astimezone().isoformat() if isinstance(value, datetime) else value
