"""Bugs to plant in the code, so that the checker can be checked: each is what a careless change might do.

Each is a context manager, within which all that the model runs has the bug. Beside each stand the rule that it breaks
and the smallest configuration in which that shows.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import Any, Final, NamedTuple
from unittest.mock import patch

import msgspec
from simulation.planted.coordinator_bugs import epoch_not_raised
from simulation.planted.storage_bugs import duplicate_accepted

from eosin.coordinator.transactions import marker_sender
from eosin.coordinator.transactions.rules import decide as decide_module
from eosin.coordinator.transactions.rules import end_txn, init_producer_id
from eosin.coordinator.transactions.rules.effects import PersistTransaction, TransactionReply, WriteMarkers
from eosin.coordinator.transactions.rules.events import AddPartitions, EndTxn, TransactionLoaded
from eosin.coordinator.transactions.rules.state import Decision, Pending, Txn
from eosin.protocol.errors import ErrorCode
from eosin.storage.producers import state
from eosin.storage.producers.state import ProducerState
from eosin.storage.results.log_results import Marker, Refused
from model_checker import coordinating, delivering
from model_checker.bounds import Bounds
from model_checker.violation import ANSWERED, ATOMIC, ONCE, SINGLE_WRITER, STABLE, VISIBLE


class Planted(NamedTuple):
    """A bug, and where it shows."""

    plant: Callable[[], AbstractContextManager[None]]
    rule: str
    bounds: Bounds


def _bounds(about: str, *, versions: tuple[int, ...], transactions: tuple[int, ...]) -> Bounds:
    return Bounds("planted", about, versions=versions, transactions=transactions, partitions=1)


@contextmanager
def _deciding(change: Callable[[Any, Decision], Decision]) -> Iterator[None]:
    """Decisions are changed by a function of the request and what was decided."""
    decide = decide_module.decide

    def careless(txn: Txn, request: Any, now_ms: int) -> Decision:
        return change(request, decide(txn, request, now_ms))

    with patch.object(coordinating, "decide", careless):
        yield


@contextmanager
def open_transaction_left_alone() -> Iterator[None]:
    """A new instance that finds a transaction open gets its epoch at once, and does not end it."""

    def careless(txn: Txn, request: Any, given: Any, now_ms: int) -> Any:
        bumped = msgspec.structs.replace(txn, producer_epoch=txn.producer_epoch + 1)
        return txn, (TransactionReply(ErrorCode.NONE, bumped.producer_id, bumped.producer_epoch),)

    with patch.object(init_producer_id, "_interrupt", careless):
        yield


@contextmanager
def _early(
    effect: type[TransactionReply] | type[WriteMarkers], request: type[EndTxn] | type[AddPartitions]
) -> Iterator[None]:
    """One kind of effect does not wait until the record is durable."""

    def change(asked: Any, decision: Decision) -> Decision:
        txn, effects = decision
        if not isinstance(asked, request) or txn.pending is None or not isinstance(effects[-1], PersistTransaction):
            return decision
        early = tuple(each for each in txn.pending.then if isinstance(each, effect))
        late = tuple(each for each in txn.pending.then if not isinstance(each, effect))
        pending = Pending(txn.pending.after, late)
        return msgspec.structs.replace(txn, pending=pending), (*effects, *early)

    with _deciding(change):
        yield


def markers_before_the_decision() -> AbstractContextManager[None]:
    """Markers are sent while the decision is on its way to the disk."""
    return _early(WriteMarkers, EndTxn)


def commit_answered_early() -> AbstractContextManager[None]:
    """EndTxn is answered while the decision is on its way to the disk."""
    return _early(TransactionReply, EndTxn)


def partition_answered_early() -> AbstractContextManager[None]:
    """A partition is said to be in the transaction while that is on its way to the disk."""
    return _early(TransactionReply, AddPartitions)


@contextmanager
def late_marker_accepted() -> Iterator[None]:
    """A second copy of a marker ends the next transaction (KAFKA-19446)."""
    with patch.object(state, "STRICT_VERSION", 99):
        yield


@contextmanager
def guard_ignored() -> Iterator[None]:
    """A batch is taken whether or not the coordinator's word still holds (KAFKA-14884)."""
    with patch.object(ProducerState, "_is_verified", lambda *_: True):
        yield


