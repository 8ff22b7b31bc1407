"""What a person, or a program, is told of one transaction of a runner."""

import json
from collections.abc import Mapping
from dataclasses import dataclass

from eosin.pipeline.task_timeouts import skipped_part
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
        parts = [
            f"commit {self.commit}",
            f"records-in {self.records_in}",
            f"records-out {self.records_out}",
            f"txn {self.transaction_ms}ms",
        ]
        return " ".join(filter(None, [*parts, skipped_part(self.skipped)]))

    def json(self) -> str:
        """For programs: one JSON object in a line."""
        names = ("commit", "records_in", "records_out")
        fields = {name: getattr(self, name) for name in names}
        positions = {str(partition): offset for partition, offset in sorted(self.positions.items())}
        tasks = {"skipped_tasks": dict(self.skipped), "task_skips": dict(self.skips)}
        return json.dumps({**fields, "txn_ms": self.transaction_ms, "positions": positions, **tasks})
