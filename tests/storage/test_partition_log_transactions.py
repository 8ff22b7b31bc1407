"""Transactions in a partition: verification, markers, the last stable offset, the aborted list."""

import errno

import pytest
from batches import NOW_MS, data, marker
from logs import Logs, appended, read_now
from manual_flusher import ManualFlusher

from eosin.lab.disk.lying_disk import Fault
from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import IsolationLevel, TopicPartition
from eosin.protocol.records.batch import batches, verify_crc
from eosin.storage.disk.flusher import Durability
from eosin.storage.log.config import LogConfig
from eosin.storage.log.partition_log import PartitionLog
from eosin.storage.results.log_results import (
    AbortedTransaction,
    Appended,
    AppendOrigin,
    AppendResult,
    Refused,
    VerificationGuard,
)

COMMITTED = IsolationLevel.READ_COMMITTED


def error(result: AppendResult) -> ErrorCode:
    assert isinstance(result, Refused), result
    return result.error


def mark(log: PartitionLog, pid: int, epoch: int, *, commit: bool, version: int = 0) -> AppendResult:
    return log.append_marker(marker(pid, epoch, commit=commit, version=version), now_ms=NOW_MS)


def begin(log: PartitionLog, pid: int, epoch: int = 0, seq: int = 0, *, from_zero: bool = False) -> VerificationGuard:
    guard = log.begin_verification(producer_id=pid, producer_epoch=epoch, base_sequence=seq, from_zero=from_zero)
    assert isinstance(guard, VerificationGuard)
    return guard


# Verification


async def test_the_first_batch_of_a_transaction_needs_its_guard() -> None:
    logs = Logs(verification_enabled=True)
    log = await logs.open()
    batch = data(pid=1, epoch=0, seq=0, txn=True)
    assert error(logs.append(log, batch)) == ErrorCode.INVALID_TXN_STATE
    assert error(logs.append(log, batch, VerificationGuard())) == ErrorCode.INVALID_TXN_STATE
    guard = begin(log, 1)
    appended(logs.append(log, batch, guard))
    assert log.begin_verification(producer_id=1, producer_epoch=0, base_sequence=1) is None
    appended(logs.append(log, data(pid=1, epoch=0, seq=1, txn=True)))


async def test_a_marker_takes_the_guard_away() -> None:
    logs = Logs(verification_enabled=True)
    log = await logs.open()
    guard = begin(log, 1)
    appended(mark(log, 1, 0, commit=False))
    assert error(logs.append(log, data(pid=1, epoch=0, seq=0, txn=True), guard)) == ErrorCode.INVALID_TXN_STATE
    assert begin(log, 1) is not guard


