"""The examples: their judges notice what they are there for, and the commands run them (bounded)."""

import inspect
import json
import os
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import pytest

from eosin.client.consumer import ConsumedRecord
from eosin.pipeline.common.errors import MissingDependency, require_spark
from eosin.pipeline.examples import orders, wordcount
from eosin.protocol.names import TopicPartition
from eosin.protocol.records.batch import Record

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from eosin.pipeline.audit.verification import RowCounts

HERE = TopicPartition("t", 0)


def record(offset: int, key: bytes | None, value: bytes | None, at_ms: int = 0) -> ConsumedRecord:
    return ConsumedRecord(HERE, Record(offset=offset, timestamp=at_ms, key=key, value=value, headers=()))


def inputs(example: ModuleType, count: int = 40) -> list[ConsumedRecord]:
    return [
        record(offset, each.key, each.value, each.timestamp or 0) for offset, each in enumerate(example.records(count))
    ]


def order_totals(given: list[ConsumedRecord]) -> list[ConsumedRecord]:
    """What the pipeline writes when every batch is one order."""
    found: list[ConsumedRecord] = []
    sums: dict[str, tuple[int, int]] = {}
    for each in given:
        order = json.loads(each.record.value or b"")
        count, total = sums.get(order["user"], (0, 0))
        sums[order["user"]] = count + 1, total + order["amount"]
        row = {"user": order["user"], "orders": count + 1, "total": total + order["amount"]}
        found.append(record(len(found), order["user"].encode(), json.dumps(row).encode()))
    return found


def word_counts(given: list[ConsumedRecord]) -> list[ConsumedRecord]:
    found: list[ConsumedRecord] = []
    counts: dict[str, int] = {}
    for each in given:
        for word in (each.record.value or b"").decode().split():
            key = f"{each.record.timestamp // 60_000 * 60} {word}"
            counts[key] = counts.get(key, 0) + 1
            found.append(record(len(found), key.encode(), str(counts[key]).encode()))
    return found


Change = Callable[[list[ConsumedRecord]], list[ConsumedRecord]]


def judged(
    spark: "SparkSession", example: ModuleType, given: list[ConsumedRecord], outputs: list[ConsumedRecord]
) -> "RowCounts":
    """What `eosin pipeline verify --by` would count."""
    from eosin.pipeline.audit.verification import TopicComparison

    def frame(records: list[ConsumedRecord]) -> "DataFrame":
        schema = "key binary, value binary, offset bigint, timestamp timestamp"
        rows = [
            (
                each.record.key,
                each.record.value,
                each.record.offset,
                datetime.fromtimestamp(each.record.timestamp / 1000, UTC),
            )
            for each in records
        ]
        return spark.createDataFrame(rows, schema)

    offsets = [record(at, each.record.key, each.record.value) for at, each in enumerate(outputs)]
    found = TopicComparison(example.reflected(frame(given), frame(offsets)))
    try:
        return found.counts
    finally:
        found.close()


@pytest.mark.slow
@pytest.mark.parametrize(("example", "right"), [(orders, order_totals), (wordcount, word_counts)])
def test_a_right_output_reflects_each_input_once(spark: "SparkSession", example: ModuleType, right: Change) -> None:
    given = inputs(example)
    counts = judged(spark, example, given, right(given))
    assert counts.is_exact
    assert counts.source == len(right(given))


LAST_TWICE = lambda rows: [*rows, rows[-1]]  # noqa: E731
AGAIN_LATER = lambda rows: [*rows[:10], rows[5], *rows[10:]]  # noqa: E731
COUNTED_TWICE = lambda rows: [*rows[:5], rows[3], *rows[5:]]  # noqa: E731
LEFT_OUT = lambda rows: [*rows[:5], *rows[6:]]  # noqa: E731
END_MISSING = lambda rows: rows[:-3]  # noqa: E731
NOTHING = lambda rows: []  # noqa: E731


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize(("example", "right"), [(orders, order_totals), (wordcount, word_counts)])
@pytest.mark.parametrize(
    ("wrong", "change_input", "kinds"),
    [
        (LAST_TWICE, False, {"duplicate"}),
        (AGAIN_LATER, False, {"duplicate"}),
        (COUNTED_TWICE, True, {"duplicate", "unexpected"}),
        (LEFT_OUT, True, {"missing", "unexpected"}),
        (END_MISSING, True, {"missing"}),
        (NOTHING, False, {"missing"}),
    ],
    ids=["last row twice", "a row again later", "input counted twice", "input left out", "end missing", "nothing"],
)
def test_an_input_that_is_lost_or_counted_twice_is_noticed(
    spark: "SparkSession", example: ModuleType, right: Change, wrong: Change, change_input: bool, kinds: set[str]
) -> None:
    given = inputs(example)
    outputs = right(wrong(given)) if change_input else wrong(right(given))
    counts = judged(spark, example, given, outputs)
    found = {kind for kind in ("missing", "duplicate", "unexpected") if getattr(counts, kind)}
    assert found
    assert found <= kinds | ({"missing", "unexpected"} if change_input else set())


@pytest.mark.parametrize(("example", "function"), [(orders, "totals"), (wordcount, "counts")])
def test_the_tutorial_shows_the_code_that_runs(example: ModuleType, function: str) -> None:
    page = (Path(__file__).parents[2] / "docs" / "pipelines" / "tutorials.md").read_text()
    assert f"```python\n{inspect.getsource(getattr(example, function))}```" in page


def run_example(*arguments: str) -> tuple[int, dict[str, object], str]:
    try:
        require_spark()
        from eosin.pipeline.spark.session import require_java

        require_java()
    except MissingDependency as missing:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(str(missing))
    command = [sys.executable, "-m", "eosin.cli", "pipeline", "example", *arguments, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=560)
    verdict = json.loads(done.stdout.splitlines()[-1]) if done.stdout else {}
    return done.returncode, verdict, done.stderr[-3000:]


def judgement(verdict: dict[str, object]) -> dict[str, object]:
    """What `eosin pipeline verify --json` said, as the example passed it on."""
    found = verdict["verify"]
    assert isinstance(found, dict)
    return found


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(600)
def test_orders_are_reflected_exactly_once_though_the_pipeline_is_killed() -> None:
    code, verdict, said = run_example("orders", "--crash-every", "2", "--records", "200", "--max-rows", "90")
    assert (code, judgement(verdict)["exact"]) == (0, True), said
    assert verdict["inputs"] == judgement(verdict)["source"] == judgement(verdict)["target"] == 200
    assert isinstance(verdict["crashes"], int)
    assert verdict["crashes"] >= 1


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.long
@pytest.mark.timeout(600)
def test_words_are_counted_exactly_once_though_the_pipeline_is_killed() -> None:
    code, verdict, said = run_example("wordcount", "--crash-every", "2", "--records", "120", "--route", "executors")
    assert (code, judgement(verdict)["exact"]) == (0, True), said
    assert isinstance(verdict["crashes"], int)
    assert verdict["crashes"] >= 1
