"""One controller of Apache Kafka for each module. Topics have unique names; brokers are a module's or a test's, and the
internal topics are lost with the brokers that they are on."""

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest
from kraft_node import QuorumController
from toolchains import skipped_without


@pytest.fixture(scope="module")
def controller(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[QuorumController]:
    """The controller that brokers of this module join, with the settings in its `CONTROLLER`. Another module's would
    still list the log of transactions on brokers that are gone, and no client could begin a transaction. With
    `FORMATTED_BY_TOOL` its directory is no copy."""
    settings, by_tool = getattr(request.module, "CONTROLLER", None), hasattr(request.module, "FORMATTED_BY_TOOL")
    with skipped_without():
        folder = tmp_path_factory.mktemp("controller") / "controller"
        made = QuorumController(folder, settings=settings, by_tool=by_tool)
    with made:
        yield made


@pytest.fixture(scope="session")
def node_ids() -> Iterator[int]:
    """Ids of brokers, each given out once: what a broker left behind in the cluster is no other broker's."""
    return itertools.count(1)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A JVM and real processes are slow by definition, and slower on a machine that is busy with something else: there
    a test has taken 180 s. What must not hang has a limit of its own in the tests."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.slow)
            if item.get_closest_marker("timeout") is None:
                item.add_marker(pytest.mark.timeout(600))
