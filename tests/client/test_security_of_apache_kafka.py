"""Our client's TLS and logins against Apache Kafka itself (security.md 1.6)."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
import toolchains
from apache_kafka import ApacheKafka

from eosin.client.client import Client
from eosin.client.errors import AuthenticationFailed, ClientError
from eosin.client.security.connection_security import ConnectionSecurity

pytestmark = [pytest.mark.process, pytest.mark.slow, pytest.mark.full]

MODULE = "org.apache.kafka.common.security"


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory, tls_files: Any) -> Iterator[ApacheKafka]:
    plain = f'{MODULE}.plain.PlainLoginModule required user_alice="pencil";'
    scram = f"{MODULE}.scram.ScramLoginModule required;"
    settings = {
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": tls_files.broker,
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": tls_files.ca,
        "listener.name.ssl.ssl.client.auth": "required",
        "connections.max.reauth.ms": "3000",
    }
    for listener in ("sasl_ssl", "sasl_plaintext"):
        settings[f"listener.name.{listener}.plain.sasl.jaas.config"] = plain
        settings[f"listener.name.{listener}.scram-sha-256.sasl.jaas.config"] = scram
        settings[f"listener.name.{listener}.scram-sha-512.sasl.jaas.config"] = scram
    with toolchains.skipped_without():
        node = ApacheKafka(
            tmp_path_factory.mktemp("kafka") / "node",
            settings=settings,
            listeners=("SSL", "SASL_SSL", "SASL_PLAINTEXT"),
            users=("SCRAM-SHA-256=[name=alice,password=pencil]", "SCRAM-SHA-512=[name=alice,password=pencil]"),
        )
    with node:
        yield node


def security(tls_files: Any, protocol: str, mechanism: str = "", password: str = "pencil", **more: str) -> Any:
    given = {"security.protocol": protocol} | {key.replace("_", "."): value for key, value in more.items()}
    if mechanism:
        module = "plain.PlainLoginModule" if mechanism == "PLAIN" else "scram.ScramLoginModule"
        given["sasl.mechanism"] = mechanism
        given["sasl.jaas.config"] = f"{MODULE}.{module} required username=alice password={password};"
    if "SSL" in protocol:
        given["ssl.truststore.location"] = tls_files.ca
    return ConnectionSecurity.of(given)


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
@pytest.mark.parametrize("protocol", ["SASL_PLAINTEXT", "SASL_SSL"])
async def test_a_client_logs_in(kafka: ApacheKafka, tls_files: Any, protocol: str, mechanism: str) -> None:
    async with Client(kafka.address_of(protocol), security=security(tls_files, protocol, mechanism)) as client:
        assert len((await client.metadata()).brokers) == 1
    with pytest.raises(AuthenticationFailed, match=f"refuses 'alice' with {mechanism}: Authentication failed"):
        async with Client(
            kafka.address_of(protocol), security=security(tls_files, protocol, mechanism, "pencils")
        ) as client:
            await client.metadata()


async def test_a_client_logs_in_again_before_its_session_ends(kafka: ApacheKafka, tls_files: Any) -> None:
    secured = security(tls_files, "SASL_SSL", "SCRAM-SHA-512")
    async with Client(kafka.address_of("SASL_SSL"), security=secured) as client:
        first = (await client.peer()).connection
        for _ in range(70):
            await client.fetch_metadata([])
            await asyncio.sleep(0.1)
        assert (await client.peer()).connection is first, "the connection is older than two sessions"


async def test_a_client_shows_its_certificate(kafka: ApacheKafka, tls_files: Any) -> None:
    identified = security(tls_files, "SSL", ssl_keystore_location=tls_files.broker)
    async with Client(kafka.address_of("SSL"), security=identified) as client:
        assert len((await client.metadata()).brokers) == 1
    with pytest.raises(ClientError, match=r"certificate.*ssl\.keystore"):
        async with Client(kafka.address_of("SSL"), security=security(tls_files, "SSL"), retry_timeout_ms=100) as client:
            await client.metadata()


@pytest.mark.parametrize(
    ("spoken", "listener", "sentence"),
    [
        ("", "SASL_SSL", "TLS"),
        ("", "SASL_PLAINTEXT", "perhaps its listener asks for TLS or a login"),
        ("SSL", "SASL_SSL", "perhaps its listener asks for a login"),
        ("SSL", "PLAINTEXT", "does not speak TLS|perhaps its listener is without TLS"),
        ("SASL_PLAINTEXT", "PLAINTEXT", "is a listener without login"),
    ],
)
async def test_the_wrong_listener_is_told(
    kafka: ApacheKafka, tls_files: Any, spoken: str, listener: str, sentence: str
) -> None:
    secured = security(tls_files, spoken, "PLAIN" if "SASL" in spoken else "") if spoken else None
    with pytest.raises(ClientError, match=sentence):
        async with Client(kafka.address_of(listener), security=secured, retry_timeout_ms=300) as client:
            await client.metadata()
