"""Throws frames of every kind that `fuzz_broker` knows at a broker, each kind in its measure: `make fuzz`.

    python fuzz_campaign.py --frames 1000000 [--seed 1] [--state FILE]

So many mutated frames go through a fake transport, a part of that over sockets, and so on (PARTS). All kinds go on in
step, chunk by chunk. The state file has a line for each good chunk, so that a run that was stopped goes on with the
others. A chunk that fails is named with the command that repeats it, and the rest goes on; MOST_FAILURES end the run.
"""

import argparse
import asyncio
import math
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

from descendants import end_with_me
from fuzz_broker import KINDS, fuzz
from proof.books import enter, lines_of
from proof.reporting import report_failure, report_figures

PARTS: Final = {"": 1, "members": 50, "sockets": 100, "security": 1000, "large": 2000}
"""Of each kind one frame of so many: how dear it is."""
MOST_FAILURES: Final = 10
_SAY_EVERY_S: Final = 10.0


class Chunk(NamedTuple):
    """Frames that follow from the seed and this."""

    kind: str
    number: int
    frames: int


def chunks(frames: int) -> list[Chunk]:
    """The chunks of a campaign, so that at any time about as much of each kind is done."""
    found: list[tuple[float, Chunk]] = []
    for kind, part in PARTS.items():
        of_kind, (_, whole) = frames // part, KINDS[kind]
        for number in range(math.ceil(of_kind / whole)):
            size = min(whole, of_kind - number * whole)
            found.append(((number * whole + size) / of_kind, Chunk(kind, number, size)))
    return [chunk for _, chunk in sorted(found)]


class Done:
    """The good chunks, in a file."""

    def __init__(self, path: Path, seed: int) -> None:
        self._path, self._seed = path, seed
        self._lines = [each for each in lines_of(path) if each["seed"] == seed]

    def left(self, wanted: list[Chunk]) -> Iterator[Chunk]:
        """Those that nobody has thrown yet."""
        done = {Chunk(each["kind"], each["number"], each["frames"]) for each in self._lines}
        return (each for each in wanted if each not in done)

    def add(self, chunk: Chunk, *, connections: int, longest_s: float) -> None:
        """A chunk was good."""
        line = {"seed": self._seed, **chunk._asdict(), "connections": connections, "longest_s": longest_s}
        enter(self._path, **line)
        self._lines.append(line)

    def figures(self) -> dict[str, Any]:
        """For the book of a long proof."""
        frames = Counter[str]()
        for each in self._lines:
            frames[each["kind"] or "frames"] += each["frames"]
        return {
            "seed": self._seed,
            **frames,
            "connections": sum(each["connections"] for each in self._lines),
            "longest_step_ms": round(1000 * max((each["longest_s"] for each in self._lines), default=0.0)),
        }


def throw(chunk: Chunk, seed: int, done: Done) -> bool:
    """Throw a chunk; True if it was good."""
    kind: dict[str, bool] = {chunk.kind: True} if chunk.kind else {}
    outcome = asyncio.run(fuzz(frames=chunk.frames, seed=seed, first_chunk=chunk.number, **kind))  # type: ignore[arg-type]
    if outcome.failures:
        print("\n".join(outcome.failures), flush=True)
        report_failure(_last_line(outcome.failures[0]), outcome.failures[-1])
        return False
    done.add(chunk, connections=outcome.connections, longest_s=outcome.longest_s)
    return True


def _last_line(failure: str) -> str:
    """Where it happened, and the last line of a traceback, which says what it was."""
    first, *more = failure.strip().splitlines()
    return f"{first} ... {more[-1]}" if more else first


def main() -> int:
    """Throw what is left; exit code 1 when something failed."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--frames", type=int, default=1_000_000)
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--state", type=Path, help="the file of good chunks (default: a temporary one)")
    given = options.parse_args()
    failed, told = 0, time.monotonic()
    with tempfile.TemporaryDirectory(prefix="fuzz-") as folder:
        done = Done(given.state or Path(folder) / "fuzz.json", given.seed)
        for chunk in done.left(chunks(given.frames)):
            failed += not throw(chunk, given.seed, done)
            report_figures(**done.figures())
            if time.monotonic() - told > _SAY_EVERY_S:
                told = time.monotonic()
                print(done.figures(), flush=True)
            if failed == MOST_FAILURES:
                break
        report_figures(**done.figures())
        print(f"{done.figures()}, {failed} chunks failed")
    return 1 if failed else 0


if __name__ == "__main__":
    end_with_me()
    sys.exit(main())
