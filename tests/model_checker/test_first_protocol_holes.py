"""What the first protocol cannot tell apart, and the second can (KIP-890): why its late requests are kept out of the
other configurations. Docs: docs/testing.md."""

from dataclasses import replace

import pytest

from model_checker.bounds import Bounds
from model_checker.search import Search
from model_checker.violation import ONCE, VISIBLE
from model_checker.words import tell

ONE = Bounds("holes", "one instance", versions=(0,), transactions=(2,), partitions=1, first_protocol_holes=True)

HOLES = {
    "a late EndTxn ends the next transaction": (replace(ONE, duplicates=1), ONCE, "late copy of A's EndTxn"),
    "a late marker ends the next transaction": (replace(ONE, late_markers=1), ONCE, "late copy of COMMIT marker"),
    "a late AddPartitionsToTxn begins one; when that times out, a commit whose answer was lost is taken for aborted": (
        replace(ONE, duplicates=1, crashes=1, timeouts=1),
        VISIBLE,
        "late copy of A's AddPartitionsToTxn",
    ),
}


@pytest.mark.parametrize("hole", HOLES)
def test_the_first_protocol_has_this_hole(hole: str) -> None:
    bounds, rule, step = HOLES[hole]
    found = Search(bounds).run().counterexample
    assert found is not None
    assert found.rule == rule
    assert step in tell(bounds, found)


@pytest.mark.parametrize("hole", HOLES)
def test_the_second_protocol_has_not(hole: str) -> None:
    bounds, _, _ = HOLES[hole]
    assert Search(replace(bounds, versions=(2,))).run().counterexample is None


@pytest.mark.parametrize("hole", HOLES)
def test_the_first_has_not_while_requests_stay_in_their_transaction(hole: str) -> None:
    bounds, _, _ = HOLES[hole]
    assert Search(replace(bounds, first_protocol_holes=False)).run().counterexample is None
