"""Whole applications and operators' tools, as Apache Kafka publishes them, against a real broker.

`EOSIN_TEST_BOOTSTRAP=host:port` runs the same against another broker. The first test waits until its programs are
fetched and compiled.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from asked_broker import asked_broker
from real_clients import confluent
from real_clients.tools import KafkaScripts
from scenario import Scenario
from toolchains import skipped_without

FIRST_BUILD_S: Final = 400


@pytest.fixture(scope="session")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Address of the broker under test."""
    with asked_broker(tmp_path_factory.mktemp("broker")) as address:
        yield address


@pytest.fixture
def scenario(bootstrap: str) -> Iterator[Scenario]:
    """A client that is quick to start, for what surrounds the applications."""
    made = Scenario(confluent.CLIENT, bootstrap)
    yield made
    made.close()


@pytest.fixture(scope="session")
def tools(bootstrap: str) -> KafkaScripts:
    """Apache Kafka's tools; without them there is nothing to ask with, which CI does not let pass."""
    with skipped_without():
        return KafkaScripts(bootstrap)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Client libraries leave sockets and tasks to the garbage collector; that is theirs, and no warning of ours."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.slow)
            item.add_marker(pytest.mark.timeout(FIRST_BUILD_S))
            item.add_marker(pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"))
            item.add_marker(pytest.mark.filterwarnings("ignore::ResourceWarning"))
