"""A supervised pipeline with a real query and a real broker: what ends it for good is not tried again."""

import shutil
import threading
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from broker_process import BrokerProcess
from stalling_leader import TwoBrokers
from topic_load import TopicLoad
from waiting import wait_until

from eosin.pipeline.common import errors
from eosin.pipeline.common.progress_reports import BatchProgress
from eosin.pipeline.common.settings import PipelineSettings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from eosin.pipeline.job.pipeline import Pipeline

pytestmark = [pytest.mark.slow, pytest.mark.long]

_names = count()


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """One broker for this module; each test has topics of its own."""
    with BrokerProcess(tmp_path_factory.mktemp("supervised") / "data", durability="memory") as broker:
        yield broker.address


class Supervised:
    """A pipeline that copies one topic into another."""

    def __init__(self, spark: "SparkSession", bootstrap: str, folder: Path, topic: str | None = None) -> None:
        self.spark = spark
        self.bootstrap = bootstrap
        self.checkpoint = folder / "checkpoint"
        self.name = f"supervised-{next(_names)}"
        self.input, self.output = topic or f"{self.name}-in", f"{self.name}-out"
        self.load = TopicLoad(bootstrap)
        if topic is None:
            self.load.create(self.input, 1)
        self.load.create(self.output, 1)
        self.told: list[BatchProgress] = []
        self.pipeline: Pipeline

    def feed(self, *values: str) -> None:
        self.load.transaction(self.input, [(0, value) for value in values])

    def run(self, trigger: str | None = "available-now", **settings: str) -> None:
        """Until it ends by itself, or for good."""
        from eosin.pipeline.job.pipeline import Pipeline

        def copied(frame: "DataFrame") -> "DataFrame":
            return frame.select("key", "value")

        self.pipeline = Pipeline(
            self.name,
            copied,
            bootstrap=self.bootstrap,
            topics=self.input,
            output=self.output,
            checkpoint=str(self.checkpoint),
            trigger=trigger,
            settings=PipelineSettings.parse(settings),
        )
        self.pipeline.run(self.spark, self.told.append)

    def written(self) -> list[bytes]:
        return self.load.values(self.output, 1)


@pytest.fixture
def supervised(spark: "SparkSession", bootstrap: str, tmp_path: Path, caplog: Any) -> Iterator[Supervised]:
    """A pipeline that has copied two rows, and must not be started again after what a test does to it."""
    running = Supervised(spark, bootstrap, tmp_path)
    running.feed("a", "b")
    running.run()
    assert running.written() == [b"a", b"b"]
    yield running
    assert not [said for said in caplog.messages if "starts again" in said]


def test_a_deleted_checkpoint_ends_the_pipeline_at_once(supervised: Supervised) -> None:
    shutil.rmtree(supervised.checkpoint)
    with pytest.raises(errors.ForeignMarker, match="was deleted or replaced"):
        supervised.run()
    assert supervised.written() == [b"a", b"b"]


def test_lost_records_end_the_pipeline_at_once(supervised: Supervised) -> None:
    supervised.feed("c", "d")
    supervised.load.delete_records(supervised.input, 4)
    with pytest.raises(errors.DataLoss, match="were deleted before they were read"):
        supervised.run()
    assert supervised.written() == [b"a", b"b"]


def test_another_driver_ends_the_pipeline_at_once(supervised: Supervised) -> None:
    ended: list[BaseException | None] = []

    def run() -> None:
        try:
            supervised.run(trigger=None)
            ended.append(None)
        except errors.PipelineError as error:
            ended.append(error)

    supervised.feed("c")
    running = threading.Thread(target=run)
    running.start()
    try:
        wait_until(lambda: ended or supervised.written() == [b"a", b"b", b"c"])
        # Whoever initialises its transactional id is another driver.
        supervised.load.transaction(supervised.output, [(0, "x")], end="abort", transactional_id=supervised.name)
        supervised.feed("d")
        running.join(120)
    finally:
        for query in supervised.spark.streams.active:
            query.stop()
        running.join()
    assert isinstance(ended[0], errors.PipelineFenced)
    assert supervised.written() == [b"a", b"b", b"c"]


def test_an_input_that_is_left_out_is_in_the_progress_of_each_batch_and_in_the_metrics(
    spark: "SparkSession", tmp_path: Path
) -> None:
    with TwoBrokers(("orders", 2)) as brokers:
        TopicLoad(brokers.address).create("orders", 3)
        stalled = Supervised(spark, brokers.address, tmp_path, topic="orders")
        stalled.feed("a")
        limits = {"request.timeout.ms": "1000", "task.timeout.ms": "60000"}
        running = threading.Thread(target=lambda: stalled.run(None, **limits))
        running.start()
        try:
            wait_until(lambda: stalled.told)
            brokers.relay.stall()
            for number in range(60):
                stalled.feed(f"x{number}")
                known = len(stalled.told)
                wait_until(lambda known=known: len(stalled.told) > known)  # type: ignore[misc]
                if stalled.told[-1].skipped_tasks and stalled.told[-1].task_skips:
                    break
            told = stalled.told[-1]
            assert set(told.skipped_tasks) == {"orders-2"}
            assert told.task_skips["orders-2"] >= 1
            assert " skipped [orders-2 (" in told.line()
            metrics = stalled.pipeline.metrics()
            assert 0 < metrics['task_timeout_remaining_ms{task="orders-2"}'] <= 60_000
            assert metrics['task_skips_total{task="orders-2"}'] == told.task_skips["orders-2"]
        finally:
            brokers.relay.recover()
            for query in spark.streams.active:
                query.stop()
            running.join()
