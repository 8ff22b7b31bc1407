"""Decisions about the records of a share partition, one by one (KIP-932; share-partitions.md 2, 3)."""

from typing import Any

import pytest

from eosin.broker.sharing.rules.acknowledgements import acknowledgements
from eosin.broker.sharing.rules.fetched import ReadBatch
from eosin.broker.sharing.rules.window import (
    Acknowledgement,
    AcknowledgeType,
    AcquireLimits,
    ShareWindow,
    Transition,
)
from eosin.coordinator.share_states import DeliveryState, StateBatch
from eosin.protocol.errors import ErrorCode
from eosin.protocol.schemas.share_fetch import AcknowledgementBatch

LIMITS = AcquireLimits(max_records=500, batch_size=500, is_exact=False, max_in_flight=2000, delivery_limit=5)
ACCEPT, RELEASE, REJECT, RENEW = (
    AcknowledgeType.ACCEPT,
    AcknowledgeType.RELEASE,
    AcknowledgeType.REJECT,
    AcknowledgeType.RENEW,
)


def batch(first: int, end: int, *, is_delivered: bool = True) -> ReadBatch:
    return ReadBatch(first, end, is_delivered, 0)


def acquire(window: ShareWindow, *batches: ReadBatch, member: str = "a", **limits: Any) -> list[tuple[int, ...]]:
    offset = window.next_offset(LIMITS.max_in_flight)
    assert offset is not None
    made = window.acquire(member, batches, offset=offset, limits=LIMITS._replace(**limits), due_ms=100)
    return [tuple(each) for each in made.ranges]


def acknowledge(window: ShareWindow, first: int, end: int, kind: AcknowledgeType, *, member: str = "a") -> Transition:
    begun = window.acknowledge(
        member, [Acknowledgement(first, end, kind)], delivery_limit=5, due_ms=200, may_renew=True
    )
    assert isinstance(begun, Transition)
    return begun


def refusal(window: ShareWindow, first: int, end: int, kind: AcknowledgeType, *, member: str = "a") -> ErrorCode:
    begun = window.acknowledge(
        member, [Acknowledgement(first, end, kind)], delivery_limit=5, due_ms=200, may_renew=False
    )
    assert isinstance(begun, ErrorCode)
    return begun


def deliver_and_release(window: ShareWindow, end: int, times: int) -> None:
    for _ in range(times):
        acquire(window, batch(0, end))
        window.release("a", delivery_limit=5)


def test_whole_batches_are_handed_out_past_the_limit_of_records() -> None:
    window = ShareWindow(0)
    assert acquire(window, batch(0, 4), batch(4, 8), batch(8, 12), max_records=5) == [(0, 7, 1)]
    assert window.next_offset(2000) == 8


def test_an_exact_limit_cuts_a_batch_and_the_rest_is_next() -> None:
    window = ShareWindow(0)
    assert acquire(window, batch(0, 4), batch(4, 8), max_records=5, is_exact=True) == [(0, 4, 1)]
    assert acquire(window, batch(4, 8), member="b", is_exact=True) == [(5, 7, 1)]


def test_ranges_end_at_batches_of_about_the_size_asked_for() -> None:
    window = ShareWindow(0)
    assert acquire(window, batch(0, 3), batch(3, 6), batch(6, 7), batch(7, 9), batch_size=4) == [(0, 5, 1), (6, 8, 1)]
    assert window.run_count == 1


def test_a_full_window_hands_out_only_what_became_available_in_it() -> None:
    window = ShareWindow(0)
    assert acquire(window, batch(0, 9), max_in_flight=6) == [(0, 5, 1)]
    assert window.next_offset(6) is None
    window.written(acknowledge(window, 2, 4, RELEASE))
    assert window.next_offset(6) == 2
    assert acquire(window, batch(0, 9), member="b", max_in_flight=6) == [(2, 3, 2)]


def test_markers_and_what_does_not_exist_are_done_without_a_member() -> None:
    window = ShareWindow(0)
    assert acquire(window, batch(0, 2), batch(2, 3, is_delivered=False), batch(5, 7)) == [(0, 1, 1), (5, 6, 1)]
    window.written(acknowledge(window, 0, 2, ACCEPT))
    assert window.start == 5


def test_a_log_of_markers_alone_moves_an_empty_window_along() -> None:
    window = ShareWindow(0)
    assert acquire(window, batch(0, 100_000, is_delivered=False)) == []
    assert (window.start, window.end) == (100_000, 100_000)


