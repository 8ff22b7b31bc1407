"""The broker that is asked, and connections to it.

A test with the mark `virtual` asks a broker of its own in its own process, on virtual time; any other one broker
process that all of them share. With `EOSIN_WIRE=process` all tests ask that process, and with
`EOSIN_TEST_BOOTSTRAP=host:port` another broker; the expectations were checked against Apache Kafka.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

import pytest
from asked_broker import ANOTHER, asks_process
from broker_process import BrokerProcess
from virtual_broker import OwnBroker, VirtualBroker, own_broker
from virtual_time import is_virtual
from wire import Connect, Wire, settled, unique
from wire_consumer_group import serve_consumer_groups

from eosin.protocol.names import TopicPartition
from eosin.protocol.schemas.find_coordinator import FindCoordinatorRequest

IS_VIRTUAL: Final = not asks_process()
"""Whether tests that can are virtual."""
SETTINGS: Final = {
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.assignment.interval.ms": "0",
    "eosin.connection.refused.delay.ms": "0",
}
"""Of the broker under test. Many of these tests send what is refused, from one address."""


def pytest_asyncio_loop_factories() -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]] | None:
    """A real loop for each test, where no test is virtual."""
    return None if IS_VIRTUAL else {"real": asyncio.new_event_loop}


@pytest.fixture(scope="session")
def process_address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Address of a broker process, or of the other broker."""
    if given := os.environ.get(ANOTHER):
        yield given
        return
    with BrokerProcess(tmp_path_factory.mktemp("wire"), settings=SETTINGS) as broker:
        broker.stop()
        broker.start()  # once more, so that there is a leader epoch before the present one
        yield broker.address


@pytest.fixture
async def virtual_address() -> str:
    """Address of a broker in the process of the test."""
    broker = VirtualBroker(SETTINGS)
    await broker.start()
    return broker.address


@pytest.fixture
def bootstrap(request: pytest.FixtureRequest) -> str:
    """Address of the broker under test."""
    address: str = request.getfixturevalue(
        "virtual_address" if IS_VIRTUAL and is_virtual(request.node) else "process_address"
    )
    return address


@pytest.fixture(scope="session")
def consumer_groups_process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Address of a broker process for tests of consumer groups alone, whose feature is raised for good; or of the other
    broker."""
    if given := os.environ.get(ANOTHER):
        yield given
        return
    with BrokerProcess(tmp_path_factory.mktemp("wire-groups"), settings=SETTINGS) as broker:
        yield broker.address


@pytest.fixture
def consumer_groups_address(request: pytest.FixtureRequest) -> str:
    """Address of a broker whose features a test may raise."""
    is_own = IS_VIRTUAL and is_virtual(request.node)
    address: str = request.getfixturevalue("virtual_address" if is_own else "consumer_groups_process")
    return address


@pytest.fixture
async def consumer_groups(consumer_groups_address: str) -> str:
    """Address of a broker that serves consumer groups (KIP-848): a module's `bootstrap`, if its tests need one."""
    await serve_consumer_groups(consumer_groups_address)
    return consumer_groups_address


@pytest.fixture
async def restartable(tmp_path: Path) -> AsyncIterator[OwnBroker]:
    """A broker that the test may restart."""
    async with own_broker(tmp_path / "restartable", asked=True) as broker:
        yield broker


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
    """A real process is slow by definition; also where virtual tests ask one (`EOSIN_WIRE=process`)."""
    for item in items:
        if Path(__file__).parent in item.path.parents and not (IS_VIRTUAL and is_virtual(item)):
            item.add_marker(pytest.mark.slow)
            item.add_marker(pytest.mark.process)
