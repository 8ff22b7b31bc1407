"""Commands run as a user runs them, against a broker of each kind."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from apache_kafka import ApacheKafka
from broker_process import BrokerProcess
from certificates import Authority
from secured_clients import Trust, sasl
from shell import Shell
from three_brokers import ThreeBrokers
from toolchains import skipped_without

from eosin.broker.cli import users
from eosin.broker.config.broker import STANDARD_AUTHORIZER

USER, PASSWORD = "clerk", "of-the-clerk"
LONG = (pytest.mark.slow, pytest.mark.full)


@contextmanager
def eosin_alone(folder: Path) -> Iterator[Shell]:
    with BrokerProcess(folder / "data") as broker, Shell(broker.address) as shell:
        yield shell


@contextmanager
def secured_eosin(folder: Path) -> Iterator[Shell]:
    """SASL_SSL alone, and a user who has rights by entries only."""
    authority = Authority.root()
    password = folder / "password"
    password.write_text(PASSWORD)
    for name in (USER, "root"):
        words = ["add", name, "--data-dir", str(folder / "data"), "--password-file", str(password)]
        assert users.main([*words, "--iterations", "4096"]) == 0
    settings = {
        "listener.security.protocol.map": "SASL_SSL:SASL_SSL",
        "sasl.enabled.mechanisms": "SCRAM-SHA-512",
        "ssl.keystore.location": authority.issue("broker").write(folder / "broker.pem"),
        "authorizer.class.name": STANDARD_AUTHORIZER,
        "super.users": "User:root",
    }
    broker = BrokerProcess(folder / "data", settings=settings)
    broker.listener_name = "SASL_SSL"
    ca = authority.write(folder / "ca.pem")
    with broker:
        with Shell(broker.address, command_config=login_file(folder, "root", ca)) as root:
            resources = ("--topic", "*"), ("--group", "*"), ("--transactional-id", "*"), ("--cluster",)
            for resource in resources:
                added = root.run("acls", "add", "--principal", f"User:{USER}", *resource, "--allow", "ALL")
                assert added.code == 0, added.err  # it has a note for who may read all topics
        access = sasl(broker.address, "SCRAM-SHA-512", USER, PASSWORD, trust=Trust(ca))
        config = login_file(folder, USER, ca)
        with Shell(broker.address, command_config=config, librdkafka=access.librdkafka) as shell:
            yield shell


def login_file(folder: Path, user: str, ca: str) -> str:
    """What `--command-config` names."""
    file = folder / f"{user}.properties"
    module = "org.apache.kafka.common.security.scram.ScramLoginModule"
    file.write_text(
        "security.protocol=SASL_SSL\nsasl.mechanism=SCRAM-SHA-512\n"
        f'sasl.jaas.config={module} required username="{user}" password="{PASSWORD}";\n'
        f"ssl.truststore.type=PEM\nssl.truststore.location={ca}\n"
    )
    return str(file)


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
