"""The commands and settings of docs/security.md, run as they stand but for ports, names of hosts and directories.

What it shows of clients is run beside them (test_tls.py, test_sasl.py), its tutorial by
cli/test_security_tutorial.py.
"""

import http.server
import os
import re
import shlex
import ssl
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from bearer_tokens import Issuer
from free_ports import free_port
from kraft_node import QuorumController
from real_clients import tools
from toolchains import skipped_without
from waiting import HANG_S, wait_until

PAGE = Path(__file__).resolve().parents[2] / "docs" / "security.md"
LIMITS = PAGE.with_suffix("") / "limits.md"
ELSEWHERE = ("certs", "serve")
"""Commands of the first section and of the secured cluster; every other command of ours is run in one test."""

pytestmark = pytest.mark.slow


def blocks(heading: str, page: Path = PAGE) -> list[list[str]]:
    """The indented blocks of a section, each as lines; a line that ends with a backslash goes on in the next."""
    section = page.read_text().partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    found = re.findall(r"^((?:    .*\n)+)", section, re.MULTILINE)
    return [textwrap.dedent(each).replace("\\\n", "").splitlines() for each in found]


def lines_with(pattern: str) -> list[str]:
    """What stands between backquotes on the page and matches, each in one line."""
    found = [" ".join(each.split()) for each in re.findall(r"`([^`]+)`", PAGE.read_text())]
    return [each for each in found if re.match(pattern, each)]


def kafkas_own(folder: Path, *names: str) -> None:
    """Put scripts of Apache Kafka where `run` finds them, by both of their names."""
    with skipped_without():
        java = shlex.join(tools.command())
    (folder / "bin").mkdir(exist_ok=True)
    for name in names:
        for script in (folder / "bin" / name, folder / "bin" / f"{name}.sh"):
            script.write_text(f'#!/bin/sh\nexec {java} {tools.SCRIPTS[name]} "$@"\n')
            script.chmod(0o755)


def run(folder: Path, command: str, code: int = 0) -> str:
    """What a command prints, on both of its outputs. It succeeds, or ends with another code."""
    path = os.pathsep.join((str(folder / "bin"), str(Path(sys.executable).parent), os.environ["PATH"]))
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=folder,
        env={**os.environ, "PATH": path},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=HANG_S,
        check=False,
    )
    assert done.returncode == code, f"{command}: {done.stdout}"
    return done.stdout


@contextmanager
def serving(folder: Path, command: str) -> Iterator[None]:
    """A broker, from when it is ready until it is stopped."""
    words = [sys.executable, "-m", "eosin.cli", *shlex.split(command)[1:]]
    with subprocess.Popen(words, cwd=folder, stdout=subprocess.PIPE, text=True) as broker:
        try:
            assert broker.stdout is not None
            assert " ready on " in broker.stdout.readline()
            yield
        finally:
            broker.terminate()
    assert broker.returncode == 0


def test_a_client_with_a_certificate_gets_in_as_the_first_section_says(tmp_path: Path) -> None:
    port = str(free_port())
    (certs, serve), (client,) = ([line.replace("9093", port) for line in block] for block in blocks("Try it"))
    run(tmp_path, certs)
    with serving(tmp_path, f"{serve} --data-dir data"):
        said = run(tmp_path, client)
        assert "Verification: OK" in said
        (tmp_path / "client.properties").write_text(
            "security.protocol=SSL\nssl.truststore.location=certs/ca.pem\nssl.keystore.location=certs/client.pem\n"
        )
        run(tmp_path, f"eosin topics list --bootstrap-server localhost:{port} --command-config client.properties")


