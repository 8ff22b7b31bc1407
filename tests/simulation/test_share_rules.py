"""The judge of share groups: a good history passes, and each rule objects to one in which something is wrong."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from eosin.protocol.names import TopicPartition
from simulation.case import Case
from simulation.history import FinalPartition, FinalState, History, LoggedBatch, Seen
from simulation.rules.shares import RULES
from simulation.share_history import (
    Acknowledged,
    Departure,
    HandedOut,
    Kind,
    Place,
    Reset,
    SharePromise,
    StartTold,
    Tenure,
    Told,
)

A = TopicPartition("a", 0)
FIRST, SECOND = Place("g", A, 0), Place("g", A, 1)
HERE = Tenure(1, 1, 0, 3)


def given(place: Place, member: str, count: int, moment: int, at: float, tenure: Tenure = HERE) -> HandedOut:
    return HandedOut(place, member, count, moment, at, tenure, window=tenure.leader_epoch, is_current=True)


def good() -> History:
    """The first record is accepted by its first member; the second is released, lost by a lock, and rejected."""
    history = History()
    shares = history.shares
    shares.groups["g"] = SharePromise("g", ("a",), True, 5, 1.0, TopicPartition("dlq", 0))
    shares.handed_out = [
        given(FIRST, "m", 1, 10, 1.0),
        given(SECOND, "m", 1, 10, 1.0),
        given(SECOND, "n", 2, 20, 1.2),
        given(SECOND, "m", 3, 30, 2.3),
    ]
    shares.told = [
        Told(each.place, each.member, "xy"[each.place.offset], each.moment + 1) for each in shares.handed_out
    ]
    shares.acknowledged = [
        Acknowledged(FIRST, "m", 1, Kind.ACCEPT, 12, 14),
        Acknowledged(SECOND, "m", 1, Kind.RELEASE, 12, 14),
        Acknowledged(SECOND, "m", 1, Kind.REJECT, 32, 34),
    ]
    shares.starts = [StartTold("g", A, start, 40 + start, 41 + start, is_excused=False) for start in (0, 2)]
    shares.letters = {"g": ["y"]}
    batch = LoggedBatch(0, 2, 1, 0, 0, False, "", ("x", "y"), (0, 1))
    history.final = FinalState({A: FinalPartition((batch,), (Seen(0, "x"), Seen(1, "y")), 2, 2)})
    return history


def objecting(history: History) -> set[str]:
    case = Case(history)
    return {rule.__name__ for rule in RULES if list(rule(case))}


def test_a_good_history_passes() -> None:
    assert objecting(good()) == set()


# Each spoils a history.


def a_record_goes_to_another_before_its_lock_is_over(history: History) -> None:
    history.shares.handed_out[3] = given(SECOND, "m", 3, 30, 1.9)


def an_accepted_record_is_handed_out_later(history: History) -> None:
    history.shares.handed_out.append(given(FIRST, "n", 2, 60, 9.0))


def an_accepted_record_is_handed_out_by_the_next_leader(history: History) -> None:
    history.shares.handed_out.append(given(FIRST, "n", 1, 60, 9.0, Tenure(2, 1, 1, 3)))


def a_rejected_record_is_handed_out_later(history: History) -> None:
    history.shares.handed_out.append(given(SECOND, "n", 4, 60, 9.0))


def a_count_does_not_grow(history: History) -> None:
    history.shares.handed_out[3].count = 2


def a_release_is_forgotten_by_the_next_leader(history: History) -> None:
    after = [given(SECOND, each.member, each.count - 1, each.moment, each.at, Tenure(2, 1, 1, 3)) for each in
             history.shares.handed_out[2:]]  # fmt: skip
    history.shares.handed_out[2:] = after


def a_count_is_above_the_limit(history: History) -> None:
    history.shares.handed_out[3].count = 6


def a_record_is_never_delivered(history: History) -> None:
    del history.shares.handed_out[0], history.shares.acknowledged[0]


def a_record_is_done_and_nobody_has_decided(history: History) -> None:
    del history.shares.acknowledged[0]


def an_aborted_record_is_delivered(history: History) -> None:
    history.final.partitions[A].committed = (Seen(0, "x"),)


def another_record_is_delivered(history: History) -> None:
    history.shares.told[0] = replace(history.shares.told[0], text="z")


def a_start_goes_back(history: History) -> None:
    history.shares.starts.append(StartTold("g", A, 1, 50, 51, is_excused=False))


def a_rejected_record_has_no_dead_letter(history: History) -> None:
    history.shares.letters = {"g": []}


def an_accepted_record_has_a_dead_letter(history: History) -> None:
    history.shares.letters = {"g": ["x", "y"]}


SPOILED: list[tuple[Callable[[History], None], set[str]]] = [
    (a_record_goes_to_another_before_its_lock_is_over, {"one_member_at_a_time"}),
    (an_accepted_record_is_handed_out_later, {"final_is_final"}),
    (an_accepted_record_is_handed_out_by_the_next_leader, {"final_is_final"}),
    (a_rejected_record_is_handed_out_later, {"final_is_final"}),
    (a_count_does_not_grow, {"counts_only_grow"}),
    (a_release_is_forgotten_by_the_next_leader, {"counts_only_grow"}),
    (a_count_is_above_the_limit, {"counts_only_grow"}),
    (a_record_is_never_delivered, {"nothing_is_left_out"}),
    (a_record_is_done_and_nobody_has_decided, {"nothing_is_left_out"}),
    (an_aborted_record_is_delivered, {"members_get_what_they_may"}),
    (another_record_is_delivered, {"members_get_what_they_may"}),
    (a_start_goes_back, {"starts_never_go_back"}),
    (a_rejected_record_has_no_dead_letter, {"rejected_have_dead_letters"}),
    (an_accepted_record_has_a_dead_letter, {"rejected_have_dead_letters"}),
]


@pytest.mark.parametrize(("spoil", "rules"), SPOILED, ids=lambda each: getattr(each, "__name__", ""))
def test_a_rule_objects(spoil: Callable[[History], None], rules: set[str]) -> None:
    history = good()
    spoil(history)
    assert objecting(history) == rules


def test_each_rule_objects_to_something() -> None:
    assert {name for _, rules in SPOILED for name in rules} == {rule.__name__ for rule in RULES}


# Each is what may happen.


def its_member_has_gone(history: History) -> None:
    history.shares.handed_out[3] = given(SECOND, "m", 3, 30, 1.9)
    history.shares.departures.append(Departure("n", 1, 25))


def an_acknowledgement_is_not_known_to_count(history: History) -> None:
    history.shares.acknowledged[0].answered = None
    history.shares.handed_out.append(given(FIRST, "n", 2, 60, 9.0))


def an_acknowledgement_was_refused(history: History) -> None:
    history.shares.acknowledged[0].error = "INVALID_RECORD_STATE"
    history.shares.handed_out.append(given(FIRST, "n", 2, 60, 9.0))


def a_leader_has_not_heard_of_its_successor(history: History) -> None:
    late = given(FIRST, "n", 2, 60, 9.0)
    late.is_current = False
    history.shares.handed_out.append(late)


def an_administrator_has_the_group_begin_anew(history: History) -> None:
    history.shares.resets.append(Reset("g", 52, 55))
    history.shares.starts.append(StartTold("g", A, 0, 56, 57, is_excused=False))
    history.shares.handed_out.append(given(FIRST, "n", 1, 60, 9.0, Tenure(1, 1, 0, 4)._replace(start=2)))
    history.shares.handed_out[-1].window = 7


@pytest.mark.parametrize(
    "happens",
    [
        its_member_has_gone,
        an_acknowledgement_is_not_known_to_count,
        an_acknowledgement_was_refused,
        a_leader_has_not_heard_of_its_successor,
        an_administrator_has_the_group_begin_anew,
    ],
)
def test_no_rule_objects_to_what_may_happen(happens: Callable[[History], None]) -> None:
    history = good()
    happens(history)
    assert objecting(history) == set()
