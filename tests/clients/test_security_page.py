"""The commands and settings of docs/security.md, run as they stand but for ports, names of hosts and directories.

What it shows of clients is run beside them (test_tls.py, test_sasl.py), its tutorial in cli/test_security_tutorial.py.
"""

import os
import re
import shlex
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from kraft_node import free_port

PAGE = Path(__file__).resolve().parents[2] / "docs" / "security.md"
ELSEWHERE = ("certs", "serve")
"""Commands of the first section and of the secured cluster; every other command of ours is run in one test."""

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


def blocks(heading: str) -> list[list[str]]:
    """The indented blocks of a section, each as lines; a line that ends with a backslash goes on in the next."""
    section = PAGE.read_text().partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    found = re.findall(r"^((?:    .*\n)+)", section, re.MULTILINE)
    return [textwrap.dedent(each).replace("\\\n", "").splitlines() for each in found]


def run(folder: Path, command: str) -> str:
    """What a command prints, on both of its outputs. It succeeds."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=folder,
        env={**os.environ, "PATH": path},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, f"{command}: {done.stdout}"
    return done.stdout


@contextmanager
def serving(folder: Path, command: str) -> Iterator[None]:
    """A broker, from when it is ready until it is stopped."""
    words = [sys.executable, "-m", "eosin.broker", *shlex.split(command)[1:]]
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


def test_the_settings_and_commands_of_users_quotas_and_rights_work_in_their_order(tmp_path: Path) -> None:
    port, data_dir, certs = str(free_port()), str(tmp_path / "data"), str(tmp_path / "certs")

    def here(line: str) -> str:
        for shown, real in (
            ("/var/lib/eosin", data_dir),
            ("/etc/eosin/ca.pem", f"{certs}/ca.pem"),
            ("/etc/eosin/broker.pem", f"{certs}/broker.pem"),
            ("broker.example.org", "localhost"),
            ("0.0.0.0", "127.0.0.1"),
            ("9093", port),
        ):
            line = line.replace(shown, real)
        return line

    users, of_tls = blocks("Users and passwords"), blocks("Certificates and TLS")[0]
    (login,), rights = blocks("Clients of Eosin itself"), blocks("Rights")
    of_sasl = next(block for block in users if block[0].startswith("listeners=SASL_SSL"))
    (key_store,) = [line for line in of_tls if line.startswith("ssl.keystore")]
    settings = [*of_sasl, key_store, *rights[0], f"log.dirs={data_dir}"]
    (tmp_path / "server.properties").write_text("\n".join(map(here, settings)) + "\n")
    run(tmp_path, f"eosin certs dev {certs}")
    commands = [line for block in [*users, *blocks("Quotas"), *rights[1:]] for line in block if line[:6] == "eosin "]
    every = re.findall(r"^    (eosin (\w+) .*)$", PAGE.read_text(), re.MULTILINE)
    assert commands == [command for command, name in every if name not in ELSEWHERE]
    first = run(tmp_path, here(commands.pop(0)))
    (password,) = set(re.findall(r"^admin +\S+ +\d+ +(\S+)$", first, re.MULTILINE))
    as_admin = [here(line).replace("alice", "admin").replace('"..."', f'"{password}"') for line in login]
    (tmp_path / "admin.properties").write_text("\n".join(as_admin) + "\n")
    with serving(tmp_path, "eosin serve --config server.properties"):
        to = f"export EOSIN_BOOTSTRAP_SERVER=localhost:{port} EOSIN_COMMAND_CONFIG=admin.properties;"
        said = {command: run(tmp_path, f"{to} {here(command)}") for command in commands}
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
