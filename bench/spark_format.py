"""`format("eosin")` beside Spark's own Kafka source and sink, in one session and with one broker.

Small micro-batches (1,000 rows) and large ones (a million) that follow each other, and a read into nothing; time and
CPU of everything, the broker's included. The rows of a write come from Spark itself (`rate-micro-batch`). Spark's sink
is at least once, its source reads committed rows here, as ours does. The ways take turns, and each turn has a topic and
a checkpoint of its own; its first batches do not count. Figures are medians, since the machine may do other things.
Goals: 1,000 rows in 1.25 times the time of Spark's sink, route `executors` of `TxnSink` in 1.3 times; a million rows
and reading as fast as Spark's own.
"""

import shutil
import statistics
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import maven
from broker_process import BrokerProcess

from bench.audit import cpu_of_children
from bench.commits import make_topic
from bench.committed import committed_rows
from bench.report import Row
from eosin.pipeline import TxnSink, register, session
from eosin.pipeline.common.errors import MissingDependency
from eosin.pipeline.spark.session import require_java

GROUP: Final = 'format("eosin") on Spark'
PARTITIONS: Final = 4
CORES: Final = 2
SMALL: Final = 1_000
LARGE: Final = 1_000_000
EOSIN: Final = 'format("eosin")'
SPARK: Final = 'format("kafka")'
EXECUTORS: Final = "TxnSink, route executors"
WAYS: Final = (SPARK, EOSIN, EXECUTORS)
_NAMES: Final = {SPARK: "kafka", EOSIN: "eosin"}
_UNCOUNTED: Final = 2
"""Batches at the start of a turn: connections are made, the pipeline is taken over."""
_WARM: Final = 25
"""Small batches of each way before anything is measured: Java compiles what planning a query takes."""
_TURN_LIMIT_S: Final = 300.0
_GOALS: Final = {(EOSIN, SMALL): 1.25, (EXECUTORS, SMALL): 1.3, (EOSIN, LARGE): 1.0}


@dataclass(slots=True)
class Figures:
    """The figures of one way, all turns together."""

    took_ms: list[float] = field(default_factory=list)
    """Of each batch, from its trigger to its commit in the checkpoint; of each read."""
    writing_ms: list[float] = field(default_factory=list)
    """The part of each batch that is the sink's: `addBatch`. In the rest of the time Spark plans the batch and notes
    it in its checkpoint, whatever the sink."""
    cpu_s: list[float] = field(default_factory=list)
    """Of each turn, for a batch or a read."""


class Bench:
    """A session, a broker, and the turns of the ways."""

    def __init__(self, spark: Any, bootstrap: str, folder: Path) -> None:
        self._spark = spark
        self._options = {"kafka.bootstrap.servers": bootstrap}
        self._bootstrap = bootstrap
        self._folder = folder
        self._turns = 0

    def write(self, way: str, rows: int, batches: int, figures: Figures) -> str:
        """Let one way write so many batches; returns the topic."""
        self._turns += 1
        topic = f"out-{self._turns}"
        make_topic(self._bootstrap, topic, PARTITIONS)
        sink, query = self._start(way, rows, topic)
        try:
            self._await(query, _UNCOUNTED)
            first, cpu = query.lastProgress.batchId + 1, cpu_of_children() + time.process_time()
            last = first + batches
            counted = [each for each in self._await(query, last) if first <= each.batchId < last]
            cpu = cpu_of_children() + time.process_time() - cpu
        finally:
            query.stop()
            if sink is not None:
                sink.close()
        figures.took_ms += [float(each.durationMs["triggerExecution"]) for each in counted]
        figures.writing_ms += [float(each.durationMs["addBatch"]) for each in counted]
        figures.cpu_s.append(cpu / len(counted))
        given = sum(each.numInputRows for each in query.recentProgress)
        if (found := committed_rows(self._bootstrap, topic)) < given:
            raise RuntimeError(f"{way}: {found} rows are there of {given}")
        return topic

    def _start(self, way: str, rows: int, topic: str) -> tuple[TxnSink | None, Any]:
        source = self._spark.readStream.format("rate-micro-batch").option("rowsPerBatch", rows)
        made = source.option("numPartitions", CORES).load()
        frame = made.selectExpr("cast(value as string) as key", "lpad(cast(value as string), 100, 'x') as value")
        checkpoint = str(self._folder / f"checkpoint-{self._turns}")
        if way == EXECUTORS:
            sink = TxnSink(f"bench-{self._turns}", self._bootstrap, topic, "executors")
            return sink, sink.start(frame, checkpoint=checkpoint)
        writer = frame.writeStream.format(_NAMES[way]).options(**self._options, topic=topic)
        return None, writer.option("checkpointLocation", checkpoint).start()

    def _await(self, query: Any, batches: int) -> list[Any]:
        end = time.monotonic() + _TURN_LIMIT_S
        while (last := query.lastProgress) is None or last.batchId + 1 < batches:
            if not query.isActive or time.monotonic() > end:
                raise RuntimeError(f"the query came to {last} instead of {batches} batches: {query.exception()}")
            time.sleep(0.02)
        return list(query.recentProgress)

    def read(self, way: str, topic: str, rows: int, figures: Figures) -> None:
        """Read a topic into nothing."""
        reader = self._spark.read.format(_NAMES[way]).options(**self._options, subscribe=topic)
        frame = reader.option("kafka.isolation.level", "read_committed").load()
        cpu, begun = cpu_of_children() + time.process_time(), time.monotonic()
        frame.write.format("noop").mode("append").save()
        figures.took_ms.append((time.monotonic() - begun) * 1000)
        figures.cpu_s.append(cpu_of_children() + time.process_time() - cpu)
        if figures.took_ms[1:]:
            return
        if (found := frame.count()) < rows:
            raise RuntimeError(f"{way}: {found} rows were read of {rows}")


