"""Starts queries in Spark's Real-time Mode that write each row once.

Owns the driver's part of one start. Always true: everything that can be refused is refused before the query runs, and
earlier runs are fenced before it does.
"""

import logging
import re
import threading
import uuid
from collections.abc import Mapping
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from eosin.client.client import Client
from eosin.client.errors import ClientError
from eosin.client.security.settings import SecuritySettingError, SecuritySettings, security_settings
from eosin.pipeline.common.errors import ConflictingSettings, MissingOffsets, PipelineError, PipelineFenced
from eosin.pipeline.common.loop_thread import LoopThread
from eosin.pipeline.common.security import connection_security
from eosin.pipeline.common.settings import OFFSETS_REFRESH_INTERVAL_MS
from eosin.pipeline.common.spark_connect import is_connect
from eosin.pipeline.realtime.checkpoint_entries import CheckpointEntries
from eosin.pipeline.realtime.plan import SOURCE, KafkaSource, Plan, leaves_out, read_plan
from eosin.pipeline.realtime.positions import WrittenPosition, starting_offsets
from eosin.pipeline.realtime.takeover import PartitionTakeover
from eosin.pipeline.realtime.writer_jar import writer_class
from eosin.protocol.names import TopicPartition

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

TRIGGER: Final = "real-time"
COMMIT_INTERVAL_MS: Final = 50
BATCH: Final = "5 minutes"
_HEADERS: Final = "array<struct<key:string,value:binary>>"
_COLUMNS: Final = (
    ("key", "binary"),
    ("value", "binary"),
    ("topic", "string"),
    ("partition", "int"),
    ("headers", _HEADERS),
)
"""The columns that `TxnWriter` takes after those of the source, in its order."""
_FASTEST_MS: Final = 1
_STEP_MS: Final = 1000
_SENTENCE: Final = re.compile(r"Exception: ([^\n]+)\n\s+at eosin\.realtime\.")
_FENCED: Final = "was taken over by another driver"
_ANEW: Final = "was deleted and created anew since"
_OUT_OF_RANGE: Final = re.compile(r"OffsetOutOfRangeException: [^\n]*is out of range for partition (\S+)")

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RealTimeSettings:
    """The settings of one pipeline."""

    pipeline: str
    bootstrap: str
    topic: str | None
    progress_topic: str
    commit_interval_ms: int
    transaction_timeout_ms: int
    task_timeout_ms: int
    request_timeout_ms: int
    adopt_checkpoint: bool
    client_settings: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Of TLS and logins, by Kafka's names."""
    refresh_ms: int = OFFSETS_REFRESH_INTERVAL_MS

    def check(self) -> None:
        """Raise ConflictingSettings for settings that contradict each other."""
        if self.commit_interval_ms < _FASTEST_MS:
            raise ConflictingSettings(f"commit_interval_ms is {self.commit_interval_ms}, and must be 1 or more")
        if self.commit_interval_ms * 2 > self.transaction_timeout_ms:
            raise ConflictingSettings(
                f"commit_interval_ms is {self.commit_interval_ms} and transaction_timeout_ms"
                f" {self.transaction_timeout_ms}: a transaction must be able to live twice as long as the interval"
            )
        if ":" in self.pipeline:
            raise ConflictingSettings(
                f"the pipeline is named {self.pipeline!r}: in real time its name is part of transactional ids, and has"
                " no colon"
            )

    def names(self, run: str) -> dict[str, str]:
        """The names and numbers that `TxnWriter` is given."""
        return {
            "pipeline": self.pipeline,
            "run": run,
            "progress": self.progress_topic,
            "interval.ms": str(self.commit_interval_ms),
            "refresh.ms": str(self.refresh_ms),
            "adopt": str(self.adopt_checkpoint).lower(),
            **({} if self.topic is None else {"topic": self.topic}),
        }

    def producer(self) -> dict[str, str]:
        """Settings of Kafka's Java producer."""
        return {
            **self.client_settings,
            "bootstrap.servers": self.bootstrap,
            "linger.ms": "0",
            "transaction.timeout.ms": str(self.transaction_timeout_ms),
            "request.timeout.ms": str(self.request_timeout_ms),
            # Both limits end a task, whose successor finds out what was committed.
            "delivery.timeout.ms": str(max(self.task_timeout_ms, self.request_timeout_ms)),
            "max.block.ms": str(self.task_timeout_ms),
            "reconnect.backoff.max.ms": "200",
        }


