"""The cost of exactly-once for a Spark query: `TxnSink` on both routes beside plain, at-least-once writes to one
broker.

Every way writes the same rows, which Spark makes itself (`rate-micro-batch`), so that no source dilutes the difference.
The plain writes have an idempotent producer and no transaction: the same client on the same route, and Spark's own
Kafka sink if its jars are here. Goal at one batch per second: 10 % at most, judged where it hurts, in batches that
follow each other and are so large that the plain write takes a second for one. Then a trigger of one second with a
quarter of the rows, for the time that a micro-batch takes. The ways take turns; each turn's first batches do not count.
A turn has a topic of its own, in which every row must be committed at its end: once if the way says so.
"""

import shutil
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
from bench.plain_sink import PlainSink
from bench.report import Row, percentile
from eosin.pipeline import TxnSink, session
from eosin.pipeline.common.errors import MissingDependency
from eosin.pipeline.source.streams import read_stream
from eosin.pipeline.spark.session import require_java

GROUP: Final = "Pipeline (Spark)"
TOPIC: Final = "out"
PARTITIONS: Final = 4
CORES: Final = 2
WARM: Final = 15
"""Batches of each way before anything is measured: Java compiles what planning a query takes."""
UNCOUNTED: Final = 2
"""Batches at the start of a turn: connections are made, the pipeline is taken over."""
_PLAIN: Final = {"driver": "plain on the driver", "executors": "plain on executors"}
_ONCE: Final = {"driver": "exactly once on the driver", "executors": "exactly once on executors"}
_SPARK: Final = "Spark's Kafka sink"
_TURN_LIMIT_S: Final = 120.0


@dataclass(slots=True)
class Figures:
    """The figures of one way, all turns together."""

    rows: int = 0
    cpu_s: float = 0.0
    took_ms: list[float] = field(default_factory=list)
    """Of each batch, as Spark tells it: from its trigger to its commit in the checkpoint."""

    @property
    def rate(self) -> float:
        """Rows per second of batches that follow each other."""
        return self.rows / sum(self.took_ms) * 1000


class Bench:
    """A session and a broker, and the turns of the ways."""

    def __init__(self, spark: Any, bootstrap: str, folder: Path) -> None:
        self._spark = spark
        self._bootstrap = bootstrap
        self._folder = folder
        self._turns = 0

    def turn(self, way: str, rows: int, batches: int, figures: Figures, trigger: str | None = None) -> Figures:
        """Let one way write so many batches of so many rows."""
        self._turns += 1
        topic = f"{TOPIC}-{self._turns}"
        make_topic(self._bootstrap, topic, PARTITIONS)
        once: list[int] = []
        sink, query = self._start(way, rows, trigger, topic, once)
        try:
            self._await(query, UNCOUNTED)
            cpu = cpu_of_children() + time.process_time()
            told = self._await(query, UNCOUNTED + batches)[UNCOUNTED : UNCOUNTED + batches]
            figures.cpu_s += cpu_of_children() + time.process_time() - cpu
        finally:
            query.stop()
            if sink is not None:
                sink.close()
        self._check(way, topic, sum(once), sum(each.numInputRows for each in query.recentProgress))
        figures.rows += sum(each.numInputRows for each in told)
        figures.took_ms += [float(each.durationMs["triggerExecution"]) for each in told]
        return figures

    def _check(self, way: str, topic: str, reported: int, given: int) -> None:
        """No figure from rows that were lost. What `stop` has interrupted may be there as well."""
        found = committed_rows(self._bootstrap, topic)
        if found < given or (way in _ONCE.values() and found != reported):
            raise RuntimeError(f"{way}: {found} rows are there of {given}, and {reported} were reported")

    def _start(
        self, way: str, rows: int, trigger: str | None, topic: str, once: list[int]
    ) -> tuple[TxnSink | PlainSink | None, Any]:
        """`once` is given the rows of each transaction."""
        name, checkpoint = f"bench-{self._turns}", str(self._folder / f"checkpoint-{self._turns}")
        source = self._spark.readStream.format("rate-micro-batch").option("rowsPerBatch", rows)
        made = source.option("numPartitions", CORES).load()
        frame = made.selectExpr("cast(value as string) as key", "lpad(cast(value as string), 100, 'x') as value")
        for route, each in _ONCE.items():
            if way == each:
                sink = TxnSink(
                    name,
                    self._bootstrap,
                    topic,
                    "driver" if route == "driver" else "executors",
                    on_batch=lambda report: once.append(report.rows),
                )
                return sink, sink.start(frame, checkpoint=checkpoint, trigger=trigger)
        writer = frame.writeStream.option("checkpointLocation", checkpoint)
        if trigger is not None:
            writer = writer.trigger(processingTime=trigger)
        for route, each in _PLAIN.items():
            if way == each:
                plain = PlainSink(self._bootstrap, topic, route)
                return plain, writer.foreachBatch(plain).start()
        return None, writer.format("kafka").option("kafka.bootstrap.servers", self._bootstrap).option(
            "topic", topic
        ).start()

    def _await(self, query: Any, batches: int) -> list[Any]:
        end = time.monotonic() + _TURN_LIMIT_S
        while (last := query.lastProgress) is None or last.batchId + 1 < batches:
            if not query.isActive or time.monotonic() > end:
                raise RuntimeError(f"the query came to {last} instead of {batches} batches: {query.exception()}")
            time.sleep(0.05)
        return list(query.recentProgress)


