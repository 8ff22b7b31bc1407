"""A run in a file, and its replay: steps in order, rules that fire at the same matches, and fewer and fewer rules."""

import errno
import os
import re
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import msgspec
import pytest
from waiting import HANG_S

from eosin.lab.broker_api import BrokerApi
from eosin.lab.clock.values import ClockState
from eosin.lab.common.errors import LabError
from eosin.lab.faults.values import RuleSeen
from eosin.lab.run import run_file
from eosin.lab.run.feed import FedRecord
from eosin.lab.run.recording import (
    APP,
    BROKER,
    Decisions,
    Judged,
    RecordedApp,
    RecordedBroker,
    RecordedRun,
    RecordedStep,
    RunHeader,
    run_in,
)
from eosin.lab.run.replay import replayed, rules_of, shrunk
from eosin.lab.run.replay_command import main, plan_of
from eosin.lab.run.run_file import FILE, lines_in, write_lines
from eosin.lab.scenarios.scenario import Scenario

HEADER = RunHeader(
    1,
    "lost-commit-answer",
    7,
    "kafka",
    {},
    "input",
    2,
    ("output",),
    "copiers",
    (FedRecord("a", "k"), FedRecord(None)),
    "multiset",
    "key",
    5,
    60.0,
    reference=[(b"k", b"\xff"), (None, None)],
)
WRITTEN = f"{msgspec.json.encode(HEADER).decode()}\n"
LOSE = {"do": {"action": "lose", "what": "answer"}, "match": {"api": "EndTxn"}}


