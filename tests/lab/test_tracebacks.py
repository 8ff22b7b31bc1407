"""The traceback of an error of the lab, as a test sees it."""

import traceback

import pytest

from eosin.lab.common.errors import LabError
from eosin.lab.options import options_of
from eosin.lab.tracebacks import for_the_caller


def test_an_error_of_the_lab_ends_at_the_line_of_the_test() -> None:
    with pytest.raises(LabError) as raised:
        options_of(durability="paper")
    assert len(traceback.extract_tb(raised.tb)) > 1
    shown = traceback.extract_tb(for_the_caller(raised.value).__traceback__)
    assert [(each.name, each.line) for each in shown] == [
        ("test_an_error_of_the_lab_ends_at_the_line_of_the_test", 'options_of(durability="paper")')
    ]


def test_an_error_of_the_test_stays_as_it_is() -> None:
    with pytest.raises(ZeroDivisionError) as raised:
        _ = 1 // 0
    before = raised.value.__traceback__
    assert for_the_caller(raised.value).__traceback__ is before
