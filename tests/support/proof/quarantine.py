"""`tests/quarantine.toml`: real tests known to be flaky, which run and are listed but do not make a run red.

Each entry names the test (all of its parameters), who looks for the cause, the cause as far as it is known, the day of
its entry and the day on which it ends, DAYS later at most. From that day on the entry protects nothing.
"""

import tomllib
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path
from typing import Any, Final

from proof.stages import ROOT

FILE: Final = ROOT / "tests" / "quarantine.toml"
PLACES: Final = 10
DAYS: Final = 14
_FIELDS: Final = {"test": str, "owner": str, "cause": str, "since": date, "until": date}


@dataclass(frozen=True, slots=True)
class Entry:
    """A test in quarantine."""

    test: str
    """As pytest names it, without parameters: `tests/clusters/test_a.py::test_b`."""
    owner: str
    cause: str
    since: date
    until: date


def entries(file: Path = FILE) -> list[Entry]:
    """Read the file. Raises ValueError for an entry whose fields are not these."""
    if not file.exists():
        return []
    found: list[dict[str, Any]] = tomllib.loads(file.read_text()).get("quarantined", [])
    for each in found:
        if {name: type(value) for name, value in each.items()} != _FIELDS or not all(each.values()):
            raise ValueError(f"{file.name}: an entry has exactly the fields {', '.join(_FIELDS)}: {each}")
    return [Entry(**each) for each in found]


def in_quarantine(entered: Collection[Entry], today: date) -> set[str]:
    """The tests whose failure does not make a run of this day red."""
    return {each.test for each in entered if each.since <= today < each.until}


def faults(entered: Collection[Entry], promised: Collection[str]) -> Iterator[str]:
    """The reasons why entries may not stay; `promised` are the modules and folders that prove docs/guarantees.md."""
    if len(entered) > PLACES:
        yield f"there are {len(entered)} entries; at most {PLACES}"
    for each in entered:
        if each.until - each.since > timedelta(days=DAYS):
            yield f"{each.test}: ends more than {DAYS} days after its entry"
        path, _, name = each.test.partition("::")
        if any(path == proof or path.startswith(f"{proof}/") for proof in promised):
            yield f"{each.test}: proves a guarantee, so it is mended and not entered"
        if not (ROOT / path).is_file() or f"def {name}(" not in (ROOT / path).read_text():
            yield f"{each.test}: there is no such test"
