"""The rules of time hold in all tests, but for places that are listed and get fewer (`support/rules_of_time.py`)."""

from collections import Counter
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import pytest
import rules_of_time
from rules_of_time import LIST, RULES, Allowed, Broken, broken, complaints, everything, listed, main, renewed, written

everything_once = cache(everything)

PLANTED: Mapping[str, tuple[tuple[str, int], ...]] = {
    "bounds": (
        ("began = time.monotonic()\nwork()\nassert time.monotonic() - began < 5", 1),
        ("began = time.process_time()\nwork()\ntook = time.process_time() - began\nassert took <= MOST_S", 1),
        ("took = []\ntook.append(time.perf_counter() - began)\nassert 2 > min(took)", 1),
        (
            "began, there = loop.time(), size()\nassert there < 9\nassert 1 < loop.time() - began",
            0,
        ),
        ("began = clock.elapsed_ms()\nassert clock.elapsed_ms() - began < 5", 0),
        ("deadline = time.monotonic() + HANG_S\nassert time.monotonic() < deadline, log", 0),
    ),
    "sleeps": (
        ("time.sleep(0.05)\nassert seen", 1),
        ("await asyncio.sleep(PAUSE_S)", 1),
        ("for _ in range(500):\n    if seen:\n        break\n    await asyncio.sleep(0.01)", 1),
        ("for _ in range(10):\n    await asyncio.sleep(0)", 1),
        ("while not seen:\n    time.sleep(0.05)", 0),
        ("await asyncio.sleep(0)", 0),
        ("await clock.sleep(5)", 0),
        ("while not seen:\n    for each in all_of_them:\n        time.sleep(1)", 1),
    ),
    "limits": (
        ("async with asyncio.timeout(5):\n    await seen", 1),
        ("await asyncio.wait_for(seen, 10)", 1),
        ("await asyncio.wait_for(seen, timeout=LIMIT_S)", 1),
        ("process.wait(20)", 1),
        ("process.communicate(timeout=30)", 1),
        ("subprocess.run(command, timeout=60)", 1),
        ("thread.join(5)", 1),
        ("producer.init_transactions(20)\nassert producer.flush(10) == 0\nconsumer.consume(1, timeout=30)", 3),
        ("deadline = time.monotonic() + 30", 1),
        ("process.wait(HANG_S)\nthread.join()\nsubprocess.run(command, timeout=600)", 0),
        ("with pytest.raises(TimeoutError):\n    await asyncio.wait_for(seen, 0.4)", 0),
        ("', '.join(names)\nwait_until(lambda: seen, every_s=0.3)", 0),
        ("@pytest.mark.timeout(240)\ndef test_inner():\n    pass", 1),
        ("@pytest.mark.timeout(600)\ndef test_inner():\n    pass", 0),
    ),
    "protocol_times": (
        ("settings = {'session.timeout.ms': 6000}", 1),
        ("settings = {'transaction.timeout.ms': str(LATE_MS)}", 1),
        ("scenario.transactional(transaction_timeout_ms=1000)", 1),
        ("await transactional(wire, timeout_ms=50)", 1),
        ("command = ['--set', 'broker.session.timeout.ms=9000']", 1),
        ("settings = {'transactional.id.expiration.ms': 60_000, 'linger.ms': 5}", 0),
        ("await wire.ask(message, timeout_ms=50)", 0),
    ),
}
HEAD = "LIMIT_S = 20\nLATE_MS = 3000 if THERE else 1000\n"


def module(body: str, *, real: bool = True, mark: str = "") -> str:
    """A test with a body, in a module that asks a real process or not."""
    lines = "\n".join(f"    {line}" for line in body.splitlines())
    return (
        f"{'from broker_process import BrokerProcess' if real else ''}\n{HEAD}\n{mark}\nasync def test_it():\n{lines}\n"
    )


@pytest.mark.parametrize(
    ("rule", "body", "count"), [(rule, *each) for rule, planted in PLANTED.items() for each in planted]
)
def test_what_breaks_a_rule_is_found_and_nothing_else(rule: str, body: str, count: int) -> None:
    found = broken("tests/broker/test_planted.py", module(body))
    assert Counter(each.rule for each in found) == ({rule: count} if count else {})
    assert {each.place.partition(".test_inner")[0] for each in found} <= {"tests/broker/test_planted.py::test_it"}


@pytest.mark.parametrize("rule", RULES)
def test_on_virtual_time_no_rule_is_needed(rule: str) -> None:
    body = PLANTED[rule][0][0]
    assert broken("tests/broker/test_planted.py", module(body, mark="@pytest.mark.virtual")) == []
    marked = module(body) + "pytestmark = [pytest.mark.virtual]\n"
    assert broken("tests/broker/test_planted.py", marked) == []
    assert broken("tests/simulation/test_planted.py", module(body)) == []


def test_short_times_of_the_protocol_are_fine_without_a_real_process() -> None:
    body = PLANTED["protocol_times"][0][0]
    assert broken("tests/broker/test_planted.py", module(body, real=False)) == []
    assert broken("tests/clients/test_planted.py", module(body, real=False)) != []


@pytest.mark.parametrize("rule", RULES)
def test_all_tests_keep_the_rules_of_time(rule: str) -> None:
    said = complaints(rule, everything_once(), listed(LIST.read_text()))
    assert not said, "\n".join(said)


def places(*lines: int) -> list[Broken]:
    return [Broken("sleeps", "tests/test_a.py::test_it", line) for line in lines]


KEY = ("sleeps", "tests/test_a.py::test_it")


def test_a_new_place_is_told_with_its_lines_and_its_rule() -> None:
    (said,) = complaints("sleeps", places(3, 9), {KEY: Allowed(1)})
    assert said == f"{KEY[1]}: 2 in the lines 3, 9, 1 listed. {RULES['sleeps']}"
    assert complaints("limits", places(3, 9), {}) == []


def test_a_place_that_is_mended_has_to_leave_the_list() -> None:
    assert complaints("sleeps", places(3), {KEY: Allowed(1)}) == []
    (said,) = complaints("sleeps", places(3), {KEY: Allowed(2)})
    assert said == f"{KEY[1]}: 1 are left of 2: have the list shrink, with --write"


def test_the_list_says_what_was_written_and_keeps_its_reasons() -> None:
    allowed = {KEY: Allowed(1, "its end is the subject"), ("bounds", "tests/test_b.py::T.test"): Allowed(2)}
    assert listed(written(allowed)) == allowed
    assert renewed(places(3, 4), allowed) == {KEY: Allowed(2, "its end is the subject")}


def test_the_list_shrinks_by_itself_and_grows_only_when_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made = tmp_path / "list.toml"
    monkeypatch.setattr(rules_of_time, "LIST", made)
    for lines, arguments, code, count in (
        ((3, 4), ["--write"], 1, None),
        ((3, 4), ["--write", "--grow"], 0, 2),
        ((3,), ["--write"], 0, 1),
        ((3, 4), ["--write"], 1, 1),
        ((), ["--write"], 0, None),
    ):
        monkeypatch.setattr(rules_of_time, "everything", lambda lines=lines: places(*lines))
        assert main(arguments) == code
        assert ("mend them, or say --grow" in capsys.readouterr().err) == (code == 1)
        entry = listed(made.read_text()).get(KEY) if made.exists() else None
        assert (entry.count if entry else None) == count
