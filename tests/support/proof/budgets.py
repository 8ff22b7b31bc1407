"""The processor time that a test of each kind may take, and what a test took with all that it started.

Processor time says what a test costs; wall time says how busy the machine was. A test above its budget is told at the
end of the run and makes it no redder; `make proof-flakes` fails when there are more of them than before.
"""

import os
import resource
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final, Protocol

BUDGETS_S: Final[Mapping[str, float]] = {
    "pure": 0.2,
    "virtual": 0.5,
    "process": 2.0,
    "client": 2.0,
    "jvm": 5.0,
    "browser": 5.0,
    "spark": 20.0,
}
"""By kind of test (`kinds.py`)."""
TIERS_S: Final[Mapping[str, float]] = {"test": 500.0, "gate": 2100.0}
"""By tier, of all its tests together: a seventh above what they took on the slowest machine seen. May only shrink."""
_TICK_S: Final = 1 / os.sysconf("SC_CLK_TCK")


class Measured(Protocol):
    """A test whose processor time is known."""

    @property
    def test(self) -> str: ...
    @property
    def kind(self) -> str: ...
    @property
    def cpu_s(self) -> float: ...


def over(tests: Iterable[Measured]) -> list[Measured]:
    """The tests above the budget of their kind, the dearest first."""
    return sorted((each for each in tests if each.cpu_s > BUDGETS_S[each.kind]), key=lambda each: -each.cpu_s)


def lines(tests: Iterable[Measured], tier: str) -> Iterator[str]:
    """For the end of a run: the sum beside the tier's budget, and a line for each kind with tests above theirs."""
    measured = list(tests)
    spent = sum(each.cpu_s for each in measured)
    if tier in TIERS_S:
        grown = "; ABOVE IT: make something cheaper, or leave it to a long proof" if spent > TIERS_S[tier] else ""
        yield f"CPU  {spent:.0f} s of tests; the budget of {tier} is {TIERS_S[tier]:.0f} s{grown}"
    dear = over(measured)
    for kind, budget in BUDGETS_S.items():
        of_kind = [each for each in dear if each.kind == kind]
        if of_kind:
            first = of_kind[0]
            yield f"CPU  {len(of_kind)} {kind} above {budget:g} s, the dearest {first.cpu_s:.1f} s: {first.test}"


def spent_s(*, children: bool) -> float:
    """Processor time, in seconds, of this process until now; with `children` also of all that it has started."""
    own = time.process_time()
    if not children:
        return own
    gone = resource.getrusage(resource.RUSAGE_CHILDREN)
    return own + gone.ru_utime + gone.ru_stime + sum(map(_of_tree, _children(os.getpid())))


def _of_tree(pid: int) -> float:
    """Of a process with its children, those that are gone too; 0 for one that has ended meanwhile."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    except OSError:
        return 0.0
    return sum(map(int, fields[11:15])) * _TICK_S + sum(map(_of_tree, _children(pid)))


def _children(pid: int) -> list[int]:
    found: list[int] = []
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):
            found += map(int, Path(f"/proc/{pid}/task/{thread}/children").read_text().split())
    except OSError:
        pass
    return found
