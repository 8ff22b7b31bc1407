"""A real broker process for the session, and every client library as a parameter.

`EOSIN_TEST_BOOTSTRAP=host:port` runs the same scenarios against another broker, which is how they were checked: a
scenario that Apache Kafka fails is either one of its known defects or wrong.
"""

from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Final

import pytest
from asked_broker import asked_broker
from real_clients.base import Client
from real_clients.everyone import CLIENTS
from real_clients.remote import remote
from scenario import Scenario
from toolchains import skipped_without

FIRST_BUILD_S: Final = 400


@pytest.fixture(scope="session")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Address of the broker under test."""
    with asked_broker(tmp_path_factory.mktemp("broker")) as address:
        yield address


@pytest.fixture(params=CLIENTS, ids=lambda client: client.name)
def client(request: pytest.FixtureRequest) -> Client:
    """Each client library in turn."""
    return usable(request.param)


def usable(client: Client) -> Client:
    """The client, started if it has a process of its own; skips where its toolchain is missing, which CI forbids."""
    if process := remote(client):
        with skipped_without():
            process.start()
    return client


@pytest.fixture
def scenario(client: Client, bootstrap: str) -> Iterator[Scenario]:
    """One client library against the broker."""
    made = Scenario(client, bootstrap)
    yield made
    made.close()


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    """A data directory for a test that starts its own broker."""
    return tmp_path / "data"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Generator[None]:
    """What a client library has no call for is skipped, under the name of that: nothing is missing on the machine."""
    try:
        yield
    except NotImplementedError as missing:
        pytest.skip(str(missing))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Client libraries leave sockets and tasks to the garbage collector; that is theirs, and no warning of ours. The
    first test of a language waits for its programs to be fetched and compiled."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            if item.get_closest_marker("timeout") is None:
                item.add_marker(pytest.mark.timeout(FIRST_BUILD_S))
            item.add_marker(pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"))
            item.add_marker(pytest.mark.filterwarnings("ignore::ResourceWarning"))
