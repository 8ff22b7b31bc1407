"""The figures of a run of hostile cases, and the verdict on each. Pure.

The waits of honest clients are compared with those of a quiet run, and of a run beside a process that only computes:
what two processes on a busy machine cost each other is no fault of the broker.
"""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from hostile.field import Case

MOST_TIMES: Final = 3.0
"""The waits of others are at most so many times those of before."""
STEP_S: Final = 0.02
"""Or longer by one step of the event loop, which may take so long (security.md 6.2)."""
MOST_MIB: Final = 20.0
LINES_PER_S: Final = 20
"""In the log, for a user and an address."""
MORE_LINES: Final = 60
"""At whatever pace: what honest clients and the first second of a bucket bring."""
MOST_LINE_BYTES: Final = 2048
"""On average."""
FORGED: Final = "2026-01-01T00:00:00.000Z ERROR forged"
"""The beginning, behind a line feed, of names that are meant to look like a line of the log."""
_STALLED: Final = re.compile(r"\bstall", re.IGNORECASE)


@dataclass
class Samples:
    """The due time and the duration of each thing, in seconds, by its kind; and the failures."""

    waits: dict[str, list[tuple[float, float]]] = field(default_factory=dict)
    failures: list[tuple[float, str]] = field(default_factory=list)

    def took(self, kind: str, due: float, ended: float, every_s: float) -> None:
        """One thing was done. What would have been due before it ended has waited as well."""
        while due <= ended:
            self.waits.setdefault(kind, []).append((due, ended - due))
            due += every_s

    def failed(self, due: float, why: str) -> None:
        """One thing was not done, or not rightly."""
        self.failures.append((due, why))

    def words(self) -> dict[str, Any]:
        """For another process."""
        return {"waits": self.waits, "failures": self.failures}

    def add(self, words: Mapping[str, Any]) -> None:
        """Take what another process has measured."""
        self.waits.update({kind: [(due, took) for due, took in each] for kind, each in words["waits"].items()})
        self.failures += [(due, why) for due, why in words["failures"]]

    def between(self, start: float, end: float) -> "Waits":
        """Of what was due then."""
        return Waits(
            {kind: sorted(took for due, took in each if start <= due < end) for kind, each in self.waits.items()},
            [why for due, why in self.failures if start <= due < end],
        )


@dataclass(frozen=True)
class Waits:
    """The waits of honest clients in one phase, sorted, by the kind of call."""

    seconds: Mapping[str, Sequence[float]]
    failures: Sequence[str] = ()

    def at(self, kind: str, part: float) -> float:
        """The wait that this part of all does not exceed."""
        sorted_waits = self.seconds.get(kind) or [0.0]
        return sorted_waits[max(0, math.ceil(len(sorted_waits) * part) - 1)]

    def p99(self, kind: str) -> float:
        """The wait that one of a hundred exceeds."""
        return self.at(kind, 0.99)

    def words(self) -> dict[str, float]:
        """Each kind's in ms."""
        return {kind: round(self.p99(kind) * 1000, 1) for kind in self.seconds}

    @classmethod
    def longest(cls, several: Sequence["Waits"]) -> "Waits":
        """Of several runs, for each kind the one in which it waited longest."""
        kinds = {kind for each in several for kind in each.seconds}
        return cls({kind: max(several, key=lambda each: each.p99(kind)).seconds[kind] for kind in sorted(kinds)})


@dataclass(frozen=True)
class Baseline:
    """Waits without an attack."""

    quiet: Waits
    busy: Waits
    """Beside a process that computes."""

    def p99(self, kind: str) -> float:
        """The longer of both."""
        return max(self.quiet.p99(kind), self.busy.p99(kind))

    def words(self) -> dict[str, dict[str, float]]:
        """For the book."""
        return {"quiet": self.quiet.words(), "busy": self.busy.words()}


@dataclass(frozen=True)
class Seen:
    """The result of one case."""

    seconds: float
    waits: Waits
    bouts: int
    turned_away: int
    cpu_s: float
    memory_before_mib: float
    memory_after_mib: float
    log: str
    """The broker's log lines meanwhile."""
    exit_code: int
    steps: Sequence[tuple[float, str]] = ()
    """Long steps of the event loop, if it notes them: seconds of processor time, and of which callback."""
    load: float = 0.0
    """Of the machine in the last minute: where others work as well, waits are theirs too."""

    def all_words(self) -> dict[str, Any]:
        """Everything, for a file."""
        return asdict(self)

    @classmethod
    def of_words(cls, words: Mapping[str, Any]) -> "Seen":
        """The case again."""
        steps = [(took_s, what) for took_s, what in words["steps"]]
        return cls(**{**words, "waits": Waits(**words["waits"]), "steps": steps})

    @property
    def log_lines(self) -> int:
        return self.log.count("\n")

    @property
    def stalls(self) -> int:
        """Lines that tell of a stall."""
        return sum(1 for line in self.log.splitlines() if _STALLED.search(line))


