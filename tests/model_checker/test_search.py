"""The checker itself: it finds what it keeps again, says what it could not look at, and reaches what it is for."""

from functools import cache

import pytest

from eosin.coordinator.transactions.rules.state import TransactionState
from model_checker.__main__ import main
from model_checker.fair import fair_step, unfinished
from model_checker.large import LARGE
from model_checker.partition import _freeze, _thaw
from model_checker.search import Search
from model_checker.small import SMALL
from model_checker.values import DEAD, LOST_GUARD, Client, Coordinator, Message, Part, State

BY_NAME = {bounds.name: bounds for bounds in (*SMALL, *LARGE)}


@cache
def searched(name: str) -> Search:
    search = Search(BY_NAME[name])
    search.run()
    return search


def seen(name: str, kind: type) -> list[object]:
    """All values of a kind that a search has met."""
    return [value for value in searched(name)._values if type(value) is kind]


def messages(name: str) -> set[Message]:
    return {each for value in seen(name, tuple) for each in value if isinstance(each, Message)}  # type: ignore[attr-defined]


def coordinators(name: str) -> list[Coordinator]:
    return [value for value in seen(name, Coordinator) if isinstance(value, Coordinator)]


def test_a_partition_is_taken_out_as_it_was_put_away() -> None:
    parts = [part for name in ("first-protocol", "late-markers") for part in seen(name, Part)]
    assert len(parts) > 50
    for part in parts:
        assert isinstance(part, Part)
        state, tags = _thaw(part.now)
        assert _freeze(state, tags, part.now.decided) == part.now


@pytest.mark.parametrize("limits", [{"max_states": 4000}, {"max_memory_mib": 1}], ids=str)
def test_a_search_that_may_not_go_on_says_so(limits: dict[str, int]) -> None:
    result = Search(BY_NAME["crash"], **limits).run()
    assert result.states < 9000
    assert result.stopped is not None
    assert result.stopped.startswith("states: the limit is 4000" if "max_states" in limits else "memory: ")


def test_every_state_of_a_transactional_id_is_reached() -> None:
    states = {each.txn.state for each in coordinators("retries") if each.txn is not None}
    assert states == set(TransactionState) - {TransactionState.DEAD}


def test_epochs_are_used_up_and_the_producer_id_changes() -> None:
    assert {each.txn.producer_id for each in coordinators("last-epochs") if each.txn is not None} >= {0, 1}


def test_producers_return_after_a_timeout() -> None:
    claimed = [
        each.txn
        for each in coordinators("first-protocol")
        if each.txn is not None and each.txn.timed_out is not None and each.txn.state is TransactionState.EMPTY
    ]
    assert claimed


def test_instances_are_replaced_and_fail() -> None:
    clients = {each for each in seen("crash", Client) if isinstance(each, Client)}
    assert any(each.fenced and each.is_open for each in clients)
    assert any(each.fenced and each.phase == DEAD for each in clients)


def test_verifications_come_too_late() -> None:
    assert any(message.guard == LOST_GUARD for message in messages("first-protocol"))


def test_a_crash_finds_records_in_doubt() -> None:
    assert max(len(each.tail) for each in coordinators("crash")) == 2


@pytest.mark.slow
@pytest.mark.parametrize("name", ["crash", "first-protocol", "failing-log", "lost-appends"])
def test_everything_comes_to_an_end_in_the_opposite_order_too(name: str) -> None:
    search = searched(name)
    known: set[State] = set()
    for key in search._keys:
        state, seen_here = search._state(key), set()
        while state not in known and state not in seen_here:
            seen_here.add(state)
            following = fair_step(search._world, state, last_first=True)
            if following is None:
                assert unfinished(state) is None
                break
            state = following[1]
        else:
            assert state in known, "it goes round for ever"
        known |= seen_here


def test_the_command_line_refuses_what_it_does_not_know(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["model", "no-such"])
    with pytest.raises(SystemExit) as exit_:
        main()
    assert exit_.value.code == 2
    assert "there is no configuration no-such: --list says which there are" in capsys.readouterr().err


def test_the_command_line_lists_every_configuration_and_rule(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["model", "--list"])
    assert main() == 0
    told = capsys.readouterr().out
    assert all(name in told for name in BY_NAME)
    assert "single writer:" in told