class Secured:
    """A folder with the settings of `Users and passwords` and `Rights`, certificates, the first user, and the file by
    which it logs in."""

    def __init__(self, folder: Path, *more: str) -> None:
        """`more`: settings that go over those."""
        self.folder, self.port = folder, free_port()
        self.address = f"localhost:{self.port}"
        users, of_tls = blocks("Users and passwords"), blocks("Certificates and TLS")[0]
        of_sasl = next(block for block in users if block[0].startswith("listeners=SASL_SSL"))
        (key_store,) = [line for line in of_tls if line.startswith("ssl.keystore")]
        self.settings = [*of_sasl, key_store, *blocks("Rights")[0], f"log.dirs={folder}/data", *more]
        self.write("server.properties", *self.settings)
        run(folder, f"eosin certs dev {folder}/certs")
        first = run(folder, self.here(users[0][0]))
        (self.password,) = set(re.findall(r"^admin +\S+ +\d+ +(\S+)$", first, re.MULTILINE))
        (login,) = blocks("Clients of Eosin itself")
        filled = (line.replace("alice", "admin").replace('"..."', f'"{self.password}"') for line in login)
        self.write("admin.properties", *filled)

    def here(self, line: str) -> str:
        """A line of the page, with the names of this machine."""
        for shown, real in (
            ("/var/lib/eosin", f"{self.folder}/data"),
            ("/etc/eosin", f"{self.folder}/certs"),
            ("broker.example.org", "localhost"),
            ("0.0.0.0", "127.0.0.1"),
            ("9093", str(self.port)),
        ):
            line = line.replace(shown, real)
        return line

    def write(self, name: str, *lines: str) -> None:
        """A properties file of lines of the page."""
        (self.folder / name).write_text("\n".join(map(self.here, lines)) + "\n")


def test_the_settings_and_commands_of_users_rights_and_quotas_work_in_their_order(tmp_path: Path) -> None:
    secured = Secured(tmp_path)
    sections = [*blocks("Users and passwords"), *blocks("Rights")[1:], *blocks("Quotas", LIMITS)]
    commands = [line for block in sections for line in block if line[:6] == "eosin "]
    every = re.findall(r"^    (eosin (\w+) .*)$", PAGE.read_text() + LIMITS.read_text(), re.MULTILINE)
    assert commands == [command for command, name in every if name not in ELSEWHERE]
    with serving(tmp_path, "eosin serve --config server.properties"):
        to = f"export EOSIN_BOOTSTRAP_SERVER={secured.address} EOSIN_COMMAND_CONFIG=admin.properties;"
        said = {command: run(tmp_path, f"{to} {secured.here(command)}") for command in commands[1:]}
    assert re.search(r"^app +SCRAM-SHA-512", said["eosin users list"], re.MULTILINE)
    assert "producer_byte_rate" in said["eosin quotas list"]
    assert "TOPIC     LITERAL  orders  ALLOW       WRITE" in said["eosin acls list --topic orders"]
    (explained,) = [said[command] for command in commands if "explain" in command]
    assert "allowed" in explained


def test_names_are_made_of_certificates_as_the_rules_of_the_page_say(tmp_path: Path) -> None:
    (block,) = blocks("Users by certificate")
    of_tls = blocks("Certificates and TLS")[0]
    ports = free_port(), free_port()
    run(tmp_path, "eosin certs dev --client admin certs")
    settings = "\n".join([*of_tls, *block, *blocks("Rights")[0], "log.dirs=data", "eosin.durability=os"])
    for shown, real in (
        ("/etc/eosin/broker.pem", "certs/broker.pem"),
        ("/etc/eosin/clients-ca.pem", "certs/ca.pem"),
        ("broker.example.org", "localhost"),
        ("0.0.0.0", "127.0.0.1"),
        ("9093", str(ports[0])),
        ("9092", str(ports[1])),
    ):
        settings = settings.replace(shown, real)
    (tmp_path / "server.properties").write_text(settings + "\n")
    (tmp_path / "admin.properties").write_text(
        "security.protocol=SSL\nssl.truststore.location=certs/ca.pem\nssl.keystore.location=certs/client.pem\n"
    )
    with serving(tmp_path, "eosin serve --config server.properties"):
        # `CN=admin,O=Eosin DEV` is the super user `User:admin`: the rule has made a short name of it.
        secured = f"--bootstrap-server localhost:{ports[0]} --command-config admin.properties"
        run(tmp_path, f"eosin topics create of-the-admin {secured}")
        assert "of-the-admin" not in run(tmp_path, f"eosin topics list --bootstrap-server localhost:{ports[1]}")