def log_lines_allowed(case: Case, seconds: float) -> int:
    """The number of lines that a case may bring."""
    return MORE_LINES + math.ceil(LINES_PER_S * seconds * case.addresses)


def misses(case: Case, seen: Seen, baseline: Baseline | None) -> Iterator[str]:
    """The faults of a case, a sentence each. Without a baseline waits are not judged."""
    if baseline is not None:
        for kind in seen.waits.seconds:
            before, now = baseline.p99(kind), seen.waits.p99(kind)
            if now > max(MOST_TIMES * before, before + STEP_S):
                yield f"{kind}: p99 is {_ms(now)} ms where it was {_ms(before)}"
    if seen.waits.failures:
        yield f"{len(seen.waits.failures)} honest requests failed, the first: {seen.waits.failures[0]}"
    took_s, what = max(seen.steps, default=(0.0, ""))
    if took_s > STEP_S:
        yield f"a step of the event loop took {_ms(took_s)} ms of processor time: {what}"
    grown = seen.memory_after_mib - seen.memory_before_mib
    if grown > MOST_MIB + case.may_keep_mib:
        yield f"memory has grown by {grown:.0f} MiB, and may by {MOST_MIB + case.may_keep_mib:.0f}"
    yield from log_misses(case, seen.log, seen.seconds)
    if not seen.bouts:
        yield "the attack did nothing"
    if seen.exit_code:
        yield f"the broker ended with {seen.exit_code}"


def log_misses(case: Case, log: str, seconds: float) -> Iterator[str]:
    """The faults of the lines that the broker has logged while it was attacked."""
    lines, most = log.count("\n"), log_lines_allowed(case, seconds)
    if lines > most:
        yield f"the log has {lines} lines more, and may have {most}"
    if len(log) > most * MOST_LINE_BYTES:
        yield f"the log has {len(log) >> 10} KiB more, and may have {most * MOST_LINE_BYTES >> 10}"
    if "Traceback" in log:
        yield f"the log has a traceback: {log[log.index('Traceback') :].strip().splitlines()[-1]}"
    if any(line.startswith(FORGED) for line in log.splitlines()):
        yield "a line of the log is a peer's"


def block(case: Case, seen: Seen, baseline: Baseline | None, found: Sequence[str]) -> list[str]:
    """The lines of a case for people."""
    lines = [
        f"{case.name} ({case.row}, {case.who}): {case.sends}",
        f"  {seen.bouts} times in {seen.seconds:.0f} s, {seen.turned_away} connections turned away;"
        f" the broker used {seen.cpu_s:.1f} s of processor time",
        f"  {'wait in ms':10} {'p50':>9} {'p99':>9} {'max':>9} {'x quiet':>9} {'x busy':>9}",
    ]
    for kind in seen.waits.seconds:
        p99 = seen.waits.p99(kind)
        columns = [*map(_ms, (seen.waits.at(kind, 0.5), p99, seen.waits.at(kind, 1)))]
        if baseline is not None:
            columns += [_times(p99, each.p99(kind)) for each in (baseline.quiet, baseline.busy)]
        lines.append(f"  {kind:10}" + "".join(f" {each:>9}" for each in columns))
    lines.append(
        f"  memory {seen.memory_before_mib:.0f} MiB before, {seen.memory_after_mib:.0f} after;"
        f" log {seen.log_lines} lines, {len(seen.log)} bytes; {seen.stalls} stalls told; load {seen.load:.1f}"
    )
    if seen.steps:
        lines.append(f"  the longest step of the event loop took {_ms(max(seen.steps)[0])} ms of processor time")
    return [*lines, *(f"  MISSED {each}" for each in found)] if found else [*lines, "  good"]


def of_book(seen: Seen, found: Sequence[str]) -> dict[str, Any]:
    """The figures of a case for the book, waits as p99 in ms; the baseline stands in the same line."""
    memory = (seen.memory_before_mib, seen.memory_after_mib)
    return {
        "p99": seen.waits.words(),
        "mib": [*map(round, memory)],
        "lines": seen.log_lines,
        "load": seen.load,
        "missed": list(found),
    }


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:.1f}"


def _times(now: float, before: float) -> str:
    return f"{now / before:.1f}" if before else "-"
