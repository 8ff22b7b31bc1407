"""Targets that are computed beside decisions take turns, however many are wanted at one moment
(consumer-groups.md 6)."""

import asyncio
from collections.abc import Iterator
from itertools import pairwise

from manual_clock import TickingClock

from eosin.coordinator.groups.consumer.target_computation import TargetComputations
from eosin.coordinator.steps import InSteps
from eosin.runtime.turns import TURN_MS

STEPS = 6


async def test_targets_that_are_wanted_together_are_computed_in_the_same_turns() -> None:
    kept: list[str] = []
    steps: list[str] = []

    def keep(group_id: str, part: str) -> bool:
        kept.append(part)
        return True

    def target(name: str) -> InSteps[Iterator[str]]:
        for _ in range(STEPS):
            steps.append(name)
            yield
        return iter([name])

    names = [f"g-{number}" for number in range(10)]
    computations = TargetComputations[str](clock=TickingClock(), keep=keep)
    for name in names:
        computations.begin(name, target(name))
    assert all(map(computations.runs, names))
    counts = [0]
    while any(map(computations.runs, names)):
        await asyncio.sleep(0)
        counts.append(len(steps))
    assert max(later - earlier for earlier, later in pairwise(counts)) <= TURN_MS + 1
    assert sorted(kept) == names
