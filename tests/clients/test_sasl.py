"""Unmodified clients with users and passwords: transactions on listeners with SASL (security.md 9.1)."""

import itertools
import json
import re
import subprocess
import textwrap
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest
from aiokafka.helpers import create_ssl_context
from broker_process import BrokerProcess
from certificates import Authority
from real_clients import franz_go, kafkajs
from real_clients.tools import KafkaScripts
from secured_clients import (
    CLIENTS,
    PYTHON_CLIENTS,
    Access,
    SecuredClient,
    Trust,
    name_of,
    sasl,
    with_confluent,
    with_java,
)
from toolchains import skipped_without
from waiting import HANG_S, wait_until

from eosin.cli import users

USER, PASSWORD = "alice", 'p=a,s"s wörd'
PAGES = Path(__file__).resolve().parents[2] / "docs" / "clients"
MECHANISMS = ("SCRAM-SHA-256", "SCRAM-SHA-512", "PLAIN")


def added(data_dir: Path, name: str, *options: str) -> None:
    """A user in the directory of a broker that never ran, or does not run."""
    file = data_dir.parent / "password"
    file.write_text(PASSWORD)
    words = ["add", name, "--data-dir", str(data_dir), "--password-file", str(file), "--iterations", "4096"]
    assert users.main([*words, *options]) == 0


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority.root()


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory, authority: Authority) -> Iterator[BrokerProcess]:
    """Its first listener has no TLS, the second one has."""
    data_dir = tmp_path_factory.mktemp("sasl") / "data"
    added(data_dir, USER)
    process = BrokerProcess(
        data_dir,
        settings={
            "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT,SECURE:SASL_SSL",
            "sasl.enabled.mechanisms": ",".join(MECHANISMS),
            "ssl.keystore.location": authority.issue("broker").write(data_dir.parent / "broker.pem"),
        },
    )
    process.options = ("--listen", "SECURE=127.0.0.1:0")
    with process:
        yield process
        assert "Traceback" not in process.log
        assert PASSWORD not in process.log


@pytest.fixture(scope="module")
def trust(authority: Authority, tmp_path_factory: pytest.TempPathFactory) -> Trust:
    return Trust.made(tmp_path_factory.mktemp("clients") / "files", authority)


def every(clients: Sequence[SecuredClient], mechanisms: Sequence[str]) -> list[Any]:
    """Each client with each mechanism."""
    pairs = itertools.product(clients, mechanisms)
    return [pytest.param(client, mechanism, id=f"{name_of(client)}-{mechanism}") for client, mechanism in pairs]


def over_tls(broker: BrokerProcess) -> str:
    """The address of its second listener."""
    return "localhost:" + broker.ready_line.split(", ")[1].split()[0].rpartition(":")[2]


@pytest.mark.parametrize(("client", "mechanism"), every(PYTHON_CLIENTS, MECHANISMS))
def test_a_client_commits_and_aborts_as_a_user(broker: BrokerProcess, client: SecuredClient, mechanism: str) -> None:
    assert client(sasl(broker.address, mechanism, USER, PASSWORD), f"{name_of(client)}-{mechanism}") == [b"kept"]


@pytest.mark.full
@pytest.mark.parametrize(("client", "mechanism"), every(CLIENTS[3:], MECHANISMS))
def test_so_do_clients_of_other_languages(broker: BrokerProcess, client: SecuredClient, mechanism: str) -> None:
    assert client(sasl(broker.address, mechanism, USER, PASSWORD), f"{name_of(client)}-{mechanism}") == [b"kept"]


@pytest.mark.parametrize(("client", "mechanism"), every(CLIENTS, ["SCRAM-SHA-512"]))
def test_every_client_does_over_tls(broker: BrokerProcess, trust: Trust, client: SecuredClient, mechanism: str) -> None:
    access = sasl(over_tls(broker), mechanism, USER, PASSWORD, trust=trust)
    assert client(access, f"{name_of(client)}-{mechanism}-tls") == [b"kept"]


@pytest.mark.full
@pytest.mark.parametrize(("client", "mechanism"), every(CLIENTS, ["SCRAM-SHA-256", "PLAIN"]))
def test_and_with_the_other_mechanisms(
    broker: BrokerProcess, trust: Trust, client: SecuredClient, mechanism: str
) -> None:
    test_every_client_does_over_tls(broker, trust, client, mechanism)


