"""`Result`: the verdict about an application in one scenario, and `Report`: all of a run. They are JSON in `--out`."""

from typing import Final

import msgspec

from eosin.lab.run.process import Exit
from eosin.lab.run.wire_use import WireUse

PASS: Final = "PASS"
FAIL: Final = "FAIL"
NOT_EXERCISED: Final = "NOT EXERCISED"
SKIPPED: Final = "SKIPPED"
REFERENCE: Final = "reference"
DIED: Final = "died"
"""A kind of failure, beside those that a judge finds."""

ALL_PASS: Final = 0
SOME_FAILED: Final = 1
COULD_NOT_RUN: Final = 2
SOME_NOT_EXERCISED: Final = 3


class Result(msgspec.Struct, frozen=True):
    """One scenario."""

    scenario: str
    verdict: str
    """One of `PASS`, `FAIL`, `NOT_EXERCISED`, `SKIPPED`."""
    seed: int
    seconds: float
    kinds: tuple[str, ...] = ()
    """The reasons of a failure: kinds of findings, `stuck`, `died`."""
    evidence: str = ""
    """The findings with their records; for `NOT_EXERCISED` and `SKIPPED` the reason."""
    notes: tuple[str, ...] = ()
    exits: tuple[Exit, ...] = ()
    rules: tuple[str, ...] = ()
    """The rules of faults, and how often each has fired."""
    clients: tuple[str, ...] = ()
    """The libraries that the application connected with."""
    cure: str = ""
    of_clients: tuple[str, ...] = ()
    """The advice for each of those libraries, where they differ."""
    transcript: tuple[str, ...] = ()
    """The last events in the broker."""
    last_lines: tuple[str, ...] = ()
    """The last words of the application."""
    use: WireUse = WireUse()
    conduct: str = ""
    """One of `wire_use.CONDUCTS`: the way in which the application went through it."""
    behaviour: str = ""
    """Of the broker, where it is not that of the first runs."""
    forgiven: tuple[str, ...] = ()
    """Kinds of findings that are no fault of the application; `notes` has them with their records."""
    fences_per_minute: float = 0.0
    """Answers that told a producer that another one has its id, by the length of the run."""

    @property
    def title(self) -> str:
        """The verdict, with its kinds, and those that are forgiven."""
        forgiven = f"(forgiven: {', '.join(self.forgiven)})" if self.forgiven else ""
        return " ".join(filter(None, (self.verdict, ", ".join(self.kinds), forgiven)))


class Report(msgspec.Struct, frozen=True):
    """A whole run."""

    command: tuple[str, ...]
    input: str
    outputs: tuple[str, ...]
    group: str | None
    reference: Result
    results: tuple[Result, ...]

    @property
    def exit_code(self) -> int:
        """0 all pass, 1 one failed, 2 it could not run, 3 some were not exercised."""
        if self.reference.verdict != PASS:
            return COULD_NOT_RUN
        verdicts = {each.verdict for each in self.results}
        if FAIL in verdicts:
            return SOME_FAILED
        return SOME_NOT_EXERCISED if NOT_EXERCISED in verdicts else ALL_PASS
