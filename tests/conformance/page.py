"""Renders docs/conformance.md from the results of Eosin and of Apache Kafka: `make conformance-page`.

Every case that Apache Kafka fails has an explanation: the reason of its `better_than_kafka` mark, or a line of
`KNOWN_DIFFERENCES` here. One without is no page but an error: it is a defect of the case until somebody has looked.
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, groupby
from typing import Final

from conformance.outcomes import Case, Results

KNOWN_DIFFERENCES: Final[Mapping[str, str]] = {}
"""Case (its place, `tests/…::test_…`) to why Apache Kafka fails it, where the test itself cannot say so."""

_ONE_FOR_ALL: Final = (
    "it verifies the transactions of several producers in one request, and answers all of them in terms of the Produce "
    "version of the first, so that an old client may be told a code that it does not know"
)
KNOWN_CHANCES: Final[Mapping[str, str]] = {
    "tests/wire/test_first_protocol.py::test_a_batch_that_was_delayed_past_the_abort_opens_nothing": _ONE_FOR_ALL,
    "tests/wire/test_version_mapping.py::test_producing_to_a_partition_that_was_not_added": _ONE_FOR_ALL,
}
"""Case to what makes Apache Kafka fail it now and then, when it is asked by many."""

_INTRODUCTION: Final = """\
# Conformance

The same clients and the same bytes, asked of {ours} and of {theirs}: {cases} cases, {asked} with their
parameters (versions, client libraries, commit or abort). A case is a sentence about behaviour that clients rely on. It
was accepted once Apache Kafka had passed it, or once it was clear which defect or choice makes Apache Kafka fail.

| | {ours} | {theirs} |
|---|---|---|
| passed | {our_total} | {their_total} |

## Ask a broker

    make conformance BOOTSTRAP=host:port   # any broker; without BOOTSTRAP a fresh Eosin
    make conformance-kafka                 # Apache Kafka from its published jars, at both transaction versions, by java

