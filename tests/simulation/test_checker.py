"""The judge: a good history passes, and each rule objects to a history in which something is wrong.

The history is a small one, made by hand: a writer's transaction that is committed, its next one that is aborted, a
plain write, a copier, a watcher, and a reader. Each test spoils one thing and names every rule that objects to it.
"""

from collections.abc import Callable
from dataclasses import replace

import pytest

from eosin.protocol.names import TopicPartition
from simulation.case import Case
from simulation.checker import RULES, judge
from simulation.history import (
    Deletion,
    Ending,
    Fetched,
    FinalPartition,
    FinalState,
    History,
    Introduction,
    Isolation,
    LoggedBatch,
    OffsetsCommitted,
    OffsetsRead,
    Seen,
    Transaction,
    Write,
)
from simulation.rules import shares
from simulation.values import DELETED, RETAINED

A = TopicPartition("a", 0)
B = TopicPartition("b", 0)
WRITER, PLAIN, COPIER = 1, 2, 3
"""Producer ids."""


def batch(offset: int, producer_id: int, sequence: int, *values: str, transactional: bool = True) -> LoggedBatch:
    offsets = tuple(range(offset, offset + len(values)))
    return LoggedBatch(offset, offset + len(values), producer_id, 0, sequence, transactional, "", values, offsets)


def marker(offset: int, producer_id: int, kind: str) -> LoggedBatch:
    return LoggedBatch(offset, offset + 1, producer_id, 0, -1, True, kind, (), ())


def write(
    instance: str, partition: TopicPartition, producer_id: int, sequence: int, offset: int, *values: str
) -> Write:
    return Write(
        instance,
        partition,
        values,
        producer_id,
        0,
        sequence,
        asked=0,
        answered=0,
        acknowledged=True,
        offset=offset,
    )


def transaction(name: str, transactional_id: str, moments: range, *writes: Write, commit: bool = True) -> Transaction:
    """Begun at the first moment; its end is asked for at the second last one, and answered at the last one."""
    begun, *_, asked, answered = moments
    made = Transaction(name, name.partition("#")[0], transactional_id, 2, 60_000, begun, begun)
    made.writes = list(writes)
    for each in writes:
        each.transaction = made
        each.asked, each.answered = begun, asked
    made.commit, made.end_asked, made.end_answered, made.ended_ms, made.acknowledged = commit, asked, answered, 0, True
    return made


def good() -> History:
    """What a correct broker may have done."""
    history = History()
    history.introductions = [
        Introduction("w/1", "w", 1, answered=2, producer_id=WRITER, producer_epoch=0),
        Introduction("plain", None, 1, answered=2, producer_id=PLAIN, producer_epoch=0),
        Introduction("c/1", "c", 1, answered=2, producer_id=COPIER, producer_epoch=0),
    ]
    first = transaction("w/1#1", "w", range(10, 20), write("w/1", A, WRITER, 0, 0, "x", "y"))
    second = transaction("w/1#2", "w", range(20, 30), write("w/1", A, WRITER, 2, 4, "z"), commit=False)
    copy = transaction("c/1#1", "c", range(40, 50), write("c/1", B, COPIER, 0, 0, "x>c", "y>c", "p>c"))
    copy.group, copy.offsets, copy.reads = "c", {A: 6}, ["x", "y", "p"]
    plain = write("plain", A, PLAIN, 0, 3, "p")
    plain.asked, plain.answered = 21, 22
    history.writes = [*first.writes, *second.writes, plain, *copy.writes]
    history.transactions = [first, second, copy]
    history.copying = {"c": (A,)}
    history.commits = [OffsetsCommitted("watch", A, 4, asked=60, answered=61, acknowledged=True)]
    history.offset_reads = [
        OffsetsRead("watch", A, -1, asked=58, answered=59),
        OffsetsRead("watch", A, 4, asked=62, answered=63),
    ]
    committed = (Seen(0, "x"), Seen(1, "y"), Seen(3, "p"))
    history.fetches = [
        Fetched("reader", Isolation.COMMITTED, A, 30, 31, 0, 4, committed, high_watermark=5, last_stable_offset=4),
        Fetched("reader", Isolation.COMMITTED, A, 32, 33, 4, 6, (), high_watermark=6, last_stable_offset=6),
    ]
    history.final = final()
    history.final_again = final()
    return history


def final() -> FinalState:
    in_a = FinalPartition(
        (
            batch(0, WRITER, 0, "x", "y"),
            marker(2, WRITER, "commit"),
            batch(3, PLAIN, 0, "p", transactional=False),
            batch(4, WRITER, 2, "z"),
            marker(5, WRITER, "abort"),
        ),
        (Seen(0, "x"), Seen(1, "y"), Seen(3, "p")),
        high_watermark=6,
        last_stable_offset=6,
    )
    in_b = FinalPartition(
        (batch(0, COPIER, 0, "x>c", "y>c", "p>c"), marker(3, COPIER, "commit")),
        (Seen(0, "x>c"), Seen(1, "y>c"), Seen(2, "p>c")),
        high_watermark=4,
        last_stable_offset=4,
    )
    return FinalState({A: in_a, B: in_b}, {("c", A): 6, ("watch", A): 4})