def _measure(bench: Bench, ways: list[str], quick: bool) -> list[Row]:
    for way in ways:
        bench.turn(way, 10_000, WARM, Figures())
    second = 50_000
    for _ in range(3):
        second = max(10_000, int(bench.turn(_PLAIN["driver"], second, 3, Figures()).rate) // 1000 * 1000)
    full, paced = ({way: Figures() for way in ways} for _ in range(2))
    for number in range(1 if quick else 2):
        for way in ways if number % 2 == 0 else reversed(ways):
            bench.turn(way, second, 3 if quick else 5, full[way])
    for way in ways:
        bench.turn(way, second // 4, 4 if quick else 12, paced[way], "1 second")
    rows = []
    for route, once in _ONCE.items():
        for plain in [_PLAIN[route], *([_SPARK] if _SPARK in ways else [])]:
            goal = 0.91 if plain != _SPARK else None  # another language: no measure of transactions
            rows.append(Row(GROUP, f"{once}, {second:,} rows a batch", full[once].rate, "rows/s", full[plain].rate,
                            plain, goal, higher_is_better=True))  # fmt: skip
            cpu = [each.cpu_s / each.rows * 1e6 for each in (full[once], full[plain])]
            rows.append(Row(GROUP, f"CPU of everything per million rows, {once}", cpu[0], "s", cpu[1], plain))
            for share in (0.5, 0.99):
                took = [percentile(each.took_ms, share) for each in (paced[once], paced[plain])]
                name = f"time of a micro-batch p{share * 100:.0f}, {second // 4:,} rows each second, {once}"
                rows.append(Row(GROUP, name, took[0], "ms", took[1], plain))
    return rows


def _has_connector(spark: Any, bootstrap: str) -> bool:
    try:
        read_stream(spark, bootstrap=bootstrap, topics=TOPIC, source="jvm")
    except MissingDependency:
        return False
    return True


def run(quick: bool = False) -> list[Row]:
    """All ways, in turns, on one broker that leaves flushing to the system."""
    settings = {
        "spark.sql.shuffle.partitions": str(PARTITIONS),
        "spark.ui.enabled": "false",
        "spark.log.level": "OFF",  # it tells at length of each query that is stopped in a batch
        "spark.driver.extraJavaOptions": "-Xss16m",  # and looks through what Python says of it, in a deep recursion
    }
    ways = [*_PLAIN.values(), *_ONCE.values()]
    try:
        require_java()
    except MissingDependency as missing:
        print(f"pipelines are not measured: {missing}")
        return []
    try:
        settings["spark.jars"] = ",".join(str(jar) for jar in maven.jars("spark-kafka").glob("*.jar"))
        ways.append(_SPARK)
    except maven.NotHere as missing:
        print(f"{_SPARK} is not measured: {missing}")
    folder = Path(tempfile.mkdtemp(prefix="eosin-pipeline-"))
    try:
        with BrokerProcess(folder / "data") as broker:
            make_topic(broker.address, TOPIC, PARTITIONS)
            spark = session("bench", master=f"local[{CORES}]", conf=settings)
            try:
                if _SPARK in ways and not _has_connector(spark, broker.address):
                    print(f"{_SPARK} is not measured: this process had a session before, without its jars")
                    ways.remove(_SPARK)
                return _measure(Bench(spark, broker.address, folder), ways, quick)
            finally:
                spark.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
