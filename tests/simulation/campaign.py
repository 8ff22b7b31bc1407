"""Many runs: their figures, and what to say of one that failed."""

import gc
import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from multiprocessing import get_context

from simulation.checker import OF_A_CLUSTER, RULES, judge
from simulation.cluster.plan import SHARE_MEMBERS, cluster_plan_of
from simulation.cluster.run import ClusterRun
from simulation.course import Course
from simulation.profiles import profiled
from simulation.run import Run
from simulation.values import RETAINED

CHUNK = 25
"""Seeds that a worker takes at a time. What is under way when a campaign is stopped is done again."""
CHUNK_OF_CLUSTERS = 5
CHUNK_OF_SHARES = 1
"""A run with members of share groups takes up to a minute."""
LONGEST_WORK_S = 60.0
"""Of a processor, for one run."""


class EndlessWork(Exception):
    """The broker or the simulation does something for ever."""


class _BrokenOff(KeyboardInterrupt):
    """Of all exceptions asyncio lets this kind through: any other would end no more than the task that it strikes."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A seed that a correct broker would have passed."""

    seed: int
    violations: Sequence[str]
    of_cluster: bool = False
    only: str | None = None
    """The profile of the run, or the one kind of fault that struck, where there was but one."""

    def __str__(self) -> str:
        shown = "\n".join(f"  {violation}" for violation in self.violations[:10])
        left = f"\n  ... and {len(self.violations) - 10} more" if len(self.violations) > 10 else ""
        return f"seed {self.seed}:\n{shown}{left}\n  replay it with: {self.replay}"

    @property
    def replay(self) -> str:
        """The command that shows all of the run."""
        only = f" ONLY='{self.only}'" if self.only else ""
        return f"make {self.target} SEED={self.seed} RUNS=1 TRACE=1{only}"

    @property
    def target(self) -> str:
        """Of the Makefile."""
        return "simulate-cluster" if self.of_cluster else "simulate"


@dataclass(slots=True)
class Figures:
    """What runs have done, in numbers, and which of them failed."""

    counts: "Counter[str]" = field(default_factory=Counter)
    failures: list[Failure] = field(default_factory=list)


def run_seed(
    seed: int, *, trace: Callable[[str], None] | None = None, of_cluster: bool = False, only: str | None = None
) -> tuple[Course, list[str]]:
    """Carry out the run of a seed; it, and what is wrong with it. `of_cluster`: with several brokers. `only`: one kind
    of their faults, or a profile."""
    run: Course
    if of_cluster:
        run = ClusterRun(cluster_plan_of(seed, only=only), trace=trace)
    else:
        run = Run(profiled(seed, only), trace=trace)
    try:
        with limited():
            history = run.carry_out()
    except EndlessWork:
        return run, [f"it was at work for {LONGEST_WORK_S:g} s of a processor, and had not ended"]
    return run, judge(history, OF_A_CLUSTER if of_cluster else RULES)


@contextmanager
def limited() -> Iterator[None]:
    """Break off work that never ends, wherever it is: a run takes a twentieth of a second. Raises EndlessWork."""

    def expired(signum: int, frame: object) -> None:
        raise _BrokenOff

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGVTALRM, expired)
    signal.setitimer(signal.ITIMER_VIRTUAL, LONGEST_WORK_S, LONGEST_WORK_S)
    try:
        yield
    except _BrokenOff:
        raise EndlessWork from None
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def run_seeds(seeds: Iterable[int], *, of_cluster: bool = False, only: str | None = None) -> Figures:
    """Carry out the runs of some seeds, one after the other."""
    figures = Figures()
    with _garbage_left():
        for seed in seeds:
            run, violations = run_seed(seed, of_cluster=of_cluster, only=only)
            if violations:
                figures.failures.append(Failure(seed, violations, of_cluster, only))
            figures.counts.update(_counts(run))
    return figures


@contextmanager
def _garbage_left() -> Iterator[None]:
    """Collect garbage at the end only: looking for it after every few allocations takes a tenth of a run's time."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        gc.collect()


def _counts(run: Course) -> "Counter[str]":
    counts = Counter(_figures(run))
    counts.update(f"faults of kind {kind}" for kind in run.faults)
    return counts


def _figures(run: Course) -> dict[str, int]:
    history = run.history
    retained = history.final.partitions.get(RETAINED)
    return {
        "runs": 1,
        "starts of a broker": sum(machine.starts for machine in run.machines),
        "batches": len(history.writes),
        "transactions": len(history.transactions),
        "of them committed": sum(each.must_be_committed for each in history.transactions),
        "of them in doubt": sum(each.may_be_committed and not each.acknowledged for each in history.transactions),
        "of them timed out with producers that went on": sum(each.disowned for each in history.transactions),
        "topics deleted": len(history.deletions),
        "logs with a beginning that retention took": int(retained is not None and retained.log_start_offset > 0),
        "fetches": len(history.fetches),
        "of them from followers": sum(" at broker " in each.reader for each in history.fetches),
        "records handed out to members of share groups": len(history.shares.handed_out),
        "of them by leaders that were none any more": history.shares.stale,
        "acknowledgements of records": len(history.shares.acknowledged),
        "steps": run.scheduler.steps,
    }


def chunks(first: int, runs: int, size: int = CHUNK) -> list[range]:
    """The seeds of a campaign, as workers take them."""
    end = first + runs
    return [range(start, min(start + size, end)) for start in range(first, end, size)]


def chunk_of(*, of_cluster: bool, only: str | None) -> int:
    """The number of seeds that a worker takes at a time: about a minute of work at most."""
    if only == SHARE_MEMBERS:
        return CHUNK_OF_SHARES
    return CHUNK_OF_CLUSTERS if of_cluster else CHUNK


def first_caught(seeds: Iterable[int], *, of_cluster: bool = False, only: str | None = None) -> Failure | None:
    """The first seed that shows something wrong."""
    for seed in seeds:
        with _garbage_left():
            _, violations = run_seed(seed, of_cluster=of_cluster, only=only)
        if violations:
            return Failure(seed, violations, of_cluster, only)
    return None


def campaign(
    first: int,
    runs: int,
    *,
    workers: int,
    progress: Callable[[int, Figures], None],
    of_cluster: bool = False,
    only: str | None = None,
) -> None:
    """Carry out `runs` runs from seed `first` on, side by side. `progress` is told chunk after chunk the next seed and
    what the chunk has shown; it may raise to end the campaign."""
    parts = chunks(first, runs, chunk_of(of_cluster=of_cluster, only=only))
    # A process that is only forked does not end with this one: `descendants` knows it by what it was started with.
    with ProcessPoolExecutor(max_workers=workers, mp_context=get_context("spawn")) as pool:
        work = partial(run_seeds, of_cluster=of_cluster, only=only)
        for part, found in zip(parts, pool.map(work, parts), strict=True):
            progress(part.stop, found)
