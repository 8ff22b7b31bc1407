"""What a person, or a program, is told of one transaction of a runner."""

from collections.abc import Mapping
from dataclasses import dataclass

from eosin.pipeline.common.progress_line import json_of, line_of
from eosin.protocol.names import TopicPartition


@dataclass(frozen=True, slots=True)
class CommitReport:
    """What one committed transaction held."""

    commit: int
    """Its number in this run, from 1."""
    records_in: int
    records_out: int
    transaction_ms: int
    positions: Mapping[TopicPartition, int]
    skipped: Mapping[str, int]
    """Tasks that had timed out, with the ms they had left."""
    skips: Mapping[str, int]
    """How often each task has timed out in this run."""

    def line(self) -> str:
        """For people."""
        return line_of(
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
        return json_of(facts, skipped=self.skipped, skips=self.skips)
