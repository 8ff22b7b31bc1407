"""Everything that small bounds allow to happen to the replicas of a partition; and bugs that were put in on purpose are
found. See docs/testing.md."""

import pytest

from model_checker.replication.configurations import SMALL
from model_checker.replication.planted import PLANTED
from model_checker.replication.rules import ONE_LEADER, RULES
from model_checker.replication.search import Search
from model_checker.replication.values import Bounds
from model_checker.replication.words import tell

_LARGE = {"fencing", SMALL[-1].name}
"""Left to `make gate`; the others belong to `make test`."""


def _configurations() -> list[object]:
    quick, *slow = SMALL
    return [
        quick,
        *(
            pytest.param(bounds, marks=(pytest.mark.slow, *([pytest.mark.full] if bounds.name in _LARGE else [])))
            for bounds in slow
        ),
    ]


@pytest.mark.parametrize("bounds", _configurations(), ids=[bounds.name for bounds in SMALL])
def test_every_rule_holds_in_everything_that_can_happen_to_replicas(bounds: Bounds) -> None:
    result = Search(bounds).run()
    assert result.counterexample is None, "\n" + tell(bounds, result.counterexample)
    assert result.stopped is None, "not everything was looked at"
    assert result.happened > 0, "nothing was ever committed"


_LARGEST = {"positions-outlive-an-election"}
"""Half a minute; others break the same rules within seconds."""


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=(pytest.mark.slow, pytest.mark.full)) if name in _LARGEST else name for name in PLANTED],
)
def test_a_planted_bug_of_replication_breaks_its_rule(name: str) -> None:
    planted = PLANTED[name]
    with planted.plant():
        found = Search(planted.bounds).run().counterexample
    assert found is not None
    assert found.rule in planted.rules
    assert len(tell(planted.bounds, found).splitlines()) >= len(found.actions) + 2


def test_every_rule_that_our_code_could_break_has_a_bug_in_its_way() -> None:
    # That an epoch has one leader is the controller's to keep: it is checked, and no code of ours could break it alone.
    assert {rule for planted in PLANTED.values() for rule in planted.rules} | {ONE_LEADER} == set(RULES)
