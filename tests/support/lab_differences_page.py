"""Renders `docs/lab/differences.md` from docs/semantics.md and what became of the wire suite's cases: `make docs`, and
`make lab-differences`, which asks the cases again."""

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from lab_differences import BOTH, EOSINS, NOT_ASKED, STRICT, stored
from sources import cases_in, text_of

from eosin.lab.behaviours import BEHAVIOURS, KAFKA

ROOT: Final = Path(__file__).resolve().parents[2]
PAGE: Final = ROOT / "docs" / "lab" / "differences.md"
SEMANTICS: Final = ROOT / "docs" / "semantics.md"
WIRE: Final = ROOT / "tests" / "wire"

_INTRODUCTION: Final = """\
# What a lab's broker does otherwise than Apache Kafka

A broker of [the lab](../lab.md) has `behaviour="kafka"` unless a test asks for another one: it is no kinder to an
application than Apache Kafka 4.3 where applications meet the difference. This page has what remains, of [all
differences](../semantics.md): an application that passes its tests here meets the middle column in production.

`make docs` writes it from docs/semantics.md and `tests/lab/results/differences.json`: what became of each case of the
wire suite that Apache Kafka may fail, asked of such a broker (`make lab-differences`).
"""
_STRICT: Final = """\
## As Apache Kafka

Here a broker with `behaviour="kafka"` does not respond as Eosin does: a setting of the behaviour says so, or the case
that shows Eosin's response fails.
"""
_LATE: Final = (
    "- a producer whose transaction timed out is fenced, whatever client it is "
    "([late producers](../semantics.md#a-producer-whose-transaction-timed-out))\n"
)
_REMAINS: Final = """\
## What remains

Where Eosin waits a moment for markers, before an answer or an error, such a broker waits 0 ms.
"""
_DEFECTS: Final = """\
### Known defects

The lab repeats none of [Apache Kafka's defects](../semantics.md#known-defects-of-apache-kafka) but {repeated}: these
are its behaviour in every release. [Faults](../faults.md) cause the symptoms of others on demand.
"""
_CASES: Final = """\
## The cases

*as Apache Kafka*: the case of Eosin's response fails. *as Eosin*: it passes. *partly*: it depends on its parameters.
Cases about quick clients try again where they meet CONCURRENT_TRANSACTIONS, and pass at both. Paths begin in
`tests/`.
"""
_WORDS: Final = {STRICT: "as Apache Kafka", EOSINS: "as Eosin", BOTH: "partly", NOT_ASKED: "not asked"}
_SITUATION: Final = "| situation | Kafka | Eosin | why | test |"
_DEFECT: Final = "| # | in Apache Kafka | defect there | in Eosin | test |"
_SETTINGS: Final = frozenset(BEHAVIOURS[KAFKA]) - {"eosin.transaction.version"}


class Row(NamedTuple):
    """A row of a table of docs/semantics.md."""

    section: str
    cells: tuple[str, ...]

    def is_strict(self, outcomes: Mapping[str, str]) -> bool:
        """True if a broker with the behaviour `kafka` does as Apache Kafka does."""
        if any(f"`{setting}`" in cell for setting in _SETTINGS for cell in self.cells):
            return True
        found = {outcomes[each] for each in re.findall(r"`(wire/[^`]+)`", self.cells[-1]) if each in outcomes}
        return STRICT in found


def page() -> str:
    """The page as it should be."""
    outcomes, text = stored(), text_of(SEMANTICS)
    rows, defects = list(_rows(text, _SITUATION)), list(_rows(text, _DEFECT))
    strict = [each for each in rows if each.is_strict(outcomes)]
    repeated = [each.cells[0] for each in defects if each.is_strict(outcomes)]
    return "\n".join(
        [
            _INTRODUCTION,
            _STRICT,
            _LATE + "".join(f"- {_linked(each.cells[0])}: {_linked(each.cells[1])}\n" for each in strict),
            _REMAINS,
            *_sections(each for each in rows if each not in strict),
            _DEFECTS.format(repeated=" and ".join(repeated) or "none"),
            _CASES,
            _table(("case", 'at `behaviour="kafka"`'), ((f"`{each}`", _WORDS[outcomes[each]]) for each in outcomes)),
        ]
    )


def old_cases() -> list[str]:
    """The cases that differ and have no result, and the results of cases that are not there."""
    there = {f"wire/{path.name}::{name}": each for path in sorted(WIRE.glob("test_*.py")) for name, each in _in(path)}
    outcomes = stored()
    missing = [case for case, decorators in there.items() if "better_than_kafka" in decorators and case not in outcomes]
    return [*missing, *(case for case in outcomes if case not in there)]


def _in(path: Path) -> Iterator[tuple[str, str]]:
    for name, each in cases_in(path).items():
        yield name, each.decorators


def _rows(text: str, head: str) -> Iterator[Row]:
    """The rows of all tables with this head."""
    section, is_inside = "", False
    for line in text.splitlines():
        if line.startswith("## "):
            section = line.removeprefix("## ")
        is_inside = line == head or (is_inside and line.startswith("|"))
        if is_inside and line != head and not line.startswith("|---"):
            yield Row(section, tuple(cell.strip() for cell in line.strip("|").split(" | ")))


def _sections(rows: Iterable[Row]) -> Iterator[str]:
    by_section: dict[str, list[tuple[str, ...]]] = {}
    for each in rows:
        by_section.setdefault(each.section, []).append(tuple(map(_linked, each.cells[:3])))
    for section, cells in by_section.items():
        yield f"### {section}\n"
        yield _table(("situation", "Apache Kafka", "the lab, as Eosin"), cells)


def _linked(cell: str) -> str:
    """The cell with its links as they are from docs/lab."""
    return re.sub(r"\]\((?!https?:)", "](../", cell.replace("](#", "](semantics.md#"))


def _table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    columns = list(head)
    lines = [columns, ["---"] * len(columns), *map(list, rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


if __name__ == "__main__":
    PAGE.write_text(page())
