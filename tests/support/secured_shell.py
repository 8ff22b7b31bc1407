"""`eosin` as a user runs it who has to log in: a broker of SASL_SSL alone, and who may do what there."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from broker_process import BrokerProcess
from certificates import Authority
from secured_clients import Trust, sasl
from shell import Shell

from eosin.cli import users
from eosin.settings.broker import STANDARD_AUTHORIZER

USER: Final = "clerk"
PASSWORD: Final = "of-the-clerk"
"""Of each user."""


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
    """The file that `--command-config` names."""
    file = folder / f"{user}.properties"
    module = "org.apache.kafka.common.security.scram.ScramLoginModule"
    file.write_text(
        "security.protocol=SASL_SSL\nsasl.mechanism=SCRAM-SHA-512\n"
        f'sasl.jaas.config={module} required username="{user}" password="{PASSWORD}";\n'
        f"ssl.truststore.type=PEM\nssl.truststore.location={ca}\n"
    )
    return str(file)