def snippet(name: str) -> str:
    """What a page in docs/clients/ shows of TLS and logins."""
    (found,) = re.findall(r"## TLS and logins\n\n((?:    .*\n)+)", (PAGES / f"{name}.md").read_text())
    return textwrap.dedent(found)


def test_the_settings_of_javas_page_log_in_over_tls(broker: BrokerProcess, trust: Trust) -> None:
    quoted = PASSWORD.replace('"', '\\"')
    shown = snippet("java").replace("/etc/eosin/ca.pem", trust.ca).replace('password="..."', f'password="{quoted}"')
    settings = dict(line.split("=", 1) for line in shown.splitlines())
    assert with_java(Access(over_tls(broker), java=settings), "java-as-shown") == [b"kept"]


def python_columns(row: int) -> tuple[list[str], list[str]]:
    """A row of the table in docs/clients/python.md: what it shows of TLS, and of a login besides."""
    rows = re.findall(r"^\| \S+ \| (`.*?) \| (.*) \|$", (PAGES / "python.md").read_text(), re.MULTILINE)
    assert len(rows) == len(PYTHON_CLIENTS)
    over_tls, login = rows[row]
    if login == "the same names as kafka-python":
        login = rows[1][1]
    return re.findall("`(.*?)`", over_tls), re.findall("`(.*?)`", login)


@pytest.mark.parametrize("row", range(3), ids=["confluent-kafka", "kafka-python", "aiokafka"])
def test_the_columns_of_pythons_page_log_in_over_tls(broker: BrokerProcess, trust: Trust, row: int) -> None:
    over, login = python_columns(row)
    given = {"ca.location": trust.ca, "cafile": trust.ca, "username": USER, "password": PASSWORD}

    def value(name: str) -> str:
        """What a reader puts in for a name that stands without a value."""
        (found,) = [value for ending, value in given.items() if name.endswith(ending)]
        return found

    client, topic = PYTHON_CLIENTS[row], f"{name_of(PYTHON_CLIENTS[row])}-as-shown"
    settings: dict[str, Any] = {}
    for shown in [*over, *login]:
        name, is_set, text = shown.partition("=")
        if not is_set:
            settings[name] = value(name)
        elif client is with_confluent:
            settings[name] = text
        else:
            names = {"create_ssl_context": create_ssl_context}
            settings[name] = eval(text.replace("...", repr(trust.ca)), names)
    how = {"librdkafka": settings} if client is with_confluent else {"python": settings}
    assert client(Access(over_tls(broker), **how), topic) == [b"kept"]


FRANZ_GO = """package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

func main() {
	pem, _ := os.ReadFile(os.Args[2])
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(pem)
	client, err := kgo.NewClient(
		kgo.SeedBrokers(os.Args[1]),
		SHOWN
	)
	if err == nil {
		err = client.Ping(context.Background())
	}
	if err != nil {
		panic(err)
	}
	client.Close()
	fmt.Println("logged in")
}
"""
"""Around the lines of docs/clients/franz-go.md."""


@pytest.mark.slow
def test_the_lines_of_franz_gos_page_log_in_over_tls(broker: BrokerProcess, trust: Trust) -> None:
    shown = snippet("franz-go")
    assert "`scram` is `github.com/twmb/franz-go/pkg/sasl/scram`" in (PAGES / "franz-go.md").read_text()
    program = FRANZ_GO.replace("SHOWN", shown.replace('Pass: "..."', "Pass: os.Args[3]").strip())
    with skipped_without():
        compiled = franz_go.compiled("franz-go-login", [program])

    def run(password: str) -> subprocess.CompletedProcess[str]:
        command = [str(compiled), over_tls(broker), trust.ca, password]
        return subprocess.run(command, capture_output=True, text=True, timeout=HANG_S, check=False)

    done = run(PASSWORD)
    assert (done.returncode, done.stdout) == (0, "logged in\n"), done.stderr
    refused = run("wrong")
    assert refused.returncode != 0
    assert "SASL_AUTHENTICATION_FAILED" in refused.stderr


