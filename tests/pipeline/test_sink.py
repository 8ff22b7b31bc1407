"""The sink on Spark: both routes, what is replayed, and checkpoints that do not belong to the pipeline."""

import asyncio
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from broker_process import BrokerProcess
from spark_files import TextStream

from eosin.client.admin import Admin
from eosin.client.client import Client
from eosin.client.consumer import Consumer
from eosin.pipeline.common import errors
from eosin.protocol.names import TopicPartition

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from eosin.pipeline.sink.sink import TxnSink

PARTITIONS = 3
_names = count()


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """One broker for this module; each test has topics of its own."""
    with BrokerProcess(tmp_path_factory.mktemp("sink") / "data", durability="memory") as broker:
        yield broker.address


class Pipeline:
    """Text files, a sink, and what a reader of the output sees."""

    def __init__(self, spark: "SparkSession", bootstrap: str, folder: Path) -> None:
        self.spark = spark
        self.bootstrap = bootstrap
        self.topic = f"out-{next(_names)}"
        self.input = TextStream(spark, folder / "input")
        self.checkpoint = folder / "checkpoint"
        self.reports: list[Any] = []
        asyncio.run(self._create())

    async def _create(self) -> None:
        async with Client(self.bootstrap) as client:
            await Admin(client).create_topic(self.topic, PARTITIONS)

    def sink(self, **options: Any) -> "TxnSink":
        from eosin.pipeline import TxnSink

        options = {"topic": self.topic, "on_batch": self.reports.append, **options}
        return TxnSink(self.topic, self.bootstrap, **options)

    def run(self, frame: Any = None, **options: Any) -> list[tuple[int, bool, int]]:
        """Everything that is there, in one run; answers batch, skipped and rows of each."""
        self.reports.clear()
        sink = self.sink(**options)
        try:
            query = sink.start(
                self.input.frame() if frame is None else frame, checkpoint=str(self.checkpoint), trigger="available-now"
            )
            try:
                query.awaitTermination()
            except Exception:
                if sink.failure is not None:
                    raise sink.failure from None
                raise
        finally:
            sink.close()
        return [(each.batch, each.skipped, each.rows) for each in self.reports]

    def run_by_hand(self, function: Callable[["TxnSink"], Callable[[Any, int], None]], **options: Any) -> list[int]:
        """Everything that is there, in one run of a function of `foreachBatch` that calls the sink; answers the batches
        that it has written."""
        self.reports.clear()
        sink = self.sink(**options)
        writer = self.input.frame().writeStream.foreachBatch(function(sink))
        query = writer.option("checkpointLocation", str(self.checkpoint)).trigger(availableNow=True).start()
        try:
            query.awaitTermination()
        except Exception:
            if sink.failure is not None:
                raise sink.failure from None
            raise
        finally:
            sink.close()
        return [each.batch for each in self.reports if not each.skipped]

    def visible(self) -> Counter[tuple[bytes | None, bytes | None]]:
        return Counter((each.record.key, each.record.value) for each in asyncio.run(self._read()))

    async def _read(self) -> list[Any]:
        async with Client(self.bootstrap) as client:
            consumer = Consumer(client)
            await consumer.assign_from([TopicPartition(self.topic, index) for index in range(PARTITIONS)])
            return await consumer.read_to_end()

    def forget_commit(self, batch: int) -> None:
        """As if the driver had died between the commit in the broker and Spark's note of it."""
        (self.checkpoint / "commits" / str(batch)).unlink()
        (self.checkpoint / "commits" / f".{batch}.crc").unlink()


@pytest.fixture
def pipeline(spark: "SparkSession", bootstrap: str, tmp_path: Path) -> Pipeline:
    """A pipeline with nothing in it yet."""
    return Pipeline(spark, bootstrap, tmp_path)


FULL_BY_THE_DRIVER = pytest.mark.parametrize(
    "route", [pytest.param("driver", marks=pytest.mark.full), "executors"], indirect=True
)
"""For what is harder by the other route, where rows fail in other processes."""


@pytest.fixture(params=["driver", "executors"])
def route(request: pytest.FixtureRequest) -> str:
    """Each route in turn."""
    assert isinstance(request.param, str)
    return request.param


def once(*rows: str) -> Counter[tuple[bytes | None, bytes | None]]:
    pairs = [row.encode().split(b" ") for row in rows]
    return Counter((key, value) for key, value in pairs)


@pytest.mark.smoke
def test_every_row_is_written_once_and_only_new_batches_are_written(pipeline: Pipeline, route: str) -> None:
    pipeline.input.add("a 1", "b 2", "c 3", "d 4")
    pipeline.input.add("a 5")
    assert pipeline.run(route=route) == [(0, False, 4), (1, False, 1)]
    assert pipeline.visible() == once("a 1", "b 2", "c 3", "d 4", "a 5")
    pipeline.input.add("b 6")
    assert pipeline.run(route=route) == [(2, False, 1)]
    assert pipeline.visible() == once("a 1", "b 2", "c 3", "d 4", "a 5", "b 6")


