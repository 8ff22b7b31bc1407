"""Commands run as a user runs them, against a broker of each kind."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from apache_kafka import ApacheKafka
from broker_process import BrokerProcess
from shell import Shell
from toolchains import skipped_without


@pytest.fixture(
    scope="session", params=["Eosin", pytest.param("Apache Kafka", marks=(pytest.mark.slow, pytest.mark.full))]
)
def shell(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    """A shell beside a broker of each kind."""
    folder = tmp_path_factory.mktemp("commands")
    if request.param == "Eosin":
        with BrokerProcess(folder / "data") as broker, Shell(broker.address) as shell:
            yield shell
        return
    with skipped_without():
        kafka = ApacheKafka(folder)
    with kafka, Shell(kafka.address) as shell:
        yield shell


@pytest.fixture
def eosin(tmp_path: Path) -> Iterator[BrokerProcess]:
    """A broker that the test may stop."""
    with BrokerProcess(tmp_path / "data") as broker:
        yield broker


@pytest.fixture
def own(eosin: BrokerProcess) -> Iterator[Shell]:
    """A shell beside that broker."""
    with Shell(eosin.address) as shell:
        yield shell


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A real process is slow by definition."""
    for item in items:
        if Path(__file__).parent in item.path.parents and {"shell", "eosin"} & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.slow)
