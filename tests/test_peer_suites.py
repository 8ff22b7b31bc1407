"""What other projects' test programs say is read right, and nothing of them is left running."""

import os
from pathlib import Path

import pytest
from kafka_client_tests import ended
from peer_suite import output
from peer_suites_page import FAILED, PASSED, SKIPPED, Ran
from waiting import wait_until

pytestmark = pytest.mark.process

SAID = """\
## PASS\t1.250\tTransactionsTest testFencing 1\t
some words of the test's own, ## PASS among them
## FAIL\t0.500\tTransactionsTest testTimeout 2\torg.opentest4j.AssertionFailedError: expected: <1> but was: <2>
## SKIP\t0.000\tTransactionsTest testFencing 2\tas with controllers of their own
## SKIP\t0.001\tClientTelemetryTest testPush 1\tit asks for Apache Kafka's own objects: KafkaBroker.metrics
"""


def test_of_each_test_of_apache_kafka_one_line_is_read_but_of_those_that_are_others_again() -> None:
    assert ended(SAID) == [
        Ran("TransactionsTest testFencing 1", PASSED, 1.25),
        Ran(
            "TransactionsTest testTimeout 2",
            FAILED,
            0.5,
            "org.opentest4j.AssertionFailedError: expected: <1> but was: <2>",
        ),
        Ran(
            "ClientTelemetryTest testPush 1",
            SKIPPED,
            0.001,
            "it asks for Apache Kafka's own objects: KafkaBroker.metrics",
        ),
    ]


def test_a_test_program_that_hangs_is_killed_with_what_it_has_started(tmp_path: Path) -> None:
    said = output(("sh", "-c", "sleep 1000 & echo $!; wait"), tmp_path, {}, tmp_path / "log", killed_after_s=0.2)

    def ended_too() -> bool:
        try:
            os.kill(int(said), 0)
        except ProcessLookupError:
            return True
        return False

    wait_until(ended_too, lambda: said)
    assert said in (tmp_path / "log").read_text()