@FULL_BY_THE_DRIVER
def test_a_committed_batch_that_spark_has_not_noted_is_skipped(pipeline: Pipeline, route: str) -> None:
    pipeline.input.add("a 1", "b 2")
    pipeline.run(route=route)
    pipeline.forget_commit(0)
    pipeline.input.add("c 3")
    assert pipeline.run(route=route) == [(0, True, 2), (1, False, 1)]
    assert pipeline.visible() == once("a 1", "b 2", "c 3")


@FULL_BY_THE_DRIVER
def test_a_batch_whose_rows_cannot_be_computed_is_aborted(pipeline: Pipeline, route: str) -> None:
    from pyspark.sql import functions as f

    pipeline.input.add("a 1", "b 2")
    pipeline.input.add("a 3", "b bad")

    def checked(broken: bool) -> Any:
        bad = f.raise_error(f.lit("bad row")).cast("string")
        return pipeline.input.frame().withColumn(
            "value", f.when((f.col("value") == "bad") & f.lit(broken), bad).otherwise(f.col("value"))
        )

    with pytest.raises(Exception, match="bad row"):
        pipeline.run(checked(broken=True), route=route)
    assert pipeline.visible() == once("a 1", "b 2")
    assert pipeline.run(checked(broken=False), route=route) == [(1, False, 2)]
    assert pipeline.visible() == once("a 1", "b 2", "a 3", "b bad")


def test_keys_go_where_the_java_client_sends_them_by_both_routes(
    spark: "SparkSession", bootstrap: str, tmp_path: Path
) -> None:
    placed = []
    for route in ("driver", "executors"):
        pipeline = Pipeline(spark, bootstrap, tmp_path / route)
        pipeline.input.add(*(f"key-{index} {index}" for index in range(50)))
        pipeline.run(route=route)
        placed.append({(each.record.key, each.partition.partition) for each in asyncio.run(pipeline._read())})
    assert placed[0] == placed[1]
    assert {partition for _, partition in placed[0]} == set(range(PARTITIONS))


def test_columns_for_partition_topic_and_headers_are_obeyed(pipeline: Pipeline) -> None:
    from pyspark.sql import functions as f

    pipeline.input.add("a 1", "b 2")
    header = f.struct(f.lit("src").alias("key"), f.col("value").cast("binary").alias("value"))
    frame = pipeline.input.frame().select(
        "key",
        "value",
        f.lit(2).alias("partition"),
        f.lit(pipeline.topic).alias("topic"),
        f.array(header).alias("headers"),
    )
    pipeline.run(frame, topic=None)
    found = asyncio.run(pipeline._read())
    assert {each.partition.partition for each in found} == {2}
    assert {each.record.headers for each in found} == {(("src", b"1"),), (("src", b"2"),)}


def test_more_rows_than_the_driver_should_take_are_taken_piece_by_piece(
    pipeline: Pipeline, caplog: pytest.LogCaptureFixture
) -> None:
    pipeline.input.add("a 1", "b 2")
    pipeline.input.add("c 3", "d 4")
    pipeline.run(driver_max_rows=1)
    assert pipeline.visible() == once("a 1", "b 2", "c 3", "d 4")
    warnings = [each for each in caplog.messages if "driver.max.rows=1" in each]
    assert len(warnings) == 1


def test_tasks_make_batches_that_a_small_topic_takes(pipeline: Pipeline) -> None:
    async def make_small() -> None:
        async with Client(pipeline.bootstrap) as client:
            await Admin(client).alter_configs(pipeline.topic, {"max.message.bytes": "2000"})

    asyncio.run(make_small())
    pipeline.input.add(*(f"{index} {'x' * 300}" for index in range(100)))
    assert pipeline.run(route="executors") == [(0, False, 100)]
    assert len(pipeline.visible()) == 100


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        (["key"], "needs a column value"),
        (["value", "cast(1 as long) as partition"], "column partition is bigint, and the sink takes int"),
        (["value", "1 as offset"], "does not know what to do with column offset"),
    ],
)
def test_a_frame_that_cannot_be_written_is_refused_before_anything_runs(
    pipeline: Pipeline, columns: list[str], said: str
) -> None:
    with pytest.raises(errors.BadRows, match=said):
        pipeline.run(pipeline.input.frame().selectExpr(*columns))


def test_a_missing_topic_is_reported(pipeline: Pipeline) -> None:
    pipeline.input.add("a 1")
    with pytest.raises(errors.MissingTopic, match="topic nowhere does not exist"):
        pipeline.run(topic="nowhere")


def test_asynchronous_progress_tracking_is_refused(pipeline: Pipeline) -> None:
    with pytest.raises(errors.ConflictingSettings, match="asyncProgressTrackingEnabled"):
        pipeline.sink().start(
            pipeline.input.frame(),
            checkpoint=str(pipeline.checkpoint),
            options={"asyncProgressTrackingEnabled": "true"},
        )


# Rows 11 to 13 of the crash table ------------------------------------------------------------------------------------


