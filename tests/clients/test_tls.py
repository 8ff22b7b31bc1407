"""Unmodified clients over TLS: transactions on both event loops and in both versions of TLS (security.md 9.1)."""

import contextlib
import re
import shutil
import socket
import ssl
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest
from aiokafka.helpers import create_ssl_context
from broker_process import BrokerProcess
from certificates import Authority
from secured_clients import (
    CLIENTS,
    PYTHON_CLIENTS,
    Access,
    SecuredClient,
    Trust,
    certified,
    name_of,
    with_aiokafka,
    with_kafka_python,
)
from waiting import HANG_S, wait_until

PAGE = Path(__file__).resolve().parents[2] / "docs" / "security.md"
DISTRUST = "the client does not trust our certificate"
VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
OTHERS = CLIENTS[len(PYTHON_CLIENTS) :]

pytestmark = pytest.mark.slow


class TlsBroker:
    """A broker with a listener for each version of TLS, and what a client needs to trust it."""

    def __init__(self, directory: Path, loop: str) -> None:
        self.authority = Authority.root()
        self.ca = self.authority.write(directory / "ca.pem")
        self.key_store = self.authority.below().issue("broker").write(directory / "broker.pem")
        self.process = BrokerProcess(
            directory / "data",
            settings={
                "ssl.keystore.location": self.key_store,
                "listener.security.protocol.map": "OLD:SSL,NEW:SSL",
                "listener.name.old.ssl.enabled.protocols": "TLSv1.2",
                "listener.name.new.ssl.enabled.protocols": "TLSv1.3",
            },
        )
        self.process.options = ("--listen", "OLD=127.0.0.1:0", "--listen", "NEW=127.0.0.1:0", "--loop", loop)
        self.process.start()
        ports = re.findall(r"127\.0\.0\.1:(\d+)", self.process.ready_line)
        self.addresses = dict(
            zip(("plain", "TLSv1.2", "TLSv1.3"), (f"localhost:{port}" for port in ports), strict=True)
        )

    def port(self, version: str) -> int:
        return int(self.addresses[version].rpartition(":")[2])

    def context(self, version: str) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=self.ca)
        context.minimum_version = context.maximum_version = VERSIONS[version]
        return context


@pytest.fixture(scope="module", params=["uvloop", "asyncio"])
def broker(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TlsBroker]:
    made = TlsBroker(tmp_path_factory.mktemp("tls"), request.param)
    yield made
    assert made.process.stop() == 0
    assert "Traceback" not in made.process.log


@pytest.fixture(scope="module")
def trust(broker: TlsBroker, tmp_path_factory: pytest.TempPathFactory) -> Trust:
    return Trust.made(tmp_path_factory.mktemp("clients") / "files", broker.authority)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("client", PYTHON_CLIENTS, ids=name_of)
def test_a_client_commits_and_aborts_over_tls(broker: TlsBroker, client: SecuredClient, version: str) -> None:
    access = certified(broker.addresses[version], Trust(broker.ca))
    topic = f"{name_of(client)}-{version}"
    assert client(replace(access, python={**access.python, "ssl_context": broker.context(version)}), topic) == [b"kept"]


@pytest.mark.full
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("client", OTHERS, ids=name_of)
def test_so_do_those_of_other_languages(broker: TlsBroker, trust: Trust, client: SecuredClient, version: str) -> None:
    assert client(certified(broker.addresses[version], trust), f"{name_of(client)}-{version}") == [b"kept"]


def documented(name: str, ca: str) -> list[str]:
    """The settings of a client in the table of docs/security.md, with a file that exists."""
    rows: list[str] = re.findall(rf"^\| {name} \| (`.*`) \|$", PAGE.read_text(), re.MULTILINE)
    (row,) = [row for row in rows if "ca.pem" in row]
    return [each.replace("ca.pem", ca) for each in re.findall("`(.*?)`", row)]


@pytest.mark.parametrize("client", CLIENTS[:4], ids=name_of)
def test_the_settings_that_the_page_shows_reach_a_tls_listener(broker: TlsBroker, client: SecuredClient) -> None:
    names = {"confluent": "confluent-kafka", "kafka_python": "kafka-python", "java": "Java"}
    shown = documented(names.get(name_of(client), name_of(client)), broker.ca)
    address, topic = broker.addresses["TLSv1.3"], f"{name_of(client)}-as-shown"
    if client in (with_kafka_python, with_aiokafka):
        python = eval(f"dict({', '.join(shown)})", {"create_ssl_context": create_ssl_context})
        assert client(Access(address, python=python), topic) == [b"kept"]
    else:
        settings = dict(each.split("=", 1) for each in shown)
        assert client(Access(address, settings, java=settings), topic) == [b"kept"]


@pytest.mark.parametrize("version", VERSIONS)
def test_openssls_own_client_verifies_the_chain(broker: TlsBroker, version: str) -> None:
    program = shutil.which("openssl")
    assert program is not None, "openssl is missing: install it"
    command = [program, "s_client", "-connect", broker.addresses[version], "-CAfile", broker.ca]
    command += ["-verify_hostname", "localhost", "-verify_return_error", "-brief"]
    done = subprocess.run(command, input="", capture_output=True, text=True, timeout=HANG_S, check=False)
    assert f"Protocol version: {version}" in done.stderr
    assert "Verification: OK" in done.stderr


def test_a_client_that_trusts_another_authority_is_told_so_in_the_log(broker: TlsBroker, tmp_path: Path) -> None:
    other = Authority.root("another").write(tmp_path / "other.pem")
    errors: list[Any] = []
    producer = confluent_kafka.Producer(
        {
            "bootstrap.servers": broker.addresses["TLSv1.3"],
            "security.protocol": "SSL",
            "ssl.ca.location": other,
            "error_cb": errors.append,
        }
    )
    for _ in range(100):
        producer.poll(0.1)
        if errors:
            break
    assert "certificate" in errors[0].str()  # under _SSL as a rule, now and then under _TRANSPORT
    producer.close()
    # What it says of it may be lost: it closes with bytes of ours unread, and the system drops what is on the way then.
    wait_until(lambda: "does it trust our certificate" in broker.process.log or DISTRUST in broker.process.log)
    with socket.create_connection(("127.0.0.1", broker.port("TLSv1.3"))) as plain:
        context = ssl.create_default_context(cafile=other)
        with context.wrap_socket(plain, server_hostname="localhost", do_handshake_on_connect=False) as client:
            with pytest.raises(ssl.SSLCertVerificationError):
                client.do_handshake()
            wait_until(lambda: DISTRUST in broker.process.log)


def test_a_plain_client_gets_no_byte_from_a_tls_listener(broker: TlsBroker) -> None:
    with socket.create_connection(("127.0.0.1", broker.port("TLSv1.3"))) as client:
        client.sendall(b"\0\0\0\x0f\0\x12\0\0\0\0\0\7\0\5admin")
        client.settimeout(HANG_S)
        with contextlib.suppress(ConnectionResetError):
            assert client.recv(100) == b""
    wait_until(lambda: "a plain client on TLS listener NEW" in broker.process.log)
