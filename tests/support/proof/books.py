"""The books of the proof: `docs/testing/books/NAME.json`, a line for each run, which belongs into the next commit."""

import json
import subprocess
import time
from pathlib import Path
from typing import Any, Final

from proof.stages import ROOT

BOOKS: Final = ROOT / "docs" / "testing" / "books"
_BUT_BOOKS: Final = (".", f":(exclude){BOOKS.relative_to(ROOT).as_posix()}")


def enter(book: Path, **line: object) -> None:
    """Append a line to a book, in the place of one that is torn."""
    book.parent.mkdir(parents=True, exist_ok=True)
    with book.open("ab+") as file:
        file.seek(0)
        whole, newline, torn = file.read().rpartition(b"\n")
        if torn:
            file.truncate(len(whole + newline))
        file.write(json.dumps(line).encode() + b"\n")


def lines_of(book: Path) -> list[dict[str, Any]]:
    """Read a book; one that was never written has no lines. A full disk or a kill may have torn the last line: it does
    not count."""
    if not book.exists():
        return []
    whole, _, _ = book.read_text().rpartition("\n")
    return [json.loads(line) for line in whole.splitlines()]


def today() -> str:
    """The date of a line, YYYY-MM-DD in UTC."""
    return time.strftime("%Y-%m-%d", time.gmtime())


def commit() -> str:
    """The checkout's commit, short, with `-dirty` behind it if files differ from it. Books prove nothing, so it is the
    last commit that changed something else: who runs one proof after the other enters each, and goes on."""
    found = _git("log", "-1", "--format=%h", "--", *_BUT_BOOKS)
    if not found:
        return "unknown"
    return found if _git("diff", "--quiet", "HEAD", "--", *_BUT_BOOKS) is not None else f"{found}-dirty"


def commits_since(earlier: str) -> int | None:
    """Count the commits since an earlier one; None if the checkout's commit does not come from it."""
    if _git("merge-base", "--is-ancestor", earlier, "HEAD") is None:
        return None
    counted = _git("rev-list", "--count", f"{earlier}..HEAD")
    return None if counted is None else int(counted)


def _git(*words: str) -> str | None:
    """The output of git; None if it fails, or is not installed."""
    try:
        asked = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return None
    return asked.stdout.strip() if asked.returncode == 0 else None
