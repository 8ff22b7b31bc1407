"""Everything that small bounds allow, of the real coordinator and the real producer state. See docs/testing.md."""

import pytest

from model_checker.bounds import Bounds
from model_checker.search import Search
from model_checker.small import SMALL
from model_checker.words import tell


@pytest.mark.slow
@pytest.mark.parametrize("bounds", SMALL, ids=lambda bounds: bounds.name)
def test_every_rule_holds_in_everything_that_can_happen(bounds: Bounds) -> None:
    result = Search(bounds).run()
    assert result.counterexample is None, "\n" + tell(bounds, result.counterexample)
    assert result.stopped is None, "not everything was looked at"
