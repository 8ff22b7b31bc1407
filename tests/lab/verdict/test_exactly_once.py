"""The verdict on planted faults of applications, each in logs as a broker would have them, and on logs without any."""

from collections.abc import Sequence
from typing import Any

import pytest

from eosin.lab.common.errors import EosinAssertion
from eosin.lab.common.values import PartitionName, ReadRecord, StoredBatch, TransactionSeen
from eosin.lab.verdict.exactly_once import Criteria, exactly_once
from eosin.lab.verdict.facts import ExactlyOnceFacts, GroupPosition, LoggedPartition
from eosin.lab.verdict.findings import MOST_LINES, Verdict

Written = tuple[str, int, int, str]
"""Ids in one text, the producer's id and epoch, and what became of them: commit, abort, open, or plain."""


def log(topic: str, *written: Written | str, partition: int = 0, raises_epochs: bool = True) -> LoggedPartition:
    """A partition with these batches, each followed by its marker; a text alone is written without transactions."""
    records: list[ReadRecord] = []
    visible: list[int] = []
    batches: list[StoredBatch] = []
    offset, first_open = 0, None
    for each in written:
        text, producer_id, epoch, outcome = (each, -1, -1, "plain") if isinstance(each, str) else each
        ids = text.split()
        for number, name in enumerate(ids):
            records.append(ReadRecord(topic, partition, offset + number, 0, name.encode(), b"v-" + name.encode()))
        if outcome in ("commit", "plain"):
            visible += range(offset, offset + len(ids))
        last = offset + len(ids) - 1
        batches.append(StoredBatch(partition, offset, last, len(ids), producer_id, epoch, 0, outcome != "plain", None))
        if outcome == "open" and first_open is None:
            first_open = offset
        offset = last + 1
        if outcome in ("commit", "abort"):
            batches.append(
                StoredBatch(partition, offset, offset, 1, producer_id, epoch + raises_epochs, -1, True, outcome)
            )
            offset += 1
    return LoggedPartition(
        topic, partition, tuple(records), tuple(visible), tuple(batches), first_open or offset, offset
    )


def judged(
    read: LoggedPartition | Sequence[LoggedPartition],
    output: LoggedPartition | Sequence[LoggedPartition],
    *,
    at: int | None = None,
    open_ids: tuple[TransactionSeen, ...] = (),
    **criteria: Any,
) -> Verdict:
    inputs = (read,) if isinstance(read, LoggedPartition) else tuple(read)
    outputs = (output,) if isinstance(output, LoggedPartition) else tuple(output)
    end = inputs[0].high_watermark if at is None else at
    committed = tuple(
        GroupPosition(each.topic, each.partition, end if index == 0 else each.high_watermark)
        for index, each in enumerate(inputs)
    )
    facts = ExactlyOnceFacts(inputs, outputs, "copier", committed, open_ids)
    return exactly_once(facts, Criteria(**criteria))


def kinds(verdict: Verdict) -> list[str]:
    return [each.kind for each in verdict.findings]


ORDERS = log("orders", "a b c d")


def test_a_copy_of_everything_in_transactions_is_exactly_once() -> None:
    verdict = judged(ORDERS, log("out", ("a b", 7, 0, "commit"), ("x", 7, 1, "abort"), ("c d", 7, 2, "commit")))
    assert verdict.is_exactly_once
    assert str(verdict) == "exactly once: 4 records in, 4 records out"


def test_a_record_without_output_is_lost() -> None:
    verdict = judged(ORDERS, log("out", ("a b d", 7, 0, "commit")))
    assert str(verdict).splitlines() == [
        "not exactly once: 4 records in, 3 records out",
        "lost: 1 record is not in the output, although group copier has committed them as read",
        '  orders-0:2 key "c" "v-c"',
    ]


def test_output_that_was_aborted_while_the_offset_was_committed_is_lost_and_its_transaction_is_named() -> None:
    verdict = judged(ORDERS, log("out", ("a b", 7, 0, "commit"), ("c d", 7, 1, "abort")))
    assert kinds(verdict) == ["lost"]
    assert verdict.findings[0].evidence[0] == (
        'orders-0:2 key "c" "v-c"; written, but not visible: out-0:3 key "c" "v-c" of producer 7 epoch 1, aborted'
    )


def test_output_that_is_there_twice_is_doubled_and_both_transactions_are_named() -> None:
    verdict = judged(ORDERS, log("out", ("a b c d", 7, 0, "commit"), ("c", 8, 0, "commit")))
    assert kinds(verdict) == ["doubled"]
    (line,) = verdict.findings[0].evidence
    assert "there 2 times and not 1" in line
    assert "producer 7 epoch 0" in line
    assert "producer 8 epoch 0" in line


def test_an_id_that_the_input_has_twice_is_expected_twice() -> None:
    twice = log("orders", "a a b")
    assert judged(twice, log("out", "a b a")).is_exactly_once
    assert kinds(judged(twice, log("out", "a b"))) == ["lost"]


