"""What the service keeps beside each `Txn`: who asked, who waits, and which log it lives in."""

from asyncio import Future, get_running_loop
from collections import deque
from collections.abc import Generator
from functools import partial
from typing import Any, Final

from eosin.coordinator.ports import CoordinatorLog
from eosin.coordinator.transactions.rules.effects import Reply
from eosin.coordinator.transactions.rules.events import Event
from eosin.coordinator.transactions.rules.state import NO_TIMESTAMP, Txn
from eosin.protocol.errors import ErrorCode
from eosin.runtime.clock import Clock, Timer

CONCURRENT: Final = Reply(ErrorCode.CONCURRENT_TRANSACTIONS)


class PendingRequest:
    """One request of a client, from when it came until it is answered.

    It is answered once; later answers are dropped, so a limit on its waiting need not know what else may still come.
    Often `reply` is there at once; who finds None there awaits it.
    """

    __slots__ = ("_answered", "patient", "reply", "request", "timer", "transactional_id", "waits")

    def __init__(self, transactional_id: str, request: Event) -> None:
        self.transactional_id = transactional_id
        self.request = request
        self.reply: Reply | None = None
        self.waits = False
        """Whether it stands in a queue, to be decided again."""
        self.patient = True
        """Whether it may still wait for a better answer than CONCURRENT_TRANSACTIONS."""
        self.timer: Timer | None = None
        self._answered: Future[None] | None = None

    def answer(self, reply: Reply) -> None:
        """The answer, unless it was given already."""
        if self.reply is not None:
            return
        self.reply = reply
        if self.timer is not None:
            self.timer.cancel()
        if self._answered is not None and not self._answered.done():
            self._answered.set_result(None)

    def give_up_after(self, clock: Clock, wait_ms: int, reply: Reply) -> None:
        """Answer `reply` in `wait_ms` if nothing else was answered until then."""
        if self.timer is not None:
            self.timer.cancel()
        self.timer = clock.call_later(wait_ms, partial(self.answer, reply))

    def lose_patience(self) -> None:
        """It has waited long enough; if its record is under way by now, that will answer it."""
        self.patient = False
        if self.waits:
            self.answer(CONCURRENT)

    def __await__(self) -> Generator[Any, None, Reply]:
        """Wait for the answer. Who stops waiting undoes nothing."""
        if self.reply is None:
            self._answered = get_running_loop().create_future()
            yield from self._answered
        assert self.reply is not None
        return self.reply


class OwnedPartition:
    """One partition of `__transaction_state` that this coordinator answers for."""

    __slots__ = ("epoch", "index", "log")

    def __init__(self, index: int, log: CoordinatorLog) -> None:
        self.index = index
        self.log = log
        self.epoch = log.leader_epoch
        """The coordinator epoch that its markers carry."""


class Entry:
    """One transactional id in memory."""

    __slots__ = ("ask", "began_ms", "began_start_ms", "has_deferred_write", "held", "partition", "txn", "waiting")

    def __init__(self, txn: Txn, partition: OwnedPartition) -> None:
        self.txn = txn
        self.partition = partition
        self.ask: PendingRequest | None = None
        """Whose record is under way."""
        self.began_ms = 0.0
        """When the transaction that began at `began_start_ms` (wall clock) did so, in `Clock.running_ms`."""
        self.began_start_ms = NO_TIMESTAMP
        self.has_deferred_write = False
        """Whether the log lacks the record of `txn` (`DeferredWrites`)."""
        self.held: tuple[PendingRequest, Reply] | None = None
        """Who is answered as soon as the markers are written."""
        self.waiting: deque[PendingRequest] | None = None
        """Who waits for what is under way, in the order in which they came."""
