"""The whole pipeline, source and sink by both routes, from topic to topic of Apache Kafka."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pipeline_driver
import pytest
from apache_kafka import ApacheKafka
from pipeline_copier import Copier, Killer, expected
from toolchains import skipped_without
from waiting import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(1800)]


@pytest.fixture
def kafka(tmp_path: Path) -> Iterator[ApacheKafka]:
    """Apache Kafka in a process of its own."""
    with skipped_without():
        kafka = ApacheKafka(tmp_path / "kafka")
    with kafka:
        yield kafka


@pytest.mark.parametrize("route", ["driver", "executors"])
def test_a_pipeline_that_is_killed_after_a_commit_has_each_row_once(
    kafka: ApacheKafka, tmp_path: Path, route: str
) -> None:
    copier = Copier(tmp_path, Killer(), kafka)
    code, _ = copier.run(route, "--rows", "20", "--die-after-batch")
    assert code == -signal.SIGKILL, copier.log
    code, batches = copier.run(route, "--rows", "20")
    assert code == 0, copier.log
    assert [each["skipped"] for each in batches[:2]] == [True, False]
    wait_until(copier.is_complete)


def test_the_sink_and_the_format_go_on_with_each_others_checkpoint(kafka: ApacheKafka, tmp_path: Path) -> None:
    copier = Copier(tmp_path, Killer(), kafka)
    code, _ = copier.run("driver", "--die-after-batch")
    assert code == -signal.SIGKILL, copier.log
    # Batch 0 is committed, and Spark has not noted it: the format finds the sink's marker.
    code, _ = copier.run(pipeline_driver.FORMAT)
    assert code == 0, copier.log
    wait_until(copier.is_complete)
    copier.load.transaction(pipeline_driver.INPUT, [(0, "more")])
    code, batches = copier.run("driver")
    assert code == 0, copier.log
    assert not any(each["skipped"] for each in batches)
    wait_until(lambda: copier.copied() == [*expected(), b"more"])