class RealTimeQuery:
    """The driver's part of a query: positions that no task has taken over yet."""

    def __init__(self, settings: RealTimeSettings) -> None:
        self._settings = settings
        self._loop = LoopThread(f"real time {settings.pipeline}")
        self._clients: list[Client] = []
        self._ended = threading.Event()
        self._watch: threading.Thread | None = None
        self._refresh: Future[None] | None = None
        self.failure: Exception | None = None
        """The error that has ended the query; known for certain after `close`."""

    def start(
        self, frame: "DataFrame", *, checkpoint: str, batch: str, options: Mapping[str, str], security: SecuritySettings
    ) -> "StreamingQuery":
        """Start the query. Raises a PipelineError or a ClientError before it runs."""
        settings, spark = self._settings, frame.sparkSession
        settings.check()
        check_real_time_session(spark)
        plan = read_plan(frame)
        plan.check()
        new_writer = writer_class(spark)
        try:
            source = plan.kafka_sources()[0]
            takeover = self._takeover(source, security)
            positions = self._loop.run(takeover.start())
            entries = CheckpointEntries.read(spark, checkpoint, len(plan.kafka_sources()))
            entries.check(checkpoint, positions)
            if not settings.adopt_checkpoint and not entries.has_begun:
                check_new_checkpoint(plan, positions, settings.pipeline)
            writer = new_writer(
                settings.names(str(uuid.uuid4())), settings.producer(), source.client_settings(), list(takeover.known)
            )
            query = self._start(frame, writer, checkpoint=checkpoint, batch=batch, options=options)
        except BaseException:
            self.close()
            raise
        self.watch(takeover, query)
        return query

    def watch(self, takeover: PartitionTakeover, query: "StreamingQuery") -> None:
        """Keep the positions that no task has until the query ends or `close`, in a thread."""
        self._watch = threading.Thread(target=self._keep_alive, args=(takeover, query), daemon=True)
        self._watch.start()

    def _takeover(self, source: KafkaSource, security: SecuritySettings) -> PartitionTakeover:
        output = self._client(self._settings.bootstrap, security)
        same = source.bootstrap == self._settings.bootstrap
        return PartitionTakeover(
            output,
            output if same else self._client(source.bootstrap, _security_of(source)),
            self._settings.pipeline,
            topic=self._settings.progress_topic,
            transaction_timeout_ms=self._settings.transaction_timeout_ms,
            adopt=self._settings.adopt_checkpoint,
            timeout_ms=self._settings.task_timeout_ms,
        )

    def _client(self, bootstrap: str, security: SecuritySettings) -> Client:
        client = Client(
            bootstrap,
            request_timeout_ms=self._settings.request_timeout_ms,
            retry_timeout_ms=self._settings.task_timeout_ms,
            security=connection_security(security),
        )
        self._clients.append(client)
        return client

    def _start(
        self, frame: "DataFrame", writer: Any, *, checkpoint: str, batch: str, options: Mapping[str, str]
    ) -> "StreamingQuery":
        there = set(frame.columns)
        columns = [f"{SOURCE}.{name}" for name in ("topic", "partition", "offset")]
        columns += [f"cast({name if name in there else 'null'} as {kind}) as {name}" for name, kind in _COLUMNS]
        stream = frame.selectExpr(*columns).writeStream.queryName(self._settings.pipeline)
        stream = stream.options(**dict(options)).option("checkpointLocation", checkpoint)
        trigger: Any = stream.outputMode("update").trigger  # its types do not know this trigger
        stream = trigger(realTime=batch)
        jwriter: Any = stream._jwrite  # a writer of rows in Java has no door in PySpark
        jwriter.foreach(writer)
        query: StreamingQuery = stream.start()
        return query

    def _keep_alive(self, takeover: PartitionTakeover, query: "StreamingQuery") -> None:
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException

        left_ms = self._settings.refresh_ms
        while not self._ended.is_set():
            try:
                if query.awaitTermination(_STEP_MS // 1000):
                    break
            except (PySparkException, Py4JError, OSError) as error:  # of the query, or the session is gone
                self.failure = reason_of(str(error)) or error
                break
            left_ms -= _STEP_MS
            if left_ms > 0:
                continue
            left_ms = self._settings.refresh_ms
            self._refresh = self._loop.begin(takeover.refresh())
            if self._ended.is_set():
                self._refresh.cancel()
            try:
                self._refresh.result()
            except CancelledError:
                break
            except (ClientError, PipelineError, TimeoutError) as error:
                log.warning("positions of pipeline %s could not be committed again: %s", self._settings.pipeline, error)
        self._close_clients()

    def close(self) -> None:
        """Close the connections. Requests that brokers do not answer at present are given up: the next start begins
        anew whatever they were about."""
        self._ended.set()
        if self._refresh is not None:
            self._refresh.cancel()
        watch, self._watch = self._watch, None
        if watch is not None:
            watch.join()
        self._close_clients()
        self._loop.close()

    def _close_clients(self) -> None:
        clients, self._clients = self._clients, []
        for each in clients:
            self._loop.run(each.close())


def _security_of(source: KafkaSource) -> SecuritySettings:
    try:
        return security_settings(source.client_settings())
    except SecuritySettingError as error:
        raise ConflictingSettings(f"the options of the source: {error}") from error


def reason_of(text: str) -> PipelineError | None:
    """The sentence for what Spark says of a query that failed: that of `TxnWriter`, or one for a source that has lost
    what comes next. None if there is none."""
    found = _SENTENCE.search(text)
    if found is not None:
        kind = PipelineFenced if _FENCED in found[1] else MissingOffsets if _ANEW in found[1] else PipelineError
        return kind(found[1])
    if lost := _OUT_OF_RANGE.search(text):
        return MissingOffsets(
            f"{lost[1]} does not have the offset any more that the query was about to read: the topic was deleted and"
            " created anew, or records were deleted before they were read; the next start says which"
        )
    return None


def check_real_time_session(spark: "SparkSession") -> None:
    """Raise ConflictingSettings for a session in which real time cannot work."""
    if is_connect(spark):
        raise ConflictingSettings(
            "this is a session of Spark Connect, and Real-time Mode needs a classic one: the sink is a class of Java"
            " that Connect has no way to hand over"
        )
    if spark.sparkContext.getConf().get("spark.speculation", "false") != "false":
        raise ConflictingSettings(
            "spark.speculation is true and must be false: copies of a task would fence each other"
        )
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    if "realTime" not in DataStreamWriter.trigger.__code__.co_varnames:
        raise ConflictingSettings(f"Spark {spark.version} has no Real-time Mode for Python: use Spark 4.3 or later")


def check_new_checkpoint(plan: Plan, positions: Mapping[TopicPartition, WrittenPosition], pipeline: str) -> None:
    """Raise MissingOffsets if a new checkpoint would begin behind what the pipeline has written."""
    by_topic = [(each.topics, each) for each in plan.kafka_sources()]
    behind = {
        partition
        for partition, position in positions.items()
        for topics, source in by_topic
        if (topics is None or partition.topic in topics)
        and leaves_out(source, partition.topic, partition.partition, position.next_offset)
    }
    if behind:
        raise MissingOffsets(
            f"the checkpoint is new, pipeline {pipeline!r} has written {min(behind)} up to offset"
            f" {positions[min(behind)].next_offset}, and the source begins elsewhere: read it with startingOffsets"
            f" earliest (what is written is skipped) or {starting_offsets(positions)}"
        )
