"""Renders `docs/lab/clients.md` from the scorecards in `tests/lab/results`: `make docs`, and `make certify-clients`,
which makes the cards anew."""

from collections.abc import Collection, Iterable, Iterator, Mapping
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
        "franz-go asks for Metadata every five minutes, or after an error: in this run it had no reason to ask before "
        "the incident was over."
    ),
    ("kafkajs", "aborted-data"): (
        "kafkajs 2.2.4 shows the first record of an aborted transaction when two of them had begun before the first "
        "record of a fetch, whatever the broker; and gzip is its only codec, so that a batch in another one ends it."
    ),
    ("kafkajs", "half-answer"): (
        "kafkajs 2.2.4 keeps the bytes of an answer that broke off when it connects again, and misreads the next one: "
        "ERR_BUFFER_OUT_OF_BOUNDS ends its process, more often than the five times that are forgiven."
    ),
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
In each cell that is no FAIL nothing was lost or doubled, but for what is forgiven, and the copier came to the end of
its input. *went on*: the client did it alone. *aborted*: the copier aborted, and began the next transaction. *rebuilt*:
it made another producer. *exited*: it ended and was started again. *pass*: no record of the way. *forgiven*: what
neither a client of [TV1](run.md#transaction-version-1) nor its broker can help. *skipped*: the client lacks what the
incident needs. `-`: not exercised. Below the table stands why.
"""
_SHORT: Final = {PASS: "pass", FAIL: "FAIL", NOT_EXERCISED: "-", SKIPPED: "skipped"}
_LONG: Final = {**_SHORT, NOT_EXERCISED: "not exercised"}


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


def unexplained(names: Collection[str] = tuple(COPIERS)) -> list[str]:
    """The failures of these copiers for which there is no explanation."""
    return [
        f"{name}, {each.scenario} ({', '.join(each.kinds)})"
        for name, card in cards().items()
        if name in names
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
    return " / ".join(dict.fromkeys(map(_words, results))) or "not run"


def _words(scored: Scored) -> str:
    """A result in a cell."""
    if scored.verdict != PASS:
        return f"{_SHORT[scored.verdict]} {', '.join(scored.kinds)}".rstrip()
    forgiven = f" (forgiven: {', '.join(scored.forgiven)})" if scored.forgiven else ""
    return f"{scored.conduct or 'pass'}{forgiven}"


def _reasons(found: Mapping[str, Scorecard]) -> Iterator[str]:
    wanted = [
        (name, card, each)
        for name, card in found.items()
        for each in _of_note(card)
        if each.verdict == FAIL or each.forgiven or each.meaning
    ]
    if wanted:
        yield "\n## Why\n"
    for name, card, each in wanted:
        why = EXPLANATIONS.get((name, each.scenario), "")
        said = f"{_LONG[each.verdict]}. {each.meaning}" if each.verdict != PASS else f"{'; '.join(each.notes)}."
        yield f"- **{card.name}, {each.scenario}**: {said} {why}".rstrip()


def _of_note(card: Scorecard) -> Iterator[Scored]:
    """Of each scenario the first result that is no pass, or in which something was forgiven."""
    for results in by_scenario(card):
        yield from [each for each in results if each.verdict != PASS or each.forgiven][:1]


if __name__ == "__main__":
    PAGE.write_text(page())
