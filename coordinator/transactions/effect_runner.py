"""`TransactionEffectRunner`: carries out the effects of decisions in order, and feeds what they lead to back to
`decide`.

Always true: there is no await between a decision and the start of its effects, so nothing comes between validation and
`pending`; a new state is adopted when its record is as durable as configured, never before; an event that comes up
while effects are carried out (a record that is durable at once) is decided after the last of them; every request is
answered once, even if its client has gone.

Where everything is durable at once, a commit runs with its markers inside the call that asked for it: nothing here goes
through a timer, a thread or even a turn of the event loop unless there is something to wait for. One exception: where
EndTxn is answered without its markers (`end_txn_marker_wait_ms` 0), they are written in the next turn of the loop,
after the response and before the next request.
"""

import asyncio
from collections import deque
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, assert_never

import msgspec

from eosin.coordinator.transactions.deferred_writes import DeferredWrites
from eosin.coordinator.transactions.entries import CONCURRENT, OwnedPartition, PendingRequest, TransactionEntry
from eosin.coordinator.transactions.log.encoder import encode_records
from eosin.coordinator.transactions.marker_sender import MarkerJob, MarkerSender, marker_of
from eosin.coordinator.transactions.ports import TransactionObserver
from eosin.coordinator.transactions.producer_ids import ProducerIdBlocks
from eosin.coordinator.transactions.rules.config import TransactionConfig
from eosin.coordinator.transactions.rules.decide import decide
from eosin.coordinator.transactions.rules.effects import (
    AllocateProducerId,
    Effect,
    Forget,
    PersistLater,
    PersistTransaction,
    RetryLater,
    TransactionReply,
    WriteMarkers,
)
from eosin.coordinator.transactions.rules.events import (
    DeadlinePassed,
    EndTxn,
    Event,
    Expire,
    InitProducerId,
    RetryDue,
    TransactionAppended,
    TransactionAppendFailed,
)
from eosin.coordinator.transactions.rules.many_partitions import ordered
from eosin.coordinator.transactions.rules.state import NO_EPOCH, TransactionState, Txn
from eosin.protocol.errors import ErrorCode
from eosin.runtime.backoff import backoff_ms
from eosin.runtime.chance import Chance
from eosin.runtime.clock import Clock
from eosin.storage.results.log_results import Refused

if TYPE_CHECKING:
    from eosin.coordinator.transactions.confirmations import ReplyConfirmations
    from eosin.coordinator.transactions.coordinator import TransactionCoordinator

_APPENDED: Final = TransactionAppended()
_ONGOING: Final = TransactionState.ONGOING
_CONCURRENT: Final = ErrorCode.CONCURRENT_TRANSACTIONS
_LOST_LOG: Final = frozenset({ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_LEADER_OR_FOLLOWER})
"""After these nobody here can say what the log holds: its next owner reads it."""


