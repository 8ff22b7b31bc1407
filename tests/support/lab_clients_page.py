"""Renders `docs/lab/clients.md` from the scorecards in `tests/lab/results`: `make docs`, and `make certify-clients`,
which makes the cards anew."""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

import msgspec
from lab_copiers import COPIERS

from eosin.lab.run.results import FAIL, NOT_EXERCISED, PASS, SKIPPED
from eosin.lab.run.scorecard import Scorecard, Scored, by_scenario, table
from eosin.lab.scenarios.catalogue import SCENARIOS

ROOT: Final = Path(__file__).resolve().parents[2]
PAGE: Final = ROOT / "docs" / "lab" / "clients.md"
RESULTS: Final = ROOT / "tests" / "lab" / "results"
EXPLANATIONS: Final[Mapping[tuple[str, str], str]] = {
    ("franz-go", "metadata-timeouts"): (
        "The copier had closed its session while the broker was down, so the group waited for the old member for a "
        "session, which is 45 s long unless an application says otherwise. The copier says 10 s since then."
    ),
    ("java-4", "lost-init-answer"): "The machine was busy: the second request came later than the lab waits.",
}
"""Why a client fails a scenario, or cannot go through it, by both names."""

_INTRODUCTION: Final = """\
# What each client does in each incident

A copier for each client, written as its page in [clients](../clients.md) says, has gone through the
[incidents](incidents.md) with [`eosin lab certify`](run.md#a-scorecard): at a broker that behaves like Apache Kafka,
and at one that behaves like Eosin. Where the two differ, a cell has Kafka's first.

`make certify-clients` makes the scorecards in `tests/lab/results` anew (CLIENTS="kafkajs franz-go": these), and this
page from them. The copiers are in `tests/lab/copiers`; each is the beginning of an application.
"""
_LEGEND: Final = """\
In each cell that is no FAIL nothing was lost or doubled, and the copier came to the end of its input. *went on*: the
client did it alone. *aborted*: the copier aborted, and began the next transaction. *rebuilt*: it made another producer.
*exited*: it ended and was started again. *pass*: no record of the way. `-`: not exercised.
"""
_SHORT: Final = {PASS: "pass", FAIL: "FAIL", NOT_EXERCISED: "-", SKIPPED: "skipped"}


def cards() -> dict[str, Scorecard]:
    """The cards that are kept, by the names of the copiers and in their order."""
    files = {name: RESULTS / f"{name}.json" for name in COPIERS}
    return {
        name: msgspec.json.decode(file.read_bytes(), type=Scorecard) for name, file in files.items() if file.exists()
    }


def page() -> str:
    """The page as it should be."""
    found = cards()
    parts = [
        _INTRODUCTION,
        "## Clients\n",
        table(
            ("client", "its broker saw", "date", "transactions", "reads", "fetch sessions"),
            (
                (
                    each.name,
                    ", ".join(each.use.clients) or "no name",
                    each.date,
                    " and ".join(f"TV{version}" for version in each.use.transaction_versions),
                    ", ".join(each.use.isolation),
                    "yes" if each.use.has_fetch_sessions else "no",
                )
                for each in found.values()
            ),
        ),
        "\n## Incidents\n",
        _LEGEND,
        table(("incident", *found), _rows(found)),
        *_reasons(found),
    ]
    return "\n".join(parts) + "\n"


def unexplained() -> list[str]:
    """The failures for which there is no explanation."""
    return [
        f"{name}, {each.scenario} ({', '.join(each.kinds)})"
        for name, card in cards().items()
        for score in card.scores
        for each in score.results
        if each.verdict == FAIL and (name, each.scenario) not in EXPLANATIONS
    ]


def _rows(found: Mapping[str, Scorecard]) -> Iterator[tuple[str, ...]]:
    by_name = {name: {each[0].scenario: each for each in by_scenario(card)} for name, card in found.items()}
    for scenario in SCENARIOS:
        cells = [_cell(results.get(scenario.name, ())) for results in by_name.values()]
        yield f"[{scenario.name}](incidents.md#{scenario.name})", *cells


def _cell(results: Iterable[Scored]) -> str:
    words = [
        (each.conduct or "pass") if each.verdict == PASS else f"{_SHORT[each.verdict]} {', '.join(each.kinds)}".rstrip()
        for each in results
    ]
    return " / ".join(dict.fromkeys(words)) or "not run"


def _reasons(found: Mapping[str, Scorecard]) -> Iterator[str]:
    wanted = [
        (name, card, each)
        for name, card in found.items()
        for each in _of_note(card)
        if each.verdict == FAIL or each.meaning
    ]
    if wanted:
        yield "\n## Why\n"
    for name, card, each in wanted:
        why = EXPLANATIONS.get((name, each.scenario), "")
        yield f"- **{card.name}, {each.scenario}**: {_SHORT[each.verdict]}. {each.meaning} {why}".rstrip().replace(
            ": -. ", ": not exercised. "
        )


def _of_note(card: Scorecard) -> Iterator[Scored]:
    """Of each scenario the first result that is no pass."""
    for results in by_scenario(card):
        yield from [each for each in results if each.verdict != PASS][:1]


if __name__ == "__main__":
    PAGE.write_text(page())
