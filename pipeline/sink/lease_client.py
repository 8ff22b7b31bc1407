"""The task's side of leases: it asks the driver for a partition before it writes there.

Always true: a task begins when it has something to send, and only once; while it holds a partition no other task writes
there; and the driver learns of every task that ends before `done`.
"""

import asyncio
import contextlib
import json
import traceback
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from eosin.client.client import Client
from eosin.client.errors import BrokerError
from eosin.client.producer import Producer
from eosin.pipeline.common.errors import DriverOutOfReach, RowsLost
from eosin.pipeline.sink.lease_server import LONGEST_REASON, LeaseAddress, shortened
from eosin.protocol.names import ProducerIdAndEpoch, TopicPartition
from eosin.protocol.records.batch import next_sequence

CONNECT_TIMEOUT_S = 30.0


class BatchGivenUp(Exception):
    """Another task has failed; the message names its error. Not part of `errors`, whose class names tell a cause."""


@dataclass(slots=True)
class Lease:
    """A partition that the task holds."""

    sequence: int
    """The sequence number of the next batch; at the end of the lease, where the next holder begins."""


class Leases:
    """The leases of one task: `async with`, then `held` around each batch, then `done`."""

    def __init__(self, address: LeaseAddress, task: int) -> None:
        self._address = address
        self._task = task
        self._beginning = asyncio.Lock()
        self._turns: dict[int, asyncio.Lock] = {}
        self._expected: dict[tuple[str, int], asyncio.Future[dict[str, Any]]] = {}
        self._refusal: Exception | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._listening: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._writer is None or self._listening is None:
            return
        if error is not None and self._refusal is None:
            code = int(error.code) if isinstance(error, BrokerError) else None
            reason = "".join(traceback.format_exception_only(error)).strip()
            self._send({"failed": shortened(reason), "code": code})
        self._listening.cancel()
        self._writer.close()
        await asyncio.gather(self._listening, self._writer.wait_closed(), return_exceptions=True)

    async def begin(self) -> None:
        """Tell the driver, once, that this task is about to write. `held` calls it; until then Spark may retry the
        task. Raises DriverOutOfReach, BatchGivenUp, or RowsLost for a task that has begun before."""
        async with self._beginning:
            if self._writer is not None:
                return
            address = self._address
            try:
                async with asyncio.timeout(CONNECT_TIMEOUT_S):
                    reader, self._writer = await asyncio.open_connection(address.host, address.port)
            except (OSError, TimeoutError) as error:
                raise DriverOutOfReach(
                    f"task {self._task} cannot reach the driver at {address.host}:{address.port} ({error}): set"
                    " spark.driver.host to an address of the driver that executors reach, or use route driver"
                ) from error
            self._listening = asyncio.create_task(self._listen(reader))
            await self._request({"secret": address.secret, "begin": self._task}, "begun", self._task)

    @contextlib.asynccontextmanager
    async def held(self, partition: int) -> AsyncIterator[Lease]:
        """Hold a partition, after earlier requests of this task for it. An error inside keeps the partition: the next
        sequence number is unknown then."""
        async with self._turns.setdefault(partition, asyncio.Lock()):
            await self.begin()
            taken = await self._request({"take": partition}, "taken", partition)
            lease = Lease(taken["sequence"])
            yield lease
            self._send({"free": partition, "sequence": lease.sequence})

    async def done(self, rows: int, retries: int) -> None:
        """Tell the driver that all rows are acknowledged. Raises BatchGivenUp or RowsLost if it is too late."""
        await self._request({"done": rows, "retries": retries}, "done", rows)

    async def _request(self, question: dict[str, Any], answer: str, about: int) -> dict[str, Any]:
        if self._refusal is not None:
            raise self._refusal.with_traceback(None)
        expected: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._expected[answer, about] = expected
        self._send(question)
        return await expected

    def _send(self, said: dict[str, Any]) -> None:
        assert self._writer is not None, "begin comes first"
        self._writer.write(json.dumps(said).encode() + b"\n")

    async def _listen(self, reader: asyncio.StreamReader) -> None:
        self._refusal = await self._receive(reader)
        for expected in self._expected.values():
            if not expected.done():
                expected.set_exception(self._refusal)

    async def _receive(self, reader: asyncio.StreamReader) -> Exception:
        """Pass answers on until there will be no more; returns the reason."""
        try:
            while line := await reader.readline():
                said = json.loads(line)
                if "refused" in said:
                    return RowsLost(said["refused"])
                if "given_up" in said:
                    return BatchGivenUp(said["given_up"])
                answer = next(iter(said))
                expected = self._expected.pop((answer, said[answer]))
                if not expected.done():
                    expected.set_result(said)
        except ConnectionError:
            pass
        except (ValueError, LookupError, TypeError, AttributeError, StopIteration) as error:
            return BatchGivenUp(f"the driver said something that no task understands: {error!r}"[:LONGEST_REASON])
        return BatchGivenUp("the connection to the driver is gone: its batch has ended, or the driver itself")


class LeasingProducer(Producer):
    """One of several producers with one identity that may write to the same partitions. Start it with `act_as`.

    Always true: the batches of a partition are sent one after the other, also by different tasks, with consecutive
    sequence numbers.
    """

    def __init__(
        self, client: Client, transactional_id: str, leases: Leases, *, transaction_version: int | None = None
    ) -> None:
        """All producers with this identity get their leases from one driver, for one topic."""
        super().__init__(client, transactional_id, transaction_version=transaction_version)
        self._leases = leases

    async def send_built(
        self,
        partition: TopicPartition,
        build: Callable[..., bytearray],
        count: int,
        identity: ProducerIdAndEpoch | None = None,
        base_sequence: int | None = None,
    ) -> int:
        """Like `Producer.send_built`, with the sequence number of the lease. `base_sequence` is ignored."""
        async with self._leases.held(partition.partition) as lease:
            offset = await super().send_built(partition, build, count, identity, lease.sequence)
            lease.sequence = next_sequence(lease.sequence, count)
            return offset
