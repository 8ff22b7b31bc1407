"""Row 9 of the crash table: the coordinator goes away in the middle of a batch, and the driver does not.

Here it is the only broker, killed and started again; `test_failover.py` has one of several nodes of Apache Kafka.
"""

from collections.abc import Iterator
from pathlib import Path

import pipeline_driver
import pytest
from outage import BrokerWithOutages, Outage
from pipeline_copier import Copier, Killer
from pipeline_job import Job, rows

from eosin.client.producer import TV1, TV2
from eosin.protocol.keys import ApiKey

pytestmark = pytest.mark.slow

OUTAGES = (
    Outage("after", ApiKey.PRODUCE),  # rows are being written
    Outage("before", ApiKey.END_TXN),  # rows and marker are there
    Outage("after", ApiKey.END_TXN),  # committed, and the driver does not know
)


def assert_they_happened(broker: BrokerWithOutages) -> None:
    assert broker.states[:2] == ["Ongoing", "Ongoing"]
    assert broker.states[2:] in (["CompleteCommit"], ["PrepareCommit"])


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerWithOutages]:
    """A broker whose outages a test plans."""
    with BrokerWithOutages(tmp_path) as running:
        yield running


@pytest.mark.process
@pytest.mark.parametrize("version", [TV1, TV2], ids=["TV1", "TV2"])
async def test_a_driver_goes_on_with_its_batch_when_the_broker_is_killed_and_started_again(
    broker: BrokerWithOutages, version: int
) -> None:
    job = await Job(broker.address, version).create()
    async with job.client(retry_timeout_ms=60_000) as client:
        transactions = job.driver(client)
        await transactions.start("q")
        broker.plan(job.name, OUTAGES)
        for batch in range(len(OUTAGES) + 1):
            assert await job.batch(transactions, batch), "it was not there before"
    assert_they_happened(broker)
    assert job.attempts == len(OUTAGES) + 1, "no batch was computed twice"
    assert await job.visible() == rows(*range(len(OUTAGES) + 1))


@pytest.mark.spark
@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("route", ["driver", "executors", pipeline_driver.FORMAT])
def test_a_query_goes_on_with_its_batches_when_the_broker_is_killed_and_started_again(
    broker: BrokerWithOutages, tmp_path: Path, java: None, route: str
) -> None:
    copier = Copier(tmp_path, Killer(), broker)
    broker.plan(pipeline_driver.PIPELINE, OUTAGES)
    code, batches = copier.run(route)
    assert code == 0, copier.log
    assert_they_happened(broker)
    if route != pipeline_driver.FORMAT:  # which tells of no batch
        assert [each["skipped"] for each in batches] == [False] * len(batches)
        assert len(batches) > 3
    copier.assert_complete()
