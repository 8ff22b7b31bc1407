"""EndTxn, cell by cell of the two tables (transactions.md 4.5), and how a transaction is completed."""

import msgspec
import pytest

from eosin.coordinator.transactions.rules.decide import decide
from eosin.coordinator.transactions.rules.effects import (
    AllocateProducerId,
    Effects,
    PersistLater,
    PersistTransaction,
    TransactionReply,
    WriteMarkers,
)
from eosin.coordinator.transactions.rules.events import EndTxn, MarkersWritten, TransactionAppended
from eosin.coordinator.transactions.rules.state import TransactionState, Txn
from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import ProducerIdAndEpoch, TopicPartition

NOW = 5_000
NONE = ErrorCode.NONE
CONCURRENT = ErrorCode.CONCURRENT_TRANSACTIONS
INVALID = ErrorCode.INVALID_TXN_STATE
FENCED = ErrorCode.PRODUCER_FENCED
UNMAPPED = ErrorCode.INVALID_PRODUCER_ID_MAPPING
ORDERS = frozenset({TopicPartition("orders", 0)})


def in_state(state: TransactionState, *, epoch: int = 5, last_epoch: int = 4) -> Txn:
    txn = Txn(
        "tx", producer_id=7, producer_epoch=epoch, last_epoch=last_epoch, timeout_ms=60_000, updated_ms=1, state=state
    )
    start_ms = -1 if state is TransactionState.EMPTY else 1
    partitions = (
        ORDERS
        if state in (TransactionState.ONGOING, TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT)
        else frozenset()
    )
    return msgspec.structs.replace(txn, start_ms=start_ms, partitions=partitions)


def answer(txn: Txn, request: EndTxn) -> tuple[ErrorCode, int, int]:
    """What the client is told, the record being written if there is one."""
    txn, effects = decide(txn, request, NOW)
    if effects and isinstance(effects[0], PersistTransaction):
        _, effects = decide(txn, TransactionAppended(), NOW)
    (reply,) = [effect for effect in effects if isinstance(effect, TransactionReply)]
    return reply.error, reply.producer_id, reply.producer_epoch


def prepared(txn: Txn, request: EndTxn) -> tuple[Txn, Effects]:
    txn, effects = decide(txn, request, NOW)
    assert isinstance(effects[0], PersistTransaction), effects
    return decide(txn, TransactionAppended(), NOW)


@pytest.mark.parametrize(
    ("state", "commit", "abort"),
    [
        (TransactionState.PREPARE_COMMIT, CONCURRENT, INVALID),
        (TransactionState.PREPARE_ABORT, INVALID, CONCURRENT),
        (TransactionState.COMPLETE_COMMIT, NONE, INVALID),
        (TransactionState.COMPLETE_ABORT, INVALID, NONE),
        (TransactionState.EMPTY, INVALID, NONE),
    ],
)
def test_a_client_before_version_2_is_answered_by_the_state(
    state: TransactionState, commit: ErrorCode, abort: ErrorCode
) -> None:
    txn = in_state(state)
    for wants_commit, expected in ((True, commit), (False, abort)):
        assert decide(txn, EndTxn(7, 5, wants_commit, 0), NOW) == (txn, (TransactionReply(expected),))


@pytest.mark.parametrize(
    ("commit", "state"), [(True, TransactionState.PREPARE_COMMIT), (False, TransactionState.PREPARE_ABORT)]
)
def test_before_version_2_an_open_transaction_is_decided_under_its_own_epoch(
    commit: bool, state: TransactionState
) -> None:
    after, effects = prepared(in_state(TransactionState.ONGOING), EndTxn(7, 5, commit, 0))
    assert (after.state, after.producer_epoch, after.last_epoch, after.client_transaction_version) == (state, 5, 4, 0)
    assert effects == (WriteMarkers(after), TransactionReply(NONE, after_markers=True))


@pytest.mark.parametrize("state", list(TransactionState)[:6])
def test_before_version_2_the_pair_must_be_exactly_the_current_one(state: TransactionState) -> None:
    for pair, error in (((8, 5), UNMAPPED), ((7, 4), FENCED), ((7, 6), FENCED)):
        assert answer(in_state(state), EndTxn(*pair, True, 0))[0] is error


RETRIED, CURRENT = 4, 5


