"""The audit on Spark, over a directory that a real Eosin wrote and a few segments that no broker would leave (S6)."""

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from broker_process import BrokerProcess

from eosin.cli.__main__ import main
from eosin.client.admin import Admin
from eosin.client.client import Client
from eosin.client.producer import Producer
from eosin.pipeline.common.errors import BadExpression, BadPaths
from eosin.protocol.names import TopicPartition
from eosin.protocol.records.batch import NewRecord, build_batch

pytest.importorskip("pyspark")

from eosin.pipeline import audit
from eosin.pipeline.audit.findings import Findings
from eosin.pipeline.audit.report import AuditReport
from eosin.pipeline.audit.series import BINS, series_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COMMITTED, ABORTED = 6, 3
GHOST = 4711


def in_the_past(milliseconds: int) -> int:
    return int(time.time() * 1000) - milliseconds


async def write(client: Client, transactional_id: str, partitions: list[int], end: str, at_ms: int = 0) -> None:
    producer = Producer(client, transactional_id, transaction_timeout_ms=600_000)
    await producer.init()
    producer.begin()
    for partition in partitions:
        record = NewRecord(b"k", b"v" * 50)
        await producer.send(TopicPartition("orders", partition), [record], timestamp=at_ms or in_the_past(0))
    if end != "open":
        await (producer.commit() if end == "commit" else producer.abort())
        await producer.init()  # waits until the markers are written


async def fill(bootstrap: str) -> None:
    async with Client(bootstrap) as client:
        await Admin(client).create_topic("orders", 3)
        for number in range(COMMITTED):
            await write(client, f"writer-{number % 2}", [0, 1], "commit")
        for _ in range(ABORTED):
            await write(client, "writer-2", [1], "abort")
        await write(client, "stuck", [2], "open", at_ms=in_the_past(3_600_000))


def segment(folder: Path, *batches: bytes, base_offset: int = 0, tail: bytes = b"") -> None:
    folder.mkdir(exist_ok=True)
    (folder / f"{base_offset:020}.log").write_bytes(b"".join(batches) + tail)


def batch(offset: int, sequence: int) -> bytes:
    at_ms = in_the_past(3_600_000)
    record = NewRecord(b"k", b"v", timestamp=at_ms)
    return bytes(
        build_batch([record], timestamp=at_ms, base_offset=offset, producer_id=GHOST, producer_epoch=0,
                    base_sequence=sequence, transactional=True)
    )  # fmt: skip


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log directory of Eosin's, a transaction left open in it, and a partition that is not as it should be."""
    folder = tmp_path_factory.mktemp("audited") / "data"
    with BrokerProcess(folder) as broker:
        asyncio.run(fill(broker.address))
        broker.kill()
    damaged = bytearray(batch(3, 6))
    damaged[-1] ^= 1
    segment(folder / "ghost-0", batch(0, 0), batch(1, 1))
    segment(folder / "ghost-0", batch(2, 5), damaged, batch(4, 7), base_offset=2, tail=b"\0" * 30)
    return folder


@pytest.fixture(scope="module")
def report(spark: "SparkSession", directory: Path) -> Iterator[AuditReport]:
    made = audit.transactions(spark, str(directory))
    yield made
    made.close()


@pytest.fixture(scope="module")
def findings(report: AuditReport) -> Findings:
    return Findings.of(report)


def test_every_transaction_is_counted_with_its_outcome(spark: "SparkSession", findings: Findings) -> None:
    summary = findings.summary
    assert (summary["committed"], summary["aborted"], summary["open"]) == (COMMITTED, ABORTED, 2)
    assert summary["aborted_share"] == ABORTED / (COMMITTED + ABORTED)
    assert (summary["committed_records"], summary["aborted_records"]) == (2 * COMMITTED, ABORTED)
    assert 0 <= summary["duration_p50_ms"] <= summary["duration_p99_ms"] <= summary["duration_max_ms"] < 3_600_000
    assert summary["markers_without_data"] == 0


def test_two_transactions_hang_and_the_coordinator_knows_one_of_them(spark: "SparkSession", findings: Findings) -> None:
    assert findings.summary["hanging"] == 2
    rows = {row["topic"]: row for row in findings.hanging}
    stuck, ghost = rows["orders"], rows["ghost"]
    assert (stuck["partition"], stuck["coordinator"], stuck["transactional_id"]) == (2, "coordinator_knows", "stuck")
    assert (stuck["state"], stuck["timeout_ms"], stuck["records"]) == ("Ongoing", 600_000, 1)
    assert (ghost["producer_id"], ghost["coordinator"], ghost["first_offset"]) == (GHOST, "orphan", 0)
    assert ghost["records"] == 4
    assert ghost["age_ms"] >= 3_600_000


def test_a_gap_across_segments_and_damage_are_found_where_they_are(spark: "SparkSession", findings: Findings) -> None:
    (fault,) = findings.sequence_faults
    assert (fault["topic"], fault["offset"], fault["what"]) == ("ghost", 2, "gap")
    assert (fault["expected"], fault["found"]) == (2, 5)
    damage, tail = findings.problems
    assert (damage["severity"], damage["what"], damage["offset"]) == ("error", "wrong_checksum", 3)
    assert (tail["severity"], tail["what"], tail["offset"]) == ("warning", "torn_tail", 5)
    assert not findings.is_clean


def test_transactions_have_all_their_partitions(spark: "SparkSession", report: AuditReport) -> None:
    rows = report.transactions.where("outcome = 'committed'").collect()
    places = [[(each["topic"], each["partition"]) for each in row["partitions"]] for row in rows]
    assert places == [[("orders", 0), ("orders", 1)]] * COMMITTED
    assert all(each["last_offset"] < each["marker_offset"] for row in rows for each in row["partitions"])
    assert all(row["begin_time"] <= row["end_time"] for row in rows)


