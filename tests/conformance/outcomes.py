"""The results of one run of the suite: what each case came to with one broker, and the file that keeps them.

A case is one test function, named as a sentence. Its parameters (a version, a client library) are counted, and named
only where they did not pass.

The file has one JSON object a line, so that a changed response is a changed line: first the broker, then a line for
each case, each followed by a line for every parameter that failed, was left out, or passed when it was asked again.
"""

from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import Final

import msgspec


class Outcome(StrEnum):
    """The outcome of a case, or of one of its parameters."""

    PASSED = "passed"
    FAILED = "failed"
    LEFT_OUT = "left out"
    """Not asked: the reason says what this broker, this client or this machine lacks."""


class Case(msgspec.Struct):
    """One sentence about behaviour, and how far it holds."""

    area: str
    """The first sentence of the module that asks."""
    asked: str
    """The module and function, to look it up: tests/wire/test_produce.py::test_…"""
    differs: str = ""
    """Why Eosin's behaviour is not Apache Kafka's, where that is on purpose."""
    passed: int = 0
    failed: dict[str, str] = {}
    """Parameters that failed, and the last line of how; a case without parameters has one, named ''."""
    left_out: dict[str, str] = {}
    """Parameters that were not asked, and why."""
    at_second: list[str] = []
    """Parameters that failed at first, and passed when they were asked again by themselves."""

    @property
    def name(self) -> str:
        """The sentence that the test's name is."""
        return self.asked.rpartition("::")[2].removeprefix("test_").replace("_", " ")

    @property
    def asked_for(self) -> int:
        """The number of parameters that were asked."""
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
        """Merge what another turn of the same run asked: other cases, or other parameters of the same."""
        by_place = {case.asked: case for case in self.cases}
        for case in other.cases:
            here = by_place.get(case.asked)
            if here is None:
                self.cases.append(case)
                continue
            here.passed += case.passed
            here.failed |= case.failed
            here.left_out |= case.left_out

    def replace(self, newer: "Results") -> None:
        """Take the cases of another run instead of those of the same name here; all others stay."""
        cases = {case.asked: case for case in self.cases} | {case.asked: case for case in newer.cases}
        self.cases = list(cases.values())

    def asked_again(self, again: "Results") -> None:
        """Count as passed what failed here and passed in a run of just that."""
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
        """Write the file, sorted: workers finish in any order, and a line shall change only where a response does."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"".join(_ENCODER.encode(row) + b"\n" for row in _rows(self)))

    @classmethod
    def load(cls, path: Path) -> "Results":
        """Read what `save` wrote. Raises FileNotFoundError, and msgspec.DecodeError for any other file."""
        found = cls("", [])
        for row in _DECODER.decode_lines(path.read_bytes()):
            if isinstance(row, _BrokerRow):
                found.broker = row.name
            elif isinstance(row, _CaseRow):
                found.cases.append(Case(row.area, row.asked, row.differs, row.passed))
            else:
                _take(row, found.cases)
        return found


class _BrokerRow(msgspec.Struct, tag_field="row", tag="broker"):
    name: str


class _CaseRow(msgspec.Struct, omit_defaults=True, tag_field="row", tag="case"):
    asked: str
    area: str
    passed: int
    differs: str = ""


class _ParameterRow(msgspec.Struct, omit_defaults=True, tag_field="row"):
    """One parameter that did not simply pass, of the case in the last line of a case."""

    parameter: str = ""


class _FailedRow(_ParameterRow, tag="failed"):
    how: str = ""


class _LeftOutRow(_ParameterRow, tag="left out"):
    why: str = ""


class _AtSecondRow(_ParameterRow, tag="passed at second"):
    pass


_Row = _BrokerRow | _CaseRow | _FailedRow | _LeftOutRow | _AtSecondRow
_ENCODER: Final = msgspec.json.Encoder()
_DECODER: Final = msgspec.json.Decoder(_Row)


def _rows(results: Results) -> Iterator[_Row]:
    yield _BrokerRow(results.broker)
    for case in sorted(results.cases, key=lambda case: case.asked):
        yield _CaseRow(case.asked, case.area, case.passed, case.differs)
        yield from (_FailedRow(each, how) for each, how in sorted(case.failed.items()))
        yield from (_LeftOutRow(each, why) for each, why in sorted(case.left_out.items()))
        yield from (_AtSecondRow(each) for each in sorted(case.at_second))


def _take(row: _FailedRow | _LeftOutRow | _AtSecondRow, cases: list[Case]) -> None:
    """Give a parameter to the case that stands above it."""
    match row:
        case _FailedRow():
            cases[-1].failed[row.parameter] = row.how
        case _LeftOutRow():
            cases[-1].left_out[row.parameter] = row.why
        case _AtSecondRow():
            cases[-1].at_second.append(row.parameter)
