"""Row 9 of the crash table: the coordinator, or a leader of the output, is lost in the middle of a batch and another
broker takes over, with three nodes of Apache Kafka and with three Eosin brokers.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pipeline_driver
import pytest
from apache_kafka_cluster import ApacheKafkaCluster
from pipeline_copier import Copier, Killer, stop
from pipeline_job import Job, rows
from three_brokers import ThreeBrokers
from toolchains import skipped_without
from waiting import wait_until

from eosin.client.client import Client, CoordinatorType
from eosin.client.errors import ConnectionFailed
from eosin.client.producer import TV1, TV2
from eosin.client.transactions import TransactionAdmin
from eosin.pipeline.common.progress_marker import progress_topic
from eosin.protocol.keys import ApiKey

# Half of it needs no Spark; three JVMs for more than a minute are too much for every run all the same.
pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(600)]


Cluster = ApacheKafkaCluster | ThreeBrokers


@pytest.fixture(scope="module", params=[ApacheKafkaCluster, ThreeBrokers], ids=["Apache Kafka", "Eosin"])
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Three nodes, each with a replica of everything."""
    with skipped_without():
        nodes: Cluster = request.param(tmp_path_factory.mktemp("nodes"))
    with nodes:
        yield nodes


@pytest.fixture
def three_brokers(tmp_path: Path) -> Iterator[ThreeBrokers]:
    """Eosin's, for one test."""
    with skipped_without():
        made = ThreeBrokers(tmp_path / "nodes")
    with made:
        yield made


class Failover:
    """Kills the node that coordinates a pipeline when its driver asks something for the n-th time in a batch."""

    def __init__(self, cluster: Cluster, job: Job) -> None:
        self.killed: list[int] = []
        self.refusals: list[str] = []
        """What the driver was told meanwhile, by name."""
        self.said: list[str] = []
        """What the driver asked and what it was answered, with the times of both."""
        self._cluster = cluster
        self._job = job
        self._when: tuple[ApiKey, int, bool] | None = None

    def at(self, key: ApiKey, number: int, *, answered: bool) -> None:
        """Kill before the request with that number is sent; or once it was answered, which nobody hears."""
        self._when = key, number, answered

    async def coordinator(self) -> int:
        async with Client(self._job.address) as other:
            return await other.retry(lambda: other.coordinator(CoordinatorType.TRANSACTION, self._job.name))

    def evidence(self) -> str:
        """All that is known, for when rows are missing: whether they were aborted, cut off or never acknowledged."""
        topics = self._job.name, progress_topic(self._job.name)
        logs = "\n".join(f"node {node_id} says:\n{node.log}" for node_id, node in self._cluster.nodes.items())
        return "\n".join(("what the driver said:", *self.said, self._cluster.dump(*topics), logs))

    def attach(self, client: Client) -> None:
        send, retry = client.request, client.retry

        async def ask(key: ApiKey, message: Any, **how: Any) -> Any:
            asked = datetime.now(UTC)
            answer: Any = None
            try:
                answer = await send(key, message, **how)
            except Exception as error:
                answer = repr(error)
                raise
            finally:
                if key is not ApiKey.METADATA:
                    times = f"{asked:%H:%M:%S.%f} to {datetime.now(UTC):%H:%M:%S.%f}"
                    self.said.append(f"{times} node {how.get('node')}: {message} -> {answer}")
            return answer

        async def request(key: ApiKey, *arguments: Any, **how: Any) -> Any:
            if self._when is None or key != self._when[0]:
                return await ask(key, *arguments, **how)
            _, number, answered = self._when
            self._when = None if number == 1 else (key, number - 1, answered)
            if self._when is not None:
                return await ask(key, *arguments, **how)
            if answered:
                await ask(key, *arguments, **how)
            self.killed.append(await self.coordinator())
            self._cluster.nodes[self.killed[-1]].kill()
            if answered:
                raise ConnectionFailed("lost with the node")
            return await ask(key, *arguments, **how)

        async def noticed(attempt: Callable[[], Awaitable[Any]], **how: Any) -> Any:
            async def noting() -> Any:
                try:
                    return await attempt()
                except Exception as error:
                    self.refusals.append(str(error))
                    raise

            return await retry(noting, **how)

        client.request, client.retry = request, noticed  # type: ignore[method-assign]


MOMENTS = {
    "while rows are written": (ApiKey.PRODUCE, 2, False),
    "rows and marker written": (ApiKey.END_TXN, 1, False),
    "committed, the answer lost": (ApiKey.END_TXN, 1, True),
}


@pytest.mark.parametrize("version", [TV1, TV2], ids=["TV1", "TV2"])
async def test_a_driver_goes_on_with_its_batch_when_the_node_of_its_coordinator_is_lost(
    cluster: Cluster, version: int
) -> None:
    job = await Job(cluster.address, version).create()
    failover = Failover(cluster, job)
    async with job.client(retry_timeout_ms=60_000) as client:
        failover.attach(client)
        transactions = job.driver(client)
        await transactions.start("q")
        for batch, (key, number, answered) in enumerate(MOMENTS.values()):
            epoch = transactions.producer.identity
            failover.at(key, number, answered=answered)
            assert await job.batch(transactions, batch), "it was not there before"
            assert len(failover.killed) == batch + 1
            assert transactions.producer.identity.producer_id == epoch.producer_id
            await asyncio.to_thread(cluster.restart, failover.killed[-1])
        assert not await job.batch(transactions, len(MOMENTS) - 1), "it is there"
    assert job.attempts == len(MOMENTS), "no batch was computed twice"
    seen = await job.settled()
    assert not any(starts := await job.starts()), f"a node deleted rows before {starts}\n{failover.evidence()}"
    assert seen == rows(*range(len(MOMENTS))), f"{seen}\n{failover.evidence()}"
    async with Client(job.address) as client:
        assert not (await TransactionAdmin(client).describe(job.name)).is_open
    assert failover.refusals, "nobody was asked again"


def test_a_query_goes_on_with_its_batch_when_the_node_of_its_coordinator_is_lost(
    cluster: Cluster, tmp_path: Path, java: None
) -> None:
    _goes_on(cluster, tmp_path, "executors", lambda: cluster.coordinator(pipeline_driver.PIPELINE))


@pytest.mark.parametrize("route", ["driver", "executors"])
def test_a_query_goes_on_with_its_batch_when_a_leader_of_its_output_is_lost(
    three_brokers: ThreeBrokers, tmp_path: Path, route: str, java: None
) -> None:
    _goes_on(three_brokers, tmp_path, route, lambda: three_brokers.leader(pipeline_driver.OUTPUT, 0))


def _goes_on(cluster: Cluster, folder: Path, route: str, victim: Callable[[], int]) -> None:
    """Copy by Spark; when the first batch has written rows and marker and not committed, the victim is killed."""
    copier = Copier(folder, Killer(), cluster)
    held = folder / "held"
    driver = copier.launch(route, "--rows", "200", "--hold", str(held))
    try:
        wait_until(lambda: held.exists() or driver.poll() is not None)
        assert driver.poll() is None, copier.log
        lost = victim()
        cluster.nodes[lost].kill()
        held.unlink()
        said, _ = driver.communicate(timeout=120)
        assert driver.returncode == 0, said + copier.log
        batches = [json.loads(line) for line in said.splitlines() if line.startswith("{")]
        assert not any(each["skipped"] for each in batches)
        wait_until(copier.is_complete)
    finally:
        stop(driver)
    cluster.restart(lost)
