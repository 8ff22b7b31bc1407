"""What a run of the suite came to: one broker's outcomes, by area and case, as a file that a later page is made of.

A case is one test function, named as a sentence. Its parameters (a version, a client library) are counted, and named
only where they did not pass.
"""

from enum import StrEnum
from pathlib import Path

import msgspec


class Outcome(StrEnum):
    """What one parameter of a case came to."""

    PASSED = "passed"
    FAILED = "failed"
    LEFT_OUT = "left out"
    """Not asked: the reason says what this broker, this client or this machine lacks."""


class Case(msgspec.Struct, omit_defaults=True):
    """One sentence about behaviour, and how far it holds."""

    area: str
    """The first sentence of the module that asks."""
    name: str
    asked: str
    """The module and function, to look it up: tests/wire/test_produce.py::test_…"""
    differs: str = ""
    """Why Eosin's behaviour is not Apache Kafka's, where that is on purpose."""
    passed: int = 0
    failed: dict[str, str] = {}
    """Parameters that failed, and the last line of how."""
    left_out: dict[str, str] = {}
    """Parameters that were not asked, and why."""
    at_second: list[str] = []
    """Parameters that failed at first, and passed when they were asked again by themselves."""

    @property
    def asked_for(self) -> int:
        return self.passed + len(self.failed)

    @property
    def failed_places(self) -> list[str]:
        """What failed, as pytest names it."""
        return [f"{self.asked}[{each}]" if each else self.asked for each in self.failed]

    @property
    def outcome(self) -> Outcome:
        if self.failed:
            return Outcome.FAILED
        return Outcome.PASSED if self.passed else Outcome.LEFT_OUT


class Results(msgspec.Struct):
    """One run against one broker."""

    broker: str
    """Its name and version, as 'Apache Kafka 4.3.1'."""
    cases: list[Case]

    @property
    def failed(self) -> list[Case]:
        return [case for case in self.cases if case.failed]

    def add(self, other: "Results") -> None:
        """Take over what was asked in another turn of the same run: other cases, or other parameters of the same."""
        by_place = {case.asked: case for case in self.cases}
        for case in other.cases:
            here = by_place.get(case.asked)
            if here is None:
                self.cases.append(case)
                continue
            here.passed += case.passed
            here.failed = dict(sorted((here.failed | case.failed).items()))
            here.left_out = dict(sorted((here.left_out | case.left_out).items()))
        self.cases.sort(key=lambda case: case.asked)

    def answered(self, again: "Results") -> None:
        """Take over what failed here and passed in a run of just that."""
        by_place = {case.asked: case for case in again.cases}
        for case in self.failed:
            second = by_place.get(case.asked)
            healed = [
                each for each in case.failed if second is not None and each not in second.failed | second.left_out
            ]
            case.failed = {each: how for each, how in case.failed.items() if each not in healed}
            case.passed += len(healed)
            case.at_second += healed

    def save(self, path: Path) -> None:
        """Write it, indented, so that a change of an answer is a readable difference."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(msgspec.json.format(msgspec.json.encode(self), indent=1) + b"\n")

    @classmethod
    def load(cls, path: Path) -> "Results":
        """Read what `save` wrote. Raises FileNotFoundError."""
        return msgspec.json.decode(path.read_bytes(), type=cls)
