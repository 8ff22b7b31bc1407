"""InitProducerId, decision by decision (transactions.md 3)."""

import msgspec
import pytest

from eosin.coordinator.transactions.rules.decide import decide
from eosin.coordinator.transactions.rules.effects import (
    AllocateProducerId,
    Effects,
    PersistTransaction,
    TransactionReply,
    WriteMarkers,
)
from eosin.coordinator.transactions.rules.events import DeadlinePassed, InitProducerId, TransactionAppended
from eosin.coordinator.transactions.rules.state import TransactionState, Txn
from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import ProducerIdAndEpoch, TopicPartition

NOW = 5_000
ORDERS = frozenset({TopicPartition("orders", 0)})
EMPTY = Txn("tx", producer_id=7, producer_epoch=5, last_epoch=4, timeout_ms=60_000, updated_ms=1)
ONGOING = msgspec.structs.replace(EMPTY, state=TransactionState.ONGOING, partitions=ORDERS, start_ms=1)


def init(
    pair: tuple[int, int] = (-1, -1), *, version: int = 2, fresh: int = -1, timeout_ms: int = 60_000
) -> InitProducerId:
    return InitProducerId(timeout_ms, version, *pair, fresh_producer_id=fresh)


def outcome(txn: Txn, request: InitProducerId | DeadlinePassed, now_ms: int = NOW) -> tuple[Txn, Effects]:
    """The state and the answer once the record is written."""
    pending, effects = decide(txn, request, now_ms)
    if not any(isinstance(effect, PersistTransaction) for effect in effects):
        return pending, effects
    return decide(pending, TransactionAppended(), now_ms)


def told(effects: Effects) -> tuple[ErrorCode, int, int]:
    (reply,) = [effect for effect in effects if isinstance(effect, TransactionReply)]
    return reply.error, reply.producer_id, reply.producer_epoch


def refused(txn: Txn, request: InitProducerId) -> ErrorCode:
    after, effects = decide(txn, request, NOW)
    assert after is txn, "a refusal changes nothing"
    (reply,) = effects
    assert isinstance(reply, TransactionReply)
    assert (reply.producer_id, reply.producer_epoch) == (-1, -1)
    return reply.error


def test_an_unknown_id_asks_for_a_producer_id_and_starts_at_epoch_0() -> None:
    assert decide(Txn("tx"), init(), NOW) == (Txn("tx"), (AllocateProducerId(),))
    after, effects = outcome(Txn("tx"), init(fresh=9))
    assert told(effects) == (ErrorCode.NONE, 9, 0)
    assert (after.state, after.last_epoch, after.start_ms, after.updated_ms) == (TransactionState.EMPTY, -1, -1, NOW)


def test_an_expired_id_takes_any_pair_for_a_new_instance() -> None:
    after, effects = outcome(Txn("tx"), init((3, 8), fresh=9))
    assert told(effects) == (ErrorCode.NONE, 9, 0)
    assert after.last_epoch == -1


@pytest.mark.parametrize(
    "state", [TransactionState.EMPTY, TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT]
)
def test_a_new_instance_bumps_the_epoch_and_ends_the_line_of_the_old_one(state: TransactionState) -> None:
    before = msgspec.structs.replace(EMPTY, state=state, start_ms=-1 if state is TransactionState.EMPTY else 1)
    after, effects = outcome(before, init(timeout_ms=1234))
    assert told(effects) == (ErrorCode.NONE, 7, 6)
    assert (after.last_epoch, after.timeout_ms, after.start_ms) == (-1, 1234, -1)


def test_a_new_instance_at_the_last_epoch_gets_a_new_producer_id() -> None:
    before = msgspec.structs.replace(EMPTY, producer_epoch=32766)
    after, effects = outcome(before, init(fresh=9))
    assert told(effects) == (ErrorCode.NONE, 9, 0)
    assert (after.previous_producer_id, after.last_epoch) == (7, -1)


def test_the_current_pair_is_bumped_and_remembered() -> None:
    after, effects = outcome(EMPTY, init((7, 5)))
    assert told(effects) == (ErrorCode.NONE, 7, 6)
    assert after.last_epoch == 5


def test_the_last_pair_is_told_the_same_again() -> None:
    after, effects = outcome(EMPTY, init((7, 4), timeout_ms=99))
    assert told(effects) == (ErrorCode.NONE, 7, 5)
    assert (after.last_epoch, after.timeout_ms) == (4, 99)


@pytest.mark.parametrize("pair", [(7, 3), (7, 6), (8, 5), (8, 4)])
def test_any_other_pair_is_fenced(pair: tuple[int, int]) -> None:
    assert refused(EMPTY, init(pair)) is ErrorCode.PRODUCER_FENCED


def test_the_pair_before_a_rotation_is_told_the_new_one_again() -> None:
    rotated, _ = outcome(msgspec.structs.replace(EMPTY, producer_epoch=32766), init((7, 32766), fresh=9))
    assert (rotated.previous_producer_id, rotated.last_epoch) == (7, 32766)
    _, effects = outcome(rotated, init((7, 32766)))
    assert told(effects) == (ErrorCode.NONE, 9, 0)
    assert refused(rotated, init((7, 32765))) is ErrorCode.PRODUCER_FENCED
    assert refused(rotated, init((9, 32766))) is ErrorCode.PRODUCER_FENCED


def test_a_new_instance_ends_the_line_that_a_rotation_continued() -> None:
    rotated, _ = outcome(msgspec.structs.replace(EMPTY, producer_epoch=32766), init(fresh=9))
    assert refused(rotated, init((7, 32766))) is ErrorCode.PRODUCER_FENCED


