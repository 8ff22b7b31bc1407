"""What a partition knows of producers: entries, verification, open transactions, snapshots."""

import struct

import crc32c
import pytest
from batches import data, marker
from hypothesis import given
from hypothesis import strategies as st

from eosin.protocol.errors import ErrorCode
from eosin.protocol.records.batch import MAX_SEQUENCE, read_header
from eosin.storage.producers.entry import KeptBatch, ProducerEntry, first_sequence_of
from eosin.storage.producers.guards import Verification
from eosin.storage.producers.open_transactions import OpenTransactions
from eosin.storage.producers.snapshot import CorruptSnapshot, decode_snapshot, encode_snapshot
from eosin.storage.producers.state import MAX_REFUSED_PRODUCERS, ProducerState
from eosin.storage.results.log_results import Refused, VerificationGuard


def entry_with(*sequences: tuple[int, int], epoch: int = 0) -> ProducerEntry:
    entry = ProducerEntry(1, producer_epoch=epoch)
    for index, (first, last) in enumerate(sequences):
        entry.keep(first, last, index * 10, (last - first) % (MAX_SEQUENCE + 1), 0)
    return entry


def test_only_whole_batches_in_the_window_are_found() -> None:
    entry = entry_with((0, 2), (3, 5), (6, 6))
    assert entry.find(3, 5) == KeptBatch(3, 5, 10, 2, 0)
    assert entry.find(3, 4) is None
    assert entry.find(2, 5) is None


def test_old_records_are_held_and_gaps_are_not() -> None:
    entry = entry_with(*[(seq, seq) for seq in range(10)])
    assert entry.holds(0, 3)
    assert entry.holds(9, 9)
    assert not entry.holds(9, 10)
    assert not entry.holds(10, 10)
    assert not entry.holds(11, 12)
    late = entry_with((40, 49))
    assert not late.holds(39, 41)
    assert late.holds(41, 42)


def test_sequences_are_compared_around_the_wrap() -> None:
    entry = entry_with((MAX_SEQUENCE - 3, MAX_SEQUENCE), (0, 4))
    assert entry.follows(5)
    assert entry.holds(MAX_SEQUENCE - 1, 2)
    assert entry.holds(0, 1)
    assert not entry.holds(6, 7)
    assert not entry.holds(MAX_SEQUENCE - 5, MAX_SEQUENCE - 4)


def test_a_run_that_has_gone_once_around_proves_nothing_far_ahead() -> None:
    entry = entry_with((6, MAX_SEQUENCE - 10), (MAX_SEQUENCE - 9, 4))
    assert not entry.holds(10, 12)
    assert not entry.is_behind(10, 12)


@given(st.integers(0, MAX_SEQUENCE), st.integers(0, 1000))
def test_the_first_sequence_follows_from_the_last(first: int, delta: int) -> None:
    last = (first + delta) % (MAX_SEQUENCE + 1)
    assert first_sequence_of(last, delta) == first
    assert first_sequence_of(-1, delta) == -1


def test_a_new_epoch_forgets_the_batches() -> None:
    entry = entry_with((0, 4))
    entry.set_epoch(0)
    assert entry.last_sequence == 4
    entry.set_epoch(1)
    assert (entry.last_sequence, entry.batches) == (-1, [])
    assert entry.follows(0)


def test_read_back_batches_count_only_if_they_end_where_the_known_ones_begin() -> None:
    entry = entry_with((10, 14))
    entry.refill([KeptBatch(5, 8, 0, 3, 0)], 5)
    assert len(entry.batches) == 1
    entry.refill([KeptBatch(0, 4, 0, 4, 0), KeptBatch(5, 9, 5, 4, 0)], 0)
    assert [batch.first_sequence for batch in entry.batches] == [0, 5, 10]
    assert entry.holds(1, 2)


# Verification


def test_the_lowest_sequence_holds_later_ones_back_around_the_wrap_too() -> None:
    verification = Verification(producer_epoch=0, base_sequence=MAX_SEQUENCE, from_zero=False)
    verification.again(producer_epoch=0, base_sequence=0, from_zero=True)
    assert verification.lowest_sequence == MAX_SEQUENCE
    assert verification.is_overtaken_by(1)
    assert not verification.is_overtaken_by(0)
    assert not verification.is_overtaken_by(MAX_SEQUENCE)
    verification.again(producer_epoch=0, base_sequence=MAX_SEQUENCE - 1, from_zero=False)
    assert verification.lowest_sequence == MAX_SEQUENCE - 1
    verification.again(producer_epoch=1, base_sequence=0, from_zero=False)
    assert (verification.producer_epoch, verification.lowest_sequence) == (1, 0)
    verification.again(producer_epoch=0, base_sequence=7, from_zero=False)
    assert verification.lowest_sequence == 0