A run prints a table of areas, what failed and what was not asked. It ends with code 1 if anything failed that is no
known difference. `CASES=` chooses cases (an expression as pytest's `-k`), `WORKERS=` the number of processes that ask.

Some cases restart the broker, some need a second one at `transaction.version=1`. Where these are not given, the cases
are reported as not asked:

    make conformance BOOTSTRAP=host:port RESTART='systemctl restart kafka' BOOTSTRAP_FIRST=host:port RESTART_FIRST='...'

A restart command keeps the broker's files and returns when the broker serves again. `EOSIN_RESTART_HOW` in its
environment says whether a clean stop (`stop`) or an end without notice (`kill`) is meant.

Results are written to `conformance-results/`, one JSON object a line. Those behind this page are in
`tests/conformance/results/`; [testing](testing.md#conformance) says how to renew them.
{seconds}
"""


class Unexplained(Exception):
    """Cases that Eosin fails, or that Apache Kafka fails for no reason that anybody has written down."""


def page(ours: Results, theirs: Results) -> str:
    """The whole page. Raises Unexplained."""
    unexplained = [case.asked for case in ours.failed] + [case.asked for case in theirs.failed if not reason(case)]
    if unexplained:
        raise Unexplained("\n".join(unexplained))
    by_place = {case.asked: case for case in theirs.cases}
    asked = sum(case.asked_for for case in ours.cases)
    parts = [
        _INTRODUCTION.format(
            ours=ours.broker,
            theirs=theirs.broker,
            cases=len(ours.cases),
            asked=asked,
            our_total=_total(ours.cases),
            their_total=_total(theirs.cases),
            seconds=_seconds(ours, theirs),
        ),
        "## Areas\n",
        *_areas(ours, theirs, by_place),
        "\n## Where the brokers differ\n",
        "[semantics.md](semantics.md) explains each difference from the side of the protocol.\n",
        *_differences(ours, theirs, by_place),
        "\n## What was not asked\n",
        *_not_asked(ours, theirs),
    ]
    return "\n".join(parts) + "\n"


def reason(case: Case) -> str:
    """Why Apache Kafka fails it; empty if nobody has said."""
    return case.differs or KNOWN_DIFFERENCES.get(case.asked, "")


def table(results: Results) -> Iterator[str]:
    """What one run came to, for a terminal: a line for each area, then what failed."""
    for area, cases in _by_area(results.cases):
        passed, asked = sum(case.passed for case in cases), sum(case.asked_for for case in cases)
        yield f"{passed:5} of {asked:5}  {area}"
    for case in results.cases:
        yield from (f"\nAT SECOND {case.name} [{parameter}]" for parameter in case.at_second)
    for case in results.failed:
        yield f"\nFAILED {case.name}" + (f"\n       known: {reason(case)}" if reason(case) else "")
        yield from (f"       [{parameter}] {how}" for parameter, how in case.failed.items())
    for why, left_out in _by_reason(results).items():
        yield f"\nNOT ASKED {sum(left_out.values())}: {why}"
        yield from (f"       {count} of: {name}" for name, count in left_out.items())


def _seconds(*of: Results) -> str:
    """The parameters that were asked twice, which says something of the machine, of a case or of a broker."""
    told = [line for each in of for line in _at_second(each)]
    named = f" ({'; '.join(told)})" if told else ""
    return (
        "`ARGS=--failed` asks once more what failed in the last run, since clients give up on a busy machine.\n"
        f"Passed at the second time: {len(told)}{named}."
    )


def _at_second(results: Results) -> Iterator[str]:
    ours = results.broker.startswith("Eosin")
    for case in results.cases:
        why = "" if ours else KNOWN_CHANCES.get(case.asked, "")
        for parameter in case.at_second:
            yield f"{results.broker}: {case.name} ({parameter})" + (f": {why}" if why else "")


def _areas(ours: Results, theirs: Results, by_place: Mapping[str, Case]) -> Iterator[str]:
    """A row for each area in which something failed, and one for all others."""
    yield f"| area, with the parameters that passed of those that were asked | {ours.broker} | {theirs.broker} |"
    yield "|---|---|---|"
    sound: dict[str, tuple[list[Case], list[Case]]] = {}
    for area, cases in _by_area(ours.cases):
        other = [by_place[case.asked] for case in cases if case.asked in by_place]
        if any(case.failed for case in (*cases, *other)):
            yield f"| {area} | {_total(cases)} | {_total(other)} |"
        else:
            sound[area] = cases, other
    if sound:
        totals = (_total(chain.from_iterable(side)) for side in zip(*sound.values(), strict=True))
        yield f"| no failure: {'; '.join(sound)} | {' | '.join(totals)} |"


def _differences(ours: Results, theirs: Results, by_place: Mapping[str, Case]) -> Iterator[str]:
    """A row for each reason, with all cases that differ for it."""
    yield f"| cases | why | {ours.broker} | {theirs.broker} |"
    yield "|---|---|---|---|"
    by_reason: dict[str, list[tuple[Case, Case]]] = {}
    for case in ours.cases:
        other = by_place.get(case.asked)
        if other is not None and other.failed:
            by_reason.setdefault(reason(other), []).append((case, other))
    for why, pairs in by_reason.items():
        names = "; ".join(dict.fromkeys(case.name for case, _ in pairs))
        yield f"| {names} | {why} | {_total(case for case, _ in pairs)} | {_total(other for _, other in pairs)} |"


def _not_asked(*of: Results) -> Iterator[str]:
    """A row for each reason, with its cases and the number of their parameters for each broker."""
    yield f"| cases | why | {' | '.join(results.broker for results in of)} |"
    yield "|---|---|" + "---|" * len(of)
    by_reason = [_by_reason(results) for results in of]
    for why in dict.fromkeys(why for each in by_reason for why in each):
        names = "; ".join(dict.fromkeys(name for each in by_reason for name in each.get(why, ())))
        counts = " | ".join(str(sum(each[why].values())) if why in each else "" for each in by_reason)
        yield f"| {names} | {why} | {counts} |"


def _by_reason(results: Results) -> dict[str, dict[str, int]]:
    """Why something was not asked: the cases, and how many of their parameters."""
    found: dict[str, dict[str, int]] = {}
    for case in results.cases:
        for why in case.left_out.values():
            counts = found.setdefault(why.removeprefix("not asked: ").removeprefix("[NOTRUN] "), {})
            counts[case.name] = counts.get(case.name, 0) + 1
    return found


def _by_area(cases: Iterable[Case]) -> Iterator[tuple[str, list[Case]]]:
    for area, of_it in groupby(sorted(cases, key=lambda case: (_title(case), case.asked)), key=_title):
        yield area, list(of_it)


def _title(case: Case) -> str:
    """The short form of its area, without what follows a colon or stands in brackets."""
    return case.area.partition(":")[0].partition(" (")[0]


def _total(cases: Iterable[Case]) -> str:
    listed = list(cases)
    return f"{sum(case.passed for case in listed)} of {sum(case.asked_for for case in listed)}"