def test_offsets_between_stored_batches_are_delivered_again() -> None:
    stored = [
        StateBatch(2, 4, DeliveryState.ACKNOWLEDGED, 1),
        StateBatch(7, 8, DeliveryState.AVAILABLE, 2),
    ]
    window = ShareWindow.loaded(0, stored, log_end=20)
    assert acquire(window, batch(0, 10)) == [(0, 1, 1), (5, 6, 1), (7, 8, 3), (9, 9, 1)]


def test_what_is_stored_of_offsets_that_the_log_has_lost_does_not_count() -> None:
    stored = [StateBatch(2, 9, DeliveryState.ACKNOWLEDGED, 1)]
    window = ShareWindow.loaded(0, stored, log_end=5)
    assert (window.start, window.end) == (0, 5)
    window = ShareWindow.loaded(8, [], log_end=5)
    assert (window.start, window.end) == (5, 5)


def test_a_stored_state_that_overlaps_is_refused() -> None:
    stored = [StateBatch(2, 4, DeliveryState.ACKNOWLEDGED, 1), StateBatch(4, 5, DeliveryState.AVAILABLE, 1)]
    with pytest.raises(ValueError, match="from 4 to 5"):
        ShareWindow.loaded(0, stored, log_end=20)
    with pytest.raises(ValueError, match="from 2 to 4"):
        ShareWindow.loaded(3, stored[:1], log_end=20)


def test_a_record_at_the_limit_of_deliveries_is_given_up() -> None:
    window = ShareWindow(0)
    deliver_and_release(window, 1, 4)
    assert acquire(window, batch(0, 1)) == [(0, 0, 5)]
    transition = acknowledge(window, 0, 1, RELEASE)
    assert transition.batches == (StateBatch(0, 0, DeliveryState.ARCHIVED, 5),)
    window.written(transition)
    assert (window.start, window.archived_at_limit) == (1, 1)


def test_records_that_failed_often_come_apart_and_the_last_time_alone() -> None:
    window = ShareWindow(0)
    deliver_and_release(window, 64, 3)
    assert acquire(window, batch(0, 64), batch(64, 70)) == [(0, 31, 4)]
    assert acquire(window, batch(0, 64), batch(64, 70), member="b") == [(32, 47, 4)]
    window.release("a", delivery_limit=5)
    assert acquire(window, batch(0, 64), batch(64, 70), member="c") == [(0, 0, 5)]


def test_good_records_do_not_come_together_with_those_that_failed_often() -> None:
    window = ShareWindow(0)
    acquire(window, batch(0, 8))
    window.written(acknowledge(window, 0, 2, RELEASE))
    deliver_and_release(window, 2, 2)
    window.release("a", delivery_limit=5)
    assert acquire(window, batch(0, 8)) == [(0, 0, 4)]
    assert acquire(window, batch(0, 8), member="b") == [(1, 1, 4)]
    assert acquire(window, batch(0, 8), member="c") == [(2, 7, 2)]


def test_a_lowered_limit_of_deliveries_gives_up_what_is_beyond_it() -> None:
    window = ShareWindow(0)
    deliver_and_release(window, 2, 3)
    assert acquire(window, batch(0, 4), delivery_limit=2) == [(2, 3, 1)]
    assert (window.start, window.archived_at_limit) == (2, 2)


@pytest.mark.parametrize("kind", [ACCEPT, RELEASE, REJECT])
def test_nobody_acknowledges_what_is_not_his(kind: AcknowledgeType) -> None:
    window = ShareWindow(0)
    assert refusal(window, 0, 1, kind) is ErrorCode.INVALID_RECORD_STATE
    acquire(window, batch(0, 4))
    assert refusal(window, 0, 4, kind, member="b") is ErrorCode.INVALID_RECORD_STATE
    assert refusal(window, 2, 5, kind) is ErrorCode.INVALID_REQUEST
    acknowledge(window, 1, 2, ACCEPT)
    assert refusal(window, 0, 4, kind) is ErrorCode.INVALID_RECORD_STATE, "one of them is being written"


def test_acknowledgements_that_overlap_in_one_request_are_refused() -> None:
    window = ShareWindow(0)
    acquire(window, batch(0, 4))
    twice = [Acknowledgement(0, 2, ACCEPT), Acknowledgement(1, 3, RELEASE)]
    begun = window.acknowledge("a", twice, delivery_limit=5, due_ms=0, may_renew=False)
    assert begun is ErrorCode.INVALID_RECORD_STATE
    assert window.acquired == 4