def objecting(history: History) -> set[str]:
    """The names of the rules that object."""
    case = Case(history)
    return {rule.__name__ for rule in RULES if list(rule(case))}


def test_a_good_history_passes() -> None:
    assert judge(good()) == []


# Each spoils a history.


def a_batch_is_lost(history: History) -> None:
    for state in (history.final, history.final_again):
        partition = state.partitions[A]
        partition.batches = tuple(each for each in partition.batches if each.producer_id != PLAIN)
        partition.committed = tuple(seen for seen in partition.committed if seen.value != "p")
    history.fetches.clear()
    history.transactions[2].writes.clear()
    history.writes = [each for each in history.writes if each.instance != "c/1"]
    del history.final.partitions[B], history.final_again.partitions[B], history.copying["c"]


def a_batch_lies_elsewhere_than_told(history: History) -> None:
    history.writes[2].offset = 17


def a_batch_is_there_twice(history: History) -> None:
    for state in (history.final, history.final_again):
        partition = state.partitions[B]
        again = batch(4, PLAIN, 0, "p", transactional=False)
        partition.batches += (again,)
        partition.committed += (Seen(4, "p"),)
        partition.high_watermark = partition.last_stable_offset = 5


def a_record_comes_from_nowhere(history: History) -> None:
    for state in (history.final, history.final_again):
        partition = state.partitions[B]
        partition.batches += (batch(4, 9, 0, "?", transactional=False),)
        partition.committed += (Seen(4, "?"),)
        partition.high_watermark = partition.last_stable_offset = 5


def a_sequence_is_left_out(history: History) -> None:
    for state in (history.final, history.final_again):
        partition = state.partitions[A]
        partition.batches = tuple(
            each._replace(base_sequence=5) if each.values == ("z",) else each for each in partition.batches
        )


def an_older_epoch_writes_after_a_newer_one(history: History) -> None:
    for state in (history.final, history.final_again):
        partition = state.partitions[A]
        first, *rest = partition.batches
        partition.batches = (first._replace(producer_epoch=4), *rest)


def a_plain_write_is_hidden(history: History) -> None:
    for state in (history.final, history.final_again):
        partition = state.partitions[A]
        partition.committed = tuple(seen for seen in partition.committed if seen.value != "p")


def a_write_is_refused_for_no_reason(history: History) -> None:
    lost = history.writes[1]
    lost.acknowledged, lost.error = False, "INVALID_PRODUCER_EPOCH"


def half_a_transaction_is_visible(history: History) -> None:
    for state in (history.final, history.final_again):
        partition = state.partitions[A]
        partition.committed = tuple(seen for seen in partition.committed if seen.value != "y")


def an_aborted_record_is_visible(history: History) -> None:
    for state in (history.final, history.final_again):
        state.partitions[A].committed += (Seen(4, "z"),)


def a_marker_is_missing(history: History) -> None:
    for state in (history.final, history.final_again):
        partition = state.partitions[B]
        partition.batches = partition.batches[:1]
        partition.high_watermark = partition.last_stable_offset = 3


def a_marker_is_of_the_other_kind(history: History) -> None:
    for state in (history.final, history.final_again):
        partition = state.partitions[B]
        partition.batches = (partition.batches[0], marker(3, COPIER, "abort"))


def a_transaction_never_ends(history: History) -> None:
    history.final.open_transactions = ("w Ongoing",)


def the_last_stable_offset_is_stuck(history: History) -> None:
    for state in (history.final, history.final_again):
        state.partitions[B].last_stable_offset = 0


def a_commit_is_refused_for_no_reason(history: History) -> None:
    aborted = history.transactions[1]
    aborted.commit, aborted.acknowledged, aborted.error = True, False, "PRODUCER_FENCED"


def transactions_read_from_each_other(history: History) -> None:
    history.transactions[0].reads = ["x>c"]


def a_reader_is_shown_what_is_gone_later(history: History) -> None:
    shown = history.fetches[1]
    history.fetches[1] = replace(shown, records=(Seen(5, "p"),))


def a_reader_misses_a_record(history: History) -> None:
    shown = history.fetches[0]
    history.fetches[0] = replace(shown, records=shown.records[:1])


def a_reader_is_shown_an_undecided_record(history: History) -> None:
    shown = history.fetches[0]
    history.fetches[0] = replace(shown, asked=12, answered=13)