class TransactionEffectRunner:
    """Runs requests and events through `decide`."""

    def __init__(
        self,
        owner: "TransactionCoordinator",
        *,
        markers: MarkerSender,
        deferred_writes: DeferredWrites,
        producer_ids: ProducerIdBlocks,
        clock: Clock,
        config: TransactionConfig,
        chance: Chance,
    ) -> None:
        self._owner = owner
        self._markers = markers
        self._deferred_writes = deferred_writes
        self._producer_ids = producer_ids
        self._clock = clock
        self._config = config
        self._chance = chance
        self.transaction_version = config.transaction_version
        """The server's present level, by which records are written."""
        self.observer: TransactionObserver | None = None
        self.confirmations: ReplyConfirmations | None = None
        """Receives the answers from memory, where another broker may have become the coordinator unheard of."""
        self._holds_answers = config.end_txn_marker_wait_ms > 0
        self._failures: dict[str, int] = {}
        """Ids whose record is being rolled forward, and how often that failed."""
        self._running = False
        self._now_ms = 0
        """Time at which `run` began: its immediate consequences happen at the same moment."""
        self._events: deque[tuple[TransactionEntry, Event, PendingRequest | None]] = deque()
        """The events that happened while effects were carried out."""
        self._woken: deque[TransactionEntry] = deque()
        """Entries whose waiting requests can be decided, after all events."""

    def run(self, entry: TransactionEntry, event: Event, request: PendingRequest | None = None) -> None:
        """Decide, and go on until nothing follows at once; `request` gets the reply. Called from within itself, through
        an effect that ended at once, it leaves the event to the outermost call."""
        if self._running:
            self._events.append((entry, event, request))
            return
        self._running = True
        self._now_ms = self._clock.now_ms()
        try:
            self._decide(entry, event, request)
            while self._events or self._woken:
                if self._events:
                    self._decide(*self._events.popleft())
                else:
                    self._wake(self._woken.popleft())
        finally:
            self._running = False

    def expire(self, partition: OwnedPartition, entries: Sequence[TransactionEntry]) -> None:
        """Write the tombstones of those of `entries` that have expired, in one batch if it is not too large."""
        self._now_ms = self._clock.now_ms()
        expired, dead = [], []
        for entry in entries:
            entry.txn, effects = decide(entry.txn, Expire(self._config.transactional_id_expiration_ms), self._now_ms)
            for effect in effects:
                assert isinstance(effect, PersistTransaction)
                expired.append(entry)
                dead.append(effect.txn)
        if expired:
            self._write(partition, expired, dead)

    def _decide(self, entry: TransactionEntry, event: Event, request: PendingRequest | None) -> None:
        before = entry.txn
        entry.txn, effects = decide(before, event, self._now_ms)
        # A request that waits for its record is heard of when that is durable.
        if self.observer is not None and (
            request is None or event is _APPENDED or (effects and type(effects[0]) is TransactionReply)
        ):
            self.observer.decided(before, entry.txn, event, effects, request, self._now_ms)
        for effect in effects:
            self._carry_out(entry, effect, event, request)
        if event is _APPENDED:
            self._appended(entry)
        elif entry.txn.producer_epoch == NO_EPOCH and entry.txn.pending is None:
            self._owner.forget(entry)  # refused before anything of it was stored
        if (entry.waiting or entry.held) and entry.txn.is_settled:
            self._settled(entry)

    def _carry_out(self, entry: TransactionEntry, effect: Effect, event: Event, request: PendingRequest | None) -> None:
        match effect:
            case TransactionReply():
                if request is not None:
                    if self.confirmations is not None and event is request.event and effect.error is not _CONCURRENT:
                        self.confirmations.confirm(entry.partition, request, effect)
                    else:
                        self._reply(entry, effect, request)
            case PersistTransaction():
                entry.request = request
                if effect.txn.state is _ONGOING:
                    self._owner.began(entry, effect.txn)
                self._write(entry.partition, (entry,), (effect.txn,))
            case PersistLater():
                self._deferred_writes.add(entry)
            case WriteMarkers():
                if request is not None and isinstance(request.event, EndTxn) and not self._holds_answers:
                    self._clock.call_soon(partial(self._write_markers, entry.partition, effect.txn))
                else:
                    self._write_markers(entry.partition, effect.txn)
            case AllocateProducerId():
                self._decide_with_producer_id(entry, event, request)
            case RetryLater():
                self._retry_later(entry)
            case Forget():
                self._owner.forget(entry)
            case _:
                assert_never(effect)

    # Replies --------------------------------------------------------------------------------------------------------

    def _reply(self, entry: TransactionEntry, reply: TransactionReply, request: PendingRequest) -> None:
        if reply.error is _CONCURRENT:
            self._let_wait(entry, request)
        elif reply.after_markers and entry.txn.is_preparing and self._holds_answers:
            entry.held = (request, reply)
            request.give_up_after(self._clock, self._config.end_txn_marker_wait_ms, reply)
        else:
            request.complete(reply)

    def _let_wait(self, entry: TransactionEntry, request: PendingRequest) -> None:
        """Keep a request that would be told to come back until what is under way has ended, for a while
        (transactions.md 11.11.1)."""
        wait_ms = self._config.concurrent_transactions_wait_ms
        if not request.patient or wait_ms <= 0:
            request.complete(CONCURRENT)
            return
        if entry.waiting is None:
            entry.waiting = deque()
        entry.waiting.append(request)
        request.waits = True
        if self.observer is not None:
            request.waits_since_ms = self._clock.running_ms()
        if request.timer is None:
            request.timer = self._clock.call_later(wait_ms, partial(self._lose_patience, entry, request))

    def _lose_patience(self, entry: TransactionEntry, request: PendingRequest) -> None:
        if self.observer is not None and request.waits:
            self.observer.gave_up(request, self._config.concurrent_transactions_wait_ms, self._clock.now_ms())
            self.observer.waited(self._clock.running_ms() - request.waits_since_ms)
        request.lose_patience()
        # All wait equally long, so requests that have lost patience are at the front.
        while entry.waiting and entry.waiting[0].reply is not None:
            entry.waiting.popleft()

    def _settled(self, entry: TransactionEntry) -> None:
        """Nothing is under way any more."""
        if entry.held is not None:
            (request, reply), entry.held = entry.held, None
            request.complete(reply)
        if entry.waiting:
            self._woken.append(entry)

    def _wake(self, entry: TransactionEntry) -> None:
        """Decide the first request that waits. If the entry is then settled still, the next one follows."""
        while entry.waiting and entry.txn.is_settled:
            request = entry.waiting.popleft()
            request.waits = False
            if request.reply is None:
                if self.observer is not None:
                    self.observer.waited(self._clock.running_ms() - request.waits_since_ms)
                self._decide(entry, request.event, request)
                break
        if not entry.waiting:
            entry.waiting = None

    # Records --------------------------------------------------------------------------------------------------------

    def _write(self, partition: OwnedPartition, entries: Sequence[TransactionEntry], txns: Sequence[Txn]) -> None:
        records = encode_records(txns, transaction_version=self.transaction_version)
        # Only what makes a transaction larger may be too large: it can always end (transactions.md 1.5.4).
        grows = any(len(txn.partitions) > len(entry.txn.partitions) for entry, txn in zip(entries, txns, strict=True))
        outcome = partition.log.append_records(records, count=len(txns), now_ms=self._now_ms, bounded=grows)
        if isinstance(outcome, Refused):
            if outcome.is_too_large and len(entries) > 1:
                middle = len(entries) // 2
                self._write(partition, entries[:middle], txns[:middle])
                self._write(partition, entries[middle:], txns[middle:])
                return
            self._written(entries, TransactionAppendFailed(outcome.error))
            return
        for entry in entries:
            if entry.has_deferred_write:
                self._deferred_writes.written(entry)
        end_offset = outcome.last_offset + 1
        if partition.log.high_watermark >= end_offset:
            self._written(entries, _APPENDED)
        else:
            partition.log.durable(end_offset).add_done_callback(partial(self._durable, partition, entries))

    def _durable(
        self, partition: OwnedPartition, entries: Sequence[TransactionEntry], future: "asyncio.Future[ErrorCode]"
    ) -> None:
        if not self._owner.owns(partition):
            return  # all requests were answered NOT_COORDINATOR; the next owner finds the record, or not
        error = ErrorCode.NOT_LEADER_OR_FOLLOWER if future.cancelled() else future.result()
        if error in _LOST_LOG:
            self._owner.lost(partition, error)
        else:
            self._written(entries, _APPENDED if error is ErrorCode.NONE else TransactionAppendFailed(error))

    def _written(
        self, entries: Sequence[TransactionEntry], event: TransactionAppended | TransactionAppendFailed
    ) -> None:
        for entry in entries:
            request, entry.request = entry.request, None
            self.run(entry, event, request)

    def _appended(self, entry: TransactionEntry) -> None:
        """The record in `pending` has become the state."""
        if self._failures:
            self._failures.pop(entry.txn.transactional_id, None)
        if entry.txn.state is _ONGOING and entry.txn.pending is None:
            self._owner.opened(entry)

    def _retry_later(self, entry: TransactionEntry) -> None:
        transactional_id = entry.txn.transactional_id
        failures = self._failures[transactional_id] = self._failures.get(transactional_id, 0) + 1
        wait_ms = backoff_ms(
            failures,
            first_ms=self._config.retry_backoff_ms,
            longest_ms=self._config.retry_backoff_max_ms,
            chance=self._chance,
        )
        self._clock.call_later(wait_ms, partial(self._retry, entry))

    def _retry(self, entry: TransactionEntry) -> None:
        if self._owner.entry(entry.txn.transactional_id) is entry:
            self.run(entry, RetryDue())

    def _decide_with_producer_id(self, entry: TransactionEntry, event: Event, request: PendingRequest | None) -> None:
        assert isinstance(event, InitProducerId | EndTxn | DeadlinePassed)
        fresh = self._producer_ids.allocate()
        if fresh is not None:
            self._decide(entry, msgspec.structs.replace(event, fresh_producer_id=fresh), request)
        elif request is not None:
            request.complete(TransactionReply(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))

    # Markers --------------------------------------------------------------------------------------------------------

    def _write_markers(self, partition: OwnedPartition, txn: Txn) -> None:
        if not self._owner.owns(partition):
            return  # its next owner writes them
        marker = marker_of(txn, coordinator_epoch=partition.epoch)
        job = MarkerJob(txn.transactional_id, marker, ordered(txn.partitions), coordinator_partition=partition.index)
        self._markers.send(job)