def test_what_is_before_the_start_is_acknowledged_without_a_word() -> None:
    window = ShareWindow(0)
    acquire(window, batch(0, 8))
    window.move_start(3)
    transition = acknowledge(window, 0, 5, ACCEPT)
    assert transition.batches == (StateBatch(3, 4, DeliveryState.ACKNOWLEDGED, 1),)
    window.move_start(100)
    assert acknowledge(window, 0, 8, ACCEPT).batches == ()


def test_a_failed_write_gives_back_the_old_lock_or_ends_it() -> None:
    window = ShareWindow(0)
    acquire(window, batch(0, 4))
    transition = acknowledge(window, 0, 2, ACCEPT)
    assert window.next_offset(2000) == 4
    assert window.not_written(transition, now_ms=50, delivery_limit=5) == []
    assert window.acquired == 4
    transition = acknowledge(window, 0, 2, ACCEPT)
    assert window.expire(150, delivery_limit=5) == [StateBatch(2, 3, DeliveryState.AVAILABLE, 1)]
    assert window.not_written(transition, now_ms=150, delivery_limit=5) == [
        StateBatch(0, 1, DeliveryState.AVAILABLE, 1)
    ]
    assert window.available == 4


def test_a_member_that_goes_while_its_acknowledgement_fails_keeps_nothing() -> None:
    window = ShareWindow(0)
    acquire(window, batch(0, 4))
    transition = acknowledge(window, 0, 2, ACCEPT)
    assert window.release("a", delivery_limit=5) == [StateBatch(2, 3, DeliveryState.AVAILABLE, 1)]
    window.not_written(transition, now_ms=0, delivery_limit=5)
    assert window.available == 4


def test_a_renewed_lock_runs_anew_and_nothing_is_written() -> None:
    window = ShareWindow(0)
    acquire(window, batch(0, 4))
    assert acknowledge(window, 0, 2, RENEW).batches == ()
    assert window.expire(150, delivery_limit=5) == [StateBatch(2, 3, DeliveryState.AVAILABLE, 1)]
    assert window.next_due_ms() == 200
    assert refusal(window, 0, 2, RENEW) is ErrorCode.INVALID_RECORD_STATE, "the group does not renew"


def test_a_million_offsets_of_one_kind_cost_one_run() -> None:
    window = ShareWindow(0)
    acquire(window, batch(0, 1_000_000), max_in_flight=2_000_000)
    assert window.run_count == 1
    window.written(acknowledge(window, 10, 999_990, ACCEPT))
    assert window.run_count == 3


@pytest.mark.parametrize(
    ("batches", "sentence"),
    [
        ([(5, 4, (1,))], "no range"),
        ([(-1, 4, (1,))], "no range"),
        ([(0, 2**63 - 1, (1,))], "no range"),
        ([(5, 9, (1,)), (3, 4, (1,))], "come behind 9"),
        ([(0, 1, ())], "no acknowledge type"),
        ([(0, 3, (1, 1))], "2 acknowledge types"),
        ([(0, 19_999, (1,) * 20_000)], "20000 acknowledge types"),
        ([(0, 0, (4,))], "between 0 and 3"),
        ([(0, 0, (-1,))], "between 0 and 3"),
        ([(0, 0, (1,))] * 20_000, "more than 10000"),
        ([(each * 4000, each * 4000 + 3999, (1, 2) * 2000) for each in range(3)], "12000 acknowledge types"),
    ],
)
def test_impossible_acknowledgements_are_invalid_requests(
    batches: list[tuple[int, int, tuple[int, ...]]], sentence: str
) -> None:
    refused = acknowledgements([AcknowledgementBatch(*each) for each in batches], renews=False)
    assert isinstance(refused, str)
    assert sentence in refused


def test_types_of_single_offsets_become_runs() -> None:
    found = acknowledgements(
        [AcknowledgementBatch(0, 4, (1, 1, 2, 3, 3)), AcknowledgementBatch(7, 9, (4,))], renews=True
    )
    assert found == [
        Acknowledgement(0, 2, ACCEPT),
        Acknowledgement(2, 3, RELEASE),
        Acknowledgement(3, 5, REJECT),
        Acknowledgement(7, 10, RENEW),
    ]