@contextmanager
def issuing(folder: Path, issuer: Issuer) -> Iterator[int]:
    """The port of a server that has the issuer's keys, with the broker's own certificate."""

    class Keys(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(issuer.keys())

        def log_message(self, format: str, *args: Any) -> None:
            pass

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "certs" / "broker.pem")
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Keys) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()


def test_a_token_lets_in_whom_the_page_says(tmp_path: Path) -> None:
    issuer, secured = Issuer(), Secured(tmp_path)
    (of_tokens,) = (each for each in blocks("Users and passwords") if "sasl.enabled.mechanisms=OAUTHBEARER" in each)
    (trust,) = lines_with(r"listener\.name\.NAME\.oauthbearer\.ssl\.truststore\.location")
    (own_issuer,) = lines_with(r"listener\.name\.NAME\.oauthbearer\.sasl\.oauthbearer\.expected\.issuer")
    with issuing(tmp_path, issuer) as port:
        lines = [line.replace("issuer.example.org/keys", f"localhost:{port}/keys") for line in of_tokens]
        trusted = f"{trust.replace('NAME', 'sasl_ssl')}={tmp_path}/certs/ca.pem"
        names = {line.partition("=")[0] for line in lines}
        kept = [line for line in secured.settings if line.partition("=")[0] not in names]
        secured.write("server.properties", *kept, *lines, trusted)
        secured.write(
            "token.properties",
            "security.protocol=SASL_SSL",
            "ssl.truststore.location=/etc/eosin/ca.pem",
            "sasl.mechanism=OAUTHBEARER",
            f"sasl.oauthbearer.token.endpoint.url={(tmp_path / 'token.jwt').as_uri()}",
        )
        with serving(tmp_path, "eosin serve --config server.properties"):
            topics = (
                f"eosin topics create orders --bootstrap-server {secured.address} --command-config token.properties"
            )
            claims: dict[str, Any] = {"iss": "https://issuer.example.org", "aud": "kafka"}
            (tmp_path / "token.jwt").write_text(issuer.token(sub="app", **claims))
            assert "AUTHORIZATION_FAILED" in run(tmp_path, topics, code=1)
            (tmp_path / "token.jwt").write_text(issuer.token(sub="admin", **claims))
            run(tmp_path, topics)
            (tmp_path / "token.jwt").write_text(issuer.token(sub="admin", iss="https://a.example.org", aud="kafka"))
            run(tmp_path, topics, code=2)
        secured.write(
            "server.properties",
            *kept,
            *lines,
            trusted,
            own_issuer.replace("NAME", "sasl_ssl") + "=https://a.example.org",
        )
        with serving(tmp_path, "eosin serve --config server.properties"):
            run(tmp_path, topics.replace("orders", "more"))


@pytest.mark.full
def test_apache_kafkas_own_tool_changes_users_and_quotas_as_the_page_says(tmp_path: Path) -> None:
    secured = Secured(tmp_path)
    kafkas_own(tmp_path, "kafka-configs")
    to = f"--bootstrap-server {secured.address} --command-config admin.properties"
    (user,) = lines_with(r"kafka-configs.* users")
    of_quotas = blocks("Quotas", LIMITS)[0]
    assert all(line.startswith("kafka-configs --bootstrap-server ... ") for line in of_quotas)
    with serving(tmp_path, "eosin serve --config server.properties"):
        run(tmp_path, f"{user.replace('...', 'of-the-app')} {to}")
        for line in of_quotas:
            run(tmp_path, line.replace("--bootstrap-server ...", to))
        assert re.search("^app +SCRAM-SHA-512", run(tmp_path, f"eosin users list {to}"), re.MULTILINE)
        assert run(tmp_path, f"eosin quotas list {to}").count("1048576") == 2
        login = (tmp_path / "admin.properties").read_text().replace('"admin"', '"app"')
        (tmp_path / "app.properties").write_text(login.replace(secured.password, "of-the-app"))
        run(tmp_path, f"eosin topics list {to.replace('admin', 'app')}")