@pytest.mark.parametrize(
    ("state", "commit", "epoch", "expected"),
    [
        (TransactionState.ONGOING, False, RETRIED, FENCED),
        (TransactionState.ONGOING, True, RETRIED, FENCED),
        (TransactionState.EMPTY, False, RETRIED, FENCED),
        (TransactionState.EMPTY, True, RETRIED, FENCED),
        (TransactionState.EMPTY, True, CURRENT, INVALID),
        (TransactionState.PREPARE_ABORT, False, RETRIED, CONCURRENT),
        (TransactionState.PREPARE_ABORT, False, CURRENT, CONCURRENT),
        (TransactionState.PREPARE_ABORT, True, RETRIED, INVALID),
        (TransactionState.PREPARE_ABORT, True, CURRENT, CONCURRENT),
        (TransactionState.PREPARE_COMMIT, False, RETRIED, INVALID),
        (TransactionState.PREPARE_COMMIT, False, CURRENT, CONCURRENT),
        (TransactionState.PREPARE_COMMIT, True, RETRIED, CONCURRENT),
        (TransactionState.PREPARE_COMMIT, True, CURRENT, CONCURRENT),
        (TransactionState.COMPLETE_ABORT, True, RETRIED, INVALID),
        (TransactionState.COMPLETE_ABORT, True, CURRENT, INVALID),
        (TransactionState.COMPLETE_COMMIT, False, RETRIED, INVALID),
        (TransactionState.COMPLETE_COMMIT, True, CURRENT, INVALID),
    ],
)
def test_a_version_2_client_is_answered_by_state_and_pair(
    state: TransactionState, commit: bool, epoch: int, expected: ErrorCode
) -> None:
    txn = in_state(state)
    assert decide(txn, EndTxn(7, epoch, commit, 2), NOW) == (txn, (TransactionReply(expected),))


@pytest.mark.parametrize(
    ("state", "commit"), [(TransactionState.COMPLETE_ABORT, False), (TransactionState.COMPLETE_COMMIT, True)]
)
def test_a_version_2_client_that_asks_again_is_told_its_pair_again(state: TransactionState, commit: bool) -> None:
    assert answer(in_state(state), EndTxn(7, RETRIED, commit, 2)) == (NONE, 7, 5)


@pytest.mark.parametrize(
    "state", [TransactionState.EMPTY, TransactionState.COMPLETE_ABORT, TransactionState.COMPLETE_COMMIT]
)
def test_a_version_2_client_may_abort_nothing_at_all(state: TransactionState) -> None:
    after, effects = prepared(in_state(state), EndTxn(7, CURRENT, False, 2))
    assert (after.state, after.pair, after.last_epoch) == (TransactionState.PREPARE_ABORT, (7, 6), 5)
    assert (after.partitions, after.start_ms) == (frozenset(), NOW)
    assert effects == (WriteMarkers(after), TransactionReply(NONE, 7, 6, after_markers=True))


@pytest.mark.parametrize("commit", [True, False])
def test_version_2_decides_an_open_transaction_under_one_epoch_more(commit: bool) -> None:
    after, effects = prepared(in_state(TransactionState.ONGOING), EndTxn(7, CURRENT, commit, 2))
    assert (after.pair, after.last_epoch, after.client_transaction_version) == ((7, 6), 5, 2)
    assert (after.partitions, after.start_ms) == (ORDERS, 1)
    assert effects == (WriteMarkers(after), TransactionReply(NONE, 7, 6, after_markers=True))


@pytest.mark.parametrize("state", list(TransactionState)[:6])
def test_a_version_2_client_with_another_producer_id_or_epoch_is_refused(state: TransactionState) -> None:
    for pair, error in (((8, 5), UNMAPPED), ((7, 3), FENCED), ((7, 6), FENCED)):
        assert answer(in_state(state), EndTxn(*pair, True, 2))[0] is error


@pytest.mark.parametrize("state", [TransactionState.PREPARE_ABORT, TransactionState.COMPLETE_ABORT])
def test_a_replaced_producer_does_not_get_the_current_pair(state: TransactionState) -> None:
    txn = in_state(state, last_epoch=-1)
    assert answer(txn, EndTxn(7, RETRIED, False, 2))[0] is FENCED


def test_the_end_at_the_last_epoch_tells_the_next_producer_id() -> None:
    txn = in_state(TransactionState.ONGOING, epoch=32766)
    request = EndTxn(7, 32766, True, 2)
    assert decide(txn, request, NOW) == (txn, (AllocateProducerId(),))
    preparing, effects = prepared(txn, msgspec.structs.replace(request, fresh_producer_id=9))
    assert preparing.pair == (7, 32767)
    assert effects[-1] == TransactionReply(NONE, 9, 0, after_markers=True)
    complete, _ = decide(preparing, MarkersWritten(7, 32767), NOW)
    assert (complete.pair, complete.previous_producer_id, complete.last_epoch) == ((9, 0), 7, 32766)
    assert complete.next_producer_id == -1
    assert answer(complete, request) == (NONE, 9, 0)
    assert answer(complete, EndTxn(7, 32765, True, 2))[0] is FENCED
    assert answer(complete, EndTxn(8, 32765, True, 2))[0] is UNMAPPED


def ended_by_version_2(state: TransactionState, **epochs: int) -> Txn:
    return msgspec.structs.replace(in_state(state, **epochs), client_transaction_version=2)


