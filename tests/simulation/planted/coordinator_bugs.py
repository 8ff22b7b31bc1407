"""Bugs in the coordinators of transactions and groups."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any

import msgspec

from eosin.coordinator.groups.rules import checks
from eosin.coordinator.groups.rules.offset_store import OffsetStore
from eosin.coordinator.transactions import effect_runner
from eosin.coordinator.transactions.coordinator import TransactionCoordinator
from eosin.coordinator.transactions.effect_runner import TransactionEffectRunner
from eosin.coordinator.transactions.log import encoder
from eosin.coordinator.transactions.rules import decide as decide_module
from eosin.coordinator.transactions.rules import end_txn, init_producer_id
from eosin.coordinator.transactions.rules.effects import Forget, PersistTransaction
from eosin.coordinator.transactions.rules.events import DeadlinePassed, TransactionLoaded
from eosin.coordinator.transactions.rules.state import Pending, TransactionState, Txn
from eosin.protocol.errors import ErrorCode
from simulation.planted.places import plant


@contextmanager
def pending_offsets_applied_on_abort() -> Iterator[None]:
    """An aborted transaction's offsets become the group's."""
    complete = OffsetStore.complete

    def careless(self: OffsetStore, producer_id: int, *, commit: bool) -> None:
        complete(self, producer_id, commit=True)

    with plant(OffsetStore, "complete", careless):
        yield


@contextmanager
def pending_offsets_visible() -> Iterator[None]:
    """An open transaction's offsets are the group's already."""

    def careless(self: OffsetStore, producer_id: int, group_id: str, partition: Any, value: Any) -> None:
        self.put(group_id, partition, value)

    with plant(OffsetStore, "put_pending", careless):
        yield


@contextmanager
def epoch_not_persisted() -> Iterator[None]:
    """A new instance's epoch is in memory only."""
    encode_txn = encoder.encode_txn

    def careless(txn: Txn, version: int) -> bytes:
        if txn.state is TransactionState.EMPTY and txn.producer_epoch > 0:
            txn = msgspec.structs.replace(txn, producer_epoch=txn.producer_epoch - 1)
        return encode_txn(txn, version)

    with plant(encoder, "encode_txn", careless):
        yield


@contextmanager
def epoch_not_raised() -> Iterator[None]:
    """A new instance gets the epoch that the old one has."""
    next_epoch = init_producer_id._next_epoch

    def careless(txn: Txn, *rest: Any) -> Any:
        if txn.producer_epoch > 0:
            txn = msgspec.structs.replace(txn, producer_epoch=txn.producer_epoch - 1)
        return next_epoch(txn, *rest)

    with plant(init_producer_id, "_next_epoch", careless):
        yield


@contextmanager
def roll_forward_skipped() -> Iterator[None]:
    """A decided transaction that is found at a start is not finished."""
    decide = decide_module.decide

    @wraps(decide)
    def careless(txn: Txn, request: Any, now_ms: int) -> Any:
        if isinstance(request, TransactionLoaded):
            return txn, ()
        return decide(txn, request, now_ms)

    with plant(effect_runner, "decide", careless):
        yield


@contextmanager
def decision_not_durable() -> Iterator[None]:
    """A commit is answered, and its markers are written, before the decision is on disk."""
    write = TransactionEffectRunner._write

    def careless(self: TransactionEffectRunner, partition: Any, entries: Any, txns: Any) -> None:
        with plant(type(partition.log), "high_watermark", property(lambda log: log.log_end_offset)):
            write(self, partition, entries, txns)

    with plant(TransactionEffectRunner, "_write", careless):
        yield


@contextmanager
def zombies_welcome() -> Iterator[None]:
    """Whoever knows the producer id may end its transaction."""
    end = end_txn.end

    def careless(txn: Txn, request: Any, now_ms: int) -> Any:
        if request.producer_id == txn.producer_id and txn.state is TransactionState.ONGOING:
            request = msgspec.structs.replace(request, producer_epoch=txn.producer_epoch)
        return end(txn, request, now_ms)

    with plant(decide_module, "end", careless):
        yield


@contextmanager
def epoch_not_raised_on_timeout() -> Iterator[None]:
    """The markers of a transaction that has timed out have the epoch that its producer still writes with."""
    fence = init_producer_id._fence

    def careless(txn: Txn, request: Any, now_ms: int, **how: Any) -> Any:
        if not isinstance(request, DeadlinePassed):
            return fence(txn, request, now_ms, **how)
        with plant(init_producer_id, "raised", lambda txn, fresh_producer_id: txn):
            return fence(txn, request, now_ms, **how)

    with plant(init_producer_id, "_fence", careless):
        yield


@contextmanager
def prepared_transaction_aborted() -> Iterator[None]:
    """A new instance that is to end what a database has decided finds it aborted (KIP-939)."""
    with plant(init_producer_id, "keep", init_producer_id._interrupt):
        yield


@contextmanager
def timeout_forgotten() -> Iterator[None]:
    """A transaction whose producer is gone stays open."""
    with plant(decide_module, "time_out", lambda txn, request, now_ms: (txn, ())):
        yield


@contextmanager
def generation_not_checked() -> Iterator[None]:
    """A member whose partitions others have by now may commit offsets in its transaction (KIP-447)."""
    with plant(checks, "transactional_commit", lambda *group, **member: ErrorCode.NONE):
        yield


@contextmanager
def replaced_member_may_commit() -> Iterator[None]:
    """A static member whose place another instance has taken, in the same generation, may commit offsets in its
    transaction (KIP-345)."""
    check = checks.transactional_commit

    def careless(*group: Any, **member: Any) -> ErrorCode:
        error = check(*group, **member)
        return ErrorCode.NONE if error is ErrorCode.FENCED_INSTANCE_ID else error

    with plant(checks, "transactional_commit", careless):
        yield


@contextmanager
def open_transaction_expires() -> Iterator[None]:
    """A transactional id is forgotten that was not written for a while, though a transaction is open."""

    def careless(txn: Txn, event: Any, now_ms: int) -> Any:
        if txn.pending is not None or txn.updated_ms > now_ms - event.expiration_ms:
            return txn, ()
        dead = msgspec.structs.replace(txn, state=TransactionState.DEAD)
        return msgspec.structs.replace(txn, pending=Pending(dead, (Forget(),))), (PersistTransaction(dead),)

    def all_of_them(self: TransactionCoordinator) -> None:
        for entry in list(self._entries.values()):
            self._expire(entry.partition, (entry,))

    with (
        plant(decide_module, "_expire", careless),
        plant(TransactionCoordinator, "_expire_ids", all_of_them),
    ):
        yield


@contextmanager
def commit_taken_for_abort() -> Iterator[None]:
    """A commit that is asked for a second time aborts what it has not finished."""
    end = end_txn.end

    def careless(txn: Txn, request: Any, now_ms: int) -> Any:
        if txn.state is TransactionState.ONGOING and len(txn.partitions) > 2:
            request = msgspec.structs.replace(request, commit=False)
        return end(txn, request, now_ms)

    with plant(decide_module, "end", careless):
        yield
