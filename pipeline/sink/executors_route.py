"""Route `executors`: tasks write in parallel into the driver's transaction, as the driver's producer.

Each task encodes and sends its own rows. Sequence numbers count per partition, so for each batch that a task sends it
holds a lease of the partition from the driver.

Always true: a partition of the topic has one writer at a time; and no task writes twice in a transaction: the broker
would take the batches of the second attempt for retries and drop them, although they may hold other rows. If Spark
would run a task twice, the micro-batch fails instead.
"""

import re
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import cache
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

from eosin.client.security.settings import SecuritySettings
from eosin.pipeline.common.errors import BadRows, RowsLost
from eosin.pipeline.common.loop_thread import LoopThread
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
    from pyspark.sql.types import StructType

_ONE_MACHINE: Final = re.compile(r"local(\[[^]]*])?")
_LOOPBACK: Final = "127.0.0.1"
_WRITTEN: Final = "task int, rows long"

_Place = tuple[str, SecuritySettings, int]
"""The brokers, the login and the timeout that a client is made for."""

_loop: Final = LoopThread("eosin tasks")
_kept: Final[dict[_Place, RetryingClient]] = {}
"""The client of the last task of this worker, for the next one: Spark keeps a worker over batches, and it runs one task
at a time. A connection that is gone, or a leader that has moved, is found anew as in a long task."""


@dataclass(frozen=True, slots=True)
class TaskPlan:
    """Everything that a task needs to know about its transaction. It is sent to other machines."""

    bootstrap: str
    security: SecuritySettings
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

    def write(self, frame: "DataFrame", plan: TaskPlan) -> WrittenByTasks:
        """Write every row of a frame, which is computed once. Raises RowsLost, BadRows for a frame with a topic column,
        the BrokerError of a task, or what Spark raises."""
        from pyspark.errors import PySparkException

        if "topic" in frame.columns:
            raise BadRows("route executors writes to one topic: drop column topic, or use route driver")
        leases = LeaseServer()
        host, bind = _hosts(frame.sparkSession.sparkContext)
        address = self._loop.run(leases.start(host, bind, self._lease_port))
        try:
            written = frame.mapInArrow(_Task(plan, address), _columns(_WRITTEN)).collect()
        except PySparkException as error:
            failure = leases.book.failure
            refusal = failure.broker_error("writing from executors") if failure is not None else None
            if refusal is None:
                raise
            raise refusal from error
        finally:
            self._loop.run(leases.close())
        rows = {row["task"]: int(row["rows"]) for row in written}
        if rows != leases.book.rows:
            raise RowsLost(f"tasks wrote {leases.book.rows} rows, and Spark reports {rows}: the batch is aborted")
        return WrittenByTasks(sum(rows.values()), leases.book.retries)


def _hosts(context: "SparkContext") -> tuple[str, str]:
    """The host at which executors reach the driver, and the address to listen at: those that Spark itself uses."""
    if _ONE_MACHINE.fullmatch(context.master or ""):
        return _LOOPBACK, _LOOPBACK
    settings = context.getConf()
    host = str(settings.get("spark.driver.host"))
    return host, str(settings.get("spark.driver.bindAddress", host))


@cache
def _columns(described: str) -> "StructType":
    """A parsed schema. Without the cache, Java would parse it for every batch."""
    from pyspark.sql.types import StructType

    found = StructType.fromDDL(described)
    assert isinstance(found, StructType)
    return found


class _Task:
    """Writes the rows of one task."""

    def __init__(self, plan: TaskPlan, leases: LeaseAddress) -> None:
        self._plan = plan
        self._leases = leases

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        first = next((batch for batch in batches if batch.num_rows), None)
        if first is None:
            return
        task = context.partitionId()
        rows = self._write(_loop, task, chain((first,), batches))
        columns = [pyarrow.array([task], pyarrow.int32()), pyarrow.array([rows], pyarrow.int64())]
        yield pyarrow.RecordBatch.from_arrays(columns, ("task", "rows"))
        exempt_modules_from_collection()

    def _write(self, loop: LoopThread, task: int, batches: Iterator[Any]) -> int:
        """This thread computes the rows, which may take long. Meanwhile the loop receives acknowledgements and gives
        partitions back, since other tasks may wait for them."""
        writing = TaskWriter(self._plan, Leases(self._leases, task), _kept)
        loop.run(writing.start())
        try:
            given = 0
            for batch in batches:
                given += batch.num_rows
                loop.run(writing.write(batch))
            loop.run(writing.finish(given))
        except BaseException as error:
            loop.run(writing.close(error))
            raise
        loop.run(writing.close(None))
        return given


class TaskWriter:
    """One task's part of the transaction, from `start` to `close`."""

    def __init__(self, plan: TaskPlan, leases: Leases, kept: dict[_Place, RetryingClient] | None = None) -> None:
        """`kept` has the client of an earlier task, and of this one once it has succeeded; without it, this task closes
        its own."""
        self._plan = plan
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
        return self._plan.bootstrap, self._plan.security, self._plan.request_timeout_ms

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
                security=plan.security,
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
