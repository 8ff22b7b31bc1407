"""`Scorecard`: the verdicts about one application at brokers of several behaviours, as JSON and as a page. Pure."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from eosin.lab.run.results import (
    ALL_PASS,
    COULD_NOT_RUN,
    DIED,
    FAIL,
    NOT_EXERCISED,
    PASS,
    SKIPPED,
    SOME_FAILED,
    SOME_NOT_EXERCISED,
    Report,
    Result,
)
from eosin.lab.run.wire_use import WireUse, merged
from eosin.lab.scenarios.scenario import Scenario
from eosin.lab.verdict.findings import (
    ABORTED_VISIBLE,
    DIFFERENT,
    DOUBLED,
    LOST,
    OPEN,
    OUT_OF_ORDER,
    STUCK,
    TORN,
    UNEXPECTED,
)

MEANINGS: Final[Mapping[str, str]] = {
    LOST: "records of the input have no output",
    DOUBLED: "records of the input were written more than once",
    UNEXPECTED: "the output has records that nothing in the input accounts for",
    DIFFERENT: "the output differs from that of the run without faults",
    ABORTED_VISIBLE: "readers of committed records are shown records of aborted transactions",
    TORN: "a part of a transaction is visible, the rest is not",
    OUT_OF_ORDER: "records are in another order than those of the input",
    OPEN: "a transaction is left open, which holds up its readers",
    STUCK: "it did not go on after the incident",
    DIED: "it exited more often than a supervisor puts up with",
}
"""The kinds of failures, in words."""
WORDS: Final[Mapping[str, str]] = {
    PASS: "passed",
    FAIL: "failed",
    NOT_EXERCISED: "not exercised",
    SKIPPED: "skipped",
}
"""The verdicts as columns, in their order."""
_WORST: Final = (ALL_PASS, SOME_NOT_EXERCISED, SOME_FAILED, COULD_NOT_RUN)
"""Exit codes, the best first."""
_EVIDENCE_LINES: Final = 6


class Scored(msgspec.Struct, frozen=True, omit_defaults=True):
    """A scenario on a card."""

    scenario: str
    verdict: str
    """One of `WORDS`."""
    seed: int
    seconds: float
    kinds: tuple[str, ...] = ()
    """The reasons of a failure."""
    meaning: str = ""
    """A sentence: the healthy conduct, what went wrong, or why nothing was exercised."""
    evidence: tuple[str, ...] = ()
    """The first lines about a failure."""
    cure: str = ""
    conduct: str = ""
    """One of `wire_use.CONDUCTS`."""
    exits: int = 0
    """The exits of the application that nobody had asked for."""
    forgiven: tuple[str, ...] = ()
    """Kinds of findings that are no fault of the application."""
    notes: tuple[str, ...] = ()
    """The first line of each note of its run."""


class Score(msgspec.Struct, frozen=True):
    """All scenarios at brokers of one behaviour."""

    behaviour: str
    reference: Scored
    results: tuple[Scored, ...]
    exit_code: int


class Scorecard(msgspec.Struct, frozen=True):
    """A whole card."""

    name: str
    """The application, or its client."""
    date: str
    """Of the run, `2026-11-29`."""
    eosin: str
    """The version of Eosin."""
    seed: int
    """Of the first scenario."""
    use: WireUse
    scores: tuple[Score, ...]

    @property
    def exit_code(self) -> int:
        """The worst of all behaviours, as of `eosin lab run`."""
        return max((each.exit_code for each in self.scores), key=_WORST.index)


def scorecard_of(
    reports: Mapping[str, Report], scenarios: Iterable[Scenario], *, name: str, date: str, eosin: str, seed: int
) -> Scorecard:
    """The card of the reports by behaviour. Without a `name` it has that of the first client."""
    known = {each.name: each for each in scenarios}
    use = merged(each.use for report in reports.values() for each in (report.reference, *report.results))
    scores = tuple(
        Score(
            behaviour,
            _scored(report.reference, known),
            tuple(_scored(each, known) for each in report.results),
            report.exit_code,
        )
        for behaviour, report in reports.items()
    )
    return Scorecard(name or next(iter(use.clients), "an application"), date, eosin, seed, use, scores)


def text_of(card: Scorecard) -> str:
    """The card in a few lines, for a terminal."""
    lines = [f"{card.name}: {card.use}"]
    for score in card.scores:
        lines.append(f"with {score.behaviour}: {_counts(score)}")
        lines += [f"    {each.scenario}: {_short(each)}" for each in score.results if each.verdict == FAIL]
    return "\n".join(lines)


def page_of(card: Scorecard) -> str:
    """The card as Markdown."""
    seen = f" Its broker saw {', '.join(card.use.clients)}." if card.use.clients else ""
    parts = [
        f"# Scorecard: {card.name}",
        f"{card.date}, Eosin {card.eosin}, seed {card.seed}.{seen}",
        table(
            ("behaviour", *WORDS.values()),
            [(each.behaviour, *(str(_often(each)[verdict]) for verdict in WORDS)) for each in card.scores],
        ),
        *_failures(card),
        "## Scenarios",
        table(
            ("scenario", *(each.behaviour for each in card.scores), "in words"),
            [
                (f"`{each[0].scenario}`", *map(_short, each), " / ".join(dict.fromkeys(one.meaning for one in each)))
                for each in by_scenario(card)
            ],
        ),
        "## On the wire",
        f"It used: {card.use}.",
        table(
            ("API", "versions"),
            [(name, ", ".join(map(str, versions))) for name, versions in card.use.apis.items()],
        ),
    ]
    return "\n\n".join(parts) + "\n"


def by_scenario(card: Scorecard) -> list[tuple[Scored, ...]]:
    """The results of each scenario, one for each behaviour."""
    return list(zip(*(each.results for each in card.scores), strict=False))


def _scored(result: Result, known: Mapping[str, Scenario]) -> Scored:
    is_failed = result.verdict == FAIL
    return Scored(
        result.scenario,
        result.verdict,
        result.seed,
        result.seconds,
        result.kinds,
        _meaning(result, known.get(result.scenario)),
        tuple(result.evidence.splitlines()[:_EVIDENCE_LINES]) if is_failed else (),
        result.cure,
        result.conduct,
        len(result.exits),
        result.forgiven,
        tuple(each.splitlines()[0] for each in result.notes),
    )


def _meaning(result: Result, scenario: Scenario | None) -> str:
    if result.verdict == PASS:
        return "" if scenario is None else scenario.parts.get("Healthy", "")
    if result.verdict == FAIL:
        words = "; ".join(MEANINGS.get(each, each) for each in result.kinds)
        return f"{words[:1].upper()}{words[1:]}."
    return f"{result.evidence[:1].upper()}{result.evidence[1:]}."


def _failures(card: Scorecard) -> Iterable[str]:
    failed = [
        (score.behaviour, each)
        for score in card.scores
        for each in (score.reference, *score.results)
        if each.verdict == FAIL
    ]
    if failed:
        yield "## What failed"
    for behaviour, each in failed:
        lines = [f"**{each.scenario}** ({behaviour}, seed {each.seed}): {_short(each)}. {each.meaning}"]
        lines += ["", *(f"    {line}" for line in each.evidence)] if each.evidence else []
        lines += ["", f"Cure: {each.cure}"] if each.cure else []
        yield "\n".join(lines)


def _short(scored: Scored) -> str:
    kinds = f": {', '.join(scored.kinds)}" if scored.kinds else ""
    if scored.verdict == PASS and scored.conduct:
        kinds = f": {scored.conduct}"
    forgiven = f" (forgiven: {', '.join(scored.forgiven)})" if scored.forgiven else ""
    return f"{WORDS[scored.verdict]}{kinds}{forgiven}"


def _often(score: Score) -> Counter[str]:
    return Counter(each.verdict for each in score.results)


def _counts(score: Score) -> str:
    if score.exit_code == COULD_NOT_RUN:
        return "it does not finish without faults, so that nothing else was judged"
    often = _often(score)
    return ", ".join(f"{often[verdict]} {word}" for verdict, word in WORDS.items() if often[verdict])


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(each.replace('|', chr(92) + '|') for each in line)} |" for line in lines)
