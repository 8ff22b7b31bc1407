"""`python -m simulation`: many simulated runs, or one with all that happens in it.

A campaign can be stopped at any time: with --state it goes on where it was, until so many runs are done in all.
"""

import argparse
import os
import re
import sys
import time
from contextlib import ExitStack
from pathlib import Path

from simulation.campaign import Failure, Figures, campaign, first_caught, run_seed
from simulation.cluster.plan import ALONE, FAULTS, RARER_FAULTS, cluster_plan_of
from simulation.cluster.planted import CLUSTER_BUGS, CLUSTER_CAUGHT_BY, CLUSTER_ONLY
from simulation.ledger import Ledger
from simulation.plan import plan_of
from simulation.planted import BUGS, CAUGHT_BY

REPORT_S = 10.0
HUNT = range(2000)
"""Seeds that may catch a bug."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="simulation", description=__doc__)
    parser.add_argument("--runs", type=int, default=1000, help="how many runs, those of --state included")
    parser.add_argument("--seed", type=int, help="the first seed; nothing is kept then")
    parser.add_argument("--state", type=Path, help="the file that keeps what is done")
    parser.add_argument("--workers", default="auto", help="processes; auto: one for each processor")
    parser.add_argument("--trace", action="store_true", help="print everything that happens in the run of --seed")
    parser.add_argument("--cluster", action="store_true", help="runs of several brokers")
    parser.add_argument(
        "--only", choices=sorted({*FAULTS, *RARER_FAULTS, *ALONE}), help="the one kind of fault that strikes a cluster"
    )
    parser.add_argument(
        "--bug",
        choices=(*BUGS, *CLUSTER_BUGS),
        action="append",
        default=[],
        help="plant a bug (with --trace or --hunt)",
    )
    parser.add_argument("--hunt", action="store_true", help="find the first seed that catches each bug, or each --bug")
    options = parser.parse_args()
    if options.hunt:
        return hunt(options.bug, of_cluster=options.cluster)
    if options.trace:
        return trace(options.seed or 0, options.bug, of_cluster=options.cluster, only=options.only)
    ledger = Ledger(options.state) if options.seed is None else Ledger(None, first=options.seed)
    workers = (os.cpu_count() or 1) if options.workers == "auto" else int(options.workers)
    return run(ledger, options.runs, workers, of_cluster=options.cluster, only=options.only)


def run(ledger: Ledger, runs: int, workers: int, *, of_cluster: bool = False, only: str | None = None) -> int:
    """Until `runs` runs are in the books."""
    begun = told = time.monotonic()

    def progress(next_seed: int, found: Figures) -> None:
        nonlocal begun, told
        now = time.monotonic()
        ledger.done(next_seed, found.counts, [failure.seed for failure in found.failures], seconds=now - begun)
        begun = now
        for failure in found.failures:
            print(failure, flush=True)
        if now - told > REPORT_S:
            told = now
            print(ledger, flush=True)

    left = max(0, runs - ledger.counts["runs"])
    campaign(ledger.next_seed, left, workers=workers, progress=progress, of_cluster=of_cluster, only=only)
    print(f"the seeds before {ledger.next_seed}: {ledger}")
    print(f"{len(ledger.failed)} failed: {ledger.failed}")
    return 1 if ledger.failed else 0


def trace(seed: int, bugs: list[str], *, of_cluster: bool, only: str | None = None) -> int:
    """One run, told in full."""
    with ExitStack() as planted:
        for bug in bugs:
            planted.enter_context((CLUSTER_BUGS if of_cluster else BUGS)[bug]())
        print(cluster_plan_of(seed, only=only) if of_cluster else plan_of(seed))
        _, violations = run_seed(seed, trace=print, of_cluster=of_cluster, only=only)
    print(Failure(seed, violations, of_cluster, only) if violations else f"seed {seed}: nothing is wrong")
    return 1 if violations else 0


def hunt(bugs: list[str], *, of_cluster: bool) -> int:
    """The first seed that catches each bug, as the table beside the bugs has it."""
    plants, known = (CLUSTER_BUGS, CLUSTER_CAUGHT_BY) if of_cluster else (BUGS, CAUGHT_BY)
    for bug in bugs or list(plants):
        with plants[bug]():
            failure = first_caught(HUNT, of_cluster=of_cluster, only=CLUSTER_ONLY.get(bug))
        if failure is None:
            print(f"    # {bug}: not caught by any seed of {HUNT}", flush=True)
        else:
            note = "" if str(failure.seed) in re.findall(r"\d+", str(known.get(bug))) else f"  # was {known.get(bug)}"
            print(f'    "{bug}": {failure.seed},{note}  # {failure.violations[0][:120]}', flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
