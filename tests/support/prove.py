"""Run every stage of a tier of the proof, whatever fails, and end with one list.

    python tests/support/prove.py gate     (`make gate`; `make test` is the other tier)

Exit code 0: nothing failed, though a real test may have been FLAKY. 1: something failed. 130: interrupted; the list has
what was known until then.
"""

import argparse
import signal
import sys
import time
from typing import Final

from proof.books import commit
from proof.run import Run
from proof.second_tries import BOOK, enter_flaky
from proof.stages import ROOT, STAGES, TIERS

INTERRUPTED: Final = 130


def main(words: list[str]) -> int:
    """Run the tier that is named; returns the exit code."""
    parser = argparse.ArgumentParser(description="Run every stage, and end with one list.")
    parser.add_argument("tier", choices=TIERS)
    tier = parser.parse_args(words).tier
    run, began, interrupted = Run(tier=tier), time.monotonic(), False
    signal.signal(signal.SIGTERM, lambda *_: run.interrupt())
    # A shell has its background jobs ignore Ctrl-C, and so would everything that a stage starts: what a process handles
    # itself is as usual again for its children.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        run.carry_out([stage for stage in STAGES if tier in stage.tiers])
    except KeyboardInterrupt:
        interrupted = True
        run.end()
    verdict, tested = run.verdict, commit()
    minutes, seconds = divmod(int(time.monotonic() - began), 60)
    print(f"== the proof of {tested} ({tier}): {minutes} min {seconds:02} s", flush=True)
    print("\n".join(verdict.lines()), flush=True)
    enter_flaky(verdict.flaky, commit=tested)
    if verdict.flaky:
        print(f"commit {BOOK.relative_to(ROOT)}: it says which tests were flaky", flush=True)
    if interrupted:
        return INTERRUPTED
    return 0 if verdict.passes else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
