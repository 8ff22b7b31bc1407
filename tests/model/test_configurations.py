"""Everything that small bounds allow, of the real coordinator and the real producer state. See docs/testing.md."""

import pytest

from model.bounds import Bounds
from model.search import Search
from model.small import SMALL
from model.words import tell


@pytest.mark.slow
@pytest.mark.parametrize("bounds", SMALL, ids=lambda bounds: bounds.name)
def test_every_rule_holds_in_everything_that_can_happen(bounds: Bounds) -> None:
    result = Search(bounds).run()
    assert result.counterexample is None, "\n" + tell(bounds, result.counterexample)
    assert result.stopped is None, "not everything was looked at"
