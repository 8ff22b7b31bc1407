"""Commands run as a user runs them, against a broker of each kind."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from apache_kafka import ApacheKafka
from broker_process import BrokerProcess
from secured_shell import secured_eosin
from shell import Shell
from three_brokers import ThreeBrokers
from toolchains import skipped_without

LONG = (pytest.mark.slow, pytest.mark.long)


@contextmanager
def eosin_alone(folder: Path) -> Iterator[Shell]:
    with BrokerProcess(folder / "data") as broker, Shell(broker.address) as shell:
        yield shell


@contextmanager
def joined_eosin(folder: Path) -> Iterator[Shell]:
    """Three brokers and a controller. The first is asked: it leads a third of the partitions, and knows the others."""
    with skipped_without():
        cluster = ThreeBrokers(folder)
    with cluster, Shell(cluster.nodes[1].address) as shell:
        yield shell


@contextmanager
def apache_kafka(folder: Path) -> Iterator[Shell]:
    with skipped_without():
        kafka = ApacheKafka(folder)
    with kafka, Shell(kafka.address) as shell:
        yield shell


KINDS = {
    "Eosin": eosin_alone,
    "Eosin with TLS, logins and rights": secured_eosin,
    "three joined Eosin": joined_eosin,
    "Apache Kafka": apache_kafka,
}


@pytest.fixture(scope="session", params=[pytest.param(name, marks=LONG) if name != "Eosin" else name for name in KINDS])
def shell(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    """A shell beside brokers of each kind."""
    with KINDS[request.param](tmp_path_factory.mktemp("commands")) as shell:
        yield shell


@pytest.fixture(scope="module", params=["three joined Eosin", "Apache Kafka"])
def other_kind(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    """A shell beside another kind of broker than one Eosin alone."""
    with KINDS[request.param](tmp_path_factory.mktemp("commands")) as shell:
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
