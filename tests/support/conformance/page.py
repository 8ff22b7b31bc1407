"""Renders docs/conformance.md from the results of Eosin and of Apache Kafka: `make conformance-page`.

Every case that Apache Kafka fails has an explanation: the reason of its `better_than_kafka` mark, or a line of
`KNOWN_DIFFERENCES` here. One without is no page but an error: it is a defect of the case until somebody has looked.
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from typing import Final

from conformance.results import Case, Outcome, Results

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
parameters (versions, client libraries, commit or abort). A case is a sentence about behaviour that clients rely on; it
was accepted once Apache Kafka had passed it, or once it was clear which defect or choice makes Apache Kafka fail.

    make conformance BOOTSTRAP=host:port   # any broker; without BOOTSTRAP a fresh Eosin
    make conformance-kafka                 # Apache Kafka, a KRaft node from its published jars (needs java and mvn),
                                           # and a small one at transaction.version=1 for what timeouts come to there
    make conformance-page                  # this page, from the results of both

A broker of yours is restarted if you say how, and what depends on `transaction.version=1` is asked of a second one:

    make conformance BOOTSTRAP=host:port RESTART='systemctl restart kafka' BOOTSTRAP_FIRST=host:port RESTART_FIRST='...'

A command keeps the broker's files and returns when it runs; the environment tells it in `EOSIN_RESTART_HOW` whether a
clean stop (`stop`) or an end without notice (`kill`) is meant. Without one, these cases are told as not asked.

{seconds}

Every run prints its table and writes JSON to `conformance-results/`; the results behind this page are in
`docs/conformance/`. [semantics.md](semantics.md) explains the differences from the side of the protocol.
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
            ours=ours.broker, theirs=theirs.broker, cases=len(ours.cases), asked=asked, seconds=_seconds(ours, theirs)
        ),
        "## By area\n",
        *_areas(ours, theirs, by_place),
        "\n## Where the answers differ\n",
        *_differences(ours, theirs, by_place),
        f"\n<details><summary>which of them, and how it ended with {theirs.broker}</summary>\n",
        *_endings(theirs),
        "\n</details>\n",
        *_not_asked(ours, theirs),
        "## Every case\n",
        *_every_case(ours, theirs, by_place),
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
    """What had to be asked twice, which says something of the machine, of a case or of a broker."""
    told = [line for each in of for line in _at_second(each)]
    return (
        "What fails in a run may be asked once more by itself (`ARGS=--failed`), since clients give\n"
        f"up on a machine that is too busy. Passed at the second time: {len(told)}.\n\n" + "\n".join(told)
    ).rstrip()


def _at_second(results: Results) -> Iterator[str]:
    ours = results.broker.startswith("Eosin")
    for case in results.cases:
        why = "" if ours else KNOWN_CHANCES.get(case.asked, "")
        for parameter in case.at_second:
            yield f"- {results.broker}: {case.name} ({parameter})" + (f": {why}" if why else "")


def _areas(ours: Results, theirs: Results, by_place: Mapping[str, Case]) -> Iterator[str]:
    yield f"| area | {ours.broker} | {theirs.broker} |"
    yield "|---|---|---|"
    for area, cases in _by_area(ours.cases):
        other = [by_place[case.asked] for case in cases if case.asked in by_place]
        yield f"| {area} | {_total(cases)} | {_total(other)} |"
    yield f"| **all** | {_total(ours.cases)} | {_total(theirs.cases)} |"


def _differences(ours: Results, theirs: Results, by_place: Mapping[str, Case]) -> Iterator[str]:
    yield f"| case | {ours.broker} | {theirs.broker} | why |"
    yield "|---|---|---|---|"
    for case in ours.cases:
        other = by_place.get(case.asked)
        if case.failed or (other is not None and other.failed):
            yield f"| {case.name} | {_mark(case)} | {_mark(other)} | {reason(other or case)} |"


def _endings(theirs: Results) -> Iterator[str]:
    """Each parameter that failed: where a case has many, this says which client or version it was."""
    for case in theirs.failed:
        yield f"- {case.name}"
        for parameter, how in case.failed.items():
            yield f"  - {parameter}: `{how.replace('`', '')}`" if parameter else f"  - `{how.replace('`', '')}`"


def _not_asked(*of: Results) -> Iterator[str]:
    yield "## What was not asked\n"
    yield "| broker | case | parameters | why |"
    yield "|---|---|---|---|"
    for results in of:
        for why, left_out in _by_reason(results).items():
            yield from (f"| {results.broker} | {name} | {count} | {why} |" for name, count in left_out.items())
    yield ""


def _by_reason(results: Results) -> dict[str, dict[str, int]]:
    """Why something was not asked: the cases, and how many of their parameters."""
    found: dict[str, dict[str, int]] = {}
    for case in results.cases:
        for why in case.left_out.values():
            counts = found.setdefault(why.removeprefix("not asked: ").removeprefix("[NOTRUN] "), {})
            counts[case.name] = counts.get(case.name, 0) + 1
    return found


def _every_case(ours: Results, theirs: Results, by_place: Mapping[str, Case]) -> Iterator[str]:
    for area, cases in _by_area(ours.cases):
        yield f"<details><summary>{area}</summary>\n"
        yield f"| case | {ours.broker} | {theirs.broker} |"
        yield "|---|---|---|"
        yield from (f"| {case.name} | {_mark(case)} | {_mark(by_place.get(case.asked))} |" for case in cases)
        yield "\n</details>\n"


def _by_area(cases: Iterable[Case]) -> Iterator[tuple[str, list[Case]]]:
    for area, of_it in groupby(sorted(cases, key=lambda case: (_title(case), case.asked)), key=_title):
        yield area, list(of_it)


def _title(case: Case) -> str:
    """The short form of its area, without what follows a colon or stands in brackets."""
    return case.area.partition(":")[0].partition(" (")[0]


def _total(cases: Iterable[Case]) -> str:
    listed = list(cases)
    return f"{sum(case.passed for case in listed)} of {sum(case.asked_for for case in listed)}"


def _mark(case: Case | None) -> str:
    if case is None or case.outcome is Outcome.LEFT_OUT:
        return "not asked"
    many = case.asked_for > 1
    if case.outcome is Outcome.PASSED:
        return f"yes ({case.passed})" if many else "yes"
    return f"no ({case.passed} of {case.asked_for})" if many else "no"
