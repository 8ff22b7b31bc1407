"""A broker that behaves like Apache Kafka is still as strict as it was when docs/lab/differences.md was written."""

import pytest
from lab_differences import STRICT, asked, stored

pytestmark = [pytest.mark.process, pytest.mark.full]


def test_what_a_lab_does_as_apache_kafka_it_still_does() -> None:
    strict = {case: outcome for case, outcome in stored().items() if outcome == STRICT}
    assert strict
    assert asked(strict) == strict
