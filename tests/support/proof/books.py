"""The books of the proof: `docs/testing/books/NAME.json`, a line for each run, which belongs into the next commit."""

import json
import subprocess
import time
from pathlib import Path
from typing import Final

from proof.stages import ROOT

BOOKS: Final = ROOT / "docs" / "testing" / "books"


def enter(book: Path, **line: object) -> None:
    """Append a line to a book."""
    book.parent.mkdir(parents=True, exist_ok=True)
    with book.open("a") as file:
        file.write(json.dumps(line) + "\n")


def today() -> str:
    """The date of a line, YYYY-MM-DD in UTC."""
    return time.strftime("%Y-%m-%d", time.gmtime())


def commit() -> str:
    """The checkout's commit, short, with `-dirty` behind it if files differ from it."""
    asked = subprocess.run(
        ["git", "describe", "--always", "--dirty"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return asked.stdout.strip() or "unknown"
