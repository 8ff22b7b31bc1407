"""The sink and the audit on Spark's standalone cluster, and executors that are lost there."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pipeline_driver
import pytest
from broker_process import BrokerProcess
from pipeline_copier import ROWS, Copier
from spark_cluster import SparkCluster
from topic_load import TopicLoad

from eosin.protocol.keys import ApiKey

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(900)]

ONE_AT_A_TIME = ("--conf", "spark.cores.max=1")
"""One executor with one core: its tasks run one after the other."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    """A master and a worker."""
    with SparkCluster(tmp_path_factory.mktemp("cluster")) as running:
        yield running


class SecondTask:
    """Whether a second task writes: the first one has ended by then, on the same core."""

    def __init__(self) -> None:
        self.seen: set[int] = set()

    def __call__(self, key: ApiKey, request: Any) -> bool:
        """A task writes to each partition once here."""
        if key is not ApiKey.PRODUCE or request.transactional_id != pipeline_driver.PIPELINE:
            return False
        there = {each.index for topic in request.topic_data for each in topic.partition_data}
        again = bool(there & self.seen)
        self.seen |= there
        return again


def commits(key: ApiKey, request: Any) -> bool:
    return key is ApiKey.END_TXN and request.committed and request.transactional_id == pipeline_driver.PIPELINE


def test_executors_lost_after_their_tasks_cost_at_most_a_batch_and_no_row(
    java: None, copier: Copier, cluster: SparkCluster
) -> None:
    copier.killer.executors = cluster.executors
    copier.killer.executor_only = True
    options = ("--master", cluster.master, "--rows", "200", *ONE_AT_A_TIME)

    copier.killer.after = SecondTask()
    code, said = copier.run("executors", *options)
    assert (code, copier.killer.happened) == (1, 1), copier.log
    assert copier.copied() == [], "of the task that had ended, too"
    # The next attempt of the task is told, whether the Python worker of the lost executor is still there or not.
    why = said[-1]["said"]
    assert (
        "was tried before in this transaction" in why or "its connection to the driver was lost while it wrote" in why
    )

    # When all tasks have ended, nobody misses the executor.
    copier.killer.before = commits
    code, said = copier.run("executors", *options)
    assert (code, copier.killer.happened) == (0, 2), copier.log
    assert [each["skipped"] for each in said] == [False]
    copier.assert_complete()


def test_the_format_writes_each_row_once_though_spark_runs_copies_of_tasks(
    java: None, copier: Copier, tmp_path: Path
) -> None:
    """In each batch a first attempt and its copy write the same rows at the same time, and Spark takes one of them."""
    attempts = tmp_path / "attempts"
    attempts.mkdir()
    with SparkCluster(tmp_path / "cluster", cores=1, hosts=("127.0.0.1", "127.0.0.2")) as two:
        code, _ = copier.run(pipeline_driver.FORMAT, "--master", two.master, "--twice", str(attempts))
    assert code == 0, copier.log
    stages = {each.name.partition(".")[0] for each in attempts.iterdir()}
    assert len(stages) >= ROWS // 8
    assert {each.name for each in attempts.iterdir()} == {f"{each}.{number}" for each in stages for number in (0, 1)}
    copier.assert_complete()


def test_the_driver_route_runs_on_a_cluster(java: None, copier: Copier, cluster: SparkCluster) -> None:
    code, _ = copier.run("driver", "--master", cluster.master)
    assert code == 0, copier.log
    copier.assert_complete()


def test_the_audit_runs_on_a_cluster(java: None, tmp_path: Path, cluster: SparkCluster) -> None:
    with BrokerProcess(tmp_path / "data") as broker:
        load = TopicLoad(broker.address)
        load.create("orders", 2)
        for number in range(4):
            load.transaction("orders", [(0, "a"), (1, "b")], end="abort" if number == 3 else "commit")
    loopback = ("spark.driver.host=127.0.0.1", "spark.driver.bindAddress=127.0.0.1", "spark.sql.shuffle.partitions=2")
    command = [sys.executable, "-m", "eosin.cli", "pipeline", "audit", str(tmp_path / "data"), "--json"]
    command += ["--master", cluster.master, *(part for each in loopback for part in ("--conf", each))]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env={**os.environ})
    assert done.returncode == 0, done.stderr[-3000:]
    summary = json.loads(done.stdout)["summary"]
    assert (summary["committed"], summary["aborted"], summary["open"]) == (3, 1, 0)