@pytest.mark.parametrize(
    ("state", "commit", "abort"),
    [
        (TransactionState.PREPARE_COMMIT, CONCURRENT, INVALID),
        (TransactionState.PREPARE_ABORT, INVALID, CONCURRENT),
        (TransactionState.COMPLETE_COMMIT, NONE, INVALID),
        (TransactionState.COMPLETE_ABORT, INVALID, NONE),
        (TransactionState.ONGOING, FENCED, FENCED),
        (TransactionState.EMPTY, FENCED, FENCED),
    ],
)
def test_an_older_client_may_repeat_what_version_2_has_ended(
    state: TransactionState, commit: ErrorCode, abort: ErrorCode
) -> None:
    txn = ended_by_version_2(state)
    for wants_commit, expected in ((True, commit), (False, abort)):
        assert decide(txn, EndTxn(7, RETRIED, wants_commit, 0), NOW) == (txn, (TransactionReply(expected),))


def test_an_older_client_may_repeat_the_end_across_a_change_of_the_producer_id() -> None:
    request = EndTxn(7, 32766, True, 0)
    preparing, _ = prepared(
        in_state(TransactionState.ONGOING, epoch=32766), EndTxn(7, 32766, True, 2, fresh_producer_id=9)
    )
    assert answer(preparing, request)[0] is CONCURRENT
    complete, _ = decide(preparing, MarkersWritten(7, 32767), NOW)
    assert answer(complete, request) == (NONE, -1, -1)
    assert answer(complete, msgspec.structs.replace(request, commit=False))[0] is INVALID
    newer = msgspec.structs.replace(complete, state=TransactionState.ONGOING, partitions=ORDERS)
    assert answer(newer, request)[0] is FENCED
    ended, _ = prepared(newer, EndTxn(9, 0, True, 2))
    assert answer(ended, request)[0] is FENCED, "not a pair of another transactional id"


def test_a_transaction_that_timed_out_is_no_repetition_of_what_its_producer_ended() -> None:
    for state in (TransactionState.PREPARE_ABORT, TransactionState.COMPLETE_ABORT):
        txn = msgspec.structs.replace(ended_by_version_2(state), timed_out=ProducerIdAndEpoch(7, RETRIED))
        assert answer(txn, EndTxn(7, RETRIED, True, 0))[0] is FENCED
        assert answer(txn, EndTxn(7, RETRIED, False, 0))[0] is NONE


def test_a_transaction_that_an_older_client_ended_has_no_earlier_pair() -> None:
    txn = in_state(TransactionState.COMPLETE_COMMIT)
    assert answer(txn, EndTxn(7, RETRIED, True, 0))[0] is FENCED


def test_a_record_under_way_makes_an_older_client_wait_with_its_repetition() -> None:
    pending, _ = decide(ended_by_version_2(TransactionState.COMPLETE_COMMIT), EndTxn(7, CURRENT, False, 2), NOW)
    assert pending.pending is not None
    assert answer(pending, EndTxn(7, RETRIED, True, 0))[0] is CONCURRENT


def test_before_version_2_the_last_epoch_is_as_good_as_any() -> None:
    after, _ = prepared(in_state(TransactionState.ONGOING, epoch=32766), EndTxn(7, 32766, True, 0))
    assert after.pair == (7, 32766)


@pytest.mark.parametrize("client_transaction_version", [0, 2])
def test_a_record_under_way_makes_the_end_wait(client_transaction_version: int) -> None:
    pending, _ = decide(in_state(TransactionState.ONGOING), EndTxn(7, 5, True, 0), NOW)
    assert answer(pending, EndTxn(7, 5, True, client_transaction_version))[0] is CONCURRENT


@pytest.mark.parametrize(
    ("preparing", "complete"),
    [
        (TransactionState.PREPARE_COMMIT, TransactionState.COMPLETE_COMMIT),
        (TransactionState.PREPARE_ABORT, TransactionState.COMPLETE_ABORT),
    ],
)
def test_when_all_markers_are_written_the_transaction_is_complete(
    preparing: TransactionState, complete: TransactionState
) -> None:
    after, effects = decide(in_state(preparing), MarkersWritten(7, 5), NOW)
    assert after.pending is None, "nothing needs to be waited for"
    assert effects == (PersistLater(after),)
    assert (after.state, after.pair, after.last_epoch) == (complete, (7, 5), 4)
    assert (after.partitions, after.start_ms, after.updated_ms) == (frozenset(), 1, NOW)


@pytest.mark.parametrize("pair", [(7, 4), (7, 6), (8, 5)])
def test_markers_of_another_transaction_complete_nothing(pair: tuple[int, int]) -> None:
    txn = in_state(TransactionState.PREPARE_COMMIT)
    assert decide(txn, MarkersWritten(*pair), NOW) == (txn, ())
    assert decide(in_state(TransactionState.ONGOING), MarkersWritten(7, 5), NOW)[1] == ()
