"""`Eosin`: the data source behind `format("eosin")`, for reading and writing, batch and stream.

Always true: options are checked where a frame or a query is planned, before any task runs; tasks of a write only pack
their rows, so Spark may run them as often as it likes; and whatever reaches a broker is sent by the process that
commits.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from eosin.pipeline.common.errors import ConflictingSettings, require_spark
from eosin.pipeline.common.loop_thread import LoopThread
from eosin.pipeline.common.prompt_worker import SentToTasks
from eosin.pipeline.common.worker_heap import exempt_modules_from_collection
from eosin.pipeline.format.batch_commits import StreamCommits, TaskOutput, commit_once
from eosin.pipeline.format.read_options import includes_headers, parse_read
from eosin.pipeline.format.task_rows import packed, written_columns
from eosin.pipeline.format.write_options import WriteOptions
from eosin.pipeline.source.txnlog import SCHEMA, TxnLogReader, TxnLogStreamReader

require_spark()

from pyspark import TaskContext  # noqa: E402
from pyspark.sql.datasource import (  # noqa: E402
    DataSource,
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType  # noqa: E402

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql import SparkSession

NAME: Final = "eosin"
_HEADERS: Final = ", headers "
_QUERY_ID: Final = "sql.streaming.queryId"
_JOB_GROUP: Final = "spark.jobGroup.id"
_MOST_KEPT: Final = 16
"""The most queries whose connections one committing process keeps."""

_loop: Final = LoopThread("eosin commits")
_kept: dict[WriteOptions, StreamCommits] = {}
"""The open pipelines of this process by the options of each query, oldest first. Spark keeps a process over batches."""


class Eosin(DataSource):
    """The data source to register with Spark: `register(spark)`, or `spark.dataSource.register(Eosin)`."""

    @classmethod
    def name(cls) -> str:
        """The name for `format`."""
        return NAME

    def schema(self) -> str:
        """The columns of Spark's own Kafka source. Raises ConflictingSettings: Spark calls this at `load()`."""
        parse_read(self.options)
        return SCHEMA if includes_headers(self.options) else SCHEMA[: SCHEMA.index(_HEADERS)]

    def reader(self, schema: StructType) -> TxnLogReader:
        """For `spark.read`."""
        return TxnLogReader(parse_read(self.options, streaming=False), schema)

    def streamReader(self, schema: StructType) -> TxnLogStreamReader:
        """For `spark.readStream`."""
        return TxnLogStreamReader(parse_read(self.options, streaming=True), schema)

    def writer(self, schema: StructType, overwrite: bool) -> "EosinWriter":
        """For `frame.write`. Raises ConflictingSettings or BadRows."""
        if overwrite:
            raise ConflictingSettings('a topic cannot be overwritten: append to it, with .mode("append")')
        return EosinWriter(self._write_options(), schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> "EosinStreamWriter":
        """For `frame.writeStream`; `overwrite` is output mode `complete`, which appends, as in Spark's own sink. Raises
        ConflictingSettings or BadRows."""
        writer = EosinStreamWriter(self._write_options(), schema)
        exempt_modules_from_collection()  # Spark plans each batch in the same process
        return writer

    def _write_options(self) -> WriteOptions:
        return WriteOptions.parse(self.options)


class RowsWritten(WriterCommitMessage):
    """The message of a task: its rows."""

    def __init__(self, output: TaskOutput) -> None:
        self.output = output


class _Packing(SentToTasks):
    """The part of both writers that runs in tasks."""

    def __init__(self, options: WriteOptions, schema: StructType) -> None:
        self.options = options
        self.columns = written_columns(
            [(field.name, field.dataType.simpleString()) for field in schema.fields], options.topic
        )

    def write(self, iterator: Iterator["pyarrow.RecordBatch"]) -> RowsWritten:
        """Pack the rows of one task."""
        context = TaskContext.get()
        query = None if context is None else context.getLocalProperty(_QUERY_ID)
        # Spark's jobs of one run of a query are a group, which has the id of the run.
        run = None if context is None or query is None else context.getLocalProperty(_JOB_GROUP)
        payload, rows = packed(iterator, self.columns)
        exempt_modules_from_collection()
        return RowsWritten(TaskOutput(query, payload, rows, run))


class EosinWriter(_Packing, DataSourceArrowWriter):
    """Writes a batch frame in one transaction."""

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Write and commit the rows of all tasks. Raises a PipelineError or a ClientError; nothing is visible then,
        unless it is UnknownOutcome."""
        _loop.run(commit_once(self.options, _outputs(messages)))

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Do nothing: no row was sent before `commit`."""


class EosinStreamWriter(_Packing, DataSourceStreamArrowWriter):
    """Writes each micro-batch in one transaction, exactly once."""

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        """Write and commit the rows of all tasks, unless the batch is in the output already. Raises a PipelineError or
        a ClientError, which ends the query."""
        commits = _kept.pop(self.options, None) or StreamCommits(self.options)
        _kept[self.options] = commits
        if len(_kept) > _MOST_KEPT:
            _loop.run(_kept.pop(next(iter(_kept))).close())
        _loop.run(commits.commit(_outputs(messages), batchId))
        exempt_modules_from_collection()

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        """Do nothing: no row was sent before `commit`."""


def register(spark: "SparkSession") -> None:
    """Make `format("eosin")` known to a session, of Spark Connect as well."""
    spark.dataSource.register(Eosin)


def _outputs(messages: Sequence[WriterCommitMessage | None]) -> list[TaskOutput]:
    return [each.output for each in messages if isinstance(each, RowsWritten)]