@pytest.mark.full
def test_apache_kafkas_own_tool_loads_a_changed_key_store_and_tells_what_is_wrong_with_it(tmp_path: Path) -> None:
    kafkas_own(tmp_path, "kafka-configs")
    port = str(free_port())
    certs, serve = (line.replace("9093", port) for line in blocks("Try it")[0])
    (load,) = lines_with(r"kafka-configs.* brokers")
    run(tmp_path, certs)
    (tmp_path / "client.properties").write_text(
        "security.protocol=SSL\nssl.truststore.type=PEM\nssl.truststore.location=certs/ca.pem\n"
        "ssl.keystore.type=PEM\nssl.keystore.location=certs/client.pem\n"
    )
    command = f"{load.replace('PATH', 'certs/broker.pem')} --bootstrap-server localhost:{port}"
    command += " --command-config client.properties"
    with serving(tmp_path, f"{serve} --data-dir data --set eosin.ssl.reload.interval.ms=0"):
        run(tmp_path, command)
        store = tmp_path / "certs" / "broker.pem"
        sound = store.read_text()
        store.write_text("no key")
        assert "ssl.keystore.location" in run(tmp_path, command, code=1)
        store.write_text(sound)
        run(tmp_path, command)


class ControllerOfThePage(QuorumController):
    """Formatted with what the page says that the line ends with."""

    def _with_features(self, command: list[str]) -> list[str]:
        (ends,) = (block[0] for block in blocks("A secured cluster") if block[0].startswith("--add-scram"))
        return [*super()._with_features(command), *shlex.split(ends)]


@pytest.mark.full
def test_a_secured_cluster_is_what_the_page_says(tmp_path: Path) -> None:
    kafkas_own(tmp_path, "kafka-configs", "kafka-acls")
    certs, of_controller, _, of_broker, serve = blocks("A secured cluster")
    run(tmp_path, certs[0])
    port = free_port()

    def here(line: str) -> str:
        for shown, real in (
            ("/path/to", str(tmp_path)),
            ("/tmp/eosin-cluster", str(tmp_path)),
            ("127.0.0.1:9093", controller.address),
            ("9092", str(port)),
            ("$ID", controller.cluster_id),
        ):
            line = line.replace(shown, real)
        return line

    settings = dict(line.replace("/path/to", str(tmp_path)).split("=", 1) for line in of_controller)
    with skipped_without():
        controller = ControllerOfThePage(tmp_path / "controller", settings=settings)
    with controller:
        (tmp_path / "broker.properties").touch(mode=0o600)
        (tmp_path / "broker.properties").write_text("\n".join(map(here, of_broker)) + "\n")
        (login,) = blocks("Clients of Eosin itself")
        for user in ("admin", "app"):
            filled = (line.replace("alice", user).replace('"..."', f'"of-the-{user}"') for line in login)
            lines = [line.replace("/etc/eosin", str(tmp_path / "certs")) for line in filled]
            (tmp_path / f"{user}.properties").write_text("\n".join(lines) + "\n")
        with serving(tmp_path, here(serve[0])):
            to = f"--bootstrap-server localhost:{port} --command-config admin.properties"
            run(tmp_path, f"eosin topics create orders {to}")
            run(tmp_path, f"echo of-the-app > password; eosin users add app --password-file password {to}")
            produce = f"echo one | eosin produce orders {to.replace('admin', 'app')}"
            assert "AUTHORIZATION_FAILED" in run(tmp_path, produce, code=1)
            run(tmp_path, f"eosin acls add --principal User:app --producer --topic orders {to}")
            wait_until(lambda: "refused" not in run(tmp_path, f"{produce} || echo refused"))
            assert run(tmp_path, f"eosin consume orders {to}").strip() == "one"
            assert "principal=User:app" in run(tmp_path, f"kafka-acls --list --topic orders {to}")
            (user,) = lines_with(r"kafka-configs.* users")
            run(tmp_path, f"{user.replace('...', 'another')} {to}")
            assert "user-principal 'app'" in run(tmp_path, f"kafka-configs --describe --entity-type users {to}")
