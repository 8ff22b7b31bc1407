"""Adding partitions, verification, appends that fail, expiry: what `decide` decides itself."""

import msgspec
import pytest

from eosin.coordinator.transactions.rules.decide import APPEND_ERRORS, UNCERTAIN, decide, verify
from eosin.coordinator.transactions.rules.effects import (
    Forget,
    PersistTransaction,
    RetryLater,
    TransactionReply,
    WriteMarkers,
)
from eosin.coordinator.transactions.rules.events import (
    AddPartitions,
    EndTxn,
    Expire,
    InitProducerId,
    RetryDue,
    TransactionAppended,
    TransactionAppendFailed,
    TransactionLoaded,
)
from eosin.coordinator.transactions.rules.state import TransactionState, Txn
from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import ProducerIdAndEpoch, TopicPartition

NOW = 5_000
ORDERS_0, ORDERS_1 = TopicPartition("orders", 0), TopicPartition("orders", 1)
EMPTY = Txn("tx", producer_id=7, producer_epoch=5, timeout_ms=60_000, updated_ms=1)
ONGOING = msgspec.structs.replace(EMPTY, state=TransactionState.ONGOING, partitions=frozenset({ORDERS_0}), start_ms=1)
PREPARING = msgspec.structs.replace(ONGOING, state=TransactionState.PREPARE_COMMIT)


def add(*partitions: TopicPartition, pair: tuple[int, int] = (7, 5)) -> AddPartitions:
    return AddPartitions(*pair, frozenset(partitions))


def refusal(txn: Txn, request: AddPartitions) -> ErrorCode:
    after, effects = decide(txn, request, NOW)
    assert after is txn
    (reply,) = effects
    assert isinstance(reply, TransactionReply)
    return reply.error


@pytest.mark.parametrize(
    "state", [TransactionState.EMPTY, TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT]
)
def test_the_first_partition_begins_a_transaction(state: TransactionState) -> None:
    before = msgspec.structs.replace(EMPTY, state=state, start_ms=2, last_epoch=4, timed_out=ProducerIdAndEpoch(7, 4))
    pending, _ = decide(before, add(ORDERS_0), NOW)
    after, effects = decide(pending, TransactionAppended(), NOW)
    assert effects == (TransactionReply(ErrorCode.NONE),)
    assert (after.state, after.partitions, after.start_ms) == (TransactionState.ONGOING, {ORDERS_0}, NOW)
    assert (after.last_epoch, after.timed_out) == (4, None)


def test_more_partitions_join_without_moving_the_start() -> None:
    pending, _ = decide(ONGOING, add(ORDERS_0, ORDERS_1), NOW)
    after, _ = decide(pending, TransactionAppended(), NOW)
    assert (after.partitions, after.start_ms, after.updated_ms) == ({ORDERS_0, ORDERS_1}, 1, NOW)


def test_partitions_that_are_in_already_cost_no_record() -> None:
    assert decide(ONGOING, add(ORDERS_0), NOW) == (ONGOING, (TransactionReply(ErrorCode.NONE),))


def test_partitions_are_added_only_by_the_producer_that_holds_the_id() -> None:
    assert refusal(EMPTY, add(ORDERS_0, pair=(8, 5))) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert refusal(EMPTY, add(ORDERS_0, pair=(7, 4))) is ErrorCode.PRODUCER_FENCED
    assert refusal(EMPTY, add(ORDERS_0, pair=(7, 6))) is ErrorCode.PRODUCER_FENCED


def test_while_something_is_under_way_nobody_is_judged_by_its_pair() -> None:
    pending, _ = decide(ONGOING, EndTxn(7, 5, True, 0), NOW)
    for txn in (pending, PREPARING):
        for pair in ((7, 5), (8, 0), (7, 4)):
            assert refusal(txn, add(ORDERS_1, pair=pair)) is ErrorCode.CONCURRENT_TRANSACTIONS


def test_verification_tells_what_is_registered_and_to_whom() -> None:
    assert verify(ONGOING, ORDERS_0, producer_id=7, producer_epoch=5) is ErrorCode.NONE
    assert verify(ONGOING, ORDERS_1, producer_id=7, producer_epoch=5) is ErrorCode.TRANSACTION_ABORTABLE
    assert verify(EMPTY, ORDERS_0, producer_id=7, producer_epoch=5) is ErrorCode.TRANSACTION_ABORTABLE
    assert verify(ONGOING, ORDERS_0, producer_id=8, producer_epoch=5) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert verify(ONGOING, ORDERS_0, producer_id=7, producer_epoch=4) is ErrorCode.PRODUCER_FENCED
    assert verify(PREPARING, ORDERS_0, producer_id=7, producer_epoch=5) is ErrorCode.CONCURRENT_TRANSACTIONS


