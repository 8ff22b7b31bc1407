"""What pipelines tell people and programs, as docs/pipelines.md and its pages show it."""

import json
from pathlib import Path
from typing import Any

import pytest

from eosin.pipeline.cli import progress as progress_command
from eosin.pipeline.common.progress_reports import REMAINING, SKIPS, BatchProgress, CommitReport
from eosin.pipeline.common.task_timeouts import metrics
from eosin.protocol.names import TopicPartition

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGES = "\n".join(page.read_text() for page in [DOCS / "pipelines.md", *sorted((DOCS / "pipelines").glob("*.md"))])

BATCH = BatchProgress(
    batch=42,
    rows_in=8000,
    rows_out=812,
    txn_ms=143,
    batch_ms=410,
    lag=1200,
    already_committed=False,
    skipped_tasks={"orders-3": 250_113},
    task_skips={"orders-3": 2},
)
COMMIT = CommitReport(
    commit=7,
    records_in=40,
    records_out=40,
    transaction_ms=12,
    positions={TopicPartition("words", 0): 57},
    skipped={"words-2": 250_113},
    skips={"words-2": 2},
)
FOUND: dict[str, Any] = {
    "pipeline": "totals",
    "batch": 42,
    "producer": {"state": "CompleteCommit", "producer_id": 7, "producer_epoch": 43, "transaction_start_ms": None},
    "query": "2c1d2c3c-7a51-4a3e-9d1b-3b7c5f0f8c8e",
    "rows": 812,
    "committed_ms": 1_772_366_407_000,
    "run": "8f14e45f-ceea-467f-a0e6-c3b9e6d1b0a1",
    "written_by": "TxnSink",
}


@pytest.mark.parametrize(
    "told",
    [
        BATCH.line(),
        BATCH.json(),
        COMMIT.line(),
        COMMIT.json(),
        str(metrics(COMMIT.skipped, COMMIT.skips)).removeprefix("{"),
        *progress_command.text_of(FOUND).splitlines(),
        json.dumps(FOUND),
    ],
)
def test_the_documentation_shows_the_real_progress_lines(told: str) -> None:
    assert " ".join(told.split()) in " ".join(PAGES.split())


def test_a_batch_line_counts_retries_and_marks_a_batch_that_was_committed_before() -> None:
    again = BatchProgress(1, None, 2, 3, 4, None, already_committed=True, retries=5)
    assert again.line() == "batch 1 rows-in - rows-out 2 txn 3ms batch 4ms lag - retries 5 (committed before)"
    assert json.loads(again.json())["retries"] == 5
    assert again.metrics() == {}


def test_the_documentation_names_the_offsets_entries_of_late_partitions() -> None:
    for begins in (REMAINING, SKIPS):
        assert f"`{begins}<partition>`" in PAGES
