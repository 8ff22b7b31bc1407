"""Real-time Mode in Java: a partition without rows is kept by whoever wrote it last, or taken back by the driver."""

import asyncio
import functools
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from broker_process import BrokerProcess
from topic_load import TopicLoad
from waiting import wait_until

from eosin.client.client import Client
from eosin.pipeline.common.group_offsets import committed_offsets
from eosin.pipeline.realtime.query import RealTimeSettings
from eosin.protocol.names import TopicPartition

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytest.importorskip("pyspark")

BUSY, SILENT = TopicPartition("words", 0), TopicPartition("words", 1)
REFRESH_MS = 500
"""Java refreshes a position so often; the driver does it each second, by its own steps."""


class Query:
    """A query that copies a topic of two partitions, and the rows that it is given."""

    def __init__(self, spark: "SparkSession", load: TopicLoad) -> None:
        self.spark, self.load = spark, load
        for topic in ("words", "copied"):
            load.create(topic, 2)
        self.written: list[str] = []

    def frame(self) -> "DataFrame":
        options = {"kafka.bootstrap.servers": self.load.bootstrap, "subscribe": "words", "startingOffsets": "earliest"}
        rows = self.spark.readStream.format("kafka").options(**options, **{"kafka.isolation.level": "read_committed"})
        return rows.load().selectExpr("struct(topic, partition, offset) as source", "partition", "value")

    def write(self, partition: TopicPartition) -> None:
        self.written.append(f"row {len(self.written):03}")
        self.load.transaction("words", [(partition.partition, self.written[-1])])

    def is_complete(self) -> bool:
        return self.load.values("copied", 2) == sorted(each.encode() for each in self.written)

    def position(self, partition: TopicPartition) -> dict[str, Any]:
        """The fields of a committed position."""

        async def read() -> dict[str, Any]:
            async with Client(self.load.bootstrap) as client:
                kept = await committed_offsets(client, "silent", [partition])
            return dict(json.loads(kept[partition].metadata)) if kept else {"owner": None}

        return asyncio.run(read())

    def forget(self, partition: TopicPartition) -> None:
        """Have Java give a partition up as an executor does that has been idle for long, or is gone: without a word."""
        jvm: Any = self.spark._jvm
        loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
        writer = jvm.java.lang.Class.forName("eosin.realtime.TxnWriter", True, loader)
        runs = list(field_of(writer, "RUNS").values())
        held = [each for run in runs for each in field_of(run, "partitions").values()]
        (found,) = [each for each in held if str(field_of(each, "source")) == str(partition)]
        give_up = found.getClass().getDeclaredMethod("giveUp", None)
        give_up.setAccessible(True)
        give_up.invoke(found, None)


def field_of(of: Any, name: str) -> Any:
    """A private field of an object of Java, or of a class itself."""
    kind = of if str(of.getClass().getName()) == "java.lang.Class" else of.getClass()
    field = kind.getDeclaredField(name)
    field.setAccessible(True)
    return field.get(None if kind is of else of)


def test_a_partition_without_rows_is_kept_then_taken_back_by_the_driver_and_given_to_the_next_row(
    with_kafka: "SparkSession", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from eosin.pipeline import TxnSink

    monkeypatch.setattr(
        "eosin.pipeline.sink.sink.RealTimeSettings", functools.partial(RealTimeSettings, refresh_ms=REFRESH_MS)
    )
    with BrokerProcess(tmp_path / "broker", durability="memory") as broker:
        copy = Query(with_kafka, TopicLoad(broker.address))
        sink = TxnSink("silent", broker.address, "copied")
        for partition in (BUSY, SILENT):
            copy.write(partition)
        query = sink.start(
            copy.frame(), checkpoint=str(tmp_path / "checkpoint"), trigger="real-time", real_time_batch="5 seconds"
        )

        def until(true: Any) -> None:
            wait_until(
                lambda: query.exception() is not None or true(),
                lambda: f"{query.status} {query.lastProgress} {copy.position(SILENT)}",
                every_s=0.2,
            )
            assert query.exception() is None

        try:
            until(copy.is_complete)
            kept = copy.position(SILENT)
            until(lambda: copy.position(SILENT)["at"] > kept["at"])
            assert copy.position(SILENT)["owner"] == kept["owner"], "the task keeps its position, although no row comes"
            copy.write(BUSY)
            copy.forget(SILENT)
            until(lambda: copy.position(SILENT)["owner"] == "driver")
            assert copy.position(SILENT)["offset"] == kept["offset"]
            batch = query.lastProgress["batchId"]
            until(lambda: query.lastProgress["batchId"] > batch)  # its task is a new one, as on another executor
            for partition in (SILENT, BUSY, SILENT):
                copy.write(partition)
            until(copy.is_complete)
            until(lambda: copy.position(SILENT)["owner"] not in ("driver", kept["owner"]))
        finally:
            query.stop()
            sink.close()
        assert sink.failure is None
        assert copy.is_complete()
