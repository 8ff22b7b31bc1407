"""Dead letters as records (share-partitions.md 7.3): which there are, and how they share batches."""

import random

from eosin.broker.sharing.rules.letters import Letter, Origin, first_of, found_in, letter_batches, letters, without
from eosin.broker.sharing.rules.window import DeadRecords
from eosin.protocol.records.batch import NewRecord, Record, build_batch, iter_records, retain_records

ORIGIN = Origin("workers", "orders", 3)


def rejected(first: int, end: int) -> DeadRecords:
    return DeadRecords(first, end, 1, is_rejected=True)


def used_up(first: int, end: int) -> DeadRecords:
    return DeadRecords(first, end, 5, is_rejected=False)


def test_holes_that_compaction_left_have_no_letters_unless_somebody_rejected_them() -> None:
    whole = build_batch([NewRecord(b"%d" % each, b"v") for each in range(6)], timestamp=1)
    batch = retain_records(whole, lambda record: record.offset % 2 == 0)
    assert batch is not None
    dead = [used_up(0, 3), rejected(3, 6)]
    found = found_in(bytes(batch), dead, None)
    assert sorted(found) == [0, 2, 4]
    some = letters(dead, found, copies=True, log_start=0)
    assert [(each.offset, each.record is not None) for each in some] == [
        (0, True), (2, True), (3, False), (4, True), (5, False),
    ]  # fmt: skip
    assert [each.offset for each in letters([used_up(0, 2)], {}, copies=True, log_start=2)] == [0, 1]


def test_batches_keep_to_their_size_and_to_the_order() -> None:
    chosen = random.Random(3)
    some = [
        Letter(each, rejected(each, each + 1), Record(each, 0, None, bytes(chosen.randrange(900))))
        for each in range(200)
    ]
    offsets: list[int] = []
    for batch in letter_batches(some, ORIGIN, max_bytes=1000, timestamp=7):
        assert len(batch.data) <= 1000
        records = list(iter_records(batch.data))
        assert len(records) == len(batch.letters)
        offsets += [int(dict(each.headers)["__dlq.errors.offset"] or b"") for each in records]
    assert offsets == list(range(200))


def test_work_is_taken_in_pieces_and_none_is_left_out() -> None:
    chosen = random.Random(5)
    dead = [rejected(0, 7), used_up(7, 8), rejected(20, 50)]
    taken: list[int] = []
    while dead:
        piece = first_of(dead, count=chosen.randint(1, 5), end=dead[0].first + chosen.choice((1, 10, 99)))
        assert piece
        taken += [offset for each in piece for offset in range(each.first, each.end)]
        dead = without(dead, piece)
    assert taken == [*range(8), *range(20, 50)]
