"""One real broker for the session, and connections to it. `EOSIN_TEST_BOOTSTRAP=host:port` is another broker instead;
the expectations were checked against Apache Kafka."""

import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from asked_broker import ANOTHER
from broker_process import BrokerProcess
from wire import Connect, Wire, settled, unique

from eosin.protocol.names import TopicPartition
from eosin.protocol.schemas.find_coordinator import FindCoordinatorRequest


@pytest.fixture(scope="session")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Address of the broker under test."""
    if given := os.environ.get(ANOTHER):
        yield given
        return
    # Many of these tests send what is refused, from one address.
    settings = {"group.initial.rebalance.delay.ms": "0", "eosin.connection.refused.delay.ms": "0"}
    with BrokerProcess(tmp_path_factory.mktemp("wire"), settings=settings) as broker:
        broker.stop()
        broker.start()  # once more, so that there is a leader epoch before the present one
        yield broker.address


@pytest.fixture
async def connect(bootstrap: str) -> AsyncIterator[Connect]:
    """Opens connections, and closes them after the test."""
    opened: list[Wire] = []

    async def open_one(**how: str | None) -> Wire:
        made = await Wire.open(bootstrap, **how)
        opened.append(made)
        return made

    yield open_one
    for each in opened:
        await each.close()


@pytest.fixture
async def wire(connect: Connect) -> Wire:
    """A connection."""
    return await connect()


@pytest.fixture
async def other(connect: Connect) -> Wire:
    """A second connection, for what must not wait behind the first."""
    return await connect()


@pytest.fixture
async def partition(wire: Wire) -> TopicPartition:
    """A partition of a fresh topic."""
    return await wire.partition()


@pytest.fixture
async def group(wire: Wire) -> str:
    """The name of a group that does not exist yet, whose coordinator is ready."""
    name = unique("group")
    await settled(
        lambda: wire.ask(FindCoordinatorRequest(key=name, key_type=0), 2), lambda answer: int(answer.error_code)
    )
    return name


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A real process is slow by definition."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.slow)
