"""A fault that a client can cause does not fill the log with tracebacks."""

import logging
import sys

import pytest

from eosin.runtime.logging_format import TextFormatter, fields
from eosin.runtime.repeated_faults import MAX_KINDS, SAME_FAULT_S, RepeatedFaults


def fault(at_s: float, *, api: str = "FETCH", error: type[Exception] = ValueError) -> logging.LogRecord:
    try:
        raise error("odd")
    except error:
        info = sys.exc_info()
    record = logging.getLogger("eosin.network.exchange").makeRecord(
        "eosin.network.exchange", logging.ERROR, "file", 1, "a request failed", (), info, extra=dict(fields(api=api))
    )
    record.created = at_s
    return record


@pytest.fixture
def faults() -> RepeatedFaults:
    return RepeatedFaults()


def test_a_thousand_equal_faults_have_one_traceback_and_then_their_count(faults: RepeatedFaults) -> None:
    assert sum(faults.filter(fault(1000 + each / 1000)) for each in range(1200)) == 1
    later = fault(1000 + SAME_FAULT_S)
    assert faults.filter(later)
    assert "left_out=1199" in TextFormatter().format(later)


def test_faults_of_other_apis_and_types_are_told_beside_them(faults: RepeatedFaults) -> None:
    others = fault(1000), fault(1000, api="PRODUCE"), fault(1000, error=KeyError)
    assert [faults.filter(each) for each in (*others, *others)] == [True] * 3 + [False] * 3


def test_lines_without_a_traceback_pass(faults: RepeatedFaults) -> None:
    record = logging.getLogger("x").makeRecord("x", logging.INFO, "file", 1, "stopping", (), None)
    assert all(faults.filter(record) for _ in range(3))


def test_the_kinds_that_are_remembered_are_bounded(faults: RepeatedFaults) -> None:
    for each in range(2 * MAX_KINDS):
        assert faults.filter(fault(1000, api=f"API_{each}"))
    assert faults.kinds <= MAX_KINDS
