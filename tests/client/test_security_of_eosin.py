"""Our client's TLS and logins against Eosin's own listeners (security.md 1.6)."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from local_broker import local_broker

from eosin.client.client import Client
from eosin.client.errors import AuthenticationFailed, ClientError
from eosin.client.security.connection_security import ConnectionSecurity
from eosin.model.credentials import CredentialChange, StoredCredential
from eosin.protocol.sasl.scram_credentials import credential_of
from eosin.protocol.sasl.steps import Mechanism

pytestmark = pytest.mark.process

MODULE = "org.apache.kafka.common.security"
NUMBERS = {Mechanism.SCRAM_SHA_256: 1, Mechanism.SCRAM_SHA_512: 2}


@pytest.fixture
async def address(tls_files: Any) -> AsyncIterator[str]:
    """Of a broker with TLS and logins, where alice has a password."""
    settings: dict[str, Any] = {
        "listeners": ("SASL_SSL://127.0.0.1:0",),
        "ssl_keystore_location": tls_files.broker,
        "sasl_enabled_mechanisms": ("SCRAM-SHA-256", "SCRAM-SHA-512", "PLAIN"),
    }
    async with local_broker(**settings) as server:
        changes = []
        for mechanism, number in NUMBERS.items():
            made = credential_of(mechanism, "pencil", bytes(24), 4096)
            stored = StoredCredential(made.salt, made.stored_key, made.server_key, made.iterations)
            changes.append(CredentialChange("alice", number, stored))
        await server.cluster.alter_credentials(lambda _: changes)
        yield server.addresses[0]


def security(tls_files: Any, mechanism: str, password: str = "pencil") -> Any:
    module = "plain.PlainLoginModule" if mechanism == "PLAIN" else "scram.ScramLoginModule"
    return ConnectionSecurity.of(
        {
            "security.protocol": "SASL_SSL",
            "ssl.truststore.location": tls_files.ca,
            "sasl.mechanism": mechanism,
            "sasl.jaas.config": f"{MODULE}.{module} required username=alice password={password};",
        }
    )


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
async def test_a_client_logs_in_over_tls(address: str, tls_files: Any, mechanism: str) -> None:
    async with Client(address, security=security(tls_files, mechanism)) as client:
        assert len((await client.metadata()).brokers) == 1
    with pytest.raises(AuthenticationFailed, match=f"refuses 'alice' with {mechanism}: Authentication failed"):
        async with Client(address, security=security(tls_files, mechanism, "pencils")) as client:
            await client.metadata()


async def test_a_client_of_tls_without_a_login_is_told_that_the_listener_may_want_one(
    address: str, tls_files: Any
) -> None:
    settings = {"security.protocol": "SSL", "ssl.truststore.location": tls_files.ca}
    with pytest.raises(ClientError, match="perhaps its listener asks for a login"):
        async with Client(address, security=ConnectionSecurity.of(settings), retry_timeout_ms=100) as client:
            await client.metadata()


async def test_a_plain_client_is_told_what_the_listener_may_want(address: str) -> None:
    with pytest.raises(ClientError, match="perhaps its listener asks for TLS or a login"):
        async with Client(address, retry_timeout_ms=100) as client:
            await client.metadata()
