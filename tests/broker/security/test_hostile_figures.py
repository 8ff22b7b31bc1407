"""The verdict of `make hostile`: what counts as a miss, and how long who was held up has waited."""

import re
from dataclasses import replace

import pytest
from hostile.cases import CASES, chosen
from hostile.field import Case, Field, Who, source_of
from hostile.figures import FORGED, Baseline, Samples, Seen, Waits, block, misses, of_book
from sources import DOCS

CASE = Case("silent", "S5", Who.NOBODY, "nothing", lambda _: Field.began(None), addresses=2)  # type: ignore[arg-type]
QUIET = Waits({"commit": [0.010] * 100})
BASELINE = Baseline(QUIET, Waits({"commit": [0.012] * 100}))
GOOD = Seen(
    seconds=10,
    waits=QUIET,
    bouts=7,
    turned_away=0,
    cpu_s=1.0,
    memory_before_mib=70,
    memory_after_mib=75,
    log="",
    exit_code=0,
)


def found(**changed: object) -> list[str]:
    return list(misses(CASE, replace(GOOD, **changed), BASELINE))  # type: ignore[arg-type]


def test_a_case_that_costs_others_nothing_is_good() -> None:
    assert found() == []
    assert block(CASE, GOOD, BASELINE, [])[-1] == "  good"


def test_whatever_was_due_while_a_client_was_held_up_has_waited_too() -> None:
    samples = Samples()
    samples.took("commit", 100.0, 101.0, 0.25)
    assert samples.between(0, 200).seconds == {"commit": [0, 0.25, 0.5, 0.75, 1.0]}
    assert samples.between(100.5, 200).seconds == {"commit": [0, 0.25, 0.5]}


def test_waits_go_from_process_to_process() -> None:
    samples, again = Samples(), Samples()
    samples.took("commit", 1.0, 1.1, 0.25)
    samples.failed(2.0, "refused")
    again.add(samples.words())
    assert again == samples
    assert again.between(1.5, 3).failures == ["refused"]


def test_the_wait_that_one_of_a_hundred_exceeds_is_judged() -> None:
    assert Waits({"commit": [0.01] * 99 + [9.0]}).p99("commit") == 0.01
    assert Waits({"commit": [0.01] * 98 + [9.0] * 2}).p99("commit") == 9.0
    assert Waits({}).p99("commit") == 0.0


def test_others_may_wait_three_times_as_long_or_for_one_step_more() -> None:
    assert found(waits=Waits({"commit": [0.036] * 100})) == []
    assert found(waits=Waits({"commit": [0.040] * 100})) == ["commit: p99 is 40.0 ms where it was 12.0"]
    slow = Baseline(QUIET, Waits({"commit": [0.001] * 100}))
    assert list(misses(CASE, replace(GOOD, waits=Waits({"commit": [0.030] * 100})), slow)) == []


def test_the_longest_waits_of_several_runs_count() -> None:
    several = [Waits({"commit": [0.01], "read": [0.4]}), Waits({"commit": [0.02], "read": [0.3]})]
    assert Waits.longest(several).seconds == {"commit": [0.02], "read": [0.4]}


def test_memory_that_does_not_come_back_is_a_miss_but_for_what_the_user_may_keep() -> None:
    assert found(memory_after_mib=95) == ["memory has grown by 25 MiB, and may by 20"]
    keeps = replace(CASE, may_keep_mib=256)
    assert list(misses(keeps, replace(GOOD, memory_after_mib=300), BASELINE)) == []


def test_a_log_has_so_many_lines_for_each_address_and_second() -> None:
    assert found(log="a line\n" * 460) == []
    assert found(log="a line\n" * 461) == ["the log has 461 lines more, and may have 460"]
    assert found(log="x" * 1_000_000) == ["the log has 976 KiB more, and may have 920"]


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"log": "Traceback (most recent call last):\n  at\nKeyError: 'x'\n"}, "KeyError: 'x'"),
        ({"log": f"a name\n{FORGED} 1\n"}, "a peer's"),
        ({"waits": Waits(QUIET.seconds, ["refused"])}, "refused"),
        ({"bouts": 0}, "did nothing"),
        ({"steps": [(0.006, "short"), (0.161, "decode")]}, "161.0 ms of processor time: decode"),
        ({"exit_code": 1}, "ended with 1"),
    ],
)
def test_what_else_is_a_miss(changed: dict[str, object], says: str) -> None:
    (why,) = found(**changed)
    assert says in why


def test_waits_are_not_judged_without_a_baseline() -> None:
    seen = replace(GOOD, waits=Waits({"commit": [9.0]}), steps=[(0.006, "short")])
    assert list(misses(CASE, seen, None)) == []
    assert block(CASE, seen, None, [])[-2:] == [
        "  the longest step of the event loop took 6.0 ms of processor time",
        "  good",
    ]


def test_stalls_that_the_broker_tells_of_are_counted() -> None:
    assert replace(GOOD, log="fine\nthe event loop stalled for 120 ms\n").stalls == 1


def test_the_book_has_waits_in_ms_and_memory_in_mib() -> None:
    line = of_book(replace(GOOD, waits=Waits({"commit": [0.024]})), [])
    assert line == {"p99": {"commit": 24.0}, "mib": [70, 75], "lines": 0, "load": 0.0, "missed": []}


def test_cases_are_chosen_by_name_and_by_row() -> None:
    assert [case.name for case in chosen("silent,S1b")] == ["headers", "silent"]
    assert chosen("") == list(CASES)
    with pytest.raises(KeyError):
        chosen("silent,none")


def test_every_number_has_an_address_of_its_own() -> None:
    assert len({source_of(number) for number in range(50_000)}) == 50_000
    assert source_of(49_999) == "127.0.200.250"


def test_the_page_lists_every_case() -> None:
    page = (DOCS / "testing" / "hostile.md").read_text()
    listed = re.findall(r"^\| (\w+) \| `([\w-]+)` \| (\w+) \|", page, re.MULTILINE)
    assert listed == [(case.row, case.name, case.who) for case in CASES]
