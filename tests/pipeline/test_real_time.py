"""Real-time Mode on Spark: each row once, over starts that know nothing of each other; and what is refused."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from broker_process import BrokerProcess
from topic_load import TopicLoad
from waiting import wait_until

from eosin.pipeline.common.errors import (
    BadRows,
    BrokenCheckpoint,
    ConflictingSettings,
    MissingOffsets,
    PipelineFenced,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytest.importorskip("pyspark")

PARTITIONS = 2


class Copy:
    """A query that makes a row of each word of a topic."""

    def __init__(self, spark: "SparkSession", load: TopicLoad, folder: Path) -> None:
        self.spark, self.load, self.folder = spark, load, folder
        load.create("words", PARTITIONS)
        load.create("copied", PARTITIONS)
        load.create("out-of-the-way")

    def read(self, starting: str = "earliest") -> "DataFrame":
        options = {"kafka.bootstrap.servers": self.load.bootstrap, "subscribe": "words", "startingOffsets": starting}
        return (
            self.spark.readStream.format("kafka")
            .options(**options, **{"kafka.isolation.level": "read_committed"})
            .load()
        )

    def words(self, starting: str = "earliest") -> "DataFrame":
        from pyspark.sql import functions as f

        words = f.split(f.col("value").cast("string"), " ")
        source = f.struct("topic", "partition", "offset").alias("source")
        return self.read(starting).select(source, "partition", f.explode(words).alias("value"))

    def run(
        self, checkpoint: str, rows: int, *, is_fenced: bool = False, starting: str = "earliest"
    ) -> BaseException | None:
        """Run until the output has so many rows, and stop in the middle of a batch, or be taken over by another driver
        before the next row; the error of the sink."""
        from eosin.pipeline import TxnSink

        sink = TxnSink("words", self.load.bootstrap, "copied")
        query = sink.start(
            self.words(starting),
            checkpoint=str(self.folder / checkpoint),
            trigger="real-time",
            real_time_batch="1 minute",
            commit_interval_ms=20,
        )
        try:
            wait_until(
                lambda: query.exception() is not None or len(self.copied()) >= rows,
                lambda: f"{self.copied()} {query.exception()}",
                every_s=0.2,
            )
            if is_fenced:
                self.load.transaction("out-of-the-way", [(0, "")], transactional_id="words:words:0")
                self.load.transaction("words", [(0, "late")])
                wait_until(lambda: not query.isActive, lambda: str(query.status), every_s=0.2)
        finally:
            query.stop()
            sink.close()
        return sink.failure

    def copied(self) -> list[bytes]:
        return self.load.values("copied", PARTITIONS)


def test_rows_are_written_once_by_starts_that_know_nothing_of_each_other(
    with_kafka: "SparkSession", tmp_path: Path
) -> None:
    with BrokerProcess(tmp_path / "broker", durability="memory") as broker:
        load = TopicLoad(broker.address)
        copy = Copy(with_kafka, load, tmp_path)
        load.transaction("words", [(0, "a b"), (1, "c"), (0, "d e f")])
        load.transaction("words", [(0, "never")], end="abort")
        assert copy.run("first", 6) is None
        load.transaction("words", [(0, "g"), (1, "h i")])
        assert copy.run("second", 9) is None
        load.transaction("words", [(0, "j"), (1, "k")])
        assert isinstance(copy.run("second", 11, is_fenced=True), PipelineFenced)
        # No batch of this checkpoint was ever done. Its sources know where they began, and latest is not asked again.
        load.transaction("words", [(0, "l"), (1, "m")])
        assert copy.run("second", 14, starting="latest") is None
        assert copy.copied() == sorted([*(bytes([letter]) for letter in b"abcdefghijklm"), b"late"])
        refused(copy, tmp_path)


def refused(copy: Copy, folder: Path) -> None:
    """What would lose or repeat rows is refused before a query runs."""
    from eosin.pipeline import TxnSink

    sink = TxnSink("words", copy.load.bootstrap, "copied")
    for frame, error, why in (
        (copy.words("latest"), MissingOffsets, r'startingOffsets earliest .* or {"words": {"0": 11, "1": 6}}'),
        (copy.words().groupBy("source").count(), BadRows, "value"),
        (copy.words().distinct(), ConflictingSettings, "a step Deduplicate|a step Distinct"),
        (copy.read().select("value"), BadRows, "needs a column source"),
    ):
        with pytest.raises(error, match=why):
            sink.start(frame, checkpoint=str(folder / "third"), trigger="real-time")
    (folder / "broken" / "commits").mkdir(parents=True)
    (folder / "broken" / "commits" / "0").touch()
    with pytest.raises(BrokenCheckpoint, match="has commits/0 and no offsets/0"):
        sink.start(copy.words(), checkpoint=str(folder / "broken"), trigger="real-time")
    with pytest.raises(ConflictingSettings, match="mode complete"):
        sink.start(copy.words(), checkpoint=str(folder / "third"), trigger="real-time", mode="complete")
    sink.close()