def test_a_record_under_way_makes_everybody_wait() -> None:
    pending, _ = decide(EMPTY, init(), NOW)
    assert refused(pending, init()) is ErrorCode.CONCURRENT_TRANSACTIONS
    assert refused(pending, init((7, 5))) is ErrorCode.CONCURRENT_TRANSACTIONS


@pytest.mark.parametrize("state", [TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT])
def test_while_markers_are_written_only_a_request_acceptable_afterwards_is_told_to_wait(
    state: TransactionState,
) -> None:
    preparing = msgspec.structs.replace(ONGOING, state=state, timed_out=ProducerIdAndEpoch(7, 2))
    assert refused(preparing, init()) is ErrorCode.CONCURRENT_TRANSACTIONS
    for epoch in (5, 4, 2):
        assert refused(preparing, init((7, epoch))) is ErrorCode.CONCURRENT_TRANSACTIONS
    for pair in ((7, 3), (7, 6), (8, 5)):
        assert refused(preparing, init(pair)) is ErrorCode.PRODUCER_FENCED


def test_a_producer_with_its_next_producer_id_waits_for_the_markers() -> None:
    preparing = msgspec.structs.replace(
        ONGOING, state=TransactionState.PREPARE_COMMIT, producer_epoch=32767, last_epoch=32766, next_producer_id=9
    )
    assert refused(preparing, init((9, 0))) is ErrorCode.CONCURRENT_TRANSACTIONS


def test_a_new_instance_aborts_what_is_open_under_an_epoch_that_it_is_not_given() -> None:
    after, effects = outcome(ONGOING, init())
    assert (after.state, after.producer_epoch, after.last_epoch) == (TransactionState.PREPARE_ABORT, 6, -1)
    assert after.timed_out is None
    assert effects == (WriteMarkers(after), TransactionReply(ErrorCode.CONCURRENT_TRANSACTIONS))


@pytest.mark.parametrize("pair", [(7, 4), (7, 3), (7, 6), (8, 5)])
def test_a_zombie_cannot_touch_an_open_transaction(pair: tuple[int, int]) -> None:
    assert refused(ONGOING, init(pair)) is ErrorCode.PRODUCER_FENCED


def test_the_producer_itself_may_abort_what_it_has_open_and_come_back() -> None:
    preparing, _ = outcome(ONGOING, init((7, 5)))
    assert (preparing.producer_epoch, preparing.last_epoch, preparing.timed_out) == (6, 5, ProducerIdAndEpoch(7, 5))
    aborted = msgspec.structs.replace(preparing, state=TransactionState.COMPLETE_ABORT, partitions=frozenset())
    claimed, effects = outcome(aborted, init((7, 5)))
    assert told(effects) == (ErrorCode.NONE, 7, 7)
    _, effects = outcome(claimed, init((7, 5)))
    assert told(effects) == (ErrorCode.NONE, 7, 7)


def test_after_a_new_instance_nobody_comes_back_with_an_older_pair() -> None:
    timed_out = msgspec.structs.replace(
        EMPTY,
        state=TransactionState.COMPLETE_ABORT,
        producer_epoch=6,
        last_epoch=5,
        start_ms=1,
        timed_out=ProducerIdAndEpoch(7, 5),
    )
    replaced, effects = outcome(timed_out, init())
    assert told(effects) == (ErrorCode.NONE, 7, 7)
    assert replaced.timed_out is None
    assert refused(replaced, init((7, 5))) is ErrorCode.PRODUCER_FENCED
    assert refused(replaced, init((7, 6))) is ErrorCode.PRODUCER_FENCED


def test_no_client_is_ever_given_the_epoch_kept_for_fencing() -> None:
    for version in (0, 1):
        preparing, _ = outcome(
            msgspec.structs.replace(ONGOING, producer_epoch=32766), init((7, 32766), version=version)
        )
        assert (preparing.producer_epoch, preparing.next_producer_id) == (32767, -1)
        aborted = msgspec.structs.replace(preparing, state=TransactionState.COMPLETE_ABORT, partitions=frozenset())
        after, effects = outcome(aborted, init((7, 32766), fresh=9))
        assert told(effects) == (ErrorCode.NONE, 9, 0)
        assert after.last_epoch == 32766
        # A log written elsewhere may lack the note that it timed out.
        _, effects = outcome(msgspec.structs.replace(aborted, timed_out=None), init((7, 32766), fresh=9))
        assert told(effects) == (ErrorCode.NONE, 9, 0)


def test_a_transaction_is_timed_out_only_after_its_deadline() -> None:
    assert decide(ONGOING, DeadlinePassed(2, 60_000), 60_001) == (ONGOING, ())
    after, effects = outcome(ONGOING, DeadlinePassed(2, 60_001), 60_002)
    assert (after.state, after.producer_epoch, after.last_epoch) == (TransactionState.PREPARE_ABORT, 6, 5)
    assert after.timed_out == (7, 5)
    assert effects[0] == WriteMarkers(after)


def test_a_timeout_means_nothing_when_nothing_is_open_or_a_record_is_under_way() -> None:
    assert decide(EMPTY, DeadlinePassed(2, 10**9), 10**9) == (EMPTY, ())
    preparing = msgspec.structs.replace(ONGOING, state=TransactionState.PREPARE_COMMIT)
    assert decide(preparing, DeadlinePassed(2, 10**9), 10**9) == (preparing, ())
    pending, _ = decide(ONGOING, init(), NOW)
    assert decide(pending, DeadlinePassed(2, 10**9), 10**9) == (pending, ())