def test_forgotten_verifications_expire() -> None:
    state = ProducerState()
    guard = state.begin_verification(producer_id=1, producer_epoch=0, base_sequence=0, from_zero=False)
    header = read_header(data(pid=1, epoch=0, seq=0, txn=True))
    state.expire(1000, after_ms=50)
    state.expire(1049, after_ms=50)
    assert isinstance(guard, VerificationGuard)
    assert state.check_data(header, from_client=True, guard=guard, verification_enabled=True) is None
    state.expire(1050, after_ms=50)
    refused = state.check_data(header, from_client=True, guard=guard, verification_enabled=True)
    assert isinstance(refused, Refused)
    assert refused.error == ErrorCode.INVALID_TXN_STATE


def overtakes(state: ProducerState, *, producer_id: int, sequence: int, epoch: int = 0) -> bool:
    """Whether a batch is refused because an earlier one of its producer is awaited."""
    header = read_header(data(pid=producer_id, epoch=epoch, seq=sequence))
    verdict = state.check_data(header, from_client=True, guard=None, verification_enabled=True)
    assert verdict is None or (isinstance(verdict, Refused) and verdict.error == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    return verdict is not None


def test_the_lowest_batch_that_was_refused_for_now_holds_back_later_ones_of_its_epoch_alone() -> None:
    state = ProducerState()
    for sequence in (4, 3, 5):
        state.refused_for_now(read_header(data(pid=1, epoch=0, seq=sequence)))
    assert [overtakes(state, producer_id=1, sequence=sequence) for sequence in (2, 3, 4, 5)] == [
        False,
        False,
        True,
        True,
    ]
    assert not overtakes(state, producer_id=1, sequence=4, epoch=1)
    assert not overtakes(state, producer_id=2, sequence=4)


def test_a_batch_that_is_in_holds_nothing_back_though_it_was_refused_before() -> None:
    state = ProducerState()
    first = read_header(data(pid=1, epoch=0, seq=0))
    state.refused_for_now(first)
    state.data_appended(first, 0, max_timestamp=0, now_ms=0)
    state.refused_for_now(read_header(data(pid=1, epoch=0, seq=1)))
    state.expire(100, after_ms=50)
    assert state.get(1) is None
    assert not overtakes(state, producer_id=1, sequence=7)


def test_batches_that_were_refused_and_never_come_again_expire() -> None:
    state = ProducerState()
    state.refused_for_now(read_header(data(pid=1, epoch=0, seq=0)))
    state.expire(1000, after_ms=50)
    state.expire(1049, after_ms=50)
    assert overtakes(state, producer_id=1, sequence=1)
    state.expire(1050, after_ms=50)
    assert not overtakes(state, producer_id=1, sequence=1)


def test_of_too_many_refused_producers_the_oldest_is_forgotten() -> None:
    state = ProducerState()
    for producer_id in range(MAX_REFUSED_PRODUCERS + 1):
        state.refused_for_now(read_header(data(pid=producer_id, epoch=0, seq=0)))
    kept = [overtakes(state, producer_id=producer_id, sequence=1) for producer_id in range(MAX_REFUSED_PRODUCERS + 1)]
    assert kept == [False, *[True] * MAX_REFUSED_PRODUCERS]


def test_checks_change_nothing() -> None:
    state = ProducerState()
    header = read_header(data(3, pid=1, epoch=0, seq=0, txn=True))
    for _ in range(2):
        assert state.check_data(header, from_client=True, guard=None, verification_enabled=False) is None
        assert state.check_marker(marker(1, 4, commit=True)) is None
    assert len(state) == 0
    assert state.transactions.first_unstable is None


# Open transactions


def test_the_oldest_transaction_is_unstable_until_its_marker_is_replicated() -> None:
    transactions = OpenTransactions()
    transactions.opened(5)
    transactions.opened(9)
    assert (transactions.first_open, transactions.first_unstable) == (5, 5)
    transactions.ended(5, 12)
    assert (transactions.first_open, transactions.first_unstable) == (9, 5)
    transactions.ended(9, 13)
    transactions.high_watermark_moved(12)
    assert transactions.first_unstable == 5
    transactions.high_watermark_moved(13)
    assert transactions.first_unstable == 9
    transactions.high_watermark_moved(14)
    assert [transactions.first_open, transactions.first_unstable] == [None, None]


def test_transactions_may_be_added_in_any_order() -> None:
    transactions = OpenTransactions()
    for first in (30, 10, 20):
        transactions.opened(first)
    assert transactions.first_open == 10
    transactions.ended(10, 40)
    transactions.ended(30, 41)
    assert transactions.first_open == 20


# Snapshots

ENTRIES = st.builds(
    ProducerEntry,
    st.integers(0, 2**63 - 1),
    producer_epoch=st.integers(0, 32767),
    coordinator_epoch=st.integers(-1, 2**31 - 1),
    last_timestamp=st.integers(-1, 2**62),
    transaction_first_offset=st.integers(-1, 2**62),
)


def test_a_snapshot_has_the_bytes_of_apache_kafka() -> None:
    entry = ProducerEntry(7, producer_epoch=2, coordinator_epoch=3, transaction_first_offset=40)
    entry.keep(1, 5, 44, 4, 1234)
    body = struct.pack(">i", 1) + struct.pack(">qhiqiqiq", 7, 2, 5, 44, 4, 1234, 3, 40)
    assert encode_snapshot([entry]) == struct.pack(">hI", 1, crc32c.crc32c(body)) + body
    assert len(encode_snapshot([])) == 10


@given(st.lists(ENTRIES, max_size=5), st.booleans())
def test_a_snapshot_decodes_to_the_producers_it_was_made_of(entries: list[ProducerEntry], with_batches: bool) -> None:
    for entry in entries:
        if with_batches:
            entry.keep(3, 8, 100, 5, entry.last_timestamp)
    decoded = decode_snapshot(encode_snapshot(entries))
    for before, after in zip(entries, decoded, strict=True):
        for name in (
            "producer_id",
            "producer_epoch",
            "coordinator_epoch",
            "last_timestamp",
            "transaction_first_offset",
        ):
            assert getattr(before, name) == getattr(after, name)
        assert before.batches == after.batches
        assert after.needs_refill == with_batches


def test_a_snapshot_has_all_last_batches_behind_the_part_that_apache_kafka_reads() -> None:
    entry = entry_with((0, 2), (3, 3), (4, 9), (10, 10), (11, 12), (13, 20), (21, 21))
    few = entry_with((MAX_SEQUENCE - 1, MAX_SEQUENCE), (0, 4))
    one = entry_with((7, 8))
    for number, each in enumerate((entry, few, one)):
        each.producer_id = number
    data = encode_snapshot([entry, few, one])
    last = [struct.unpack_from(">q2xi", data, 10 + 46 * number) for number in range(3)]
    assert last == [(0, 21), (1, 4), (2, 8)], "the entries stand where they always stand"
    assert struct.unpack_from(">I", data, 2) == (crc32c.crc32c(data[6:]),), "the checksum covers what is behind them"
    decoded = decode_snapshot(data)
    for before, after in zip((entry, few, one), decoded, strict=True):
        assert (after.batches, after.first_sequence) == (before.batches, before.first_sequence)
    assert [each.needs_refill for each in decoded] == [False, True, True]
    assert decoded[0].holds(3, 9)


@pytest.mark.parametrize("spoil", ["cut", "more", "stranger", "out of place"])
def test_a_snapshot_is_refused_whose_earlier_batches_make_no_sense(spoil: str) -> None:
    entries = entry_with((0, 2), (3, 3))
    body = bytearray(encode_snapshot([entries])[6:])
    match spoil:
        case "cut":
            del body[-1]
        case "more":
            body[53] = 2
        case "stranger":
            body[61] ^= 8
        case "out of place":
            body[77] ^= 16
    with pytest.raises(CorruptSnapshot):
        decode_snapshot(struct.pack(">hI", 1, crc32c.crc32c(bytes(body))) + body)


def test_a_coordinators_batches_survive_without_sequences() -> None:
    entry = ProducerEntry(7, producer_epoch=2)
    entry.keep(-1, -1, 44, 0, 1234)
    (decoded,) = decode_snapshot(encode_snapshot([entry]))
    assert decoded.batches == [KeptBatch(-1, -1, 44, 0, 1234)]
    assert not decoded.needs_refill


@pytest.mark.parametrize("spoil", ["short", "long", "version", "checksum", "empty"])
def test_a_spoiled_snapshot_is_refused(spoil: str) -> None:
    good = bytearray(encode_snapshot([ProducerEntry(1, producer_epoch=0)]))
    match spoil:
        case "short":
            good = good[:-1]
        case "long":
            good += b"x"
        case "version":
            good[1] = 2
        case "checksum":
            good[20] ^= 1
        case "empty":
            good = bytearray()
    with pytest.raises(CorruptSnapshot):
        decode_snapshot(bytes(good))
