"""`LargeBatches`: batches that are not appended in the turn of their request, and in their place all the same.

There are two kinds. A kilobyte on the wire may hold 64 MiB, or some hundred thousand records or headers; in the event
loop their check would hold up every other client for up to a second, so a thread does it. The first batch of a
partition creates a directory and files, and a thousand of them hold up others as long; so a few are appended in each
turn of the loop, however many connections they come from, and none of them waits for a check of others.

Always true: a log's batches are appended in the order in which their requests came, since whatever comes for a log
while one of its batches waits here waits behind it; threads check two batches of different users at a time, so what is
decompressed in memory is two batches'; and users who have batches to be checked take turns, so one who sends many, or
long ones, waits for himself. A check that nobody waits for any more ends. What was read whole is appended though its
client is gone, but not by a broker that stops: nobody was answered, so it is as if the request had come after the stop.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from eosin.model.close_connection import CloseConnection
from eosin.protocol.records.budget import Budget
from eosin.runtime.clock import Clock
from eosin.runtime.thread_turns import ThreadTurns
from eosin.runtime.turns import TurnQueue
from eosin.storage.log.validation import QUICK_WORK, validate_client_batch

if TYPE_CHECKING:
    from eosin.broker.producing.produced import ProducedBatch
    from eosin.network.api import ClientConnection
    from eosin.storage.log.partition_log import PartitionLog
    from eosin.storage.log.validation import ValidBatch
    from eosin.storage.results.log_results import Refused

    Append = Callable[[ProducedBatch, ValidBatch | Refused], None]
    """Append a batch that was checked, or keep its refusal; without a wait."""
    Checked = tuple[ProducedBatch, ValidBatch | Refused | None]
    """A batch and the outcome of its check; None where a thread is to check it."""

FIRST_BATCHES_AT_ONCE: Final = 25
"""So many partitions that have no files yet get them in one turn of the event loop: one takes some 0.3 ms."""
QUICK_WORK_BEHIND: Final = 1_000_000
"""Limit of the work that a request's batches may cost the event loop while batches of the same owner wait here. Those
behind would wait in any case, and ten attempts in a row that come to nothing would hold up everybody else."""


class LargeBatches:
    """The requests with batches that wait, by log."""

    __slots__ = ("_first_batches", "_is_stopping", "_owners", "checks", "quick", "waiting")

    def __init__(self, clock: Clock) -> None:
        self.waiting: dict[PartitionLog, asyncio.Future[None]] = {}
        """The last request that each log has waiting. For readers: almost always empty."""
        self.quick = Budget()
        """For who checks a request's batches in one step: he sets what is left of it first."""
        self.checks = ThreadTurns()
        """Turns to have a batch checked in a thread."""
        self._first_batches = TurnQueue(clock, steps_per_turn=FIRST_BATCHES_AT_ONCE)
        self._owners: Counter[Hashable] = Counter()
        """Number of requests that each owner has waiting."""
        self._is_stopping = False

    def stop(self) -> None:
        """The broker stops: from now on, batches whose clients are gone are dropped instead of checked."""
        self._is_stopping = True

    def quick_work(self, owner: Hashable) -> int:
        """Work that the batches of one more request of `owner` may cost the event loop."""
        return QUICK_WORK_BEHIND if owner in self._owners else QUICK_WORK

    def admits_first_batch(self) -> bool:
        """True if the first batch of a partition may be appended in this turn of the loop: the caller does it now."""
        return self._first_batches.try_step()

    async def append(
        self,
        batches: "Sequence[Checked]",
        append: "Append",
        *,
        now_ms: int,
        owner: Hashable = None,
        connection: "ClientConnection | None" = None,
    ) -> None:
        """Check and append `batches` of one request of `owner`, behind what their logs have waiting already. Raises
        CloseConnection when the rest of them is dropped."""
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        logs = {batch.log for batch, _ in batches}
        earlier = {self.waiting[log] for log in logs if log in self.waiting}
        self.waiting.update(dict.fromkeys(logs, turn))
        self._owners[owner] += 1
        try:
            if earlier:
                await asyncio.wait(earlier)
            for batch, checked in batches:
                self._end_if_unwanted(connection)
                if checked is None:
                    checked = await self._check(batch, now_ms, owner, connection)
                if batch.log.segments.active is None:
                    await self._append_first(batch, checked, append)
                else:
                    append(batch, checked)
        finally:
            self._owners[owner] -= 1
            if not self._owners[owner]:
                del self._owners[owner]
            self._end(turn, logs, earlier)

    def _end(
        self, turn: "asyncio.Future[None]", logs: "set[PartitionLog]", earlier: "set[asyncio.Future[None]]"
    ) -> None:
        """Let those behind a request go on, once all before it have ended: it may have been given up meanwhile."""
        for each in earlier:
            if not each.done():
                each.add_done_callback(lambda _: self._end(turn, logs, earlier))
                return
        turn.set_result(None)
        for log in logs:
            if self.waiting[log] is turn:
                del self.waiting[log]

    def _end_if_unwanted(self, connection: "ClientConnection | None") -> None:
        """Raises CloseConnection. Once it does so for a connection, it does for all that comes behind, so no batch of
        a client that is gone is appended without those before it."""
        if self._is_stopping and connection is not None and connection.is_gone:
            raise CloseConnection("the broker stops, and the client is gone")

    async def _check(
        self, batch: "ProducedBatch", now_ms: int, owner: Hashable, connection: "ClientConnection | None"
    ) -> "ValidBatch | Refused":
        assert batch.records is not None
        log, context = batch.log, batch.log.context
        async with self.checks.turn(owner) as rest:
            self._end_if_unwanted(connection)
            return await context.disk.compute(
                validate_client_batch,
                batch.records,
                log.config,
                now_ms,
                batch.header,
                rest.rest,
                context.moment_of,
            )

    async def _append_first(self, batch: "ProducedBatch", checked: "ValidBatch | Refused", append: "Append") -> None:
        appended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._first_batches.add(_step(batch, checked, append, appended))
        await appended


def _step(
    batch: "ProducedBatch", checked: "ValidBatch | Refused", append: "Append", appended: "asyncio.Future[None]"
) -> Iterator[None]:
    """The one step of a first batch, unless its request was given up."""
    if not appended.done():
        try:
            append(batch, checked)
        finally:
            appended.set_result(None)
    yield from ()
