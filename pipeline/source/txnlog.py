"""`txnlog`: a Spark source for topics, streaming and batch, without a jar.

    spark.readStream.format("txnlog").option("bootstrap.servers", ...).option("subscribe", "orders").load()

Always true: one Spark partition reads one topic partition; the checkpoint alone holds the position of a stream, with
the ids of its topics, so that offsets of a deleted topic are not taken for offsets of a new topic of that name; and
readers are sent to tasks without their connections.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, Self

from eosin.client.client import Client
from eosin.pipeline.common.errors import DataLoss, require_spark
from eosin.pipeline.common.loop_thread import LoopThread
from eosin.pipeline.common.progress_reports import REMAINING, SKIPS
from eosin.pipeline.common.prompt_worker import SentToTasks
from eosin.pipeline.common.retrying_client import RetryingClient
from eosin.pipeline.common.security import connection_security
from eosin.pipeline.common.task_timeouts import TaskTimeouts
from eosin.pipeline.common.topic_partitions import FoundPartitions
from eosin.pipeline.common.worker_heap import exempt_modules_from_collection
from eosin.pipeline.source.end_offsets import EndOffsets
from eosin.pipeline.source.log_offsets import LogOffsets, cut, divided, limited
from eosin.pipeline.source.options import (
    EARLIEST,
    LATEST,
    CheckpointJson,
    Offsets,
    Position,
    SourceOptions,
    Timestamps,
    from_json,
    recreated_topics,
    to_json,
    topic_ids_of,
)
from eosin.pipeline.source.range_reader import RangeReader, to_arrow
from eosin.protocol.names import TopicPartition

require_spark()

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition  # noqa: E402
from pyspark.sql.streaming.datasource import (  # noqa: E402
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType  # noqa: E402

NAME: Final = "txnlog"
SCHEMA: Final = (
    "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, timestampType int, "
    "headers array<struct<key: string, value: binary>>"
)


class TxnLog(DataSource):
    """The data source to register with Spark."""

    @classmethod
    def name(cls) -> str:
        """The name for `format`."""
        return NAME

    def schema(self) -> str:
        """The columns of Spark's own Kafka source."""
        return SCHEMA

    def reader(self, schema: StructType) -> "TxnLogReader":
        """For `spark.read`."""
        return TxnLogReader(SourceOptions.parse(self.options), schema)

    def streamReader(self, schema: StructType) -> "TxnLogStreamReader":
        """For `spark.readStream`."""
        return TxnLogStreamReader(SourceOptions.parse(self.options), schema)


class LogRange(InputPartition):
    """The range that one task reads."""

    def __init__(
        self, partition: TopicPartition, start: int, end: int, task_timeout_ms: int, topic_id: str | None = None
    ) -> None:
        self.partition = partition
        self.topic_id = topic_id
        """The id of the topic at planning; None if it is not known."""
        self.start = start
        self.end = end
        self.task_timeout_ms = task_timeout_ms
        """The time for which the partition may keep timing out before its final attempt."""


class SourcePosition(NamedTuple):
    """The next offset of each partition, and the ids of the topics."""

    offsets: dict[TopicPartition, int]
    topic_ids: dict[str, str]

    @classmethod
    def of(cls, json: CheckpointJson) -> Self:
        """The position in a checkpoint."""
        return cls(from_json(json), topic_ids_of(json))

    def json(self) -> CheckpointJson:
        """For a checkpoint."""
        return to_json(self.offsets, self.topic_ids)


class _Planning:
    """The connections, and the timers of the partitions (KIP-572), which only the planning process has."""

    def __init__(self, source: SourceOptions) -> None:
        self.loop = LoopThread(NAME)
        self.timeouts = TaskTimeouts(source.task_timeout_ms, source.retry_backoff_ms)
        limit_ms = source.request_timeout_ms
        self.client = RetryingClient(
            source.bootstrap,
            self.timeouts,
            source.topics or (str(source.pattern),),
            request_timeout_ms=limit_ms,
            security=source.security,
        )
        self.offsets = LogOffsets(self.client, source)
        self._asking = Client(
            source.bootstrap,
            request_timeout_ms=limit_ms,
            retry_timeout_ms=limit_ms,
            security=connection_security(source.security),
        )
        self.ends = EndOffsets(self._asking, source.isolation, self.timeouts)

    def close(self) -> None:
        """Close everything."""
        self.loop.run(self._close())
        self.loop.close()

    async def _close(self) -> None:
        await self.ends.close()
        await self._asking.close()
        await self.client.close()


