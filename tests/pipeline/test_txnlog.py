"""`txnlog` on Spark: batch and stream, what is committed and nothing else, limits, lost data (S5)."""

import json
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from broker_process import BrokerProcess
from topic_load import TopicLoad

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_names = count()


@pytest.fixture(scope="module")
def load(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TopicLoad]:
    """One broker for this module."""
    with BrokerProcess(tmp_path_factory.mktemp("txnlog") / "data", durability="memory") as broker:
        yield TopicLoad(broker.address)


@pytest.fixture
def topic(load: TopicLoad) -> str:
    """A topic of two partitions: 5 rows that are committed, 2 that are aborted, 1 that is undecided at the end."""
    name = f"topic-{next(_names)}"
    load.create(name, 2)
    load.transaction(name, [(0, "a"), (1, "b"), (0, "c")])
    load.transaction(name, [(0, "x"), (1, "y")], end="abort")
    load.transaction(name, [(1, "d"), (1, "e")])
    load.transaction(name, [(0, "open")], end="open", transactional_id=f"{name}-open", timeout_ms=600_000)
    return name


class Stream:
    """A query that collects what each batch brought."""

    def __init__(self, spark: "SparkSession", load: TopicLoad, topic: str, folder: Path) -> None:
        self.spark = spark
        self.options = {"bootstrap.servers": load.bootstrap, "subscribe": topic}
        self.checkpoint = folder / "checkpoint"

    def run(self, *, reads: bool = True, **options: str) -> list[list[str]]:
        batches: list[list[str]] = []

        def take(frame: "DataFrame", _: int) -> None:
            batches.append(sorted(bytes(row["value"]).decode() for row in frame.collect()) if reads else [])

        reader = self.spark.readStream.format("txnlog").options(**{**self.options, **options})
        query = (
            reader.load()
            .writeStream.foreachBatch(take)
            .option("checkpointLocation", str(self.checkpoint))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        return batches

    def forget_topic_ids(self) -> None:
        """Make the checkpoint one of a release that did not keep them."""
        for path in (self.checkpoint / "offsets").glob("[0-9]*"):
            version, about, offsets = path.read_text().splitlines()
            kept = {name: value for name, value in json.loads(offsets).items() if not name.endswith(":id")}
            assert len(kept) < len(json.loads(offsets))
            path.write_text("\n".join((version, about, json.dumps(kept))))
            path.with_name(f".{path.name}.crc").unlink()

    def forget_commit(self, batch: int) -> None:
        (self.checkpoint / "commits" / str(batch)).unlink()
        (self.checkpoint / "commits" / f".{batch}.crc").unlink()


@pytest.fixture
def stream(spark: "SparkSession", load: TopicLoad, topic: str, tmp_path: Path) -> Stream:
    """A query on the topic that has not run yet."""
    return Stream(spark, load, topic, tmp_path)


def test_a_batch_read_has_the_rows_of_sparks_own_source(spark: "SparkSession", load: TopicLoad, topic: str) -> None:
    frame = spark.read.format("txnlog").options(**{"bootstrap.servers": load.bootstrap, "subscribe": topic}).load()
    assert frame.rdd.getNumPartitions() == 2
    rows = {bytes(row["value"]).decode(): row for row in frame.collect()}
    assert sorted(rows) == ["a", "b", "c", "d", "e"]
    row = rows["c"].asDict(recursive=True)
    assert (bytes(row["key"]), row["topic"], row["partition"], row["offset"]) == (b"c", topic, 0, 1)
    assert row["timestamp"].timestamp() == 1_700_000_000.123
    assert row["timestampType"] == 0
    assert [(each["key"], bytes(each["value"])) for each in row["headers"]] == [("src", b"c")]


def test_a_batch_read_can_include_uncommitted_records(spark: "SparkSession", load: TopicLoad, topic: str) -> None:
    options = {"bootstrap.servers": load.bootstrap, "subscribe": topic, "isolation.level": "read_uncommitted"}
    assert spark.read.format("txnlog").options(**options).load().count() == 8


def test_a_batch_read_takes_the_offsets_that_it_is_given(spark: "SparkSession", load: TopicLoad, topic: str) -> None:
    options = {
        "bootstrap.servers": load.bootstrap,
        "subscribe": topic,
        "startingOffsets": f'{{"{topic}:0": 1, "{topic}:1": 1}}',
        "endingOffsets": f'{{"{topic}:0": 2, "{topic}:1": 5}}',
    }
    rows = spark.read.format("txnlog").options(**options).load().collect()
    assert sorted(bytes(row["value"]) for row in rows) == [b"c", b"d"]


@pytest.mark.smoke
def test_a_stream_reads_each_committed_row_once_over_a_restart(stream: Stream, load: TopicLoad, topic: str) -> None:
    assert stream.run() == [["a", "b", "c", "d", "e"]]
    load.transaction(topic, [(1, "f")])
    # Partition 0 is held back by the open transaction, partition 1 is not.
    load.transaction(topic, [(0, "g")])
    assert stream.run() == [["f"]]
    load.transaction(topic, [], end="commit", transactional_id=f"{topic}-open")  # fences and aborts what was open
    assert stream.run() == [["g"]]
    assert stream.run() == []


def test_a_row_limit_holds_for_each_batch_and_leaves_no_row_out(stream: Stream) -> None:
    batches = stream.run(maxRowsPerTrigger="3")
    assert sorted(value for batch in batches for value in batch) == ["a", "b", "c", "d", "e"]
    assert len(batches) > 2
    assert max(map(len, batches)) <= 3


def test_a_range_of_markers_and_aborted_records_is_a_batch_without_rows(
    stream: Stream, load: TopicLoad, topic: str
) -> None:
    stream.run()
    load.transaction(topic, [(1, "x"), (1, "y")], end="abort")
    assert stream.run() == [[]]


def test_a_new_partition_is_read_from_its_beginning(stream: Stream, load: TopicLoad, topic: str) -> None:
    stream.run()
    load.add_partitions(topic, 3)
    load.transaction(topic, [(2, "new")])
    assert stream.run() == [["new"]]


def test_rows_that_were_deleted_before_they_were_read_fail_the_query(
    stream: Stream, load: TopicLoad, topic: str
) -> None:
    stream.run()
    load.transaction(topic, [(1, "f"), (1, "g"), (1, "h")])
    load.delete_records(topic, 9, partition=1)
    with pytest.raises(Exception, match="deleted before they were read"):
        stream.run()
    assert stream.run(failOnDataLoss="false") == [["h"]]


def test_a_batch_that_is_skipped_may_have_lost_its_rows(stream: Stream, load: TopicLoad, topic: str) -> None:
    # A batch that the sink has committed and Spark has not noted: it is planned again, and skipped.
    stream.run()
    stream.forget_commit(0)
    load.delete_records(topic, 2, partition=1)
    assert stream.run(reads=False) == [[]]


def test_a_topic_that_was_created_again_fails_the_query_unless_that_is_accepted(
    stream: Stream, load: TopicLoad, topic: str
) -> None:
    stream.run()
    load.delete(topic)
    load.create(topic, 2)
    load.transaction(topic, [(1, "anew")])
    with pytest.raises(Exception, match=f"topic {topic} was deleted and created anew"):
        stream.run()
    assert [batch for batch in stream.run(failOnDataLoss="false") if batch] == [["anew"]]


def test_a_topic_that_was_created_again_and_filled_beyond_the_checkpoint_is_not_read_from_its_middle(
    stream: Stream, load: TopicLoad, topic: str
) -> None:
    stream.run()
    load.delete(topic)
    load.create(topic, 2)
    values = [f"anew{number:02}" for number in range(20)]
    load.transaction(topic, [(number % 2, value) for number, value in enumerate(values)])
    for _ in range(2):
        with pytest.raises(Exception, match=f"topic {topic} was deleted and created anew"):
            stream.run()
    accepted = stream.run(failOnDataLoss="false", maxRowsPerTrigger="7")
    assert sorted(value for batch in accepted for value in batch) == values
    # From here on the checkpoint is of the new one.
    load.transaction(topic, [(0, "more")])
    assert stream.run() == [["more"]]


def test_a_checkpoint_without_topic_ids_is_accepted(stream: Stream, load: TopicLoad, topic: str) -> None:
    stream.run()
    stream.forget_topic_ids()
    load.transaction(topic, [(1, "f")])
    assert stream.run() == [["f"]]
    load.delete(topic)
    load.create(topic, 2)
    with pytest.raises(Exception, match=f"topic {topic} was deleted and created anew"):
        stream.run()


def test_a_missing_topic_is_reported(spark: "SparkSession", load: TopicLoad) -> None:
    options: dict[str, Any] = {"bootstrap.servers": load.bootstrap, "subscribe": "nowhere"}
    with pytest.raises(Exception, match="topic nowhere does not exist"):
        spark.read.format("txnlog").options(**options).load().count()
