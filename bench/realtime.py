"""The latency of Real-time Mode: from the moment before a row is written into the input to the moment at which a reader
of committed rows has it from the output.

`TxnSink` commits every 50 ms, each row once; Spark's own Kafka sink, beside it, repeats rows after a failure. 200 rows
a second go through one query with batches of ten seconds, so that several ends of batches are among the rows, and
through another whose batch does not end: the steady state. Goals: p99
below 250 ms in every case, below 100 ms in steady state.
"""

import asyncio
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any, Final

import maven
from broker_process import BrokerProcess

from bench.commits import make_topic
from bench.report import Row, percentile
from eosin.client.client import Client
from eosin.client.consumer import Consumer
from eosin.client.producer import Producer
from eosin.pipeline import TxnSink, session
from eosin.pipeline.common.errors import MissingDependency
from eosin.pipeline.spark.session import require_java
from eosin.protocol.names import TopicPartition
from eosin.protocol.records.batch import NewRecord

GROUP: Final = "Real-time Mode (Spark)"
PARTITIONS: Final = 2
EVERY_S: Final = 0.005
COMMIT_INTERVAL_MS: Final = 50
_ONCE: Final = "exactly once"
_SPARK: Final = "Spark's Kafka sink"
_BATCHES: Final = {"10 seconds": 250.0, "10 minutes": 100.0}
"""The length of a batch, and the goal for p99 in ms."""
_WAITS_S: Final = 60.0
_STEP_S: Final = 0.1


class Bench:
    """A session and a broker."""

    def __init__(self, spark: Any, bootstrap: str, folder: Path) -> None:
        self._spark = spark
        self._bootstrap = bootstrap
        self._folder = folder
        self._turns = 0

    def turn(self, way: str, batch: str, *, warm_s: float, seconds: float) -> list[float]:
        """The latency of each row in ms, after some seconds that do not count."""
        self._turns += 1
        source, target = f"from-{self._turns}", f"to-{self._turns}"
        for topic in (source, target):
            make_topic(self._bootstrap, topic, PARTITIONS)
        sink = TxnSink(f"realtime-{self._turns}", self._bootstrap, target) if way == _ONCE else None
        query = self._start(sink, source, target, batch)
        try:
            return asyncio.run(self._measure(source, target, warm_s, seconds))
        finally:
            query.stop()
            if sink is not None:
                sink.close()

    def _start(self, sink: TxnSink | None, source: str, target: str, batch: str) -> Any:
        options = {"kafka.bootstrap.servers": self._bootstrap, "kafka.isolation.level": "read_committed"}
        reader = self._spark.readStream.format("kafka").options(**options, subscribe=source)
        frame = reader.option("startingOffsets", "earliest").load()
        checkpoint = str(self._folder / f"checkpoint-{self._turns}")
        if sink is not None:
            rows = frame.selectExpr("struct(topic, partition, offset) as source", "key", "value")
            return sink.start(
                rows,
                checkpoint=checkpoint,
                trigger="real-time",
                real_time_batch=batch,
                commit_interval_ms=COMMIT_INTERVAL_MS,
            )
        writer = frame.select("key", "value").writeStream.format("kafka").options(**options, topic=target)
        return writer.option("checkpointLocation", checkpoint).outputMode("update").trigger(realTime=batch).start()

    async def _measure(self, source: str, target: str, warm_s: float, seconds: float) -> list[float]:
        took: list[tuple[float, float]] = []
        sent, all_sent = 0, False
        async with Client(self._bootstrap) as writing, Client(self._bootstrap) as reading:
            consumer = Consumer(reading)
            await consumer.assign_from([TopicPartition(target, index) for index in range(PARTITIONS)])

            async def read() -> None:
                while not all_sent or len(took) < sent:
                    for each in await consumer.poll(20):
                        begun = float(each.record.value or b"0")
                        took.append((begun, (time.perf_counter() - begun) * 1000))

            reader = asyncio.create_task(read())
            producer = Producer(writing)
            await producer.init()
            # The first query of a session takes its time to begin: that is no latency of a row.
            await producer.send(TopicPartition(source, 0), [NewRecord(b"", b"0")], timestamp=-1)
            sent = 1
            while not took and not reader.done():
                await asyncio.wait([reader], timeout=_STEP_S)
            begun = time.perf_counter()
            while (now := time.perf_counter()) < begun + warm_s + seconds:
                record = NewRecord(str(sent).encode(), repr(now).encode())
                await producer.send(TopicPartition(source, sent % PARTITIONS), [record], timestamp=-1)
                sent += 1
                await asyncio.sleep(max(0.0, begun + (sent - 1) * EVERY_S - time.perf_counter()))
            all_sent = True
            await asyncio.wait([reader], timeout=_WAITS_S)
            reader.cancel()
        if len(took) != sent:
            raise RuntimeError(f"{len(took)} rows are there of {sent}")
        return [each for at, each in took if at > begun + warm_s]


def _measure(bench: Bench, quick: bool) -> list[Row]:
    rows = []
    warm_s, seconds = (12.0, 22.0) if quick else (40.0, 60.0)
    for batch, goal in _BATCHES.items():
        took = {way: bench.turn(way, batch, warm_s=warm_s, seconds=seconds) for way in (_ONCE, _SPARK)}
        for share in (0.5, 0.99, 1.0):
            ours, theirs = (percentile(took[way], share) for way in (_ONCE, _SPARK))
            name = f"latency p{share * 100:.0f}, batches of {batch}"
            rows.append(Row(GROUP, name, ours, "ms", theirs, _SPARK))
            if share == 0.99:
                rows.append(Row(GROUP, f"{name}: the goal", ours, "ms", budget=goal))
    return rows


def run(quick: bool = False) -> list[Row]:
    """Both ways by both lengths of batches, on one broker that leaves flushing to the system."""
    try:
        require_java()
        jars = maven.jars("spark-kafka")
    except (MissingDependency, maven.NotHere) as missing:
        print(f"Real-time Mode is not measured: {missing}")
        return []
    folder = Path(tempfile.mkdtemp(prefix="eosin-realtime-bench-"))
    settings = {
        "spark.jars": ",".join(str(jar) for jar in jars.glob("*.jar")),
        "spark.ui.enabled": "false",
        "spark.log.level": "OFF",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
    }
    try:
        with BrokerProcess(folder / "data") as broker:
            spark = session("bench", master=f"local[{PARTITIONS}]", conf=settings)
            try:
                return _measure(Bench(spark, broker.address, folder), quick)
            finally:
                spark.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