def _measure(bench: Bench, quick: bool) -> list[Row]:
    for way in WAYS:
        bench.write(way, SMALL, _WARM, Figures())
    small, large, reading = ({way: Figures() for way in WAYS} for _ in range(3))
    topic = ""
    for number in range(1 if quick else 3):
        for way in WAYS if number % 2 == 0 else reversed(WAYS):
            bench.write(way, SMALL, 10 if quick else 20, small[way])
            topic = bench.write(way, LARGE, 1 if quick else 2, large[way])
    for number in range(2 if quick else 6):
        for way in (SPARK, EOSIN) if number % 2 == 0 else (EOSIN, SPARK):
            bench.read(way, topic, LARGE, reading[way])
    rows = []
    for count, found in ((SMALL, small), (LARGE, large)):
        for way in (EOSIN, EXECUTORS):
            rows += _rows(f"a micro-batch of {count:,} rows, {way}", found[way], found[SPARK], _GOALS.get((way, count)))
    return rows + _rows(f"reading {LARGE:,} rows and more, {EOSIN}", reading[EOSIN], reading[SPARK], 1.0)


def _rows(name: str, found: Figures, reference: Figures, goal: float | None) -> list[Row]:
    took = [statistics.median(each.took_ms) for each in (found, reference)]
    cpu = [statistics.median(each.cpu_s) for each in (found, reference)]
    rows = [
        Row(GROUP, f"time of {name}", took[0], "ms", took[1], SPARK, goal),
        Row(GROUP, f"CPU of {name}", cpu[0], "s", cpu[1], SPARK),
    ]
    if found.writing_ms:
        writing = [statistics.median(each.writing_ms) for each in (found, reference)]
        rows.insert(1, Row(GROUP, f"addBatch of {name}", writing[0], "ms", writing[1], SPARK))
    return rows


def run(quick: bool = False) -> list[Row]:
    """All ways, in turns, on one broker that leaves flushing to the system."""
    try:
        require_java()
        jars = ",".join(str(jar) for jar in maven.jars("spark-kafka").glob("*.jar"))
    except (MissingDependency, maven.NotHere) as missing:
        print(f"the format is not measured: {missing}")
        return []
    settings = {
        "spark.sql.shuffle.partitions": str(PARTITIONS),
        "spark.ui.enabled": "false",
        "spark.log.level": "OFF",  # it tells at length of each query that is stopped in a batch
        "spark.driver.extraJavaOptions": "-Xss16m",
        "spark.jars": jars,
    }
    folder = Path(tempfile.mkdtemp(prefix="eosin-format-"))
    try:
        with BrokerProcess(folder / "data") as broker:
            spark = session("bench", master=f"local[{CORES}]", conf=settings)
            try:
                register(spark)
                return _measure(Bench(spark, broker.address, folder), quick)
            finally:
                spark.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
