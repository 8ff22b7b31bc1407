"""What a long proof that was stopped goes on from: files in `bench-results/`, for one commit and one list of arguments.

A program keeps a file of its own (`{state}` in its command). Of a run of pytest the outcomes are kept, a line for each
test; those that are there are not run again (`proof.results`). A checkout that differs from its commit begins anew:
nobody knows what was proved before. Two runs of one proof would both write these files, so the second is refused.
"""

import fcntl
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from proof.books import enter, lines_of
from proof.results import BROKEN_OFF

DIRTY = "-dirty"


class UnderWay(Exception):
    """Another process runs the same proof."""


@contextmanager
def alone(folder: Path, name: str) -> Iterator[None]:
    """Be the only run of a proof; its files are below `folder`. Raises UnderWay."""
    folder.mkdir(exist_ok=True)
    with (folder / f"proof-{name}.lock").open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UnderWay(f"another process runs make proof-{name} in this checkout") from None
        yield


@dataclass(frozen=True, slots=True)
class Kept:
    """The files of one proof."""

    state: Path
    """Of a program, which alone knows what it says."""
    tests: Path
    figures: Path
    """Of tests: what they add up over all pieces."""
    pieces: Path
    """How long each piece that was stopped has taken."""

    @classmethod
    def of(cls, folder: Path, name: str, commit: str, arguments: Sequence[str]) -> "Kept":
        """The files of a proof at a commit; they need not be there."""
        begins = f"proof-{name}-{commit}"
        # What is run again with other arguments may be another thing: fewer examples of each test, for one.
        of_these = f"-{zlib.crc32(' '.join(arguments).encode()):08x}" if arguments else ""
        files = (f"{begins}{of_these}-{each}.json" for each in ("tests", "figures", "pieces"))
        kept = cls(folder / f"{begins}.json", *(folder / each for each in files))
        if commit.endswith(DIRTY):
            kept.forget_all()
        return kept

    def forget(self) -> None:
        """The proof is over: the next run begins anew. A program's own file stays, and says that all is done."""
        for each in (self.tests, self.figures, self.pieces):
            each.unlink(missing_ok=True)

    def forget_all(self) -> None:
        """Nothing is known: the next run begins anew."""
        self.state.unlink(missing_ok=True)
        self.forget()

    def outcomes(self) -> list[dict[str, Any]]:
        """What became of each test, in all pieces; a module that could not be imported is told by each of them."""
        return [*{each["test"]: each for each in lines_of(self.tests)}.values()]

    def keep_whole_outcomes(self) -> None:
        """Forget tests in whose midst a piece was stopped."""
        if not self.tests.exists():
            return
        whole = [each for each in self.outcomes() if each["message"] != BROKEN_OFF]
        self._write(self.tests, whole)

    def count_piece(self, seconds: int, *, stopped: bool) -> tuple[int, int]:
        """Count a piece that has ended; how long all have taken, and how many there were."""
        if stopped:
            enter(self.pieces, seconds=seconds)
        before = [each["seconds"] for each in lines_of(self.pieces)]
        all_of_them = before if stopped else [*before, seconds]
        return sum(all_of_them), len(all_of_them)

    @staticmethod
    def _write(path: Path, lines: Iterable[dict[str, Any]]) -> None:
        fresh = path.with_suffix(".new")
        fresh.write_text("")
        for each in lines:
            enter(fresh, **each)
        fresh.replace(path)
