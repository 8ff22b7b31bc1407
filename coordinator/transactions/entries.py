"""The coordinator's state beside each `Txn`: its requests, answered and waiting, and the log that it lives in."""

from asyncio import Future, get_running_loop
from collections import deque
from collections.abc import Generator
from functools import partial
from typing import Any, Final

from eosin.coordinator.ports import CoordinatorLog, Requester
from eosin.coordinator.transactions.rules.effects import TransactionReply
from eosin.coordinator.transactions.rules.events import Event
from eosin.coordinator.transactions.rules.state import NO_TIMESTAMP, TransactionState, Txn
from eosin.protocol.errors import ErrorCode
from eosin.runtime.clock import Clock, Timer

CONCURRENT: Final = TransactionReply(ErrorCode.CONCURRENT_TRANSACTIONS)


class PendingRequest:
    """One request of a client, from its arrival to its reply.

    The first answer counts and later ones are dropped, so a timer that limits the wait needs to know of nothing else.
    Often `reply` is set when the coordinator returns; otherwise await the request.
    """

    __slots__ = (
        "_answered",
        "event",
        "patient",
        "reply",
        "timer",
        "transactional_id",
        "waits",
        "waits_since_ms",
        "who",
    )

    def __init__(self, transactional_id: str, event: Event, who: Requester | None = None) -> None:
        self.transactional_id = transactional_id
        self.event = event
        self.who = who
        """The client that asks, where it is known: for the observer alone."""
        self.reply: TransactionReply | None = None
        self.waits = False
        """True if it is queued in `TransactionEntry.waiting`, to be decided again."""
        self.waits_since_ms = 0.0
        """Time at which it came into that queue, in `Clock.running_ms`: set only for an observer."""
        self.patient = True
        """True if it may still wait for a better answer than CONCURRENT_TRANSACTIONS."""
        self.timer: Timer | None = None
        self._answered: Future[None] | None = None

    def complete(self, reply: TransactionReply) -> None:
        """Set the reply, unless there is one already."""
        if self.reply is not None:
            return
        self.reply = reply
        if self.timer is not None:
            self.timer.cancel()
        if self._answered is not None and not self._answered.done():
            self._answered.set_result(None)

    def give_up_after(self, clock: Clock, wait_ms: int, reply: TransactionReply) -> None:
        """Answer with `reply` in `wait_ms` unless another answer comes first."""
        if self.timer is not None:
            self.timer.cancel()
        self.timer = clock.call_later(wait_ms, partial(self.complete, reply))

    def lose_patience(self) -> None:
        """End its wait in the queue. If its record is being written by now, the end of that will answer it."""
        self.patient = False
        if self.waits:
            self.complete(CONCURRENT)

    def __await__(self) -> Generator[Any, None, TransactionReply]:
        """Wait for the reply. Cancelling the wait undoes nothing."""
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


class TransactionEntry:
    """One transactional id in memory."""

    __slots__ = (
        "began_ms",
        "began_start_ms",
        "ended_by",
        "ended_on",
        "has_deferred_write",
        "held",
        "partition",
        "request",
        "txn",
        "waiting",
    )

    def __init__(self, txn: Txn, partition: OwnedPartition) -> None:
        self.txn = txn
        self.partition = partition
        self.request: PendingRequest | None = None
        """The request whose record is being written."""
        self.began_ms = 0.0
        """Start, in `Clock.running_ms`, of the transaction that began at `began_start_ms` (wall clock)."""
        self.began_start_ms = NO_TIMESTAMP
        self.ended_by: tuple[int, int] | None = None
        self.ended_on = -1
        """The pair of the last EndTxn below version 2, and the number of the newest connection that it came on."""
        self.has_deferred_write = False
        """True if the log lacks the record of `txn` (`DeferredWrites`)."""
        self.held: tuple[PendingRequest, TransactionReply] | None = None
        """A request that is answered as soon as the markers are written, and its reply."""
        self.waiting: deque[PendingRequest] | None = None
        """Requests that wait for what is under way, in the order in which they came."""

    def is_ended_late(self, pair: tuple[int, int], connection: int) -> bool:
        """True if an EndTxn below version 2 that comes on the connection of this number, a newer one having a higher
        number, means the transaction before the open one: its producer has given it up, and sent it again on a newer
        connection (transactions.md 5.3.2). Remembers the connection."""
        if pair != self.ended_by:
            self.ended_by, self.ended_on = pair, connection
            return False
        if connection >= self.ended_on:
            self.ended_on = connection
            return False
        leads_to = self.txn if self.txn.pending is None else self.txn.pending.after
        return leads_to.state is TransactionState.ONGOING
