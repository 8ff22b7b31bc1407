"""Report to the book of a long proof: figures, and why a program failed, each in one line."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

FIGURES: Final = "EOSIN_PROOF_FIGURES"
"""The variable that names the file for the figures of a program, a JSON object."""
FAILED: Final = "FAILED: "
"""A line of the output that begins so is a cause, and goes into the book."""
LONGEST: Final = 500
"""Characters of a cause."""


def report_figures(**figures: Any) -> None:
    """Give figures to the book, if there is one; those that were given before are replaced."""
    if path := os.environ.get(FIGURES):
        Path(path).write_text(json.dumps(figures))


def report_failure(why: str, *more: str) -> None:
    """Print a cause, in one line; `more` says how to see it again, or where its remains are."""
    print(f"{FAILED}{'; '.join([' '.join(why.split())[:LONGEST], *more])}", flush=True)


def cause(error: BaseException) -> str:
    """The first line of an exception; of a group, that of each exception in it."""
    return "; ".join(dict.fromkeys(_causes(error)))


def _causes(error: BaseException) -> Iterator[str]:
    if isinstance(error, BaseExceptionGroup):
        for each in error.exceptions:
            yield from _causes(each)
        return
    lines = str(error).strip().splitlines()
    yield f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