def test_an_open_transaction_still_holds_the_last_stable_offset(spark: "SparkSession", report: AuditReport) -> None:
    held = {row["topic"]: row for row in report.lso_blocked.where("until_time IS NULL").collect()}
    assert (held["orders"]["partition"], held["orders"]["held_offset"]) == (2, 0)
    assert (held["ghost"]["until_offset"], held["ghost"]["offsets"]) == (5, 5)
    assert held["orders"]["duration_ms"] >= 3_600_000


def test_the_series_of_the_plots_add_up_to_the_totals(
    spark: "SparkSession", report: AuditReport, findings: Findings
) -> None:
    series = series_of(report, findings.summary)
    assert {name: sum(counts) for name, counts in series.outcomes.items()} == {
        "committed": COMMITTED,
        "aborted": ABORTED,
        "open": 2,
    }
    assert sum(series.durations["committed"].values()) == COMMITTED
    # What each transaction was open for is in one interval or shared out among several.
    open_ms = sum((row["end_ms"] or series.end_ms) - row["begin_ms"] for row in report.transactions.collect())
    assert sum(series.open) * series.width_ms == pytest.approx(open_ms)
    assert series.longest_ms == max(row["duration_ms"] or 0 for row in report.transactions.collect())
    assert len(series.open) == BINS
    assert max(series.lag["ghost-0"]) == 5


@pytest.mark.long
def test_tables_are_read_back_from_parquet(spark: "SparkSession", report: AuditReport, tmp_path: Path) -> None:
    report.write(str(tmp_path / "tables"))
    assert spark.read.parquet(str(tmp_path / "tables" / "transactions")).count() == COMMITTED + ABORTED + 2
    assert spark.read.parquet(str(tmp_path / "tables" / "hanging")).count() == 2


def test_the_source_shows_a_row_for_each_batch(spark: "SparkSession", directory: Path) -> None:
    frame = spark.read.format("txnsegments").load(str(directory / "ghost-0"))
    assert frame.rdd.getNumPartitions() == 2
    rows = sorted(frame.collect(), key=lambda row: row["base_offset"])
    assert [row["base_offset"] for row in rows] == [0, 1, 2, 3, 4, 5]
    assert (rows[0]["producer_id"], rows[0]["transactional"], rows[0]["marker"]) == (GHOST, True, None)
    assert [bool(row["problem"]) for row in rows] == [False, False, False, True, False, True]
    markers = spark.read.format("txnsegments").load(str(directory / "orders-1")).where("control")
    assert {row["marker"]: row["count"] for row in markers.groupBy("marker").count().collect()} == {
        "commit": COMMITTED,
        "abort": ABORTED,
    }


def test_paths_that_hold_no_log_are_refused(spark: "SparkSession", directory: Path, tmp_path: Path) -> None:
    with pytest.raises(BadPaths, match="there is no "):
        audit.transactions(spark, str(tmp_path / "nowhere"))
    with pytest.raises(BadPaths, match="holds no segment files"):
        audit.transactions(spark, str(tmp_path))
    (tmp_path / "orders-0").mkdir()
    (tmp_path / "orders-0" / f"{0:020}.log").write_bytes(b"")
    with pytest.raises(BadPaths, match="partition orders-0 is in "):
        audit.transactions(spark, [str(directory), str(tmp_path)])


# Exactly once or not, over the wire


async def copy(bootstrap: str) -> None:
    """Of five rows one is missing in the output, one is there twice, and one came from nowhere."""
    async with Client(bootstrap) as client:
        for topic in ("source", "target"):
            await Admin(client).create_topic(topic, 1)
        producer = Producer(client, "copier")
        await producer.init()
        producer.begin()
        rows = [NewRecord(str(number).encode(), b"v") for number in range(5)]
        await producer.send(TopicPartition("source", 0), rows)
        copies = [0, 1, 2, 3, 3, 9]
        out = [NewRecord(str(each).encode(), b"w", None, (("src", f"source:0:{each}".encode()),)) for each in copies]
        await producer.send(TopicPartition("target", 0), out)
        await producer.commit()
        producer.begin()
        await producer.send(TopicPartition("target", 0), [NewRecord(b"4", b"w", None, (("src", b"source:0:4"),))])
        await producer.abort()


def test_verify_distinguishes_missing_duplicate_and_unexpected_rows(
    spark: "SparkSession", broker: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    asyncio.run(copy(broker.address))
    for on in ("src", "cast(key as string)"):
        found = audit.verify(spark, source="source", target="target", on=on, bootstrap=broker.address)
        assert found.counts == (5, 6, 1, 1, 1)
        assert not found.counts.is_exact
        names = {row["kind"]: row["name"].rpartition(":")[2] for row in found.differences.collect()}
        assert names == {"missing": "4", "duplicate": "3", "unexpected": "9"}
        found.close()
    same = audit.verify(spark, source="source", target="source", on="offset", bootstrap=broker.address)
    assert same.counts.is_exact
    with pytest.raises(BadExpression, match="'no_such' is no expression over key, value"):
        audit.verify(spark, source="source", target="target", on="no_such", bootstrap=broker.address)
    command = ["pipeline", "verify", "--on", "src", "--bootstrap-server", broker.address, "--input", "source"]
    assert main([*command, "--output", "target"]) == 1
    assert capsys.readouterr().out.endswith("Not exactly once: 1 missing, 1 duplicate, 1 unexpected.\n")
    assert main([*command, "--output", "nowhere"]) == 1
    assert capsys.readouterr().err == "eosin pipeline verify: topic nowhere does not exist\n"
