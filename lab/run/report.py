"""The report of a run, as a person reads it: a line for each scenario, and below it what went wrong."""

import json
from collections import Counter
from pathlib import Path
from typing import Final

import msgspec

from eosin.lab.run.results import FAIL, NOT_EXERCISED, PASS, SKIPPED, Report, Result

_INDENT: Final = "    "
_MOST_EXITS: Final = 3


def line_of(result: Result) -> str:
    """A scenario with all that a person needs to know of it."""
    at = f", {result.behaviour}" if result.behaviour else ""
    lines = [f"{result.scenario:<26} {result.title} ({result.seconds:.1f} s, seed {result.seed}{at})"]
    if result.verdict in (NOT_EXERCISED, SKIPPED):
        lines.append(f"{_INDENT}{result.evidence}")
    lines += [f"{_INDENT}{each}" for each in result.notes]
    if result.fences_per_minute:
        lines.append(f"{_INDENT}producers were fenced {result.fences_per_minute:.0f} times a minute")
    if result.verdict == FAIL:
        lines += [f"{_INDENT}{each}" for each in result.evidence.splitlines()]
        lines += [f"{_INDENT}rule {each}" for each in result.rules]
        if result.transcript:
            lines.append(f"{_INDENT}what happened last in the broker:")
            lines += [f"{_INDENT}  {each}" for each in result.transcript[-10:]]
    if result.exits:
        lines.append(f"{_INDENT}the application {_times(len(result.exits))}; the last time it")
        lines += [f"{_INDENT}{each}" for each in str(result.exits[-1]).splitlines()]
    elif result.verdict == FAIL and result.last_lines:
        lines.append(f"{_INDENT}the application said at last:")
        lines += [f"{_INDENT}  | {each}" for each in result.last_lines[-10:]]
    lines += [f"{_INDENT}with {each}" for each in result.of_clients]
    if result.cure:
        lines.append(f"{_INDENT}cure: {result.cure}")
    return "\n".join(lines)


def summary_of(report: Report) -> str:
    """The last line of a report."""
    if report.reference.verdict != PASS:
        return "the application does not finish without faults, so that nothing else was judged"
    often = Counter(each.verdict for each in report.results)
    words = {PASS: "passed", FAIL: "failed", NOT_EXERCISED: "not exercised", SKIPPED: "skipped"}
    parts = [f"{often[each]} {word}" for each, word in words.items() if often[each]]
    seconds = sum(each.seconds for each in (report.reference, *report.results))
    return f"{len(report.results)} scenarios: {', '.join(parts)} ({seconds:.0f} s of runs)"


def save(report: Report, folder: Path) -> None:
    """Write `report.json` and `report.txt`. Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    written = msgspec.to_builtins(report)
    (folder / "report.json").write_text(json.dumps({**written, "exit_code": report.exit_code}, indent=1) + "\n")
    text = [*map(line_of, (report.reference, *report.results)), summary_of(report)]
    (folder / "report.txt").write_text("\n".join(text) + "\n")


def _times(count: int) -> str:
    return "exited once" if count == 1 else f"exited {count} times"