class PretendedBroker(BrokerApi):
    """Keeps the operations that it was called with, and fires each rule once."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, list[Any]]] = []
        self.rules: list[str] = []

    @property
    def bootstrap(self) -> str:
        return "127.0.0.1:1"

    def call(self, operation: Callable[..., Coroutine[Any, Any, Any]], *args: Any, **kwargs: Any) -> Any:
        """Return what an operation of that name would."""
        name = operation.__name__
        if name == "faults":
            return [RuleSeen(each, each, "answer", 4, 1, 0, None, {}, {"inv": (3,)}) for each in self.rules]
        if name == "clock_state":
            return ClockState(1_000, 0, 1.0)
        self.calls.append((name, list(args)))
        if name == "arm_fault":
            self.rules.append(args[0].get("id", f"f{len(self.rules) + 1}"))
            return self.rules[-1]
        return 1 if name == "wait_fired" else None

    def close(self) -> None:
        """Nothing."""


class PretendedApp:
    """Keeps the steps that it was called with."""

    input, outputs, group, transactional_ids, left = "input", ("output",), "copiers", ("inv",), 3

    def __init__(self) -> None:
        self.calls: list[tuple[str, Any]] = []

    def __getattr__(self, name: str) -> Callable[..., bool]:
        def step(*args: Any, **named: Any) -> bool:
            self.calls.append((name, (*args, *named.values())))
            return True

        return step


def staged() -> tuple[RecordedBroker, RecordedRun]:
    """A scenario of some steps, and the run that is its record."""
    broker, app = RecordedBroker(PretendedBroker()), PretendedApp()
    recorded = RecordedApp(app, broker.steps)  # type: ignore[arg-type]
    with broker.faults.on("EndTxn").nth(3).lose("answer") as rule:
        recorded.feed(5)
        rule.wait_fired()
        broker.topic("output").records()
        broker.clock.advance_to(61_000)
        broker.crash(power=True)
    recorded.catches_up(timeout=HANG_S)
    recorded.commits(2)
    broker.keep_decisions()
    return broker, RecordedRun(HEADER, tuple(broker.steps), broker.decisions, Judged("FAIL", ("lost",), ("stuck",)))


def test_each_change_is_a_step_with_relative_times_and_reads_are_none() -> None:
    _, run = staged()
    assert [(each.to, each.does) for each in run.steps] == [
        (BROKER, "arm_fault"),
        (APP, "feed"),
        (BROKER, "wait_fired"),
        (BROKER, "advance"),
        (BROKER, "crash"),
        (BROKER, "remove_fault"),
        (APP, "catches_up"),
        (APP, "commits"),
    ]
    assert run.steps[0].args[0]["id"] == "f1"
    assert run.steps[3].args == [60_000, False]
    assert run.decisions == {"f1": Decisions("f1", {"inv": (3,)})}


def test_a_run_comes_back_from_its_file(tmp_path: Path) -> None:
    _, run = staged()
    run.write(tmp_path / FILE)
    found = run_in(tmp_path / FILE)
    assert [each.name for each in tmp_path.iterdir()] == [FILE]
    assert (found.header, found.decisions, found.judged) == (run.header, run.decisions, run.judged)
    assert [each.does for each in found.steps] == [each.does for each in run.steps]
    plan = plan_of(found, ("app",))
    assert (plan.command, plan.feed, plan.behaviour, plan.judge.way) == (("app",), HEADER.feed, "kafka", "multiset")


def test_a_file_of_an_earlier_version_is_read_as_it_is(tmp_path: Path) -> None:
    _, run = staged()
    run.write(tmp_path / FILE)
    old = tmp_path / "run.jsonl"
    old.write_bytes(b"".join(each + b"\n" for each in lines_in(tmp_path / FILE)))
    assert old.stat().st_size > (tmp_path / FILE).stat().st_size
    assert run_in(old).header == run.header


@pytest.mark.parametrize("left", [5, 60, -5, -1])
def test_a_file_that_was_cut_off_says_so(left: int, tmp_path: Path) -> None:
    _, run = staged()
    run.write(tmp_path / FILE)
    whole = (tmp_path / FILE).read_bytes()
    (tmp_path / FILE).write_bytes(whole[:left])
    with pytest.raises(LabError, match=f"{re.escape(FILE)} ends in the middle: take a whole copy"):
        run_in(tmp_path / FILE)


def test_lines_that_were_cut_off_say_so(tmp_path: Path) -> None:
    _, run = staged()
    run.write(tmp_path / FILE)
    (tmp_path / "run.jsonl").write_bytes(b"\n".join(lines_in(tmp_path / FILE))[:-9])
    with pytest.raises(LabError, match=r"run\.jsonl ends in the middle: take a whole copy"):
        run_in(tmp_path / "run.jsonl")


def test_a_file_with_a_bit_that_has_turned_is_damaged(tmp_path: Path) -> None:
    _, run = staged()
    run.write(tmp_path / FILE)
    broken = bytearray((tmp_path / FILE).read_bytes())
    broken[len(broken) // 2] ^= 4
    (tmp_path / FILE).write_bytes(broken)
    with pytest.raises(LabError, match=r"is damaged|ends in the middle"):
        run_in(tmp_path / FILE)


def test_a_run_of_a_newer_format_is_told_from_a_file_of_something_else(tmp_path: Path) -> None:
    write_lines(tmp_path / FILE, [b'{"line": "run", "version": 2, "clusters": 3}', b'{"line": "weather"}'])
    with pytest.raises(LabError, match=r"was recorded in format 2, and this Eosin .* replays format 1: replay it with"):
        run_in(tmp_path / FILE)


def test_a_file_that_would_fill_the_memory_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_file, "MOST_BYTES", 1 << 20)
    write_lines(tmp_path / FILE, [b"x" * (2 << 20)])
    with pytest.raises(LabError, match="has more than 1 MiB of lines"):
        run_in(tmp_path / FILE)


def test_a_file_that_cannot_be_written_leaves_the_one_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_lines(tmp_path / FILE, [b"before"])

    def full(source: object, target: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(OSError, match="No space left"):
        write_lines(tmp_path / FILE, [b"after"])
    assert lines_in(tmp_path / FILE) == [b"before"]
    assert [each.name for each in tmp_path.iterdir()] == [FILE]


def test_the_lines_of_a_file_can_be_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_lines(tmp_path / FILE, [b'{"line": "run"}', b'{"line": "verdict"}'])
    assert main(["replay", "--print", str(tmp_path / FILE)]) == 0
    assert capsys.readouterr().out == '{"line": "run"}\n{"line": "verdict"}\n'


def test_a_replay_repeats_the_steps_and_fires_at_the_same_matches_of_each_client() -> None:
    _, run = staged()
    broker, app = PretendedBroker(), PretendedApp()
    expectation = replayed(run).stage(broker, app, 7)  # type: ignore[arg-type]
    assert expectation is not None
    assert (expectation.forgiven, expectation.notes) == (("stuck",), ())
    assert app.calls == [("feed", (5,)), ("catches_up", (HANG_S,)), ("commits", (2, 10.0))]
    (armed,) = [args[0] for name, args in broker.calls if name == "arm_fault"]
    assert armed["when"] == {"occurrences": {"inv": (3,)}}
    assert armed["optional"]
    assert [name for name, _ in broker.calls][-3:] == ["crash", "wait_fired", "remove_fault"]


def test_a_replay_tells_where_it_departs_from_the_record() -> None:
    steps = (RecordedStep(BROKER, "fly", []), RecordedStep(BROKER, "arm_function", [LOSE]))
    run = RecordedRun(HEADER, steps, {}, Judged("PASS"))
    expectation = replayed(run).stage(PretendedBroker(), PretendedApp(), 7)  # type: ignore[arg-type]
    assert expectation is not None
    first, second = expectation.notes
    assert "fly: this eosin has no such operation" in first
    assert "a function of Python" in second


def test_a_failing_run_is_shrunk_to_the_rules_that_it_needs() -> None:
    steps = tuple(RecordedStep(BROKER, "arm_fault", [{**LOSE, "id": each}]) for each in ("f1", "f2", "f3"))
    run = RecordedRun(HEADER, (*steps, RecordedStep(BROKER, "remove_fault", ["f2"])), {}, Judged("FAIL"))

    def needs_f2(scenario: Scenario, _: str) -> bool:
        broker = PretendedBroker()
        scenario.stage(broker, PretendedApp(), 7)  # type: ignore[arg-type]
        return "f2" in broker.rules

    assert rules_of(run) == ("f1", "f2", "f3")
    assert shrunk(run, needs_f2) == ("f2",)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ('{"test": "one of pytest"}\n', "run.jsonl:1 is no line of a recorded run"),
        ('{"line": "weather"}\n', "run.jsonl:1 is no line of a recorded run"),
        ("", "run.jsonl is empty: replay takes the run.jsonl.zst of `eosin lab run --out DIR`"),
        (WRITTEN, "is no whole recorded run"),
    ],
)
def test_what_is_no_recorded_run_is_refused_in_a_sentence(text: str, complaint: str, tmp_path: Path) -> None:
    (tmp_path / "run.jsonl").write_text(text)
    with pytest.raises(LabError, match=complaint):
        run_in(tmp_path / "run.jsonl")


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ([__file__], "name the application behind --"),
        ([str(Path(__file__).parent), "--", "true"], "is a folder: name the run.jsonl.zst of one of the scenarios"),
        (["/nowhere/run.jsonl", "--", "true"], "cannot read /nowhere/run.jsonl"),
    ],
)
def test_what_cannot_be_replayed_is_refused_in_a_sentence(
    words: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["replay", *words]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert complaint in line
