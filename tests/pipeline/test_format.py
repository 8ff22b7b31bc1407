"""`format("eosin")` on Spark: read and write, batch and stream, with the option names of Spark's own Kafka format."""

from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from broker_process import BrokerProcess
from topic_load import TopicLoad

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytest.importorskip("pyspark")

PARTITIONS = 1
"""Each one is a worker of Python for each side of a query."""
_names = count()


@pytest.fixture(scope="module")
def load(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TopicLoad]:
    """One broker for this module."""
    with BrokerProcess(tmp_path_factory.mktemp("format") / "data", durability="memory") as broker:
        yield TopicLoad(broker.address)


class Copy:
    """A query that copies one topic into another, by nothing but options of Spark's own Kafka format."""

    def __init__(self, spark: "SparkSession", load: TopicLoad, folder: Path) -> None:
        number = next(_names)
        self.spark, self.load = spark, load
        self.source, self.target = f"from-{number}", f"to-{number}"
        load.create(self.source, PARTITIONS)
        load.create(self.target, PARTITIONS)
        self.checkpoint = folder / "checkpoint"

    def read(self) -> "DataFrame":
        reader = self.spark.readStream.format("eosin").option("kafka.bootstrap.servers", self.load.bootstrap)
        return reader.option("subscribe", self.source).option("startingOffsets", "earliest").load()

    def run(self) -> list[int]:
        """The numbers of rows that Spark tells of each batch."""
        writer = self.read().writeStream.format("eosin").option("kafka.bootstrap.servers", self.load.bootstrap)
        writer = writer.option("topic", self.target).option("checkpointLocation", str(self.checkpoint))
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()
        return [each["sink"]["numOutputRows"] for each in query.recentProgress]

    def copied(self) -> list[bytes]:
        return self.load.values(self.target, PARTITIONS)

    def forget_last_commit(self) -> None:
        """What a driver leaves that dies between the transaction's commit and Spark's own note of it."""
        last = max((each for each in (self.checkpoint / "commits").glob("[0-9]*")), key=lambda each: int(each.name))
        last.with_name(f".{last.name}.crc").unlink()
        last.unlink()


def test_a_stream_is_copied_once_over_a_restart_that_replays_a_committed_batch(
    spark: "SparkSession", load: TopicLoad, tmp_path: Path
) -> None:
    copy = Copy(spark, load, tmp_path)
    load.transaction(copy.source, [(0, "a"), (0, "b")])
    assert copy.run() == [2]
    copy.forget_last_commit()
    load.transaction(copy.source, [(0, "never")], end="abort")
    load.transaction(copy.source, [(0, "c")])
    assert copy.run() == [2, 1]
    assert copy.copied() == [b"a", b"b", b"c"]


def test_a_batch_frame_is_written_in_one_transaction_and_read_again(
    spark: "SparkSession", load: TopicLoad, tmp_path: Path
) -> None:
    topic = f"batch-{next(_names)}"
    load.create(topic, PARTITIONS)
    options = {"kafka.bootstrap.servers": load.bootstrap}
    frame = spark.range(0, 4, 1, 1).selectExpr("'k' as key", "cast(id as string) as value", "id as dropped")
    frame = frame.selectExpr("*", "array(struct('h' as key, cast(value as binary) as value)) as headers")
    frame.write.format("eosin").options(**options, topic=topic).mode("append").save()
    read = spark.read.format("eosin").options(**options, subscribePattern="batch-.*", minPartitions="2")
    assert read.load().columns == ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType"]
    rows = read.option("includeHeaders", "true").load().collect()
    assert sorted((bytes(row["key"]), bytes(row["value"]), row["topic"], row["headers"][0]["key"]) for row in rows) == [
        (b"k", f"{row}".encode(), topic, "h") for row in range(4)
    ]


def test_wrong_options_are_told_at_load_all_at_once(spark: "SparkSession", load: TopicLoad) -> None:
    reader = spark.readStream.format("eosin").option("subscibe", "t").option("failOnDataLoss", "maybe")
    with pytest.raises(Exception, match="did you mean subscribe") as refused:
        reader.load()
    assert "failOnDataLoss is 'maybe'" in str(refused.value)
    assert "kafka.bootstrap.servers is missing" in str(refused.value)