def the_high_watermark_falls(history: History) -> None:
    history.fetches[1] = replace(history.fetches[1], high_watermark=4, last_stable_offset=4)


def the_last_stable_offset_falls(history: History) -> None:
    history.fetches[1] = replace(history.fetches[1], last_stable_offset=3)


def more_is_told_to_be_committed_than_there_is(history: History) -> None:
    history.fetches[1] = replace(history.fetches[1], high_watermark=7)


def more_is_shown_than_is_told(history: History) -> None:
    history.fetches[1] = replace(history.fetches[1], next_offset=7, high_watermark=6)


def the_last_stable_offset_is_above_the_high_watermark(history: History) -> None:
    history.fetches[1] = replace(history.fetches[1], last_stable_offset=7)


def a_crash_takes_a_record(history: History) -> None:
    partition = history.final_again.partitions[A]
    partition.committed = partition.committed[:-1]


def a_crash_takes_an_offset(history: History) -> None:
    history.final_again.offsets["watch", A] = -1


def two_instances_have_one_epoch(history: History) -> None:
    history.introductions.append(Introduction("w/2", "w", 30, answered=31, producer_id=WRITER, producer_epoch=0))


def a_later_instance_has_a_lower_epoch(history: History) -> None:
    history.introductions[0].producer_epoch = 5
    history.introductions.append(Introduction("w/2", "w", 30, answered=31, producer_id=WRITER, producer_epoch=4))


def a_zombie_commits(history: History) -> None:
    history.introductions.append(Introduction("c/2", "c", 41, answered=42, producer_id=COPIER, producer_epoch=1))


def a_copy_is_missing_below_the_offset(history: History) -> None:
    for state in (history.final, history.final_again):
        partition = state.partitions[B]
        partition.batches = (batch(0, COPIER, 0, "x>c", "y>c"), marker(2, COPIER, "commit"))
        partition.committed = partition.committed[:2]
        partition.high_watermark = partition.last_stable_offset = 3
    copy = history.transactions[2].writes[0]
    copy.values = copy.values[:2]


def an_offset_lags_behind_its_output(history: History) -> None:
    for state in (history.final, history.final_again):
        state.offsets["c", A] = -1


def an_offset_falls(history: History) -> None:
    history.offset_reads.append(OffsetsRead("watch", A, -1, asked=70, answered=71))


def an_offset_is_invented(history: History) -> None:
    history.offset_reads[0] = OffsetsRead("watch", A, 3, asked=58, answered=59)


def an_offset_is_shown_before_its_transaction_is_committed(history: History) -> None:
    history.offset_reads.append(OffsetsRead("c", A, 6, asked=44, answered=45))


def with_topic(history: History, partition: TopicPartition, begin: int) -> Write:
    """A plain write of two records to a further topic, which is there from offset `begin` on."""
    there = write("plain", partition, PLAIN, 0, 0, "q", "r")
    there.asked, there.answered = 30, 31
    history.writes.append(there)
    seen = (Seen(0, "q"), Seen(1, "r"))[begin:]
    for state in (history.final, history.final_again):
        batches = (batch(0, PLAIN, 0, "q", "r", transactional=False),) if not begin else ()
        state.partitions[partition] = FinalPartition(batches, seen, 2, 2, begin)
    return there


def a_producer_ends_that_nobody_has_replaced(history: History) -> None:
    history.endings.append(Ending("w/1", "w", 3, "PRODUCER_FENCED"))


def a_deleted_record_is_back(history: History) -> None:
    with_topic(history, DELETED, 0)
    history.deletions = [Deletion(DELETED, asked=40, answered=41)]


def a_beginning_is_gone_of_a_topic_that_keeps_it(history: History) -> None:
    history.final.partitions[A].log_start_offset = 1


def a_log_begins_behind_its_last_stable_offset(history: History) -> None:
    with_topic(history, RETAINED, 2)
    history.final.partitions[RETAINED].last_stable_offset = 1
    history.final.partitions[RETAINED].high_watermark = 1


def retention_takes_the_middle(history: History) -> None:
    with_topic(history, RETAINED, 0)
    for state in (history.final, history.final_again):
        partition = state.partitions[RETAINED]
        partition.batches = (batch(1, PLAIN, 1, "r", transactional=False),)
        partition.committed = partition.committed[1:]


READERS_SEE = {"markers_decide", "readers_agree", "copies_match_offsets"}
"""They notice, too, when what is visible is not what it should be."""

