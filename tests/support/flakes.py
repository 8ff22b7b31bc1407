"""Run all real tests again and again beside busy loops, and tell how often each of them fails.

    make proof-flakes                          # 20 rounds beside two busy loops
    make proof-flakes ARGS="--rounds 5 -k cluster"

Goes on where it stopped: the state file has a line for each round. Exit code 1: the rate over all runs is not below the
bar, or more tests take more processor time than they may than in the last good run of the book.
"""

import argparse
import math
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from proof.books import BOOKS, enter, lines_of
from proof.budgets import over
from proof.reporting import report_figures
from proof.results import RESULTS
from proof.stages import CLIENTS, CORES, FOLDERS, PYTEST, ROOT, on
from proof.verdict import Outcome

BAR: Final = 1e-4
"""The highest rate of failures, per run of a test."""
_SELECTED: Final = ("-m", "process and not spark and not long", *FOLDERS, CLIENTS)


def main(words: list[str]) -> int:
    """Run the rounds that are left of this commit; returns the exit code."""
    parser = argparse.ArgumentParser(description="Tell how often each real test fails beside busy loops.")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--loops", type=int, default=2, help="processes that keep a core busy each")
    parser.add_argument("--state", type=Path, required=True, help="the file of rounds that are done")
    options, more = parser.parse_known_args(words)
    done = lines_of(options.state)
    while len(done) < options.rounds:
        done.append(_round(options.loops, more))
        enter(options.state, **done[-1])
        print(f"round {len(done)} of {options.rounds}: {len(done[-1]['failed'])} failed", flush=True)
    line = summary(done)
    report_figures(loops=options.loops, **line)
    for test, failures in line["failures"].items():
        print(f"{failures} of {len(done)}: {test}")
    print(f"{line['runs']} runs of real tests, rate of failures {line['rate']:.1e}, bar {BAR:.0e}")
    before = [each["over_budget"] for each in lines_of(BOOKS / "flakes.json") if each["code"] == 0]
    print(
        f"{line['over_budget']} of them above their budget of processor time, {before[-1] if before else 'none'} before"
    )
    return 0 if line["rate"] < BAR and line["over_budget"] <= (before or [math.inf])[-1] else 1


def summary(rounds: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """All rounds in one line: runs of tests, how often each failed, the rate over all, and how many tests were above
    their budget of processor time even in the best of them."""
    failures = Counter(test for each in rounds for test in each["failed"])
    runs = sum(each["tests"] for each in rounds)
    return {
        "rounds": len(rounds),
        "runs": runs,
        "failures": dict(failures.most_common()),
        "rate": failures.total() / runs if runs else 1.0,
        "over_budget": min((each["over_budget"] for each in rounds), default=0),
    }


def _round(loops: int, more: Sequence[str]) -> dict[str, Any]:
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="eosin-flakes-") as folder, _busy(loops):
        told = Path(folder) / "tests.json"
        subprocess.run(
            [*PYTEST, *on(CORES + 1, "loadfile"), *_SELECTED, *more],
            cwd=ROOT,
            env={**os.environ, RESULTS: str(told)},
            check=False,
        )
        lines = [each for each in lines_of(told) if each["outcome"] != "skipped"]
    failed = [each["test"] for each in lines if each["outcome"] == "failed"]
    return {
        "tests": len(lines),
        "failed": failed,
        "over_budget": len(over(Outcome(**each) for each in lines)),
        "seconds": round(time.monotonic() - began),
    }


@contextmanager
def _busy(loops: int) -> Iterator[None]:
    processes = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(loops)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