class _LogReading(SentToTasks):
    """The common part of both readers: planning, in the planning process, and reading, in tasks."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        self.source = options
        self.columns = schema
        self._planning: _Planning | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_planning": None}

    @property
    def planning(self) -> "_Planning":
        """The connections for planning, opened on first use."""
        if self._planning is None:
            self._planning = _Planning(self.source)
        return self._planning

    def call(self, question: str, *arguments: Any) -> Any:
        """The result of a method of `LogOffsets`."""
        planning = self.planning
        return planning.loop.run(getattr(planning.offsets, question)(*arguments))

    def close(self) -> None:
        """Close the connections for planning."""
        if self._planning is not None:
            self._planning.close()
        self._planning = None

    def offsets(self, wanted: Position, *, others: str = EARLIEST) -> SourcePosition:
        """The earliest, latest or given offsets. Partitions that are not given are at `others`."""
        there = self.call("partitions")
        planning = self.planning
        found = planning.loop.run(planning.offsets.positions(there.partitions, wanted, others=others))
        return SourcePosition(found, there.topic_ids)

    def ranges(self, start: Offsets, end: Offsets, topic_ids: Mapping[str, str]) -> list[LogRange]:
        """A range for each partition with offsets between two positions. `topic_ids` are the ids at the end. Lost
        records are noticed only when a range is read, since the sink may skip a batch whose records are gone."""
        begins = {each: start[each] for each, stop in end.items() if each in start and start[each] <= stop}
        others = [each for each in end if each not in begins]  # new, or deleted and created again
        if others:
            begins |= self.call("earliest", others)
        remaining = self.planning.timeouts.remaining_ms
        moving = [(each, stop) for each, stop in sorted(end.items()) if begins[each] < stop]
        pieces = divided(
            [stop - begins[each] for each, stop in moving],
            at_least=self.source.min_partitions,
            at_most=self.source.max_records_per_partition,
        )
        return [
            LogRange(
                each,
                first,
                last,
                remaining(str(each)) or self.source.task_timeout_ms,
                topic_ids.get(each.topic),
            )
            for (each, stop), count in zip(moving, pieces, strict=True)
            for first, last in cut(begins[each], stop, count)
        ]

    def batches(self, piece: InputPartition) -> Iterator[Any]:
        """The Arrow batches of one range."""
        from pyspark.sql.pandas.types import to_arrow_schema

        assert isinstance(piece, LogRange)
        schema = to_arrow_schema(self.columns, timezone="UTC")
        reader = RangeReader(
            self.source,
            piece.partition,
            piece.start,
            piece.end,
            topic_id=piece.topic_id,
            task_timeout_ms=piece.task_timeout_ms,
        )
        for part in reader:
            yield to_arrow(part, schema)
        exempt_modules_from_collection()


class TxnLogReader(DataSourceReader):
    """Reads topics once, as they are now."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        self._reading = _LogReading(options, schema)

    def partitions(self) -> Sequence[InputPartition]:
        """A range for each topic partition with offsets to read."""
        reading = self._reading
        try:
            ending = reading.source.ending
            # A time for some partitions does not end the others.
            end = reading.offsets(ending, others=LATEST if isinstance(ending, Timestamps) else EARLIEST)
            start = reading.offsets(reading.source.starting)
            stops = {each: stop for each, stop in end.offsets.items() if each in start.offsets}
            return reading.ranges(start.offsets, stops, end.topic_ids)
        finally:
            reading.close()

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """The Arrow batches of one range. Raises DataLoss when its records are gone."""
        return self._reading.batches(partition)


class TxnLogStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads topics as they grow."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        self._reading = _LogReading(options, schema)
        self._initial: CheckpointJson | None = None
        self._target: SourcePosition | None = None
        """The position at which an `availableNow` query stops."""

    def initialOffset(self) -> CheckpointJson:
        """The beginning of a query without a checkpoint: the same position at every call."""
        if self._initial is None:
            self._initial = self._reading.offsets(self._reading.source.starting).json()
        return self._initial

    def getDefaultReadLimit(self) -> ReadLimit:
        """The limit by `maxRowsPerTrigger`, which counts offsets."""
        rows = self._reading.source.max_rows_per_trigger
        return ReadAllAvailable() if rows is None else ReadMaxRows(rows)

    def prepareForTriggerAvailableNow(self) -> None:
        """Stop at the present ends of the topics."""
        self._target = self._reading.offsets(LATEST)

    def latestOffset(self, start: CheckpointJson, limit: ReadLimit) -> CheckpointJson:
        """The end of the next micro-batch. Raises DataLoss for a partition that ends before its position, and for a
        topic that was deleted and created again."""
        known = SourcePosition.of(start)
        if self._target is not None:
            topic_ids, position = self._target.topic_ids, self._in_same_topics(known, self._target.topic_ids)
            ends = self._target.offsets
        else:
            there: FoundPartitions = self._reading.call("partitions")
            topic_ids, position = there.topic_ids, self._in_same_topics(known, there.topic_ids)
            ends = self._ends(position, there.partitions)
        begins = self._begins(position, ends)
        rows = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        stops = limited(begins, {each: ends.get(each, offset) for each, offset in begins.items()}, rows)
        return to_json(stops, {**known.topic_ids, **topic_ids})

    def _in_same_topics(self, known: SourcePosition, topic_ids: Mapping[str, str]) -> dict[TopicPartition, int]:
        """The offsets in topics that still have their id: partitions of all others are new. Raises DataLoss for a topic
        with another id, with failOnDataLoss=true."""
        recreated = recreated_topics(known.topic_ids, topic_ids)
        if recreated and self._reading.source.fail_on_data_loss:
            raise DataLoss(
                f"topic {', '.join(sorted(recreated))} was deleted and created anew: the checkpoint's offsets belong to"
                " the old topic, whose unread records are lost; to read the new one from its beginning, start with"
                " failOnDataLoss=false (failOnDataLoss=true)"
            )
        return {each: offset for each, offset in known.offsets.items() if each.topic not in recreated}

    def _ends(self, position: Offsets, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        """The end of each partition. If its leader does not answer in time, that is its position: it is left out."""
        planning = self._reading.planning
        answered = planning.loop.run(planning.ends.fetch(partitions))
        return {
            each: answered.get(each, position.get(each, 0)) for each in partitions if each in {**position, **answered}
        }

    def reportLatestOffset(self) -> CheckpointJson | None:
        """The ends of the topics, for the query's progress; and for each partition that was left out the time that it
        has left, and how often it was left out."""
        planning = self._reading.planning
        reported = to_json(planning.ends.known if self._target is None else self._target.offsets)
        timeouts = planning.timeouts
        reported |= {f"{REMAINING}{task}": left for task, left in timeouts.skipped.items()}
        return (reported | {f"{SKIPS}{task}": skips for task, skips in sorted(timeouts.skips.items())}) or None

    def partitions(self, start: CheckpointJson, end: CheckpointJson) -> Sequence[InputPartition]:
        """A range for each topic partition that moves."""
        begin, stop = SourcePosition.of(start), SourcePosition.of(end)
        recreated = recreated_topics(begin.topic_ids, stop.topic_ids)
        position = {each: offset for each, offset in begin.offsets.items() if each.topic not in recreated}
        return self._reading.ranges(position, stop.offsets, stop.topic_ids)

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """The Arrow batches of one range. Raises DataLoss when its records are gone."""
        return self._reading.batches(partition)

    def commit(self, end: CheckpointJson) -> None:
        """Do nothing: the checkpoint holds the position."""

    def stop(self) -> None:
        """Close the connection for planning."""
        self._reading.close()

    def _begins(self, position: Offsets, latest: Offsets) -> dict[TopicPartition, int]:
        new = [each for each in latest if each not in position]
        begins = {**position, **(self._reading.call("earliest", new) if new else {})}
        for partition, offset in position.items():
            end = latest.get(partition)
            if (end is not None and end >= offset) or (end is None and self._target is not None):
                continue
            what = "does not exist any more" if end is None else f"ends at {end}, before offset {offset}"
            if self._reading.source.fail_on_data_loss:
                raise DataLoss(f"{partition} {what}: it was deleted, and perhaps created again (failOnDataLoss=true)")
            begins[partition] = 0 if end is None else self._reading.call("earliest", [partition])[partition]
        return begins


__all__ = ["EARLIEST", "LATEST", "NAME", "SCHEMA", "LogRange", "TxnLog", "TxnLogReader", "TxnLogStreamReader"]