@contextmanager
def markers_not_repeated() -> Iterator[None]:
    """A start does not go on with a decision that it finds in the log."""

    def change(asked: Any, decision: Decision) -> Decision:
        return (decision[0], ()) if isinstance(asked, TransactionLoaded) else decision

    with _deciding(change):
        yield


@contextmanager
def prepared_transaction_ended() -> Iterator[None]:
    """A new instance that asks to keep what is open ends it (KIP-939)."""

    def careless(txn: Txn, request: Any, given: Any, now_ms: int) -> Decision:
        return init_producer_id._interrupt(txn, request, given, now_ms)

    with patch.object(init_producer_id, "keep", careless):
        yield


@contextmanager
def markers_for_ever() -> Iterator[None]:
    """When all markers are written they are written again."""

    def careless(txn: Txn, event: Any, now_ms: int) -> Decision:
        return txn, (WriteMarkers(txn),)

    with patch.object(decide_module, "complete", careless):
        yield


@contextmanager
def repeated_marker_refused() -> Iterator[None]:
    """A marker that is written again is refused, and tried for ever (KAFKA-19999)."""
    check_marker = ProducerState.check_marker

    def careless(self: ProducerState, marker: Marker) -> Refused | None:
        entry = self.get(marker.producer_id)
        if entry is not None and marker.transaction_version >= 2 and entry.producer_epoch == marker.producer_epoch:
            return Refused(ErrorCode.INVALID_PRODUCER_EPOCH)
        return check_marker(self, marker)

    settled = marker_sender.SETTLED - {ErrorCode.INVALID_PRODUCER_EPOCH}
    with patch.object(ProducerState, "check_marker", careless), patch.object(delivering, "SETTLED", settled):
        yield


@contextmanager
def failed_append_forgotten() -> Iterator[None]:
    """After an append that failed the id still waits for it."""
    append_failed = decide_module._append_failed

    def careless(txn: Txn, event: Any) -> Decision:
        return txn, append_failed(txn, event)[1]

    with patch.object(decide_module, "_append_failed", careless):
        yield


@contextmanager
def repetition_always_successful() -> Iterator[None]:
    """An older client that repeats what version 2 has ended hears success, however it was ended."""

    def careless(txn: Txn, request: Any) -> Decision:
        return txn, (TransactionReply(ErrorCode.NONE),)

    with patch.object(end_txn, "_repeat_by_older_client", careless):
        yield


_ONE: Final = _bounds("one instance", versions=(2,), transactions=(2,))
_TWO: Final = _bounds("two instances", versions=(2, 2), transactions=(1, 1))
_RETRY: Final = replace(_ONE, about="one instance, a request that is late", duplicates=1)
_CRASH: Final = replace(_ONE, about="one instance, a crash", crashes=1)

PLANTED: Final = {
    "epoch-not-raised": Planted(epoch_not_raised, SINGLE_WRITER, _TWO),
    "open-transaction-left-alone": Planted(open_transaction_left_alone, SINGLE_WRITER, _TWO),
    "markers-before-the-decision": Planted(markers_before_the_decision, ATOMIC, _ONE),
    "prepared-transaction-ended": Planted(
        prepared_transaction_ended, ATOMIC, replace(_TWO, about="two instances, decided outside", two_phase=True)
    ),
    "late-marker-accepted": Planted(
        late_marker_accepted, ONCE, replace(_ONE, about="one instance, a marker that is late", late_markers=1)
    ),
    "duplicate-accepted": Planted(duplicate_accepted, ONCE, _RETRY),
    "guard-ignored": Planted(guard_ignored, STABLE, replace(_RETRY, versions=(0,))),
    "partition-answered-early": Planted(partition_answered_early, STABLE, _CRASH),
    "markers-not-repeated": Planted(markers_not_repeated, ANSWERED, _CRASH),
    "markers-for-ever": Planted(markers_for_ever, STABLE, _ONE),
    "repeated-marker-refused": Planted(repeated_marker_refused, STABLE, _CRASH),
    "failed-append-forgotten": Planted(
        failed_append_forgotten, ANSWERED, replace(_ONE, about="one instance, an append that fails", failures=1)
    ),
    "commit-answered-early": Planted(commit_answered_early, VISIBLE, _ONE),
    "repetition-always-successful": Planted(
        repetition_always_successful,
        VISIBLE,
        replace(_ONE, about="one instance, an older client that repeats its end", older_repeats=1),
    ),
}
