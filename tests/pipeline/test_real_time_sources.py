"""Real-time Mode with several sources, and with a topic that is deleted and created anew while a query reads it."""

import asyncio
import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from broker_process import BrokerProcess
from local_broker import ThreadedBroker
from topic_load import TopicLoad
from waiting import wait_until

from eosin.network.request_hooks import ObservedRequest, RequestHooks
from eosin.pipeline.common.errors import MissingOffsets
from eosin.protocol.keys import ApiKey

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from eosin.pipeline import TxnSink

pytest.importorskip("pyspark")

PIPELINE = "gathered"


class Gathering:
    """A query that copies topics of one partition each into one, with a reader for each topic."""

    def __init__(self, spark: "SparkSession", load: TopicLoad, folder: Path, topics: tuple[str, ...]) -> None:
        self.spark, self.load, self.folder, self.topics = spark, load, folder, topics
        for each in (*topics, "copied"):
            load.create(each)

    def frame(self) -> "DataFrame":
        frames = [self.read(each) for each in self.topics]
        whole = frames[0]
        for each in frames[1:]:
            whole = whole.union(each)
        return whole

    def read(self, topic: str) -> "DataFrame":
        options = {"kafka.bootstrap.servers": self.load.bootstrap, "subscribe": topic, "startingOffsets": "earliest"}
        rows = self.spark.readStream.format("kafka").options(**options, **{"kafka.isolation.level": "read_committed"})
        return rows.load().selectExpr("struct(topic, partition, offset) as source", "value")

    @contextlib.contextmanager
    def running(self, checkpoint: str, *, adopts: bool = False) -> Iterator[tuple["TxnSink", "StreamingQuery"]]:
        """The query, which is stopped in the middle of a batch."""
        from eosin.pipeline import TxnSink

        sink = TxnSink(PIPELINE, self.load.bootstrap, "copied", adopt_checkpoint=adopts)
        query = sink.start(
            self.frame(),
            checkpoint=str(self.folder / checkpoint),
            trigger="real-time",
            real_time_batch="1 minute",
            commit_interval_ms=20,
        )
        try:
            yield sink, query
        finally:
            query.stop()
            sink.close()

    def run(self, checkpoint: str, rows: int) -> None:
        """Run until the output has so many rows."""
        with self.running(checkpoint) as (_, query):
            self.wait_for(rows, query)

    def wait_for(self, rows: int, query: "StreamingQuery") -> None:
        wait_until(
            lambda: query.exception() is not None or len(self.copied()) >= rows,
            lambda: f"{self.copied()} {query.exception()}",
            every_s=0.2,
        )
        assert query.exception() is None

    def copied(self) -> list[bytes]:
        return self.load.values("copied", 1)


def test_a_union_of_two_topics_is_written_once_over_starts_with_their_checkpoint_and_without(
    with_kafka: "SparkSession", tmp_path: Path
) -> None:
    """Partitions and offsets of both topics are the same, so nothing but their names tells them apart."""
    with BrokerProcess(tmp_path / "broker", durability="memory") as broker:
        load = TopicLoad(broker.address)
        query = Gathering(with_kafka, load, tmp_path, ("apples", "pears"))
        load.transaction("apples", [(0, "a1"), (0, "a2"), (0, "a3")])
        load.transaction("pears", [(0, "p1")])
        query.run("first", 4)
        load.transaction("pears", [(0, "p2"), (0, "p3")])
        load.transaction("apples", [(0, "a4")])
        query.run("first", 7)
        load.transaction("apples", [(0, "a5")])
        load.transaction("pears", [(0, "p4")])
        query.run("second", 9)
        assert query.copied() == [b"a1", b"a2", b"a3", b"a4", b"a5", b"p1", b"p2", b"p3", b"p4"]


class HeldFetches(RequestHooks):
    """Keeps back the fetches of Spark's consumers."""

    def __init__(self) -> None:
        self.are_held = False
        self.held = 0

    async def begun(self, observed: ObservedRequest) -> None:
        if observed.api.key is ApiKey.FETCH and "spark" in (observed.context.client_id or ""):
            while self.are_held:
                self.held += 1
                await asyncio.sleep(0.01)


@pytest.mark.parametrize(
    ("rows", "why"),
    [
        pytest.param(1, "apples-0 does not have the offset any more", id="fewer rows than were read"),
        pytest.param(6, "topic apples was deleted and created anew since", id="more rows than were read"),
    ],
)
def test_a_topic_that_is_made_anew_under_a_query_ends_it_and_its_rows_wait_for_a_new_checkpoint(
    with_kafka: "SparkSession", tmp_path: Path, rows: int, why: str
) -> None:
    fetches = HeldFetches()
    # Spark's consumer would make the topic itself otherwise, before the test does.
    with ThreadedBroker(hooks=fetches, auto_create_topics_enable=False) as broker:
        load = TopicLoad(broker.address)
        query = Gathering(with_kafka, load, tmp_path, ("apples",))
        load.transaction("apples", [(0, "a1"), (0, "a2"), (0, "a3")])
        with query.running("first") as (sink, running):
            query.wait_for(3, running)
            fetches.are_held = True
            wait_until(lambda: fetches.held, lambda: str(running.status))
            load.delete("apples")
            load.create("apples")
            load.transaction("apples", [(0, f"new {each}") for each in range(rows)])
            fetches.are_held = False
            wait_until(lambda: not running.isActive, lambda: f"{running.status} {query.copied()}", every_s=0.2)
        assert query.copied() == [b"a1", b"a2", b"a3"]
        assert isinstance(sink.failure, MissingOffsets)
        assert why in str(sink.failure)
        with pytest.raises(MissingOffsets, match="deleted and created anew"), query.running("first"):
            pass
        with query.running("second", adopts=True) as (_, running):
            query.wait_for(3 + rows, running)
        assert query.copied() == sorted([b"a1", b"a2", b"a3", *(b"new %d" % each for each in range(rows))])
