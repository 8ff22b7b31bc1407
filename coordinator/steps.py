"""`InSteps`: a computation in short steps, of which somebody else decides how many are taken at once.

Pure rules that take long are written so: `eosin.runtime.turns.outcome_in_turns` takes a few steps in each turn of the
event loop, `finished` takes all of them now.
"""

from collections.abc import Generator
from typing import TypeVar

_T = TypeVar("_T")

InSteps = Generator[None, None, _T]
"""A computation in steps of at most about a millisecond. What it works on must not change meanwhile."""


def finished(steps: InSteps[_T]) -> _T:
    """The outcome of all steps, taken now."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            outcome: _T = end.value
            return outcome