async def test_pipelined_batches_share_a_guard_and_do_not_overtake() -> None:
    logs = Logs(verification_enabled=True)
    log = await logs.open()
    guard = begin(log, 1, seq=0)
    assert begin(log, 1, seq=1) is guard
    second = data(pid=1, epoch=0, seq=1, txn=True)
    assert error(logs.append(log, second, guard)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    appended(logs.append(log, data(pid=1, epoch=0, seq=0, txn=True), guard))
    appended(logs.append(log, second, guard))


async def test_a_late_repetition_does_not_hold_up_the_next_transaction_of_its_epoch() -> None:
    logs = Logs(verification_enabled=True)
    log = await logs.open()
    late = data(2, pid=1, epoch=0, seq=0, txn=True)
    appended(logs.append(log, late, begin(log, 1)))
    appended(logs.append(log, data(pid=1, epoch=0, seq=2, txn=True)))
    appended(mark(log, 1, 0, commit=True))
    begin(log, 1, seq=0)  # for `late` once more, which the coordinator will not confirm
    guard = begin(log, 1, seq=3)
    fourth = data(pid=1, epoch=0, seq=4, txn=True)
    begin(log, 1, seq=4)
    assert error(logs.append(log, fourth, guard)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    appended(logs.append(log, data(pid=1, epoch=0, seq=3, txn=True), guard))
    appended(logs.append(log, fourth))


async def test_verification_may_be_switched_off_but_a_presented_guard_still_counts() -> None:
    logs = Logs(verification_enabled=False)
    log = await logs.open()
    batch = data(pid=1, epoch=0, seq=0, txn=True)
    assert error(logs.append(log, batch, VerificationGuard())) == ErrorCode.INVALID_TXN_STATE
    appended(logs.append(log, batch))


async def test_a_coordinators_batch_needs_no_guard_and_no_sequence() -> None:
    logs = Logs(verification_enabled=True)
    log = await logs.open()
    for _ in range(3):
        result = log.append(data(pid=1, epoch=0, txn=True), now_ms=NOW_MS, origin=AppendOrigin.COORDINATOR)
        assert not appended(result).duplicate
    assert log.last_stable_offset == 0
    appended(mark(log, 1, 1, commit=True))
    late = log.append(data(pid=1, epoch=0, txn=True), now_ms=NOW_MS, origin=AppendOrigin.COORDINATOR)
    assert error(late) == ErrorCode.INVALID_PRODUCER_EPOCH


async def test_a_lower_epoch_is_refused_before_the_guard_is_looked_at() -> None:
    logs = Logs(verification_enabled=True)
    log = await logs.open()
    appended(mark(log, 1, 5, commit=False))
    assert error(logs.append(log, data(pid=1, epoch=4, seq=0, txn=True))) == ErrorCode.INVALID_PRODUCER_EPOCH
    refused = log.begin_verification(producer_id=1, producer_epoch=4, base_sequence=0)
    assert isinstance(refused, Refused)
    assert refused.error == ErrorCode.INVALID_PRODUCER_EPOCH


async def test_the_next_transaction_waits_for_the_marker_of_the_previous_one() -> None:
    logs = Logs(verification_enabled=True)
    log = await logs.open()
    logs.append(log, data(pid=1, epoch=0, seq=0, txn=True), begin(log, 1))
    refused = log.begin_verification(producer_id=1, producer_epoch=1, base_sequence=0)
    assert isinstance(refused, Refused)
    assert refused.error == ErrorCode.CONCURRENT_TRANSACTIONS
    early = data(pid=1, epoch=1, seq=0, txn=True)
    assert error(logs.append(log, early)) == ErrorCode.CONCURRENT_TRANSACTIONS
    appended(mark(log, 1, 1, commit=True, version=2))
    appended(logs.append(log, early, begin(log, 1, epoch=1)))


async def test_a_new_producer_that_adds_its_partitions_itself_starts_at_zero() -> None:
    logs = Logs(verification_enabled=True)
    log = await logs.open()
    batch = data(pid=1, epoch=0, seq=5, txn=True)
    guard = begin(log, 1, seq=5, from_zero=True)
    assert error(logs.append(log, batch, guard)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    appended(logs.append(log, data(pid=2, epoch=0, seq=5, txn=True), begin(log, 2, seq=5)))


async def test_a_plain_batch_inside_an_open_transaction_is_refused() -> None:
    logs = Logs()
    log = await logs.open()
    logs.append(log, data(pid=1, epoch=0, seq=0, txn=True))
    assert error(logs.append(log, data(pid=1, epoch=0, seq=1))) == ErrorCode.INVALID_TXN_STATE


# Markers


async def test_a_marker_raises_the_epoch_and_empties_the_sequences() -> None:
    logs = Logs()
    log = await logs.open()
    logs.append(log, data(pid=1, epoch=0, seq=0, txn=True))
    assert appended(mark(log, 1, 1, commit=True, version=2)) == Appended(1, 1)
    assert error(logs.append(log, data(pid=1, epoch=1, seq=3, txn=True))) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    appended(logs.append(log, data(pid=1, epoch=1, seq=0, txn=True)))


@pytest.mark.parametrize(
    ("version", "epoch", "expected"),
    [
        (0, 4, ErrorCode.INVALID_PRODUCER_EPOCH),
        (0, 5, None),
        (0, 6, None),
        (2, 4, ErrorCode.INVALID_PRODUCER_EPOCH),
        (2, 5, ErrorCode.INVALID_PRODUCER_EPOCH),
        (2, 6, None),
    ],
)
async def test_the_epoch_of_a_marker_for_an_open_transaction(
    version: int, epoch: int, expected: ErrorCode | None
) -> None:
    logs = Logs()
    log = await logs.open()
    logs.append(log, data(pid=1, epoch=5, seq=0, txn=True))
    result = mark(log, 1, epoch, commit=True, version=version)
    assert (result.error if isinstance(result, Refused) else None) == expected
    assert log.last_stable_offset == (2 if expected is None else 0)


async def test_a_repeated_strict_marker_is_appended_without_effect() -> None:
    logs = Logs()
    log = await logs.open()
    logs.append(log, data(pid=1, epoch=0, seq=0, txn=True))
    appended(mark(log, 1, 1, commit=True, version=2))
    appended(mark(log, 1, 1, commit=True, version=2))
    logs.append(log, data(pid=1, epoch=1, seq=0, txn=True))
    assert error(mark(log, 1, 1, commit=True, version=2)) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert log.last_stable_offset == 3


async def test_the_highest_epoch_can_still_be_ended() -> None:
    logs = Logs()
    log = await logs.open()
    logs.append(log, data(pid=1, epoch=32767, seq=0, txn=True))
    appended(mark(log, 1, 32767, commit=False, version=2))


async def test_an_older_coordinator_is_fenced() -> None:
    logs = Logs()
    log = await logs.open()
    appended(log.append_marker(marker(1, 0, commit=True, coordinator_epoch=7), now_ms=NOW_MS))
    stale = log.append_marker(marker(1, 0, commit=True, coordinator_epoch=6), now_ms=NOW_MS)
    assert error(stale) == ErrorCode.TRANSACTION_COORDINATOR_FENCED
    log = await logs.reopen()
    stale = log.append_marker(marker(1, 0, commit=True, coordinator_epoch=6), now_ms=NOW_MS)
    assert error(stale) == ErrorCode.TRANSACTION_COORDINATOR_FENCED


async def test_a_marker_without_a_transaction_is_kept_and_changes_nothing_else() -> None:
    logs = Logs()
    log = await logs.open()
    appended(mark(log, 1, 3, commit=False))
    assert log.last_stable_offset == log.log_end_offset == 1
    assert read_now(log, isolation=COMMITTED).aborted == ()
    assert error(logs.append(log, data(pid=1, epoch=2, seq=0))) == ErrorCode.INVALID_PRODUCER_EPOCH


async def test_a_marker_refreshes_its_producer() -> None:
    logs = Logs()
    log = await logs.open()
    logs.append(log, data(pid=1, epoch=0, seq=0, txn=True))
    logs.clock.advance(80_000_000)
    log.append_marker(marker(1, 0, commit=True), now_ms=logs.clock.now_ms())
    logs.clock.advance(80_000_000)
    assert log.expire_producers(logs.clock.now_ms(), after_ms=86_400_000) == 0


async def test_a_marker_has_its_own_place_and_time_in_each_partition() -> None:
    logs = Logs()
    first = await logs.open()
    second = logs.log(TopicPartition("orders", 1))
    appended(logs.append(first, data(3)))
    ends = marker(1, 0, commit=True)
    for log, now_ms in ((first, NOW_MS), (second, NOW_MS), (second, NOW_MS + 5)):
        appended(log.append_marker(ends, now_ms=now_ms))
    found = [
        (header.base_offset, header.partition_leader_epoch, header.max_timestamp, verify_crc(records, at, header))
        for records in (bytes(read_now(first, 3).records), bytes(read_now(second).records))
        for at, header in batches(records)
    ]
    epoch = first.leader_epoch
    assert found == [(3, epoch, NOW_MS, True), (0, epoch, NOW_MS, True), (1, epoch, NOW_MS + 5, True)]


# The last stable offset and the aborted list


async def test_of_two_transactions_the_older_one_holds_readers_back() -> None:
    logs = Logs()
    log = await logs.open()
    for _ in range(10):
        logs.append(log, data())
    logs.append(log, data(2, pid=1, epoch=0, seq=0, txn=True))  # 10, 11
    logs.append(log, data(8, pid=2, epoch=0, seq=0, txn=True))  # 12 to 19
    appended(mark(log, 2, 0, commit=False))  # 20
    assert log.last_stable_offset == 10
    logs.append(log, data(9))  # 21 to 29
    assert log.last_stable_offset == 10
    assert appended(mark(log, 1, 0, commit=True)).base_offset == 30
    assert log.last_stable_offset == 31
    assert read_now(log, isolation=COMMITTED).aborted == (AbortedTransaction(2, 12),)
    assert read_now(log, 13, isolation=COMMITTED).aborted == (AbortedTransaction(2, 12),)
    assert read_now(log, 21, isolation=COMMITTED).aborted == ()
    assert read_now(log).aborted is None


async def test_a_transaction_holds_the_stable_offset_until_its_marker_is_durable() -> None:
    flusher = ManualFlusher()
    logs = Logs(durability=Durability.FSYNC, flusher=flusher)
    log = await logs.open()
    logs.append(log, data(pid=1, epoch=0, seq=0, txn=True))
    flusher.flush()
    assert (log.high_watermark, log.last_stable_offset) == (1, 0)
    flusher.begin()
    mark(log, 1, 0, commit=True)
    logs.append(log, data(pid=1, epoch=0, seq=1, txn=True))
    assert (log.high_watermark, log.last_stable_offset) == (1, 0)
    flusher.begin()
    logs.append(log, data(pid=2, epoch=0, seq=0, txn=True))
    flusher.end()
    assert (log.high_watermark, log.last_stable_offset) == (3, 2)
    flusher.flush()
    assert (log.high_watermark, log.last_stable_offset) == (4, 2)


async def test_a_read_that_ends_before_the_marker_lists_the_transaction() -> None:
    logs = Logs(config=LogConfig(internal_segment_bytes=200))
    log = await logs.open()
    logs.append(log, data(pid=1, epoch=0, seq=0, txn=True))
    logs.append(log, data(pid=2, epoch=0, seq=0, txn=True))
    for seq in range(1, 8):
        logs.append(log, data(pid=1, epoch=0, seq=seq, txn=True))
    mark(log, 2, 0, commit=False)
    mark(log, 1, 0, commit=False)
    assert len(log.segments) > 3
    one = read_now(log, 0, max_bytes=1, isolation=COMMITTED)
    assert one.aborted == (AbortedTransaction(1, 0),)
    assert read_now(log, 1, max_bytes=1, isolation=COMMITTED).aborted == (
        AbortedTransaction(1, 0),
        AbortedTransaction(2, 1),
    )
    log = await logs.reopen()
    assert read_now(log, 1, max_bytes=1, isolation=COMMITTED).aborted == (
        AbortedTransaction(1, 0),
        AbortedTransaction(2, 1),
    )


async def test_an_open_transaction_survives_a_restart() -> None:
    logs = Logs(verification_enabled=True)
    log = await logs.open()
    logs.append(log, data(3))
    logs.append(log, data(pid=1, epoch=0, seq=0, txn=True), begin(log, 1))
    log = await logs.reopen()
    assert (log.last_stable_offset, log.high_watermark) == (3, 4)
    assert log.begin_verification(producer_id=1, producer_epoch=0, base_sequence=1) is None
    mark(log, 1, 0, commit=False)
    assert log.last_stable_offset == 5
    assert read_now(log, isolation=COMMITTED).aborted == (AbortedTransaction(1, 3),)


async def test_an_open_transaction_takes_batches_of_the_id_that_was_confirmed_for_it_alone() -> None:
    logs = Logs(verification_enabled=True)
    log = await logs.open()

    def verdict(transactional_id: str, seq: int) -> VerificationGuard | Refused | None:
        return log.begin_verification(
            producer_id=1, producer_epoch=0, base_sequence=seq, transactional_id=transactional_id
        )

    for seq in range(2):
        guard = verdict("tx", seq)
        assert isinstance(guard, VerificationGuard)
        appended(logs.append(log, data(pid=1, epoch=0, seq=seq, txn=True), guard))
        log.producer_state.confirmed(producer_id=1, producer_epoch=0, transactional_id="tx")
        assert verdict("tx", seq + 1) is None
        assert isinstance(verdict("another", seq + 1), VerificationGuard)
        log = await logs.reopen()  # from here on nobody knows
    appended(logs.append(log, data(pid=1, epoch=0, seq=2, txn=True)))
    appended(mark(log, 1, 0, commit=True))
    assert isinstance(verdict("tx", 3), VerificationGuard)


async def test_the_stable_offset_never_lies_below_the_log_start() -> None:
    logs = Logs()
    log = await logs.open()
    logs.append(log, data(2, pid=1, epoch=0, seq=0, txn=True))
    logs.append(log, data(2))
    seen: list[int] = []
    log.on_progress = lambda told: seen.append(told.last_stable_offset)
    assert await log.delete_records_before(3) == ErrorCode.NONE
    assert log.last_stable_offset == 3
    assert seen == [3]
    mark(log, 1, 0, commit=True)
    assert log.last_stable_offset == 5


async def test_an_abort_is_indexed_though_its_index_cannot_be_read_at_that_moment() -> None:
    logs = Logs()
    log = await logs.open()
    for sequence in range(2):
        logs.append(log, data(pid=1, epoch=0, seq=sequence, txn=True))
        if sequence:
            # The rows so far are in the file, and nobody has asked for them for a while.
            logs.fake.faults.append(Fault("read", errno.EIO, path=".txnindex", times=1))
        appended(mark(log, 1, 0, commit=False))
        await logs.manager.checkpoint(force=True)
        for _ in range(2):
            await logs.manager.release_idle_files()
    logs.fake.faults.clear()
    assert read_now(log, isolation=COMMITTED).aborted == (AbortedTransaction(1, 0), AbortedTransaction(1, 2))


# Somebody else under the id of a transactional producer (6.2.4)


@pytest.mark.parametrize("epoch", [0, 7])
async def test_batches_outside_of_transactions_neither_fence_a_transactional_producer_nor_pass_for_its_own(
    epoch: int,
) -> None:
    logs = Logs(verification_enabled=True)
    log = await logs.open()
    for sequence in range(3):
        appended(logs.append(log, data(pid=1, epoch=epoch, seq=sequence)))
    log = await logs.reopen()
    appended(mark(log, 1, 0, commit=False, version=2))  # one that was added, and never written to
    log = await logs.reopen()
    assert error(logs.append(log, data(pid=1, epoch=epoch + 1, seq=0))) == ErrorCode.INVALID_TXN_STATE
    own = data(pid=1, epoch=0, seq=0, txn=True)
    first = appended(logs.append(log, own, begin(log, 1)))
    assert first.base_offset == 4
    log = await logs.reopen()
    assert appended(logs.append(log, own)) == Appended(*first.values()[:-1], duplicate=True)


async def test_a_producer_that_was_fenced_stays_so() -> None:
    logs = Logs(verification_enabled=True)
    log = await logs.open()
    appended(logs.append(log, data(pid=1, epoch=3, seq=0, txn=True), begin(log, 1, 3)))
    assert error(logs.append(log, data(pid=1, epoch=2, seq=0, txn=True))) == ErrorCode.INVALID_PRODUCER_EPOCH
    appended(mark(log, 1, 4, commit=True, version=2))
    refused = log.begin_verification(producer_id=1, producer_epoch=3, base_sequence=0, from_zero=True)
    assert isinstance(refused, Refused)


async def test_a_partition_that_knows_a_producer_by_a_marker_alone_takes_no_sequence_on_trust() -> None:
    """It has forgotten the producer, then got the marker of a transaction without records: what the first protocol
    sends next might be the second of two batches in flight, so it is refused; the producer goes on in a new epoch."""
    logs = Logs()
    log = await logs.open()
    for sequence in range(3):
        appended(logs.append(log, data(pid=1, epoch=4, seq=sequence, txn=True)))
    appended(mark(log, 1, 4, commit=True))
    logs.clock.advance(86_400_000)
    assert log.expire_producers(logs.clock.now_ms(), after_ms=86_400_000) == 1
    appended(mark(log, 1, 4, commit=False))
    end = log.log_end_offset
    assert error(logs.append(log, data(pid=1, epoch=4, seq=3, txn=True))) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert log.log_end_offset == end
    appended(mark(log, 1, 5, commit=False))
    assert appended(logs.append(log, data(pid=1, epoch=6, seq=0, txn=True))).base_offset == end + 1
