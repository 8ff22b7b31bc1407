"""Route `executors`: tasks write in parallel into the driver's transaction, as the driver's producer.

Each task encodes and sends its own rows. Sequence numbers count per partition, so for each batch that a task sends it
holds a lease of the partition from the driver. What differs from batch to batch travels as a local property of Spark's
job: the function of the tasks stays the same, and Java makes it once.

Always true: a partition of the topic has one writer at a time; and no task writes twice in a transaction: the broker
would take the batches of the second attempt for retries and drop them, although they may hold other rows. If Spark
would run a task twice, the micro-batch fails instead.
"""

import hmac
import json
import re
import uuid
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

import msgspec

from eosin.client.security.settings import SecuritySettings
from eosin.pipeline.common.errors import BadRows, RowsLost
from eosin.pipeline.common.loop_thread import LoopThread
from eosin.pipeline.common.prompt_worker import SentToTasks
from eosin.pipeline.common.retrying_client import RetryingClient
from eosin.pipeline.common.task_timeouts import TaskTimeouts
from eosin.pipeline.common.worker_heap import exempt_modules_from_collection
from eosin.pipeline.sink.batch_limits import BatchLimits
from eosin.pipeline.sink.lease_client import Leases, LeasingProducer
from eosin.pipeline.sink.lease_server import LeaseAddress, LeaseServer
from eosin.pipeline.sink.row_writer import RowWriter
from eosin.protocol.names import ProducerIdAndEpoch

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import DataFrame

_ONE_MACHINE: Final = re.compile(r"local(\[[^]]*])?")
_LOOPBACK: Final = "127.0.0.1"
_WRITTEN: Final = "task int"
_BATCH: Final = "eosin.batch"
"""The local property. Spark writes it into its logs of events, so nothing in it is secret."""

_Place = tuple[str, SecuritySettings, int]
"""The brokers, the login and the timeout that a client is made for."""

_loop: Final = LoopThread("eosin tasks")
_kept: Final[dict[_Place, RetryingClient]] = {}
"""The client of the last task of this worker, for the next one: Spark keeps a worker over batches, and it runs one task
at a time. A connection that is gone, or a leader that has moved, is found anew as in a long task."""


@dataclass(frozen=True, slots=True)
class TaskPlan:
    """The transaction of a batch as its tasks have to know it. It is sent to other machines."""

    bootstrap: str
    name: str
    """The task in the sense of KIP-572: the micro-batch."""
    transactional_id: str
    identity: ProducerIdAndEpoch
    transaction_version: int
    topic: str
    partitions: int
    """Of the topic, as the driver counted them: tasks that counted for themselves could disagree about a key."""
    largest_batch: int | None
    """Of the topic, in bytes; None if the driver was not told."""
    timestamp: int
    task_timeout_ms: int
    request_timeout_ms: int


@dataclass(frozen=True, slots=True)
class WrittenByTasks:
    """The outcome of all tasks of a micro-batch."""

    rows: int
    retries: int
    """The number of times that calls of the tasks timed out and were repeated (KIP-572)."""


class ExecutorsRoute:
    """Writes a frame with the tasks of Spark."""

    def __init__(self, loop: LoopThread, *, lease_port: int = 0) -> None:
        """`loop` serves leases to the tasks, at `lease_port` of `spark.driver.host`; 0 is any free port."""
        self._loop = loop
        self._lease_port = lease_port
        self._secret = uuid.uuid4().hex
        self._functions: dict[tuple[SparkContext, str, SecuritySettings], Any] = {}
        """Columns of Java that call the tasks, for frames with this schema, which is Java's JSON."""

    def planned(self, frame: "DataFrame", security: SecuritySettings) -> Any:
        """The job that writes every row of a frame, computed once, as an RDD of Java with a row for each task that has
        written. Nothing is written yet. Raises BadRows for a frame with a topic column."""
        java: Any = frame._jdf
        schema = str(java.schema().json())  # two calls to Java; the names of columns alone take two for each of them
        which = (frame.sparkSession.sparkContext, schema, security)
        if which not in self._functions:
            columns = [each["name"] for each in json.loads(schema)["fields"]]
            if "topic" in columns:
                raise BadRows("route executors writes to one topic: drop column topic, or use route driver")
            self._functions[which] = _column_of(_Task(security, self._secret), columns)
        return java.mapInArrow(self._functions[which], False, None).queryExecution().toRdd()

    def write(self, context: "SparkContext", planned: Any, plan: TaskPlan) -> WrittenByTasks:
        """Run what `planned` has returned. Raises RowsLost, the BrokerError of a task, or what Spark raises."""
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException

        batch = uuid.uuid4().hex
        leases = LeaseServer(_secret_of(batch, self._secret))
        host, bind = _hosts(context)
        address = replace(self._loop.run(leases.start(host, bind, self._lease_port)), secret=batch)
        context.setLocalProperty(_BATCH, msgspec.json.encode((plan, address)).decode())
        try:
            tasks = int(planned.count())
        except (PySparkException, Py4JError) as error:
            failure = leases.book.failure
            refusal = failure.broker_error("writing from executors") if failure is not None else None
            if refusal is None:
                raise
            raise refusal from error
        finally:
            self._loop.run(leases.close())
            context.setLocalProperty(_BATCH, None)  # type: ignore[arg-type]  # last: it fails without Java
        rows = leases.book.rows
        if tasks != len(rows):
            raise RowsLost(f"{len(rows)} tasks wrote {sum(rows.values())} rows, and Spark reports {tasks} tasks")
        return WrittenByTasks(sum(rows.values()), leases.book.retries)


