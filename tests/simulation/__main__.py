"""`python -m simulation`: many simulated runs, or one with all that happens in it.

A campaign can be stopped at any time: with --state it goes on where it was, until so many runs are done in all.
"""

import argparse
import os
import sys
import time
from contextlib import ExitStack
from pathlib import Path

from descendants import end_with_me
from proof.reporting import report_failure, report_figures

from simulation import bug_seeds
from simulation.bug_seeds import SIMULATORS
from simulation.campaign import Failure, Figures, campaign, run_seed
from simulation.cluster.plan import ALONE, FAULTS, RARER_FAULTS, SHARE_MEMBERS, cluster_plan_of
from simulation.cluster.planted import CLUSTER_BUGS
from simulation.ledger import Ledger
from simulation.planted import BUGS
from simulation.profiles import CLUSTER_PROFILES, PROFILES, profiled

REPORT_S = 10.0
INTERRUPTED = 130
"""The exit code of a campaign that somebody has stopped."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="simulation", description=__doc__)
    parser.add_argument("--runs", type=int, default=1000, help="how many runs, those of --state included")
    parser.add_argument("--seed", type=int, help="the first seed; nothing is kept then")
    parser.add_argument("--state", type=Path, help="the file that keeps what is done")
    parser.add_argument("--workers", default="auto", help="processes; auto: one for each processor")
    parser.add_argument("--trace", action="store_true", help="print everything that happens in the run of --seed")
    parser.add_argument("--cluster", action="store_true", help="runs of several brokers")
    parser.add_argument(
        "--only",
        choices=sorted({*FAULTS, *RARER_FAULTS, *ALONE, *PROFILES, *CLUSTER_PROFILES, SHARE_MEMBERS}),
        help="a profile of the runs, or the one kind of fault that strikes a cluster",
    )
    parser.add_argument(
        "--bug",
        choices=(*BUGS, *CLUSTER_BUGS),
        action="append",
        default=[],
        help="plant a bug (with --trace or --hunt)",
    )
    parser.add_argument(
        "--hunt",
        action="store_true",
        help="find seeds that catch each bug, or each --bug, in both simulators or, with --cluster, in clusters alone, "
        "and renew the tables of them",
    )
    options = parser.parse_args()
    if options.only is not None and not options.cluster and options.only not in PROFILES:
        parser.error(f"runs of one broker have the profiles {', '.join(PROFILES)}")
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
        report_figures(**ledger.figures())
        for failure in found.failures:
            print(failure, flush=True)
            report_failure(f"seed {failure.seed}: {failure.violations[0]}", failure.replay)
        if now - told > REPORT_S:
            told = now
            print(ledger, flush=True)

    left = max(0, runs - ledger.counts["runs"])
    try:
        campaign(ledger.next_seed, left, workers=workers, progress=progress, of_cluster=of_cluster, only=only)
    except KeyboardInterrupt:
        print(ledger, flush=True)
        os._exit(INTERRUPTED)  # at once: the workers end with this process, in the middle of runs that are made again
    report_figures(**ledger.figures())
    print(f"the seeds before {ledger.next_seed}: {ledger}")
    print(f"{len(ledger.failed)} failed: {ledger.failed}")
    return 1 if ledger.failed else 0


def trace(seed: int, bugs: list[str], *, of_cluster: bool, only: str | None = None) -> int:
    """One run, told in full."""
    with ExitStack() as planted:
        for bug in bugs:
            planted.enter_context((CLUSTER_BUGS if of_cluster else BUGS)[bug]())
        print(cluster_plan_of(seed, only=only) if of_cluster else profiled(seed, only))
        _, violations = run_seed(seed, trace=print, of_cluster=of_cluster, only=only)
    print(Failure(seed, violations, of_cluster, only) if violations else f"seed {seed}: nothing is wrong")
    return 1 if violations else 0


def hunt(bugs: list[str], *, of_cluster: bool) -> int:
    """Renew the seeds of these bugs, or of all; 1 if a bug has none."""
    table, missed = bug_seeds.read(), 0
    for simulator in ("cluster",) if of_cluster else SIMULATORS:
        seeds = table[simulator]
        for bug, planted in SIMULATORS[simulator].items():
            if bugs and bug not in bugs:
                continue
            before = seeds.get(bug, ())
            try:
                seeds[bug] = bug_seeds.hunt(planted, before)
            except AssertionError as failed:
                print(f"{planted}: {failed}", flush=True)
                missed = 1
                continue
            was = f", was {[*before]}" if seeds[bug] != before else ""
            print(f"{planted}: {[*seeds[bug]]}{was}", flush=True)
            bug_seeds.write(table)
    return missed


if __name__ == "__main__":
    end_with_me()
    sys.exit(main())
