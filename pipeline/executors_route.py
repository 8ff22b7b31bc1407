"""Route `executors`: tasks write side by side, with the identity of the driver's producer, into its transaction.

Rows are encoded where Spark has computed them, into record batches that lack a header alone. What crosses the shuffle
to the owner of a partition is a few large values, which the owner sends as they are.

Always true: a partition of the topic is written by one task, since sequences are counted per partition; and no task
runs twice in a transaction, since the broker would take the batches of the second run for repetitions, although their
rows may be others. Where Spark would run one twice, the batch fails instead.
"""

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

from eosin.client.producer import Producer, ProducerIdentity
from eosin.pipeline.errors import BadRows, RowsLost
from eosin.pipeline.patient_client import PatientClient
from eosin.pipeline.row_writer import RowWriter
from eosin.pipeline.task_timeouts import TaskTimeouts
from eosin.pipeline.worker_heap import exempt_modules
from eosin.protocol.names import TopicPartition

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from eosin.pipeline.row_encoder import EncodedBatch

_COLUMNS: Final = ("partition", "count", "payload")
_ENCODED: Final = "partition int, count int, payload binary"
_WRITTEN: Final = "partition int, first_offset long, last_offset long, rows long, stage int"
_PLANNING: Final[Mapping[str, str]] = {
    # There is nothing to adapt, and it would make a job of each of the two stages.
    "spark.sql.adaptive.enabled": "false",
    # Encoded batches are large, and a task is given them in pieces of this size at most, not ten thousand at a time.
    "spark.sql.execution.arrow.maxBytesPerBatch": str(32 * 1024 * 1024),
}


@dataclass(frozen=True, slots=True)
class TaskPlan:
    """All that a task is told. It travels to other machines."""

    bootstrap: str
    transactional_id: str
    identity: ProducerIdentity
    transaction_version: int
    topic: str
    partitions: int
    timestamp: int
    task_timeout_ms: int


def write_from_executors(frame: "DataFrame", plan: TaskPlan) -> int:
    """Write every row of a frame, which is computed once; answers how many. Raises RowsLost, or what Spark raises."""
    from pyspark.sql import Observation
    from pyspark.sql import functions as f

    if "topic" in frame.columns:
        raise BadRows("route executors writes to one topic: drop column topic, or use route driver")
    given = Observation()
    counted = frame.observe(given, f.count(f.lit(1)).alias("rows"))
    owners = min(plan.partitions, frame.sparkSession.sparkContext.defaultParallelism)
    with _settings(frame.sparkSession, _PLANNING):
        encoded = counted.mapInArrow(_Encode(plan.topic, plan.partitions), _columns(_ENCODED))
        owned = encoded.repartitionById(owners, f.col("partition") % owners)
        written = owned.mapInArrow(_Task(plan), _columns(_WRITTEN)).collect()
    _check_attempts(frame, {row["stage"] for row in written})
    rows = sum(int(row["rows"]) for row in written)
    expected = given.get["rows"]
    if rows != expected or len({row["partition"] for row in written}) != len(written):
        raise RowsLost(f"tasks wrote {rows} rows of {expected} into {len(written)} partitions: the batch is not kept")
    return rows


@cache
def _columns(described: str) -> "StructType":
    """What Java would otherwise parse anew for every batch."""
    from pyspark.sql.types import StructType

    found = StructType.fromDDL(described)
    assert isinstance(found, StructType)
    return found


@contextmanager
def _settings(spark: "SparkSession", wanted: Mapping[str, str]) -> Iterator[None]:
    """These settings for what is planned meanwhile. The query has a session of its own, its rows are planned by now."""
    before = {name: spark.conf.get(name, None) for name in wanted}
    for name, value in wanted.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, present in before.items():
            if present is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, present)


def _check_attempts(frame: "DataFrame", stages: set[int]) -> None:
    """A task does not know which attempt of its stage it belongs to; the driver does."""
    tracker = frame.sparkSession.sparkContext.statusTracker()
    for stage in stages:
        info = tracker.getStageInfo(stage)
        if info is not None and info.currentAttemptId != 0:
            raise RowsLost(
                f"stage {stage} ran {info.currentAttemptId + 1} times in one transaction: the batch is not kept"
            )


class _Encode:
    """Encodes rows, before the shuffle that brings them to the owner of their partition."""

    def __init__(self, topic: str, partitions: int) -> None:
        self._topic = topic
        self._partitions = partitions

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        from eosin.pipeline.row_encoder import RowEncoder

        encoder = RowEncoder(self._topic, self._partitions)
        for batch in batches:
            yield from _as_rows(encoder.take(batch))
        yield from _as_rows(encoder.finish())
        exempt_modules()


def _as_rows(batches: "list[EncodedBatch]") -> Iterator[Any]:
    import pyarrow

    if batches:
        owners, counts, payloads = zip(*batches, strict=True)
        columns = (pyarrow.array(owners, pyarrow.int32()), pyarrow.array(counts, pyarrow.int32()))
        payload = pyarrow.array([each.to_pybytes() for each in payloads], pyarrow.binary())
        yield pyarrow.RecordBatch.from_arrays([*columns, payload], _COLUMNS)


class _Task:
    """Writes the rows of one task. Raises in every attempt but the first: that one may have written already."""

    def __init__(self, plan: TaskPlan) -> None:
        self._plan = plan

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        if context.attemptNumber() > 0:
            raise RowsLost(
                f"task {context.partitionId()} was tried before in this transaction and may have written: the batch"
                " must be written anew"
            )
        first = next(batches, None)
        if first is None:
            return
        written = asyncio.run(self._write(first, batches))
        columns = ("partition", "first_offset", "last_offset", "rows", "stage")
        lines = [dict(zip(columns, (*line, context.stageId()), strict=True)) for line in written]
        types = (pyarrow.int32(), pyarrow.int64(), pyarrow.int64(), pyarrow.int64(), pyarrow.int32())
        schema = pyarrow.schema(list(zip(columns, types, strict=True)))
        yield pyarrow.RecordBatch.from_pylist(lines, schema=schema)
        exempt_modules()

    async def _write(self, first: Any, others: Iterator[Any]) -> list[tuple[int, int, int, int]]:
        plan = self._plan
        timeouts = TaskTimeouts(plan.task_timeout_ms)
        async with PatientClient(plan.bootstrap, timeouts, (f"{plan.transactional_id} batch",)) as client:
            producer = Producer(client, plan.transactional_id, transaction_version=plan.transaction_version)
            await producer.act_as(plan.identity)
            producer.begin()
            writer = RowWriter(client, producer, plan.topic, timestamp=plan.timestamp)
            for batch in chain((first,), others):
                for partition, count, payload in zip(*(batch.column(name) for name in _COLUMNS), strict=True):
                    target = TopicPartition(plan.topic, partition.as_py())
                    await writer.append(target, memoryview(payload.as_buffer()), count.as_py())
            written = await writer.finish()
        return [
            (target.partition, each.first_offset, each.last_offset, each.rows)
            for target, each in sorted(written.items())
        ]
