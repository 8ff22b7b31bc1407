"""Kills a real broker over and over while clients work, in series of ten rounds, and keeps count.

    python crash_loop.py --rounds 1000 [--seed 1] [--state FILE]
    python crash_loop.py --rounds 10 --seed 1 --series 17 --state ""

A series follows from (seed, its number), as far as chance is ours: when the broker is killed, how much copiers copy at
once. Every other one is at durability os. The state file holds the series that are done and their figures, so a run
that was stopped goes on where it was. A failing series ends the run with exit code 1, is named so that it can be given
again, and leaves its directory.
"""

import argparse
import asyncio
import json
import random
import shutil
import sys
import tempfile
import traceback
from pathlib import Path
from typing import Any

from copier import keep_what_was_said
from crash_series import CrashSeries, Figures
from descendants import end_with_me
from disturbed_series import RECORDS
from proof.reporting import cause, report_failure, report_figures

ROUNDS_PER_SERIES = 10
DURABILITIES = ("fsync", "os")
FINISH_WITHIN_S = 1200
"""For the copiers, from the last round on: the loop may be the least of what a machine does."""


class State:
    """The work that is done, kept in a file; without a path it is not kept."""

    def __init__(self, path: Path | None, seed: int) -> None:
        """Go on with what the file says. It must be about the same seed: raises ValueError."""
        self.series = 0
        self.figures = Figures()
        self._seed = seed
        self._path = path
        if path is not None and path.exists():
            kept: dict[str, Any] = json.loads(path.read_text())
            if kept["seed"] != seed:
                raise ValueError(f"{path} is about seed {kept['seed']}")
            self.series = kept["series"]
            self.figures = Figures(**kept["figures"])

    def done(self, figures: Figures, said: str = "") -> None:
        """A series has ended well; what its copiers `said` is kept if one of them was stuck."""
        if self._path is not None and figures.copiers_stuck:
            keep_what_was_said(self._path, self.series, said)
        self.series += 1
        self.figures.add(figures)
        if self._path is None:
            return
        self._path.parent.mkdir(parents=True, exist_ok=True)
        fresh = self._path.with_suffix(".new")
        fresh.write_text(
            json.dumps({"seed": self._seed, "series": self.series, "figures": vars(self.figures)}, indent=1)
        )
        fresh.replace(self._path)


def series_of(seed: int, number: int, directory: Path, *, rounds: int, records: int) -> CrashSeries:
    """The series with a number."""
    own_seed = random.Random(f"{seed}/{number}").randrange(1 << 62)
    durability = DURABILITIES[number % len(DURABILITIES)]
    return CrashSeries(
        directory,
        seed=own_seed,
        rounds=rounds,
        durability=durability,
        records=records,
        finish_within_s=FINISH_WITHIN_S,
        shares=True,
    )


def main() -> int:
    """Run until so many rounds are done, or one series fails."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=1000, help="in all, those of the state file included")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--series", type=int, help="begin with this series, whatever the state file says")
    parser.add_argument("--records", type=int, default=RECORDS, help="per partition and round")
    parser.add_argument("--state", help="the file of figures (default: bench-results/crash-SEED.json); empty: none")
    parser.add_argument("--directory", type=Path, help="for the brokers' data (default: a temporary one)")
    options = parser.parse_args()
    path = f"bench-results/crash-{options.seed}.json" if options.state is None else options.state
    state = State(Path(path) if path else None, options.seed)
    if options.series is not None:
        state.series = options.series
    if options.directory is not None:
        options.directory.mkdir(parents=True, exist_ok=True)
    while (left := options.rounds - state.figures.rounds) > 0:
        directory = Path(tempfile.mkdtemp(prefix=f"crash-{options.seed}-{state.series}-", dir=options.directory))
        rounds = min(left, ROUNDS_PER_SERIES)
        series = series_of(options.seed, state.series, directory, rounds=rounds, records=options.records)
        try:
            state.done(asyncio.run(series.run()), series.copiers_said())
        except Exception as error:  # noqa: BLE001 - whatever it is, the seed has to be told
            traceback.print_exc()
            report_failure(
                cause(error),
                f"again: --seed {options.seed} --series {state.series} --rounds {rounds} --records {options.records} "
                '--state ""',
                f"what is left is in {directory}",
            )
            return 1
        except KeyboardInterrupt:  # the series is begun anew
            shutil.rmtree(directory, ignore_errors=True)
            raise
        shutil.rmtree(directory)
        report_figures(**state.figures.of_book())
        print(f"series {state.series - 1} is done; " + "; ".join(state.figures.lines()), flush=True)
    report_figures(**state.figures.of_book())
    print("\n".join(state.figures.lines()))
    return 0


if __name__ == "__main__":
    end_with_me()
    sys.exit(main())