SPOILED: tuple[tuple[Callable[[History], None], set[str]], ...] = (
    (a_batch_is_lost, {"acknowledged_writes_are_there"}),
    (a_batch_lies_elsewhere_than_told, {"acknowledged_writes_are_there"}),
    (a_batch_is_there_twice, {"nothing_is_there_twice"}),
    (a_record_comes_from_nowhere, {"nothing_is_there_twice"}),
    (a_sequence_is_left_out, {"sequences_have_no_gap"}),
    (an_older_epoch_writes_after_a_newer_one, {"sequences_have_no_gap"}),
    (a_plain_write_is_hidden, {"plain_writes_are_visible", *READERS_SEE}),
    (a_write_is_refused_for_no_reason, {"writes_fail_for_a_reason"}),
    (half_a_transaction_is_visible, {"transactions_are_whole", *READERS_SEE}),
    (an_aborted_record_is_visible, {"transactions_are_whole", *READERS_SEE}),
    (a_marker_is_missing, {"markers_decide"}),
    (a_marker_is_of_the_other_kind, {"markers_decide"}),
    (a_transaction_never_ends, {"everything_ends"}),
    (the_last_stable_offset_is_stuck, {"everything_ends"}),
    (a_commit_is_refused_for_no_reason, {"commits_fail_for_a_reason"}),
    (transactions_read_from_each_other, {"no_cycle"}),
    (a_reader_is_shown_what_is_gone_later, {"readers_agree"}),
    (a_reader_misses_a_record, {"readers_agree"}),
    (a_reader_is_shown_an_undecided_record, {"nothing_undecided_is_shown"}),
    (the_high_watermark_falls, {"watermarks_never_fall", "watermarks_are_in_order"}),
    (the_last_stable_offset_falls, {"watermarks_never_fall", "watermarks_are_in_order"}),
    (the_last_stable_offset_is_above_the_high_watermark, {"watermarks_are_in_order"}),
    (more_is_shown_than_is_told, {"watermarks_are_in_order"}),
    (more_is_told_to_be_committed_than_there_is, {"watermarks_are_in_order"}),
    (a_crash_takes_a_record, {"the_end_is_durable"}),
    (a_crash_takes_an_offset, {"the_end_is_durable"}),
    (two_instances_have_one_epoch, {"pairs_are_given_once"}),
    (a_later_instance_has_a_lower_epoch, {"pairs_are_given_once"}),
    (a_zombie_commits, {"zombies_do_not_commit"}),
    (a_copy_is_missing_below_the_offset, {"copies_match_offsets"}),
    (an_offset_lags_behind_its_output, {"copies_match_offsets", "offsets_never_fall"}),
    (an_offset_falls, {"offsets_never_fall"}),
    (a_producer_ends_that_nobody_has_replaced, {"producers_end_for_a_reason"}),
    (an_offset_is_invented, {"offsets_are_not_invented"}),
    (an_offset_is_shown_before_its_transaction_is_committed, {"offsets_are_not_invented"}),
    (a_deleted_record_is_back, {"deleted_is_deleted"}),
    (a_beginning_is_gone_of_a_topic_that_keeps_it, {"retention_takes_the_beginning"}),
    (a_log_begins_behind_its_last_stable_offset, {"retention_takes_the_beginning", "everything_ends"}),
    (retention_takes_the_middle, {"acknowledged_writes_are_there", "sequences_have_no_gap"}),
)


@pytest.mark.parametrize(("spoil", "rules"), SPOILED, ids=[spoil.__name__ for spoil, _ in SPOILED])
def test_the_judge_objects_when(spoil: Callable[[History], None], rules: set[str]) -> None:
    history = good()
    spoil(history)
    assert objecting(history) == rules


def test_every_rule_has_a_history_that_it_objects_to() -> None:
    of_others = {rule.__name__ for rule in RULES if rule not in shares.RULES}
    assert {name for _, rules in SPOILED for name in rules} == of_others


def test_instances_that_end_what_they_found_open_may_commit_it_one_after_the_other() -> None:
    history = good()
    transaction = history.transactions[2]
    assert transaction.end_asked > 44
    for number, asked in ((2, 41), (3, 43)):  # the second one died over it
        name = f"c/{number}"
        history.introductions.append(
            Introduction(name, "c", asked, answered=asked + 1, producer_id=COPIER, producer_epoch=number)
        )
        transaction.ended_by.add(name)
    assert judge(history) == []


def test_a_fenced_instance_that_finds_the_next_decision_does_not_undo_the_one_before() -> None:
    history = good()
    transaction = history.transactions[2]
    transaction.decided = True
    asked, answered = transaction.end_asked, transaction.end_answered
    transaction.end_requested(answered + 1, commit=False)
    transaction.end_response(answered + 2, 0, error="PRODUCER_FENCED")
    assert transaction.may_be_committed
    assert (transaction.end_asked, transaction.end_answered, transaction.acknowledged) == (asked, answered, True)
    assert judge(history) == []


def test_faults_and_calls_that_are_never_answered_are_violations() -> None:
    history = good()
    history.faults.append("a task died")
    history.unanswered.append("w/1: END_TXN")
    assert judge(history) == ["the broker failed: a task died", "never answered: w/1: END_TXN"]