def test_output_of_nothing_is_unexpected() -> None:
    verdict = judged(ORDERS, log("out", "a b c d e"))
    assert kinds(verdict) == ["unexpected"]
    assert 'out-0:4 key "e"' in str(verdict)


def test_output_ahead_of_the_committed_offset_is_torn_and_the_rest_is_stuck() -> None:
    verdict = judged(ORDERS, log("out", ("a b", 7, 0, "commit"), ("c", 7, 1, "commit")), at=2)
    assert kinds(verdict) == ["torn", "stuck"]
    assert "made of orders-0:2" in str(verdict)
    assert "orders-0: committed orders-0:2 of 4, 2 records unread" in str(verdict)


def test_input_that_is_not_read_is_stuck_and_not_lost() -> None:
    verdict = judged(ORDERS, log("out", ("a b", 7, 0, "commit")), at=2)
    assert kinds(verdict) == ["stuck"]


def test_a_group_that_has_committed_nothing_is_stuck_at_nothing() -> None:
    facts = ExactlyOnceFacts((ORDERS,), (log("out"),), "copier")
    assert "orders-0: committed nothing of 4, 4 records unread" in str(exactly_once(facts))


def test_markers_and_aborted_records_at_the_end_of_the_input_hold_nobody_up() -> None:
    orders = log("orders", ("a b", 1, 0, "commit"), ("x y", 1, 1, "abort"))
    assert judged(orders, log("out", "a b"), at=2).is_exactly_once


def test_a_read_of_aborted_input_is_unexpected_output() -> None:
    orders = log("orders", ("a", 1, 0, "commit"), ("x", 1, 1, "abort"))
    assert kinds(judged(orders, log("out", "a x"))) == ["unexpected"]


def test_aborted_records_that_committed_readers_are_shown_are_told() -> None:
    output = log("out", ("a b c d", 7, 0, "commit"), ("z", 7, 1, "abort"))
    shown = LoggedPartition("out", 0, output.records, (*output.visible, 5), output.batches, 7, 7)
    assert kinds(judged(ORDERS, shown)) == ["unexpected", "aborted visible"]


def test_a_committed_transaction_that_is_shown_in_part_is_torn() -> None:
    output = log("out", ("a b c d", 7, 0, "commit"))
    half = LoggedPartition("out", 0, output.records, (0, 1, 2), output.batches, 5, 5)
    verdict = judged(ORDERS, half)
    assert kinds(verdict) == ["lost", "torn"]
    assert "offsets 3 of producer 7 are not shown" in str(verdict)


def test_a_transaction_with_two_outcomes_is_torn() -> None:
    outputs = [log("out", ("a b", 7, 3, "commit")), log("out", ("c d", 7, 3, "abort"), partition=1)]
    verdict = judged(ORDERS, outputs)
    assert kinds(verdict) == ["lost", "torn"]
    assert "producer 7 epoch 3 is committed in one partition, not in another" in str(verdict)


def test_transactions_that_share_an_epoch_under_the_older_protocol_may_end_differently() -> None:
    outputs = [
        log("out", ("a b c d", 7, 3, "commit"), raises_epochs=False),
        log("out", ("e", 7, 3, "abort"), partition=1, raises_epochs=False),
    ]
    assert judged(ORDERS, outputs).is_exactly_once


def test_an_open_transaction_of_the_output_is_told_by_its_id_or_its_producer() -> None:
    output = log("out", ("a b c d", 7, 0, "commit"), ("e", 7, 1, "open"))
    assert "out-0:5 to 5, open, of producer 7 epoch 1" in str(judged(ORDERS, output))
    known = TransactionSeen("copier-1", "Ongoing", 7, 1, 60_000, 0, (PartitionName("out", 0),))
    elsewhere = TransactionSeen("other", "Ongoing", 8, 1, 60_000, 0, (PartitionName("else", 0),))
    verdict = judged(ORDERS, output, open_ids=(known, elsewhere))
    assert kinds(verdict) == ["open"]
    assert verdict.findings[0].evidence == ("copier-1, Ongoing, in out-0",)


def test_records_of_one_partition_that_changed_places_are_out_of_order() -> None:
    verdict = judged(ORDERS, log("out", "a c b d"))
    assert kinds(verdict) == ["out of order"]
    assert 'out-0:2 key "b" "v-b" was made of orders-0:1, and stands behind out-0:1 key "c"' in str(verdict)
    assert judged(ORDERS, log("out", "a c b d"), ordered=False).is_exactly_once


def test_order_holds_between_two_partitions_and_not_across_them() -> None:
    inputs = [log("orders", "a b"), log("orders", "c d", partition=1)]
    assert judged(inputs, log("out", "c a d b")).is_exactly_once
    assert judged(inputs, [log("out", "b d"), log("out", "a c", partition=1)]).is_exactly_once
    assert kinds(judged(inputs, log("out", "c b a d"))) == ["out of order"]


