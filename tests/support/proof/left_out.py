"""pytest plugin: a stage imports those modules alone that can have tests for it.

`-m "smoke and not long"` is said of tests, so pytest imports all modules and leaves out most of what it found: a stage
of a hundred real tests spends more on that, in each of its workers, than on many of the tests. Here a module is left
out if its text says that no test of it can be chosen. So a mark that a stage demands stands in the module itself, and
a test that has got it from elsewhere is an error (`_from_elsewhere`).
"""

import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Final

import pytest

from proof.stages import REAL, ROOT

DEMANDED: Final = ("process", "smoke", "spark", "virtual")
"""Marks by which stages choose modules, and the one that keeps `process` away where a folder gives that."""
_ALWAYS_REAL: Final = tuple(ROOT / "tests" / name for name in (*REAL, "clients"))
_CONJUNCTION: Final = re.compile(r"(not )?\w+( and (not )?\w+)*")


def is_left_out(expression: str, module: Path, text: Callable[[], str]) -> bool:
    """True if no test of this module can satisfy `expression`, as far as its `text` and its folder tell.

    An expression that is more than words joined by `and` leaves out nothing.
    """
    if not _CONJUNCTION.fullmatch(expression):
        return False
    return any(
        _cannot_lack(word.removeprefix("not "), module, text)
        if word.startswith("not ")
        else word in DEMANDED and not can_have(word, module, text)
        for word in expression.split(" and ")
    )


def can_have(mark: str, module: Path, text: Callable[[], str]) -> bool:
    """True if a test of this module may have the mark: its text has the word, or its folder gives it."""
    return (mark == "process" and _is_real(module)) or mark in text()


def _cannot_lack(mark: str, module: Path, text: Callable[[], str]) -> bool:
    """True if every test of this module has the mark: `tests/conftest.py` gives it by folder."""
    return mark == "process" and _is_real(module) and "virtual" not in text()


def _is_real(module: Path) -> bool:
    return any(module.is_relative_to(folder) for folder in _ALWAYS_REAL)


@cache
def _text(module: Path) -> str:
    return module.read_text()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out a module that is found in a folder; one that the command line names is always imported."""
    if collection_path.suffix != ".py" or not collection_path.name.startswith("test_"):
        return None
    return is_left_out(config.option.markexpr, collection_path, lambda: _text(collection_path)) or None


def pytest_itemcollected(item: pytest.Item) -> None:
    for mark in _from_elsewhere(item):
        raise pytest.UsageError(
            f"{item.nodeid}: its mark `{mark}` does not stand in its module, so stages would miss it"
        )


def _from_elsewhere(item: pytest.Item) -> Iterator[str]:
    """Marks, and fixtures that give one of the same name, of which the module says nothing."""
    names = {mark.name for mark in item.iter_markers()}.union(getattr(item, "fixturenames", ()))
    for mark in DEMANDED:
        if mark in names and not can_have(mark, item.path, lambda: _text(item.path)):
            yield mark
