"""Many runs: their figures, and what to say of one that failed."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field

from simulation.checker import judge
from simulation.plan import plan_of
from simulation.run import Run

CHUNK = 25
"""Seeds that a worker takes at a time."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A seed that a correct broker would have passed."""

    seed: int
    violations: Sequence[str]

    def __str__(self) -> str:
        shown = "\n".join(f"  {violation}" for violation in self.violations[:10])
        left = f"\n  ... and {len(self.violations) - 10} more" if len(self.violations) > 10 else ""
        return f"seed {self.seed}:\n{shown}{left}\n  replay it with: make simulate SEED={self.seed} RUNS=1 TRACE=1"


@dataclass(slots=True)
class Figures:
    """What runs have done, in numbers, and which of them failed."""

    counts: "Counter[str]" = field(default_factory=Counter)
    failures: list[Failure] = field(default_factory=list)

    def add(self, other: "Figures") -> None:
        """Take another worker's figures in."""
        self.counts.update(other.counts)
        self.failures += other.failures

    def __str__(self) -> str:
        return ", ".join(f"{count} {what}" for what, count in self.counts.items())


def run_seed(seed: int, *, trace: Callable[[str], None] | None = None) -> tuple[Run, list[str]]:
    """Carry out the run of a seed; it, and what is wrong with it."""
    run = Run(plan_of(seed), trace=trace)
    history = run.carry_out()
    return run, judge(history)


def run_seeds(seeds: Iterable[int]) -> Figures:
    """Carry out the runs of some seeds, one after the other."""
    figures = Figures()
    for seed in seeds:
        run, violations = run_seed(seed)
        if violations:
            figures.failures.append(Failure(seed, violations))
        figures.counts.update(_counts(run))
    return figures


def _counts(run: Run) -> dict[str, int]:
    history = run.history
    return {
        "runs": 1,
        "starts of a broker": run.machine.starts,
        "batches": len(history.writes),
        "transactions": len(history.transactions),
        "of them committed": sum(each.must_be_committed for each in history.transactions),
        "of them in doubt": sum(each.may_be_committed and not each.acknowledged for each in history.transactions),
        "fetches": len(history.fetches),
        "steps": run.scheduler.steps,
    }


def chunks(first: int, runs: int) -> list[range]:
    """The seeds of a campaign, as workers take them."""
    end = first + runs
    return [range(start, min(start + CHUNK, end)) for start in range(first, end, CHUNK)]


def campaign(first: int, runs: int, *, workers: int, progress: Callable[[int, Figures], None]) -> Figures:
    """Carry out `runs` runs from seed `first` on, side by side. `progress` is told the next seed and the figures so
    far; it may raise to end the campaign."""
    figures = Figures()
    with ProcessPoolExecutor(max_workers=workers) as pool:
        for part, found in zip(chunks(first, runs), pool.map(run_seeds, chunks(first, runs)), strict=True):
            figures.add(found)
            progress(part.stop, figures)
    return figures
