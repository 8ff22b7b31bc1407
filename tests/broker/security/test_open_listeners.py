"""A listener that lets everyone in is not bound beyond this machine unless somebody says so (security.md 6.1)."""

import logging
from dataclasses import replace
from pathlib import Path

import pytest
from broker_process import BrokerProcess

from eosin.broker.security.open_listeners import check_open, is_loopback, is_open
from eosin.cli.__main__ import main
from eosin.node.configuration import load_config
from eosin.settings.broker import BrokerConfig
from eosin.settings.start_error import StartError

STANDARD = "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer"
TLS = ("listeners=SSL://localhost:1", "ssl.keystore.location=/k.pem", "ssl.truststore.location=/t.pem")


@pytest.mark.parametrize(
    ("settings", "opened"),
    [
        ((), True),
        ((STANDARD,), False),
        ((STANDARD, "allow.everyone.if.no.acl.found=true"), True),
        ((STANDARD, "super.users=User:ANONYMOUS;User:admin"), True),
        (TLS, True),
        ((*TLS, "ssl.client.auth=requested"), True),
        ((*TLS, "ssl.client.auth=required"), False),
        ((*TLS, "ssl.client.auth=required", "listener.name.ssl.ssl.client.auth=none"), True),
        ((*TLS, "ssl.client.auth=requested", STANDARD), False),
    ],
)
def test_a_listener_is_open_where_nobody_has_to_prove_who_it_is(settings: tuple[str, ...], opened: bool) -> None:
    config = load_config(assignments=settings).config
    assert is_open(config, "SSL" if settings[: len(TLS)] == TLS else "PLAINTEXT") is opened


@pytest.mark.parametrize(
    ("address", "loopback"),
    [
        ("127.0.0.1", True),
        ("127.9.9.9", True),
        ("::1", True),
        ("::ffff:127.0.0.1", True),
        ("0.0.0.0", False),
        ("::", False),
        ("10.0.0.1", False),
        ("fe80::1", False),
    ],
)
def test_only_this_machine_reaches_the_loopback_addresses(address: str, loopback: bool) -> None:
    assert is_loopback(address) is loopback


def test_an_open_listener_that_others_reach_is_refused_in_a_sentence() -> None:
    config = replace(BrokerConfig(), listeners=("PLAINTEXT://localhost:1", "OUTSIDE://:2"))
    assert not check_open(config, [("PLAINTEXT", "127.0.0.1")])
    with pytest.raises(StartError) as refused:
        check_open(config, [("PLAINTEXT", "127.0.0.1"), ("OUTSIDE", "0.0.0.0")])
    assert str(refused.value) == (
        "listener OUTSIDE on 0.0.0.0 lets everyone read and write; secure it (docs/security.md), bind 127.0.0.1, or say"
        " --allow-open"
    )


def test_an_allowed_open_listener_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    config = replace(BrokerConfig(), listeners=("OUTSIDE://:2",), eosin_allow_open_listeners=True)
    with caplog.at_level(logging.WARNING):
        assert check_open(config, [("OUTSIDE", "0.0.0.0")])
    assert "a listener lets everyone read and write" in caplog.text


@pytest.mark.process
def test_a_broker_that_is_refused_has_written_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = tmp_path / "data"
    assert main(["serve", "--listen", "0.0.0.0:0", "--advertise", "localhost:1", "--data-dir", str(data)]) == 2
    assert "lets everyone read and write" in capsys.readouterr().err
    assert not data.exists()


@pytest.mark.process
@pytest.mark.slow
def test_the_ready_line_says_that_a_broker_is_open(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path / "data")
    broker.options = ("--listen", "OUTSIDE=0.0.0.0:0", "--advertise", "OUTSIDE=localhost:1", "--allow-open")
    with broker:
        assert broker.ready_line.endswith(", open)\n")
        assert "lets everyone read and write" in broker.log
