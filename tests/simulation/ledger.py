"""The books of a campaign, in a file: how far it is, what it has done, and the seeds that failed.

A campaign that was stopped at any moment goes on with the seed behind the last one that is in its books.
What a seed stands for changes with the simulation, so the books tell how many runs each commit has had.
"""

import json
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any


class Ledger:
    """What is done, over all the processes that a campaign has taken; without a path, over this one only."""

    def __init__(self, path: Path | None, *, first: int = 0) -> None:
        """Go on with what the file says, or begin with seed `first`."""
        self.next_seed = first
        self.counts: Counter[str] = Counter()
        self.failed: list[int] = []
        self.seconds = 0.0
        """How long the processes have taken, together."""
        self.versions: Counter[str] = Counter()
        """Runs by commit."""
        self._version = _version()
        self._path = path
        if path is not None and path.exists():
            kept: dict[str, Any] = json.loads(path.read_text())
            self.next_seed = kept["next_seed"]
            self.counts.update(kept["counts"])
            self.failed += kept["failed"]
            self.seconds = kept["seconds"]
            self.versions.update(kept["versions"])

    def done(self, next_seed: int, counts: "Counter[str]", failed: list[int], *, seconds: float) -> None:
        """All seeds below `next_seed` are done: add what they did."""
        self.next_seed = next_seed
        self.counts.update(counts)
        self.failed += failed
        self.seconds += seconds
        self.versions[self._version] += counts["runs"]
        if self._path is None:
            return
        self._path.parent.mkdir(parents=True, exist_ok=True)
        fresh = self._path.with_suffix(".new")
        kept = {
            "next_seed": self.next_seed,
            "seconds": round(self.seconds, 1),
            "failed": self.failed,
            "versions": self.versions,
            "counts": self.counts,
        }
        fresh.write_text(json.dumps(kept, indent=1) + "\n")
        fresh.replace(self._path)

    def figures(self) -> dict[str, Any]:
        """What is done, for the book of a long proof."""
        return {
            **{what.replace(" ", "_"): count for what, count in self.counts.items()},
            "next_seed": self.next_seed,
            "failed": self.failed,
            "seconds_of_runs": round(self.seconds),
        }

    def __str__(self) -> str:
        figures = ", ".join(f"{count} {what}" for what, count in self.counts.items())
        rate = self.counts["runs"] / self.seconds if self.seconds else 0.0
        return f"{figures}; {rate:.1f} runs a second"


def _version() -> str:
    """The commit that is checked out, `+` behind it if that is not all."""
    try:
        said = subprocess.run(
            ["git", "describe", "--always", "--dirty=+", "--abbrev=7"], capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return said.stdout.strip()