def test_a_new_checkpoint_under_an_old_name_is_refused_until_it_is_adopted(pipeline: Pipeline) -> None:
    pipeline.input.add("a 1")
    pipeline.run()
    shutil.rmtree(pipeline.checkpoint)
    with pytest.raises(errors.ForeignMarker, match="was deleted or replaced"):
        pipeline.run()
    assert pipeline.visible() == once("a 1")
    assert pipeline.run(adopt_checkpoint=True) == [(0, False, 1)]


def test_a_deleted_progress_topic_is_noticed(pipeline: Pipeline) -> None:
    pipeline.input.add("a 1")
    pipeline.run()

    async def delete() -> None:
        async with Client(pipeline.bootstrap) as client:
            await Admin(client).delete_topics([f"{pipeline.topic}-progress"])

    asyncio.run(delete())
    pipeline.input.add("b 2")
    with pytest.raises(errors.MissingMarker, match="the checkpoint is at batch 1"):
        pipeline.run()


def test_a_checkpoint_from_an_older_copy_is_noticed(pipeline: Pipeline, tmp_path: Path) -> None:
    pipeline.input.add("a 1")
    pipeline.run()
    shutil.copytree(pipeline.checkpoint, tmp_path / "copy")
    pipeline.input.add("b 2")
    pipeline.input.add("c 3")
    pipeline.run()
    shutil.rmtree(pipeline.checkpoint)
    shutil.copytree(tmp_path / "copy", pipeline.checkpoint)
    with pytest.raises(errors.RolledBackCheckpoint, match="restored from an older copy"):
        pipeline.run()
    assert pipeline.visible() == once("a 1", "b 2", "c 3")


def test_a_batch_with_another_range_under_the_last_number_is_noticed(pipeline: Pipeline, tmp_path: Path) -> None:
    pipeline.input.add("a 1")
    pipeline.run()
    shutil.copytree(pipeline.checkpoint, tmp_path / "copy")
    pipeline.input.add("b 2")
    pipeline.run()
    shutil.rmtree(pipeline.checkpoint)
    shutil.copytree(tmp_path / "copy", pipeline.checkpoint)
    with pytest.raises(errors.RangeMismatch, match="another input range"):
        pipeline.run()


# Functions of foreachBatch that call the sink ------------------------------------------------------------------------


def test_a_second_frame_of_one_batch_is_refused_in_each_run_and_not_taken_for_a_replay(pipeline: Pipeline) -> None:
    def good_and_bad(sink: "TxnSink") -> Callable[[Any, int], None]:
        def write(frame: Any, batch: int) -> None:
            sink(frame.where("key = 'good'"), batch)
            sink(frame.where("key = 'bad'"), batch)

        return write

    pipeline.input.add("good 1", "bad 2", "good 3")
    for _ in range(2):
        with pytest.raises(errors.CalledTwice, match=r"called twice for batch 0: .* union the frames"):
            pipeline.run_by_hand(good_and_bad)
    assert pipeline.visible() == once("good 1", "good 3")
    # Other code does not bring the second frame back, so the restart must not skip its batch without a word.
    with pytest.raises(errors.CalledTwice, match=r"rows of the second are in no topic: .* adopt the checkpoint"):
        pipeline.run()
    pipeline.input.add("bad 4")
    assert pipeline.run(adopt_checkpoint=True) == [(0, True, 2), (1, False, 1)]
    pipeline.input.add("good 5")
    assert pipeline.run() == [(2, False, 1)]
    assert pipeline.visible() == once("good 1", "good 3", "bad 4", "good 5")


def test_a_function_may_leave_batches_out_also_just_before_a_restart(pipeline: Pipeline) -> None:
    def unless_empty(sink: "TxnSink") -> Callable[[Any, int], None]:
        def write(frame: Any, batch: int) -> None:
            rows = frame.where("key = 'a'")
            if not rows.isEmpty():
                sink(rows, batch)

        return write

    for line in ("b 0", "a 1", "b 2"):
        pipeline.input.add(line)
    assert pipeline.run_by_hand(unless_empty) == [1]
    for line in ("b 3", "a 4", "b 5", "a 6"):
        pipeline.input.add(line)
    assert pipeline.run_by_hand(unless_empty) == [4, 6]
    assert pipeline.visible() == once("a 1", "a 4", "a 6")


def test_an_error_that_the_function_catches_is_noticed_at_the_next_batch_and_after_a_restart(
    pipeline: Pipeline,
) -> None:
    def careless(sink: "TxnSink") -> Callable[[Any, int], None]:
        def write(frame: Any, batch: int) -> None:
            if batch > 0:
                sink(frame, batch)
                return
            with pytest.raises(Exception, match="bad row"):
                sink(frame.selectExpr("key", "cast(raise_error('bad row') as string) as value"), batch)
            with pytest.raises(errors.CalledTwice, match="the first call failed"):
                sink(frame, batch)

        return write

    pipeline.input.add("a 1")
    pipeline.input.add("b 2")
    for _ in range(2):
        with pytest.raises(errors.MissingMarker, match="went on after the error of batch 0"):
            pipeline.run_by_hand(careless)
    assert pipeline.run_by_hand(careless, adopt_checkpoint=True) == [1]
    assert pipeline.visible() == once("b 2")
