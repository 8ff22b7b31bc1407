"""Programs of long proofs that were stopped go on with what is not done, and report the whole in the end."""

import json
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import fuzz_campaign
import pytest
from coordinator_moves import tables_of
from fuzz_broker import KINDS, Outcome
from fuzz_campaign import Chunk, Done, chunks, throw
from hostile.__main__ import State
from hostile.figures import Seen, Waits
from librdkafka_log import Story
from model_checker.command_line import Held
from proof.books import enter, lines_of
from proof.reporting import FIGURES
from simulation.campaign import CHUNK, CHUNK_OF_CLUSTERS, CHUNK_OF_SHARES, chunk_of
from simulation.cluster.plan import SHARE_MEMBERS


@pytest.fixture
def figures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file for the figures of a program."""
    path = tmp_path / "figures.json"
    monkeypatch.setenv(FIGURES, str(path))
    return path


def searched(name: str, *, stopped: str | None = None, counterexample: object = None) -> Any:
    bounds = SimpleNamespace(name=name)
    return SimpleNamespace(
        bounds=bounds, states=7, steps=20, seconds=1.04, stopped=stopped, counterexample=counterexample
    )


def test_a_model_looks_only_at_configurations_that_are_not_known_to_hold(tmp_path: Path, figures: Path) -> None:
    state = tmp_path / "state.json"
    held = Held(state)
    assert held.left(["small", "broken", "large"]) == ["small", "broken", "large"]
    held.add(searched("small"))
    held.add(searched("broken", counterexample="a record is lost"))
    held.add(searched("large", stopped="states: the limit is 10"))
    assert json.loads(figures.read_text()) == {"configurations": {"small": [7, 20, 1.0]}}
    assert Held(state).left(["small", "broken", "large"]) == ["broken", "large"]
    assert Held(None).left(["small"]) == ["small"]


def test_frames_of_all_kinds_are_thrown_in_step_and_none_is_left_out() -> None:
    wanted = chunks(200_000)
    thrown = Counter[str]()
    for each in wanted:
        thrown[each.kind] += each.frames
    assert thrown == {"": 200_000, "members": 4000, "sockets": 2000, "security": 200, "large": 100}
    assert all(0 < each.frames <= KINDS[each.kind][1] for each in wanted)
    assert len({(each.kind, each.number) for each in wanted}) == len(wanted)
    assert wanted[0] == Chunk("", 0, 20_000)
    assert [each.number for each in wanted if not each.kind] == [*range(10)]
    assert {each.kind for each in wanted[:6]} == {"", "large"}


def test_chunks_that_were_good_are_not_thrown_again_and_one_that_failed_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def fuzz(*, first_chunk: int, frames: int, **_: object) -> Outcome:
        if first_chunk == 1:
            return Outcome(frames, 9, ["seed 3 chunk 1: Traceback\n  File ...\nKeyError: 7", "again: fuzz_broker.py"])
        return Outcome(frames, 5, [], longest_s=0.0123)

    monkeypatch.setattr(fuzz_campaign, "fuzz", fuzz)
    wanted, state = [Chunk("", 0, 20), Chunk("", 1, 20), Chunk("large", 2, 5)], tmp_path / "fuzz.json"
    done = Done(state, 3)
    assert [throw(each, 3, done) for each in done.left(wanted)] == [True, False, True]
    assert "FAILED: seed 3 chunk 1: Traceback ... KeyError: 7; again: fuzz_broker.py\n" in capsys.readouterr().out
    again = Done(state, 3)
    assert [*again.left(wanted)] == [wanted[1]]
    assert again.figures() == {"seed": 3, "frames": 20, "large": 5, "connections": 10, "longest_step_ms": 12}
    assert [*Done(state, 4).left(wanted)] == wanted


def test_a_campaign_that_is_stopped_loses_at_most_some_seeds_that_take_long() -> None:
    assert chunk_of(of_cluster=False, only=None) == CHUNK
    assert chunk_of(of_cluster=True, only="pause") == CHUNK_OF_CLUSTERS < CHUNK
    assert chunk_of(of_cluster=True, only=SHARE_MEMBERS) == CHUNK_OF_SHARES == 1


def test_moves_of_a_coordinator_that_were_made_before_are_in_the_table(tmp_path: Path) -> None:
    state = tmp_path / "moves.json"
    told = Story(0.5, 0.25, 2, Counter({"OffsetCommit: NOT_COORDINATOR": 3}), {"Heartbeat": 0.1}, 0, False)
    for lost in ("", "its session ran out"):
        enter(state, way="eosin to eosin", lost=lost, story=told._asdict())
    (table,) = tables_of(lines_of(state)).values()
    assert table.stories == [told, told]
    assert table.lost == ["its session ran out"]
    assert table.of_book() == {"moves": 2, "lost": 1, "longest_unheard_s": 0.5, "longest_without_s": 0.25}


def test_a_hostile_case_that_was_good_is_known_again_if_it_was_measured_in_the_same_way(tmp_path: Path) -> None:
    waits = Waits({"commit": [0.001, 0.02]}, ["refused"])
    seen = Seen(
        seconds=60.0,
        waits=waits,
        bouts=5,
        turned_away=1,
        cpu_s=2.5,
        memory_before_mib=50.0,
        memory_after_mib=51.0,
        log="INFO a line\n",
        exit_code=0,
        steps=[(0.004, "a callback")],
    )
    state = State(tmp_path / "hostile.json", seconds=60.0, steps=False)
    state.add_without(waits, waits)
    state.add_case("headers", seen)
    again = State(tmp_path / "hostile.json", seconds=60.0, steps=False)
    assert again.seen == {"headers": seen}
    assert again.without == [(waits, waits)]
    shorter = State(tmp_path / "hostile.json", seconds=10.0, steps=False)
    assert (shorter.seen, shorter.without) == ({}, [])