def test_the_line_of_kafkajs_page_logs_in_over_tls(broker: BrokerProcess, trust: Trust) -> None:
    with skipped_without():
        folder, node = kafkajs.installed(), kafkajs.node()
    program = (
        "const { Kafka } = require('kafkajs')\n"
        f"const brokers = ['{over_tls(broker)}'], pem = require('fs').readFileSync('{trust.ca}', 'utf-8')\n"
        f"const admin = ({snippet('kafkajs').strip().replace(repr('...'), json.dumps(PASSWORD))}).admin()\n"
        "admin.connect().then(() => admin.listTopics()).then(() => admin.disconnect())\n"
        "  .then(() => console.log('logged in'))\n"
    )
    command = [node, "-e", program]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=HANG_S, check=False)
    assert (done.returncode, done.stdout) == (0, "logged in\n"), done.stderr


@pytest.mark.slow
def test_kafkas_own_tools_make_a_user_who_then_uses_them(broker: BrokerProcess, tmp_path: Path) -> None:
    with skipped_without():
        tools = KafkaScripts(broker.address)

    def properties(user: str, password: str) -> str:
        quoted = password.replace("\\", "\\\\").replace('"', '\\"')
        module = "org.apache.kafka.common.security.scram.ScramLoginModule"
        jaas = f'{module} required username="{user}" password="{quoted}";'.replace("\\", "\\\\")
        jaas = "".join(each if each.isascii() else f"\\u{ord(each):04x}" for each in jaas)  # Java reads Latin-1
        file = tmp_path / f"{user}.properties"
        file.write_text(
            f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-512\nsasl.jaas.config={jaas}\n",
            encoding="utf-8",
        )
        return str(file)

    as_admin = ("--command-config", properties(USER, PASSWORD))
    user = ("--entity-type", "users", "--entity-name", "from-kafka")
    made = "SCRAM-SHA-512=[iterations=8192,password=new-secret]"
    tools.run("kafka-configs", *as_admin, "--alter", *user, "--add-config", made)
    told = tools.run("kafka-configs", *as_admin, "--describe", "--entity-type", "users").out
    assert "SCRAM credential configs for user-principal 'from-kafka' are SCRAM-SHA-512=iterations=8192" in told
    as_user = ("--command-config", properties("from-kafka", "new-secret"))
    tools.run("kafka-topics", *as_user, "--create", "--topic", "of-the-user")
    assert "of-the-user" in tools.run("kafka-topics", *as_user, "--list").lines
    wrong = ("--command-config", properties("from-kafka", "wrong"))
    assert (
        "Authentication failed with SASL mechanism SCRAM-SHA-512"
        in tools.run("kafka-topics", *wrong, "--list", code=1).out
    )
    tools.run("kafka-configs", *as_admin, "--alter", *user, "--delete-config", "SCRAM-SHA-512")
    assert "from-kafka" not in tools.run("kafka-configs", *as_admin, "--describe", "--entity-type", "users").out


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_wrong_password_is_told_by_its_name(broker: BrokerProcess, mechanism: str) -> None:
    errors: list[confluent_kafka.KafkaError] = []
    access = sasl(broker.address, mechanism, USER, "wrong")
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": access.address, **access.librdkafka, "error_cb": errors.append}
    )
    for _ in range(100):
        producer.poll(0.1)
        if errors:
            break
    assert errors[0].code() == confluent_kafka.KafkaError._AUTHENTICATION
    assert f"Authentication failed with SASL mechanism {mechanism}" in errors[0].str()
    producer.close()


def test_a_mechanism_that_is_not_enabled_is_told_with_those_that_are(broker: BrokerProcess) -> None:
    errors: list[confluent_kafka.KafkaError] = []
    access = sasl(broker.address, "OAUTHBEARER", USER, PASSWORD)
    settings = {key: value for key, value in access.librdkafka.items() if not key.startswith("sasl.user")}
    settings.pop("sasl.password")
    producer = confluent_kafka.Producer(
        {
            "bootstrap.servers": access.address,
            **settings,
            "oauth_cb": lambda _: ("token", time.time() + 60),
            "error_cb": errors.append,
        }
    )
    for _ in range(100):
        producer.poll(0.1)
        if errors:
            break
    producer.close()
    assert "broker's supported mechanisms: SCRAM-SHA-256,SCRAM-SHA-512,PLAIN" in errors[0].str()


def test_a_client_without_sasl_gets_nothing_and_the_log_says_why(broker: BrokerProcess) -> None:
    producer = confluent_kafka.Producer({"bootstrap.servers": broker.address})
    with pytest.raises(confluent_kafka.KafkaException):
        producer.list_topics(timeout=2)
    producer.close()
    wait_until(lambda: "the client speaks without SASL" in broker.log)
