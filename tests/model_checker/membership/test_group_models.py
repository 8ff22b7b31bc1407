"""Everything that small bounds allow to happen to a consumer group and to a streams group; and bugs that were put in on
purpose are found. See docs/testing/model.md."""

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

import pytest

from model_checker.breadth_first import BreadthFirst
from model_checker.groups import configurations, planted, rules, search, words
from model_checker.membership.planted import Planted
from model_checker.membership.values import Bounds
from model_checker.streams import configurations as streams_configurations
from model_checker.streams import planted as streams_planted
from model_checker.streams import rules as streams_rules
from model_checker.streams import search as streams_search
from model_checker.streams import words as streams_words


class Model(NamedTuple):
    """The model of one kind of group."""

    small: tuple[Bounds, ...]
    planted: Mapping[str, Planted[Any]]
    rules: Mapping[str, str]
    search: Callable[[Any], BreadthFirst[Any, Any, Any]]
    tell: Callable[[Any, Any], str]


MODELS: Final = {
    "groups": Model(configurations.SMALL, planted.PLANTED, rules.RULES, search.search, words.tell),
    "streams": Model(
        streams_configurations.SMALL,
        streams_planted.PLANTED,
        streams_rules.RULES,
        streams_search.search,
        streams_words.tell,
    ),
}


@pytest.mark.parametrize(
    ("model", "bounds"),
    [
        pytest.param(model, bounds, id=f"{kind}-{bounds.name}")
        for kind, model in MODELS.items()
        for bounds in model.small
    ],
)
def test_every_rule_holds_in_everything_that_can_happen_to_a_group(model: Model, bounds: Bounds) -> None:
    result = model.search(bounds).run()
    assert result.counterexample is None, "\n" + model.tell(bounds, result.counterexample)
    assert result.stopped is None, "not everything was looked at"
    assert result.happened > 0, "no two members ever had anything"


@pytest.mark.parametrize(
    ("model", "name"),
    [pytest.param(model, name, id=f"{kind}-{name}") for kind, model in MODELS.items() for name in model.planted],
)
def test_a_planted_bug_of_groups_breaks_its_rule(model: Model, name: str) -> None:
    bug = model.planted[name]
    with bug.plant():
        found = model.search(bug.bounds).run().counterexample
    assert found is not None
    assert found.rule in bug.rules, model.tell(bug.bounds, found)
    assert len(model.tell(bug.bounds, found).splitlines()) >= len(found.actions) + 2


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
def test_every_rule_of_groups_has_a_bug_in_its_way(model: Model) -> None:
    assert {rule for bug in model.planted.values() for rule in bug.rules} == set(model.rules)
