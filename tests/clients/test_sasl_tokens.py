"""Unmodified clients with tokens: OAUTHBEARER with the keys in a file (security.md 3.6 and 9.1)."""

import asyncio
import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest
from aiokafka.abc import AbstractTokenProvider as AiokafkaProvider
from bearer_tokens import AUDIENCE, ISSUER, Issuer
from broker_process import BrokerProcess
from certificates import Authority
from kafka.net.sasl.oauth import AbstractTokenProvider
from secured_clients import CLIENTS, Access, SecuredClient, Trust, bearing, name_of

from eosin.cli import serve


@pytest.fixture(scope="module")
def issuer() -> Issuer:
    return Issuer()


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority.root()


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory, issuer: Issuer, authority: Authority) -> Iterator[BrokerProcess]:
    """Its first listener has no TLS, the second one has."""
    data_dir = tmp_path_factory.mktemp("tokens") / "data"
    process = BrokerProcess(
        data_dir,
        settings={
            "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT,SECURE:SASL_SSL",
            "sasl.enabled.mechanisms": "OAUTHBEARER",
            "ssl.keystore.location": authority.issue("broker").write(data_dir.parent / "broker.pem"),
            "sasl.oauthbearer.jwks.endpoint.url": issuer.write(data_dir.parent / "keys.json"),
            "sasl.oauthbearer.expected.issuer": ISSUER,
            "sasl.oauthbearer.expected.audience": AUDIENCE,
            "eosin.log.level": "debug",
        },
    )
    process.options = ("--listen", "SECURE=127.0.0.1:0")
    with process:
        yield process
        assert "Traceback" not in process.log
        assert "eyJ" not in process.log, "no part of a token is in the log"


def with_tokens(
    broker: BrokerProcess, issuer: Issuer, folder: Path, *, trust: Trust | None = None, **claims: Any
) -> dict[str, Access]:
    """How each client hands tokens in."""

    class Provider(AbstractTokenProvider):
        def token(self) -> str:
            return issuer.token(**claims)

    class AsyncProvider(AiokafkaProvider):  # type: ignore[misc]
        async def token(self) -> str:
            return await asyncio.sleep(0, issuer.token(**claims))

    file = folder / "token.jwt"
    file.write_text(issuer.token(**claims))
    plain, secure = (port.rpartition(":")[2] for port in re.findall(r"127\.0\.0\.1:\d+", broker.ready_line))
    make = partial(
        bearing,
        f"localhost:{plain if trust is None else secure}",
        partial(issuer.token, **claims),
        token_file=file.as_uri(),
        trust=trust,
    )
    providers = {"aiokafka": AsyncProvider()}
    return {name_of(each): make(provider=providers.get(name_of(each), Provider())) for each in CLIENTS}


@pytest.mark.parametrize("client", CLIENTS, ids=name_of)
def test_a_client_commits_and_aborts_by_a_token(
    broker: BrokerProcess, issuer: Issuer, client: SecuredClient, tmp_path: Path
) -> None:
    name = name_of(client)
    access = with_tokens(broker, issuer, tmp_path, sub=f"service of {name}")[name]
    assert client(access, name) == [b"kept"]
    assert f"service of {name}" in broker.log


@pytest.mark.full
@pytest.mark.parametrize("client", CLIENTS, ids=name_of)
def test_the_same_over_tls(
    broker: BrokerProcess, issuer: Issuer, authority: Authority, client: SecuredClient, tmp_path: Path
) -> None:
    name, trust = name_of(client), Trust.made(tmp_path / "files", authority)
    access = with_tokens(broker, issuer, tmp_path, trust=trust, sub=f"{name} over TLS")[name]
    assert client(access, f"{name}-tls") == [b"kept"]
    assert f"{name} over TLS" in broker.log


def test_a_token_of_another_issuer_is_refused_by_its_name(
    broker: BrokerProcess, issuer: Issuer, tmp_path: Path
) -> None:
    errors: list[confluent_kafka.KafkaError] = []
    access = with_tokens(broker, issuer, tmp_path, iss="https://another.example")["confluent"]
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": access.address, **access.librdkafka, "error_cb": errors.append}
    )
    for _ in range(100):
        producer.poll(0.1)
        if errors:
            break
    producer.close()
    assert errors[0].code() == confluent_kafka.KafkaError._AUTHENTICATION
    assert "the token is of another issuer" in broker.log


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({}, "needs sasl.oauthbearer.jwks.endpoint.url"),
        ({"sasl.oauthbearer.jwks.endpoint.url": "http://x/keys"}, "needs sasl.oauthbearer.jwks.endpoint.url"),
        ({"sasl.oauthbearer.jwks.endpoint.url": "file:///keys"}, "expected.issuer and sasl.oauthbearer.expected"),
    ],
)
def test_a_broker_that_could_not_tell_good_tokens_does_not_start(
    settings: dict[str, str], why: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    all_settings = {
        "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        **settings,
    }
    words = ["--data-dir", str(tmp_path / "data"), "--listen", "127.0.0.1:0"]
    for name, value in all_settings.items():
        words += ["--set", f"{name}={value}"]
    assert serve.main(words) == 2
    assert why in capsys.readouterr().err
    assert not (tmp_path / "data").exists()
