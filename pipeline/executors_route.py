"""Route `executors`: tasks write side by side, with the identity of the driver's producer, into its transaction.

Always true: a partition of the topic is written by one task, since sequences are counted per partition; and no task
runs twice in a transaction, since the broker would take the batches of the second run for repetitions, although their
rows may be others. Where Spark would run one twice, the batch fails instead.
"""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from eosin.client.producer import Producer, ProducerIdentity
from eosin.pipeline.errors import BadRows, RowsLost
from eosin.pipeline.partitioning import places_of
from eosin.pipeline.patient_client import PatientClient
from eosin.pipeline.row_writer import RowWriter
from eosin.pipeline.rows import Rows
from eosin.pipeline.task_timeouts import TaskTimeouts

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_WRITTEN: Final = "partition int, first_offset long, last_offset long, rows long, stage int"


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
    placed = counted.mapInArrow(_Place(plan.topic, plan.partitions), _placed_schema(frame))
    owned = placed.repartitionById(plan.partitions, f.col("partition"))
    written = owned.mapInArrow(_Task(plan), _WRITTEN).collect()
    _check_attempts(frame, {row["stage"] for row in written})
    rows = sum(int(row["rows"]) for row in written)
    expected = given.get["rows"]
    if rows != expected or len({row["partition"] for row in written}) != len(written):
        raise RowsLost(f"tasks wrote {rows} rows of {expected} into {len(written)} partitions: the batch is not kept")
    return rows


def _placed_schema(frame: "DataFrame") -> str:
    """The columns that tasks get: those of the frame, with a partition for every row."""
    columns = [f"`{name}` {kind}" for name, kind in frame.dtypes if name != "partition"]
    return ", ".join([*columns, "partition int"])


def _check_attempts(frame: "DataFrame", stages: set[int]) -> None:
    """A task does not know which attempt of its stage it belongs to; the driver does."""
    tracker = frame.sparkSession.sparkContext.statusTracker()
    for stage in stages:
        info = tracker.getStageInfo(stage)
        if info is not None and info.currentAttemptId != 0:
            raise RowsLost(
                f"stage {stage} ran {info.currentAttemptId + 1} times in one transaction: the batch is not kept"
            )


class _Place:
    """Gives each row its partition, before the shuffle that brings it to its owner."""

    def __init__(self, topic: str, partitions: int) -> None:
        self._topic = topic
        self._partitions = partitions

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow

        for batch in batches:
            rows = Rows.from_arrow(batch)
            chosen = places_of(rows.keys, rows.values, rows.partitions, self._topic, self._partitions)
            names = [name for name in batch.schema.names if name != "partition"]
            columns = [batch.column(name) for name in names]
            yield pyarrow.RecordBatch.from_arrays(
                [*columns, pyarrow.array(chosen, pyarrow.int32())], [*names, "partition"]
            )


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

    async def _write(self, first: Any, others: Iterator[Any]) -> list[tuple[int, int, int, int]]:
        plan = self._plan
        timeouts = TaskTimeouts(plan.task_timeout_ms)
        async with PatientClient(plan.bootstrap, timeouts, (f"{plan.transactional_id} batch",)) as client:
            producer = Producer(client, plan.transactional_id, transaction_version=plan.transaction_version)
            await producer.act_as(plan.identity)
            producer.begin()
            writer = RowWriter(client, producer, plan.topic, timestamp=plan.timestamp)
            await writer.write(Rows.from_arrow(first))
            for batch in others:
                await writer.write(Rows.from_arrow(batch))
            written = await writer.finish()
        return [
            (target.partition, each.first_offset, each.last_offset, each.rows)
            for target, each in sorted(written.items())
        ]
