"""All cases, in the order of docs/testing/hostile.md."""

from collections.abc import Sequence
from typing import Final

from hostile import batch_cases, list_cases, place_cases
from hostile.field import Case

CASES: Final[Sequence[Case]] = (*batch_cases.CASES, *place_cases.CASES, *list_cases.CASES)
BY_NAME: Final = {case.name: case for case in CASES}
assert len(BY_NAME) == len(CASES), "two cases have one name"


def chosen(names: str) -> list[Case]:
    """Cases by name or row, separated by commas; all of them by default. Raises KeyError for a name of none."""
    wanted = [name for name in names.split(",") if name]
    for name in wanted:
        if not any(name in (case.name, case.row) for case in CASES):
            raise KeyError(name)
    return [case for case in CASES if not wanted or case.name in wanted or case.row in wanted]
