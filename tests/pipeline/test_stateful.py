"""Queries with state, when the sink skips a batch that it has committed already: the state must not be lost."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from broker_process import BrokerProcess
from spark_files import TextStream
from topic_load import TopicLoad

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


ROCKS_DB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
STORE = "spark.sql.streaming.stateStore"


@pytest.fixture(params=["1", "2"], ids=["format 1", "format 2"])
def checkpoint_format(spark: "SparkSession", request: pytest.FixtureRequest) -> Iterator[None]:
    """Each format of the state's checkpoints. By the second one, the note of a batch names the state of each task, so
    Spark cannot note a batch that it has not computed."""
    settings = {f"{STORE}.providerClass": ROCKS_DB, f"{STORE}.checkpointFormatVersion": request.param}
    for name, value in settings.items():
        spark.conf.set(name, value)
    yield
    for name in settings:
        spark.conf.unset(name)


@pytest.mark.parametrize("route", ["driver", pytest.param("executors", marks=pytest.mark.long)])
@pytest.mark.usefixtures("checkpoint_format")
def test_counts_go_on_after_a_batch_that_spark_has_not_noted_is_skipped(
    spark: "SparkSession", broker: BrokerProcess, tmp_path: Path, route: str
) -> None:
    from eosin.pipeline import TxnSink

    load = TopicLoad(broker.address)
    load.create("counts", 2)
    lines = TextStream(spark, tmp_path / "input")
    checkpoint = tmp_path / "checkpoint"

    def run() -> list[tuple[int, bool]]:
        reports: list[tuple[int, bool]] = []
        counted = lines.frame().groupBy("key").count()
        frame = counted.selectExpr("key", "cast(count as string) as value")
        sink = TxnSink(
            "counter",
            broker.address,
            "counts",
            route,  # type: ignore[arg-type]
            on_batch=lambda report: reports.append((report.batch, report.skipped)),
        )
        try:
            query = sink.start(frame, checkpoint=str(checkpoint), trigger="available-now", mode="update")
            query.awaitTermination()
        finally:
            sink.close()
        return reports

    lines.add("a 1", "a 2", "b 3")
    assert run() == [(0, False)]
    for name in ("0", ".0.crc"):  # as if the driver had died before Spark noted the batch
        (checkpoint / "commits" / name).unlink()
    lines.add("a 4", "c 5")
    assert run() == [(0, True), (1, False)]
    found = Counter((each.record.key, each.record.value) for each in load.records("counts", 2))
    assert found == Counter({(b"a", b"2"): 1, (b"b", b"1"): 1, (b"a", b"3"): 1, (b"c", b"1"): 1})
