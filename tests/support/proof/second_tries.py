"""A failed real test is asked twice more, alone, in a fresh process, when all others are done.

The first time the machine was busy with its neighbours, so what passes twice alone does not hold up a push: it is
FLAKY, which the run says and a book keeps. What fails once more is a defect. A test that only computes gets no second
try.
"""

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

from proof.books import BOOKS, enter, today
from proof.stages import PYTEST
from proof.verdict import Outcome

TRIES: Final = 2
BOOK: Final = BOOKS / "flaky.json"
"""One line for each time that a test was flaky; it belongs into the next commit."""


def try_again(
    failed: Iterable[Outcome], passes: Callable[[tuple[str, ...]], bool], tries: dict[str, list[bool]]
) -> None:
    """Run each test alone, up to TRIES times, and note in `tries` whether each passed. The first failure ends it."""
    for outcome in failed:
        noted: list[bool] = []
        while len(noted) < TRIES and all(noted):
            noted.append(passes((*PYTEST, outcome.test)))
        tries[outcome.test] = noted


def enter_flaky(flaky: Iterable[Outcome], *, commit: str, book: Path = BOOK) -> None:
    """Append a line to the book for each flaky test: when, at which commit, under which load, with which message."""
    for each in flaky:
        load = round(os.getloadavg()[0], 1)
        enter(book, date=today(), commit=commit, load=load, test=each.test, message=each.message)
