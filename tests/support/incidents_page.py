"""Renders `docs/lab/incidents.md` from the documentation of the scenarios: `make docs`."""

from collections.abc import Iterable
from pathlib import Path

from eosin.lab.scenarios.catalogue import SCENARIOS

PAGE = Path(__file__).resolve().parents[2] / "docs" / "lab" / "incidents.md"

_INTRODUCTION = """\
# Incidents

`eosin lab run -- python my_app.py` takes an application through the incidents below, each at a broker of its own, and
judges what it has done ([how to run it](run.md)). `eosin lab scenarios NAME` prints one of them in a terminal.

`make docs` writes this page from the scenarios themselves.
"""


def page() -> str:
    """The page as it should be."""
    return "\n".join([_INTRODUCTION, *_sections()])


def _sections() -> Iterable[str]:
    for each in SCENARIOS:
        yield f"## {each.name}\n\n{each.summary}\n"
        broker = {"Broker": f"behaviour `{each.behaviour}`, whatever is asked for"} if each.behaviour else {}
        rows = {**each.parts, **broker}
        yield "".join(f"- **{name}**: {text}\n" for name, text in rows.items())


if __name__ == "__main__":
    PAGE.write_text(page())
