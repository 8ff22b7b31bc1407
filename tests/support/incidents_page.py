"""Renders `docs/lab/incidents.md` from the scenarios and the book of their proof: `make docs`."""

from collections.abc import Iterable
from pathlib import Path

from lab_proof import table
from proof.books import BOOKS, lines_of

from eosin.lab.scenarios.catalogue import SCENARIOS
from eosin.lab.scenarios.clients import CLIENTS, EXPECTED

PAGE = Path(__file__).resolve().parents[2] / "docs" / "lab" / "incidents.md"

_INTRODUCTION = """\
# Incidents

`eosin lab run -- python my_app.py` takes an application through the incidents below, each at a broker of its own, and
judges what it has done ([how to run it](run.md)). `eosin lab scenarios NAME` prints one of them in a terminal.

`make docs` writes this page from the scenarios themselves.
"""
_EXPECTED = """\
## With each client

At a broker that behaves like Apache Kafka an application has to do this, as far as [clients](../clients.md) differ; a
report quotes the row of the client that it saw.
"""
_PROVED = """\
## Proved

`make proof-lab` takes a copier of each client through every incident: a right one, and one with the mistake that the
incident is for (`tests/support/lab_copier.py` has them by name). In the table stand the ends of both: of the right one
`pass`, of the other one the failure, of five runs at most; `-` is not run yet; *forgiven* is what a late commit does
under TV1. Last run: {date} with {clients}.
"""


def page() -> str:
    """The page as it should be."""
    return "\n".join([_INTRODUCTION, *_sections(), _EXPECTED, *_expected(), *_proved()]) + "\n"


def _expected() -> Iterable[str]:
    yield "| incident | " + " | ".join(CLIENTS) + " |"
    yield "|---" * (len(CLIENTS) + 1) + "|"
    for name, row in EXPECTED.items():
        yield f"| `{name}` | " + " | ".join(row[each] for each in CLIENTS) + " |"


def _proved() -> Iterable[str]:
    """The table of the last run that the book has, if there was one."""
    line = next((each for each in reversed(lines_of(BOOKS / "lab.json")) if "results" in each), None)
    if line is not None:
        clients = ", ".join(f"{name} {number}" for name, number in line["clients"].items())
        yield "\n" + _PROVED.format(date=line["date"], clients=f"{clients} and Eosin's own")
        yield from table(line)
        if excused := line.get("excused"):
            yield f"\nOtherwise than they should, as their clients have it: {'; '.join(excused)}."


def _sections() -> Iterable[str]:
    for each in SCENARIOS:
        yield f"## {each.name}\n\n{each.summary}\n"
        broker = {"Broker": f"behaviour `{each.behaviour}`, whatever is asked for"} if each.behaviour else {}
        rows = {**each.parts, **broker}
        yield "".join(f"- **{name}**: {text}\n" for name, text in rows.items())


if __name__ == "__main__":
    PAGE.write_text(page())
