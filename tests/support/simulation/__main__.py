"""`python -m simulation`: many simulated runs, or one with all that happens in it.

A campaign can be stopped at any time: it goes on where it was, with the next seed that its file tells.
"""

import argparse
import os
import sys
import time
from contextlib import ExitStack
from pathlib import Path

from simulation.campaign import Failure, Figures, campaign, run_seed
from simulation.plan import plan_of
from simulation.planted import BUGS

REPORT_S = 10.0


def main() -> int:
    parser = argparse.ArgumentParser(prog="simulation", description=__doc__)
    parser.add_argument("--runs", type=int, default=1000, help="how many runs")
    parser.add_argument("--seed", type=int, help="the first seed; without it, the next one of --state")
    parser.add_argument("--state", type=Path, help="the file that keeps the next seed")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--trace", action="store_true", help="print everything that happens in the run of --seed")
    parser.add_argument("--bug", choices=BUGS, action="append", default=[], help="plant a bug (with --trace)")
    options = parser.parse_args()
    if options.trace:
        return trace(options.seed or 0, options.bug)
    first = options.seed
    if first is None:
        first = _next_seed(options.state)
    begun, reported = time.monotonic(), [time.monotonic()]

    def progress(next_seed: int, figures: Figures) -> None:
        if options.state is not None and options.seed is None:
            options.state.parent.mkdir(parents=True, exist_ok=True)
            options.state.write_text(f"{next_seed}\n")
        for failure in figures.failures[progress_failures[0] :]:
            print(failure, flush=True)
        progress_failures[0] = len(figures.failures)
        if time.monotonic() - reported[0] > REPORT_S:
            reported[0] = time.monotonic()
            print(_rate(figures, begun), flush=True)

    progress_failures = [0]
    figures = campaign(first, options.runs, workers=options.workers, progress=progress)
    print(f"seeds {first} to {first + options.runs - 1}: {_rate(figures, begun)}")
    print(f"{len(figures.failures)} failed: {[failure.seed for failure in figures.failures]}")
    return 1 if figures.failures else 0


def trace(seed: int, bugs: list[str]) -> int:
    """One run, told in full."""
    with ExitStack() as planted:
        for bug in bugs:
            planted.enter_context(BUGS[bug]())
        print(plan_of(seed))
        _, violations = run_seed(seed, trace=print)
    print(Failure(seed, violations) if violations else f"seed {seed}: nothing is wrong")
    return 1 if violations else 0


def _next_seed(state: Path | None) -> int:
    return int(state.read_text()) if state is not None and state.exists() else 0


def _rate(figures: Figures, begun: float) -> str:
    return f"{figures}; {figures.counts['runs'] / (time.monotonic() - begun):.1f} runs a second"


if __name__ == "__main__":
    sys.exit(main())