def test_a_second_copy_is_doubled_and_not_out_of_order_as_well() -> None:
    assert kinds(judged(ORDERS, log("out", "a b c d a"))) == ["doubled"]


def test_expected_ids_are_a_list_or_made_of_those_of_the_input() -> None:
    assert judged(ORDERS, log("out", "a c"), expected=["a", b"c"]).is_exactly_once
    assert judged(
        ORDERS, log("out", "b d"), expected=lambda ids: [each for each in ids if each > b"a" and each != b"c"]
    ).is_exactly_once
    assert kinds(judged(ORDERS, log("out", "a"), expected=lambda _: ["a", "c"])) == ["lost"]


def test_an_id_may_be_part_of_a_record() -> None:
    output = log("out", "1a 1b 1c 1d")
    assert judged(ORDERS, output, id_of=lambda each: each.key[-1:]).is_exactly_once


def test_a_reference_is_compared_as_a_multiset_of_records_pairs_or_values() -> None:
    reference = log("out", "d c b a")
    assert judged(ORDERS, log("out", "a b c d"), by="multiset", reference=reference.records).is_exactly_once
    assert judged(ORDERS, log("out", "a b"), by="multiset", reference=["v-b", b"v-a"]).is_exactly_once
    assert judged(ORDERS, log("out", "a b"), by="multiset", reference=[("a", "v-a"), ("b", "v-b")]).is_exactly_once
    verdict = judged(ORDERS, log("out", "a a b"), by="multiset", reference=["v-a", "v-b", "v-c"])
    assert kinds(verdict) == ["lost", "doubled"]


def test_a_model_of_the_application_makes_the_output_of_the_input() -> None:
    def invoices(orders: list[ReadRecord]) -> list[str]:
        return [f"v-{(each.key or b'').decode()}" for each in orders if each.key != b"c"]

    assert judged(ORDERS, log("out", "b a d"), by=invoices).is_exactly_once
    assert kinds(judged(ORDERS, log("out", "a b c d"), by=invoices)) == ["unexpected"]


def test_last_values_are_compared_by_key_and_tombstones_count_as_nothing() -> None:
    totals = LoggedPartition(
        "totals",
        0,
        (ReadRecord("totals", 0, 0, 0, b"k", b"1"), ReadRecord("totals", 0, 1, 0, b"k", b"2")),
        (0, 1),
        (),
        2,
        2,
    )
    assert judged(ORDERS, totals, by="last-value", reference=[("k", "2"), ("gone", None)]).is_exactly_once
    verdict = judged(ORDERS, totals, by="last-value", reference=[("k", "3"), ("l", "1")])
    assert kinds(verdict) == ["different"]
    assert verdict.findings[0].evidence == ('"k" is "2", and should be "3"', '"l" is none, and should be "1"')


def test_without_a_group_all_of_the_input_counts_as_read() -> None:
    facts = ExactlyOnceFacts((ORDERS,), (log("out", "a b c"),))
    assert kinds(exactly_once(facts)) == ["lost"]


def test_long_evidence_is_cut_in_the_text_and_whole_in_the_finding() -> None:
    names = " ".join(f"n{number}" for number in range(50))
    verdict = judged(log("orders", names), log("out"))
    assert len(verdict.findings[0].evidence) == 50
    assert str(verdict).splitlines()[-1] == f"  and {50 - MOST_LINES} more"


def test_facts_that_moved_while_they_were_read_are_told_with_the_findings() -> None:
    facts = ExactlyOnceFacts((ORDERS,), (log("out", "a b c"),), is_moving=True)
    assert str(exactly_once(facts)).endswith("wait_until_consumed comes before the verdict")


@pytest.mark.parametrize(
    ("criteria", "sentence"),
    [
        ({"by": "idz"}, "by is ids, multiset, last-value or a function, not 'idz'"),
        ({"by": "multiset"}, 'by="multiset" compares with the output of another run: name it as reference'),
        ({"reference": []}, 'a reference is compared by="multiset" or by="last-value"'),
        ({"by": "multiset", "reference": [], "expected": []}, 'expected is for by="ids"'),
        ({"by": "multiset", "reference": ["a", ("a", "b")]}, "are all records, all pairs of key and value, or all"),
        ({"by": "last-value", "reference": ["a"]}, "compares records, or pairs of key and value"),
    ],
)
def test_criteria_that_do_not_fit_together_are_refused_in_a_sentence(criteria: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        judged(ORDERS, ORDERS, **criteria)


def test_an_assertion_carries_its_findings() -> None:
    verdict = judged(ORDERS, log("out", "a"))
    assert EosinAssertion(str(verdict), verdict.findings).findings == verdict.findings
