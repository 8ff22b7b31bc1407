"""The findings of a run of the proof, and the list that ends it. Pure: facts in, lines and an exit code out."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from proof import budgets

ALL_PASSED: Final = 0
TESTS_FAILED: Final = 1
"""pytest's exit codes of a run that came to its end; any other one says that it did not."""
FLAKY: Final = "FLAKY"
QUARANTINED: Final = "QUARANTINED"
FAILED: Final = "FAILED"
MANY: Final = 20
"""Failed real tests from here on have one cause, and it is no chance."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of one test."""

    test: str
    """As pytest takes it on its command line."""
    outcome: str
    """passed, failed or skipped"""
    real: bool = False
    """It opened a socket or started a process."""
    seconds: float = 0.0
    message: str = ""
    notes: Sequence[str] = ()
    """Sentences of the test for the end of the run."""
    kind: str = "pure"
    """A key of `budgets.BUDGETS_S`"""
    cpu_s: float = 0.0
    """Processor time, with that of all that it started; a fixture's belongs to the first test that uses it."""


@dataclass(frozen=True, slots=True)
class StageResult:
    """The result of one stage. A stage that is no run of pytest has no tests, just an exit code."""

    name: str
    seconds: float
    code: int
    tests: tuple[Outcome, ...] = ()
    of_tests: bool = True

    @property
    def failed(self) -> list[Outcome]:
        return [each for each in self.tests if each.outcome == "failed"]

    @property
    def trouble(self) -> str:
        """The fault of the stage itself, beside its failed tests; empty for none."""
        if not self.of_tests:
            return "" if self.code == ALL_PASSED else f"ended with exit code {self.code}, see above"
        if self.code not in (ALL_PASSED, TESTS_FAILED):
            return f"pytest ended with exit code {self.code}, see above"
        if self.code == TESTS_FAILED and not self.failed:
            return "pytest ended with exit code 1, but no test has failed, see above"
        if not self.tests:
            return "no test ran"
        return ""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The whole run."""

    stages: Sequence[StageResult]
    tries: Mapping[str, Sequence[bool]] = field(default_factory=dict)
    """By test that got a second and a third try: whether each passed."""
    quarantine: Collection[str] = ()
    """Tests, without parameters, whose flakiness is known."""
    tier: str = ""

    @property
    def flaky(self) -> list[Outcome]:
        """Real tests that failed beside others, and passed twice alone."""
        return self._failures(FLAKY)

    @property
    def quarantined(self) -> list[Outcome]:
        """Real tests that failed for good, but whose flakiness is known."""
        return self._failures(QUARANTINED)

    @property
    def failed(self) -> list[Outcome]:
        """Tests that make the run red."""
        return self._failures(FAILED)

    @property
    def troubles(self) -> list[tuple[str, str]]:
        """Stages that make the run red, and why."""
        return [(stage.name, stage.trouble) for stage in self.stages if stage.trouble]

    @property
    def passes(self) -> bool:
        return not self.failed and not self.troubles

    def lines(self) -> list[str]:
        """The list that ends the run: a row for each stage, then all that failed, was flaky or was skipped."""
        width = max((len(stage.name) for stage in self.stages), default=0)
        lines = [f"{stage.name:{width}}  {stage.seconds:6.0f} s  {_summary(stage)}" for stage in self.stages]
        skipped = Counter(each.message for stage in self.stages for each in stage.tests if each.outcome == "skipped")
        lines += [f"SKIPPED  {number} x {reason}" for reason, number in sorted(skipped.items())]
        lines += [f"NOTE  {note}" for stage in self.stages for each in stage.tests for note in each.notes]
        lines += budgets.lines([each for stage in self.stages for each in stage.tests], self.tier)
        for kind in (FLAKY, QUARANTINED, FAILED):
            lines += [f"{kind}  {each.test}: {each.message}{self._tried(each)}" for each in self._failures(kind)]
        lines += [f"{FAILED}  {name}: {why}" for name, why in self.troubles]
        counts = Counter(each.outcome for stage in self.stages for each in stage.tests)
        passed = counts["passed"] + len(self.flaky)
        failed = len(self.failed) + len(self.troubles)
        lines.append(f"{passed} passed, {failed} failed, {counts['skipped'] + len(self.quarantined)} skipped")
        return lines

    def _failures(self, kind: str) -> list[Outcome]:
        return [each for stage in self.stages for each in stage.failed if self._kind(each) == kind]

    def _kind(self, failure: Outcome) -> str:
        tries = self.tries.get(failure.test, ())
        if len(tries) > 0 and all(tries):
            return FLAKY
        known = failure.real and failure.test.partition("[")[0] in self.quarantine
        return QUARANTINED if known else FAILED

    def _tried(self, failure: Outcome) -> str:
        tries = self.tries.get(failure.test)
        return f" (alone: {', '.join('passed' if each else 'failed' for each in tries)})" if tries else ""


def _summary(stage: StageResult) -> str:
    if not stage.of_tests:
        return "failed" if stage.trouble else "passed"
    counts = Counter(each.outcome for each in stage.tests)
    shown = [f"{counts[outcome]} {outcome}" for outcome in ("passed", "failed", "skipped") if counts[outcome]]
    return ", ".join(shown or ["no test ran"])


def deserve_another_try(stages: Sequence[StageResult]) -> list[Outcome]:
    """The failed real tests that are asked again, alone; none when they are MANY."""
    real = [each for stage in stages for each in stage.failed if each.real]
    return real if len(real) < MANY else []
