"""Bugs that were put in on purpose are found, each by the rule that it breaks, and told in steps."""

import re

import pytest

from model_checker.planted import PLANTED
from model_checker.search import Search
from model_checker.violation import RULES
from model_checker.words import tell


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_bug_is_found_by_the_rule_that_it_breaks(name: str) -> None:
    planted = PLANTED[name]
    with planted.plant():
        found = Search(planted.bounds).run().counterexample
        assert found is not None
        assert found.rule == planted.rule
        told = tell(planted.bounds, found)
    assert re.match(rf"{planted.rule}: .+\nconfiguration planted: .+\n  1\. instance A starts\n", told)
    assert len(told.splitlines()) >= len(found.actions) + 2


@pytest.mark.parametrize("name", PLANTED)
def test_without_the_bug_the_same_bounds_hold(name: str) -> None:
    assert Search(PLANTED[name].bounds).run().counterexample is None


def test_every_rule_has_a_bug_in_its_way() -> None:
    assert {planted.rule for planted in PLANTED.values()} == set(RULES)


def test_a_counterexample_reads_as_a_list_of_steps() -> None:
    planted = PLANTED["late-marker-accepted"]
    with planted.plant():
        found = Search(planted.bounds).run().counterexample
        assert found is not None
        lines = tell(planted.bounds, found).splitlines()
    assert lines[0] == "no record decided twice: a record of A2 is ended by the marker of A1 in 0"
    assert "  2. A's InitProducerId arrives; it writes EMPTY (0, 0)" in lines
    assert lines[-1].startswith(" 17. the late copy of COMMIT marker (0, 1) for partition 0 arrives; ***")
