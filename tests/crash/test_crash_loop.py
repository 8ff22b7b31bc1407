"""The books that `make crash` keeps."""

from pathlib import Path

import pytest
from crash_loop import State
from crash_series import Figures


def test_a_crash_loop_continues_where_it_was_stopped(tmp_path: Path) -> None:
    path = tmp_path / "results" / "crash.json"
    first = State(path, seed=7)
    first.done(Figures(rounds=10, kills=12, ready_ms=[500, 400]))
    first.done(Figures(rounds=10, kills=11, ready_ms=[900]))
    again = State(path, seed=7)
    assert again.series == 2
    assert again.figures == Figures(rounds=20, kills=23, ready_ms=[500, 400, 900])


def test_a_crash_loop_does_not_mix_the_figures_of_two_seeds(tmp_path: Path) -> None:
    State(tmp_path / "crash.json", seed=7).done(Figures(rounds=10))
    with pytest.raises(ValueError, match="seed 7"):
        State(tmp_path / "crash.json", seed=8)


def test_what_the_copiers_of_a_series_said_is_kept_if_one_was_stuck(tmp_path: Path) -> None:
    state = State(tmp_path / "crash.json", seed=7)
    state.done(Figures(rounds=10), "all went well")
    state.done(Figures(rounds=10, copiers_stuck=1), "a copier is stuck")
    assert sorted(each.name for each in tmp_path.iterdir()) == ["crash-stuck-1.log", "crash.json"]
    assert (tmp_path / "crash-stuck-1.log").read_text() == "a copier is stuck"