def _hosts(context: "SparkContext") -> tuple[str, str]:
    """The host at which executors reach the driver, and the address to listen at: those that Spark itself uses."""
    if _ONE_MACHINE.fullmatch(context.master or ""):
        return _LOOPBACK, _LOOPBACK
    settings = context.getConf()
    host = str(settings.get("spark.driver.host"))
    return host, str(settings.get("spark.driver.bindAddress", host))


def _secret_of(batch: str, secret: str) -> str:
    """The secret of the leases of one batch, which is known to those alone who know that of all batches."""
    return hmac.digest(secret.encode(), batch.encode(), "sha256").hex()


def _column_of(task: "_Task", columns: Sequence[str]) -> Any:
    """The call of a task for all rows, as a column of Java. To make one takes some dozen calls to Java."""
    from pyspark.sql.functions import col
    from pyspark.sql.pandas.functions import pandas_udf
    from pyspark.util import PythonEvalType

    made: Any = pandas_udf
    function = made(task, returnType=_WRITTEN, functionType=PythonEvalType.SQL_MAP_ARROW_ITER_UDF)
    return function(*(col(f"`{name.replace('`', '``')}`") for name in columns))._jc


class _Task(SentToTasks):
    """Writes the rows of one task."""

    def __init__(self, security: SecuritySettings, secret: str) -> None:
        self._security = security
        self._secret = secret

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        first = next((batch for batch in batches if batch.num_rows), None)
        if first is None:
            return
        task = context.partitionId()
        described = context.getLocalProperty(_BATCH)
        assert described is not None, "write sets it in the thread that runs the job"
        plan, address = msgspec.json.decode(described, type=tuple[TaskPlan, LeaseAddress])
        address = replace(address, secret=_secret_of(address.secret, self._secret))
        self._write(TaskWriter(plan, self._security, Leases(address, task), _kept), chain((first,), batches))
        yield pyarrow.RecordBatch.from_arrays([pyarrow.array([task], pyarrow.int32())], ("task",))
        exempt_modules_from_collection()

    def _write(self, writing: "TaskWriter", batches: Iterator[Any]) -> None:
        """This thread computes the rows, which may take long. Meanwhile the loop receives acknowledgements and gives
        partitions back, since other tasks may wait for them."""
        _loop.run(writing.start())
        try:
            given = 0
            for batch in batches:
                given += batch.num_rows
                _loop.run(writing.write(batch))
            _loop.run(writing.finish(given))
        except BaseException as error:
            _loop.run(writing.close(error))
            raise
        _loop.run(writing.close(None))


class TaskWriter:
    """One task's part of the transaction, from `start` to `close`."""

    def __init__(
        self,
        plan: TaskPlan,
        security: SecuritySettings,
        leases: Leases,
        kept: dict[_Place, RetryingClient] | None = None,
    ) -> None:
        """`kept` has the client of an earlier task, and of this one once it has succeeded; without it, this task closes
        its own."""
        self._plan = plan
        self._security = security
        self._kept = kept
        self._leases = leases
        self._timeouts = TaskTimeouts(plan.task_timeout_ms)
        self._open = AsyncExitStack()

    async def start(self) -> None:
        plan = self._plan
        async with AsyncExitStack() as opened:
            await opened.enter_async_context(self._leases)
            client = await self._connected()
            opened.push_async_exit(self._keep_or_close(client))
            producer = LeasingProducer(
                client, plan.transactional_id, self._leases, transaction_version=plan.transaction_version
            )
            await producer.act_as(plan.identity)
            producer.begin()
            self._writer = RowWriter(
                client,
                producer,
                plan.topic,
                timestamp=plan.timestamp,
                counts={plan.topic: plan.partitions},
                limits=BatchLimits(known={plan.topic: plan.largest_batch}),
            )
            self._open = opened.pop_all()

    @property
    def _place(self) -> _Place:
        return self._plan.bootstrap, self._security, self._plan.request_timeout_ms

    async def _connected(self) -> RetryingClient:
        plan = self._plan
        client = self._kept.pop(self._place, None) if self._kept else None
        while self._kept:  # of another pipeline
            await self._kept.popitem()[1].close()
        if client is None:
            return RetryingClient(
                plan.bootstrap,
                self._timeouts,
                (plan.name,),
                request_timeout_ms=plan.request_timeout_ms,
                security=self._security,
            )
        client.timeouts, client.tasks = self._timeouts, (plan.name,)
        return client

    def _keep_or_close(self, client: RetryingClient) -> Callable[..., Awaitable[None]]:
        async def ended(kind: type[BaseException] | None, *_: object) -> None:
            if kind is None and self._kept is not None:
                self._kept[self._place] = client
            else:
                await client.close()

        return ended

    async def write(self, rows: Any) -> None:
        await self._writer.write_arrow(rows)

    async def finish(self, given: int) -> None:
        """Wait until all `given` rows are acknowledged, and tell the driver. Raises RowsLost."""
        rows = sum(each.rows for each in (await self._writer.finish()).values())
        if rows != given:
            raise RowsLost(f"a task wrote {rows} rows of {given}: the batch is aborted")
        await self._leases.done(rows, self._timeouts.retries(self._plan.name))

    async def close(self, error: BaseException | None) -> None:
        if error is not None:
            await self._writer.discard()
        await self._open.__aexit__(None if error is None else type(error), error, None)