def test_verification_does_not_look_at_what_is_under_way() -> None:
    pending, _ = decide(ONGOING, add(ORDERS_1), NOW)
    assert verify(pending, ORDERS_0, producer_id=7, producer_epoch=5) is ErrorCode.NONE
    assert verify(pending, ORDERS_1, producer_id=7, producer_epoch=5) is ErrorCode.TRANSACTION_ABORTABLE


CERTAIN = sorted(set(APPEND_ERRORS) - UNCERTAIN)


@pytest.mark.parametrize("error", [*CERTAIN, ErrorCode.POLICY_VIOLATION])
def test_an_append_that_failed_for_certain_leaves_everything_as_it_was(error: ErrorCode) -> None:
    pending, _ = decide(ONGOING, EndTxn(7, 5, True, 2), NOW)
    assert decide(pending, TransactionAppendFailed(error), NOW) == (
        ONGOING,
        (TransactionReply(APPEND_ERRORS.get(error, error)),),
    )


def test_each_failed_append_has_an_error_for_the_client() -> None:
    assert APPEND_ERRORS[ErrorCode.NOT_ENOUGH_REPLICAS] is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert APPEND_ERRORS[ErrorCode.KAFKA_STORAGE_ERROR] is ErrorCode.NOT_COORDINATOR
    assert APPEND_ERRORS[ErrorCode.MESSAGE_TOO_LARGE] is ErrorCode.UNKNOWN_SERVER_ERROR


@pytest.mark.parametrize("error", sorted(UNCERTAIN))
def test_a_record_in_doubt_is_written_again_until_it_is_certain(error: ErrorCode) -> None:
    pending, _ = decide(ONGOING, EndTxn(7, 5, True, 2), NOW)
    assert pending.pending is not None
    doubtful, effects = decide(pending, TransactionAppendFailed(error), NOW)
    assert effects == (TransactionReply(ErrorCode.COORDINATOR_NOT_AVAILABLE), RetryLater())
    assert doubtful.pending is not None
    after = pending.pending.after
    assert doubtful.pending.after == after
    assert decide(doubtful, EndTxn(7, 5, False, 2), NOW)[1] == (TransactionReply(ErrorCode.CONCURRENT_TRANSACTIONS),)
    assert decide(doubtful, RetryDue(), NOW) == (doubtful, (PersistTransaction(after),))
    assert decide(doubtful, TransactionAppended(), NOW) == (after, (WriteMarkers(after),))


def test_a_later_failure_does_not_settle_a_doubt() -> None:
    pending, _ = decide(ONGOING, EndTxn(7, 5, True, 2), NOW)
    doubtful, _ = decide(pending, TransactionAppendFailed(ErrorCode.REQUEST_TIMED_OUT), NOW)
    again, effects = decide(doubtful, TransactionAppendFailed(ErrorCode.NOT_ENOUGH_REPLICAS), NOW)
    assert again == doubtful, "the first record may be in the log: no other may be written after it"
    assert effects == (TransactionReply(ErrorCode.COORDINATOR_NOT_AVAILABLE), RetryLater())


def test_an_id_of_which_nothing_was_stored_is_forgotten() -> None:
    pending, _ = decide(Txn("tx"), InitProducerId(1000, 2, fresh_producer_id=9), NOW)
    _, effects = decide(pending, TransactionAppendFailed(ErrorCode.NOT_ENOUGH_REPLICAS), NOW)
    assert effects == (TransactionReply(ErrorCode.COORDINATOR_NOT_AVAILABLE), Forget())


def test_a_retry_that_comes_too_late_means_nothing() -> None:
    assert decide(ONGOING, RetryDue(), NOW) == (ONGOING, ())


@pytest.mark.parametrize(
    "state", [TransactionState.EMPTY, TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT]
)
def test_an_unused_id_at_rest_expires_with_a_tombstone(state: TransactionState) -> None:
    txn = msgspec.structs.replace(EMPTY, state=state, start_ms=1)
    assert decide(txn, Expire(1000), 1000) == (txn, ())
    pending, effects = decide(txn, Expire(1000), 1001)
    (persist,) = effects
    assert isinstance(persist, PersistTransaction)
    assert persist.txn.state is TransactionState.DEAD
    assert decide(pending, TransactionAppended(), 1001)[1] == (Forget(),)
    assert decide(pending, TransactionAppendFailed(ErrorCode.NOT_ENOUGH_REPLICAS), 1001)[0] == txn


def test_nothing_that_is_open_or_under_way_expires() -> None:
    pending, _ = decide(EMPTY, add(ORDERS_0), NOW)
    for txn in (ONGOING, PREPARING, pending):
        assert decide(txn, Expire(1000), 10**9) == (txn, ())


def test_a_decision_before_a_start_is_carried_out_after_it() -> None:
    assert decide(PREPARING, TransactionLoaded(), NOW) == (PREPARING, (WriteMarkers(PREPARING),))
    for txn in (EMPTY, ONGOING):
        assert decide(txn, TransactionLoaded(), NOW) == (txn, ())
