"""Everything that small bounds allow to happen to a streams group; and bugs that were put in on purpose are found. See
docs/testing/model.md."""

import pytest

from model_checker.streams.configurations import SMALL
from model_checker.streams.planted import PLANTED
from model_checker.streams.rules import RULES
from model_checker.streams.search import Search
from model_checker.streams.values import Bounds
from model_checker.streams.words import tell


@pytest.mark.parametrize("bounds", SMALL, ids=[bounds.name for bounds in SMALL])
def test_every_rule_holds_in_everything_that_can_happen_to_a_streams_group(bounds: Bounds) -> None:
    result = Search(bounds).run()
    assert result.counterexample is None, "\n" + tell(bounds, result.counterexample)
    assert result.stopped is None, "not everything was looked at"
    assert result.happened > 0, "no two members ever ran anything"


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_bug_of_streams_groups_breaks_its_rule(name: str) -> None:
    planted = PLANTED[name]
    with planted.plant():
        found = Search(planted.bounds).run().counterexample
    assert found is not None
    assert found.rule in planted.rules, tell(planted.bounds, found)
    assert len(tell(planted.bounds, found).splitlines()) >= len(found.actions) + 2


def test_every_rule_of_streams_groups_has_a_bug_in_its_way() -> None:
    assert {rule for planted in PLANTED.values() for rule in planted.rules} == set(RULES)
