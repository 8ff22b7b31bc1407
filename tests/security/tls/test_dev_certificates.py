"""`eosin certs dev`: certificates that work at once, and never overwrite any (security.md 8.2)."""

import re
from pathlib import Path

import pytest
from cryptography import x509

from eosin.cli.__main__ import main
from eosin.node.configuration import load_config
from eosin.runtime.clock import SystemClock
from eosin.security.tls.contexts import build_context
from eosin.security.tls.reload import StoreWatch
from eosin.security.tls.settings import tls_settings


def made(directory: Path, *options: str) -> Path:
    assert main(["certs", "dev", *options, str(directory)]) == 0
    return directory


def test_a_broker_and_a_client_can_use_them_at_once(tmp_path: Path) -> None:
    directory = made(tmp_path / "certs", "--names", "localhost,127.0.0.1,broker.example.org", "--client", "alice")
    assert sorted(each.name for each in directory.iterdir()) == ["broker.pem", "ca.pem", "client.pem"]
    given = ["listeners=SSL://localhost:1", f"ssl.keystore.location={directory / 'broker.pem'}"]
    given += [f"ssl.truststore.location={directory / 'ca.pem'}", "ssl.client.auth=required"]
    watch = StoreWatch(tls_settings(load_config(assignments=given).config, "SSL"), SystemClock(), build=build_context)
    leaf = watch.built.key_store.leaf
    names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert [str(each.value) for each in names] == ["localhost", "127.0.0.1", "broker.example.org"]
    assert leaf.subject.rfc4514_string() == "CN=broker,O=Eosin DEV"


def test_nobody_else_can_read_a_private_key(tmp_path: Path) -> None:
    directory = made(tmp_path / "certs")
    assert directory.stat().st_mode & 0o077 == 0
    for name in ("broker.pem", "client.pem"):
        assert (directory / name).stat().st_mode & 0o077 == 0
    assert b"PRIVATE" not in (directory / "ca.pem").read_bytes()


def test_existing_certificates_are_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    directory = made(tmp_path / "certs")
    before = (directory / "broker.pem").read_bytes()
    capsys.readouterr()
    assert main(["certs", "dev", str(directory)]) == 2
    assert re.fullmatch(r"eosin certs dev: \S+ is there already; .*\n", capsys.readouterr().err)
    assert (directory / "broker.pem").read_bytes() == before


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["--names", "a b", "DIR"], "--names must be host names and addresses"),
        (["--names", "", "DIR"], "--names must be host names and addresses"),
        (["--client", "a,b", "DIR"], "--client must be a name"),
        (["--client", "a" * 65, "DIR"], "--client must be a name"),
        (["/dev/null/certs"], "cannot write to /dev/null/certs"),
    ],
)
def test_certificates_that_cannot_be_made_are_refused_in_a_sentence(
    options: list[str], complaint: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = tmp_path / "certs"
    assert main(["certs", "dev", *[str(directory) if each == "DIR" else each for each in options]]) == 2
    assert complaint in capsys.readouterr().err
    assert not directory.exists()
