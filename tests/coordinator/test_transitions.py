"""Every move keeps the invariants of transactions.md 1.3; a mistake of ours is caught before it is written."""

import msgspec
import pytest

from eosin.coordinator.transactions.rules.state import (
    LEGAL_PREDECESSORS,
    STATE_NAMES,
    TransactionState,
    Txn,
    check_transition,
    move,
)
from eosin.protocol.names import TopicPartition

ORDERS = frozenset({TopicPartition("orders", 0)})
ONGOING = Txn(
    "tx",
    producer_id=7,
    producer_epoch=5,
    timeout_ms=1000,
    state=TransactionState.ONGOING,
    partitions=ORDERS,
    start_ms=1,
)
PREPARING = msgspec.structs.replace(ONGOING, state=TransactionState.PREPARE_COMMIT)
COMPLETE = msgspec.structs.replace(PREPARING, state=TransactionState.COMPLETE_COMMIT, partitions=frozenset())
EMPTY = msgspec.structs.replace(COMPLETE, state=TransactionState.EMPTY, start_ms=-1)


def test_the_legal_successions_are_those_of_the_specification() -> None:
    at_rest = {TransactionState.EMPTY, TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT}
    legal = {
        TransactionState.EMPTY: at_rest,
        TransactionState.ONGOING: at_rest | {TransactionState.ONGOING},
        TransactionState.PREPARE_COMMIT: {TransactionState.ONGOING},
        TransactionState.PREPARE_ABORT: at_rest | {TransactionState.ONGOING},
        TransactionState.COMPLETE_COMMIT: {TransactionState.PREPARE_COMMIT},
        TransactionState.COMPLETE_ABORT: {TransactionState.PREPARE_ABORT},
        TransactionState.DEAD: at_rest,
    }
    assert legal == LEGAL_PREDECESSORS
    assert STATE_NAMES.keys() == LEGAL_PREDECESSORS.keys() == set(TransactionState)


@pytest.mark.parametrize(("before", "after"), [(ONGOING, PREPARING), (PREPARING, COMPLETE), (COMPLETE, EMPTY)])
def test_a_transaction_goes_its_way(before: Txn, after: Txn) -> None:
    check_transition(before, after)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (PREPARING, ONGOING),
        (ONGOING, COMPLETE),
        (EMPTY, PREPARING),
        (ONGOING, msgspec.structs.replace(PREPARING, partitions=frozenset())),
        (ONGOING, msgspec.structs.replace(PREPARING, producer_epoch=7)),
        (ONGOING, msgspec.structs.replace(PREPARING, producer_epoch=4)),
        (ONGOING, msgspec.structs.replace(PREPARING, timeout_ms=1)),
        (ONGOING, msgspec.structs.replace(ONGOING, partitions=frozenset())),
        (ONGOING, msgspec.structs.replace(ONGOING, producer_epoch=6)),
        (PREPARING, msgspec.structs.replace(COMPLETE, producer_id=8)),
        (PREPARING, msgspec.structs.replace(COMPLETE, partitions=ORDERS)),
        (COMPLETE, msgspec.structs.replace(EMPTY, producer_id=8, producer_epoch=1)),
        (COMPLETE, msgspec.structs.replace(EMPTY, start_ms=1)),
    ],
)
def test_a_move_that_breaks_an_invariant_is_a_mistake_of_ours(before: Txn, after: Txn) -> None:
    with pytest.raises(AssertionError):
        check_transition(before, after)


def test_two_records_of_one_id_are_never_under_way() -> None:
    pending, _ = move(ONGOING, PREPARING)
    with pytest.raises(AssertionError):
        move(pending, PREPARING)
