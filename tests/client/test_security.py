"""TLS and logins of our own client, and what it says when one side does not accept the other (security.md 1.6)."""

import asyncio
import contextlib
import socket
import ssl
import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from sasl_stub import SaslStubBroker
from stub_broker import StubBroker
from waiting import HANG_S

from eosin.client.addresses import Address
from eosin.client.client import Client
from eosin.client.connection import Connection
from eosin.client.connection_failures import Stage, lost
from eosin.client.errors import AuthenticationFailed, ClientError, ConnectionFailed, ProtocolViolation
from eosin.client.security.connection_security import ConnectionSecurity
from eosin.client.versions import request_versions
from eosin.protocol.keys import ApiKey
from eosin.protocol.sasl.steps import Mechanism
from eosin.protocol.schemas.heartbeat import HeartbeatRequest, HeartbeatResponse
from eosin.protocol.schemas.metadata import MetadataRequest

pytestmark = pytest.mark.process

MODULES = {
    Mechanism.SCRAM_SHA_256: "scram.ScramLoginModule",
    Mechanism.SCRAM_SHA_512: "scram.ScramLoginModule",
    Mechanism.PLAIN: "plain.PlainLoginModule",
}
PLAIN_MODULE = f"org.apache.kafka.common.security.{MODULES[Mechanism.PLAIN]}"


def security(protocol: str, **others: str) -> ConnectionSecurity:
    """Settings by their names, `_` for the dot."""
    given = {"security.protocol": protocol} | {key.replace("_", "."): value for key, value in others.items()}
    made = ConnectionSecurity.of(given)
    assert made is not None
    return made


def login(mechanism: Mechanism = Mechanism.SCRAM_SHA_512, user: str = "alice", password: str = "pencil") -> Any:
    jaas = f"org.apache.kafka.common.security.{MODULES[mechanism]}"
    entry = f'{jaas} required username="{user}" password="{password}";'
    return security("SASL_PLAINTEXT", sasl_mechanism=mechanism, sasl_jaas_config=entry)


async def refused(address: Address, secured: ConnectionSecurity | None) -> ClientError:
    """Why a client cannot ask for metadata; at the first connection, not after retries."""
    with patch.object(Connection, "open", wraps=Connection.open) as opened, pytest.raises(ClientError) as caught:
        async with Client([address], security=secured) as client:
            await client.metadata()
    assert opened.call_count == 1
    assert "\n" not in str(caught.value)
    return caught.value


@pytest.mark.parametrize("mechanism", list(MODULES))
async def test_a_client_logs_in_and_asks(mechanism: Mechanism) -> None:
    async with SaslStubBroker() as broker, Client([broker.address], security=login(mechanism)) as client:
        assert (await client.metadata("topic")).topics["topic"].error == 0
        assert broker.logins == ["alice"]
        asked = [each.key for each in broker.asked]
        assert asked.count(ApiKey.API_VERSIONS) == 1, "what the login asked for is not asked again"


async def test_a_client_logs_in_with_a_token_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("a.b.c\n")
    url = (tmp_path / "token").as_uri()
    secured = security("SASL_PLAINTEXT", sasl_mechanism="OAUTHBEARER", sasl_oauthbearer_token_endpoint_url=url)
    async with SaslStubBroker(tokens=("a.b.c",)) as broker, Client([broker.address], security=secured) as client:
        await client.metadata()
        assert broker.logins == ["a.b.c"]
        (tmp_path / "token").write_text("x.y.z")
        why = await refused(broker.address, secured)
        assert str(why).startswith(
            f"{broker.address} refuses the bearer of this token with OAUTHBEARER: Authentication"
        )


@pytest.mark.parametrize("mechanism", list(MODULES))
async def test_a_wrong_password_is_one_sentence_with_the_words_of_the_broker(mechanism: Mechanism) -> None:
    async with SaslStubBroker() as broker:
        why = await refused(broker.address, login(mechanism, password="pencils"))
        assert isinstance(why, AuthenticationFailed)
        assert str(why) == f"{broker.address} refuses 'alice' with {mechanism}: Authentication failed, says the stub"
        assert broker.connections == 1, "a wrong password is not tried again"


async def test_a_mechanism_that_is_not_offered_is_told_with_those_that_are() -> None:
    async with SaslStubBroker(mechanisms=("PLAIN", "GSSAPI")) as broker:
        why = await refused(broker.address, login())
        assert str(why) == f"{broker.address} does not offer SCRAM-SHA-512, but PLAIN, GSSAPI"


async def test_a_login_at_a_listener_without_one_is_told() -> None:
    async with StubBroker() as broker:
        broker.answers[ApiKey.SASL_HANDSHAKE] = lambda *_: handshake(34)
        assert "is a listener without login" in str(await refused(broker.address, login()))
        del broker.versions[ApiKey.SASL_HANDSHAKE]
        assert "does not know SASL" in str(await refused(broker.address, login()))


def handshake(code: int) -> Any:
    from eosin.protocol.schemas.sasl_handshake import SaslHandshakeResponse

    return SaslHandshakeResponse(error_code=code)


async def test_a_broker_that_asks_for_a_million_rounds_more_is_refused() -> None:
    async with SaslStubBroker(iterations=1_000_001) as broker:
        why = await refused(broker.address, login())
        assert "did not authenticate itself: the server asks for 1000001 iterations" in str(why)


async def test_a_client_without_login_is_told_that_the_listener_may_ask_for_one() -> None:
    async with SaslStubBroker() as broker:
        with pytest.raises(ConnectionFailed, match="perhaps its listener asks for TLS or a login"):
            async with Client([broker.address], retry_timeout_ms=100) as client:
                await client.metadata()


@pytest.fixture
def threadless(monkeypatch: pytest.MonkeyPatch) -> None:
    """A login is computed where it is asked for: a virtual test has no threads."""

    async def here(work: Callable[..., Any], *arguments: Any) -> Any:
        return work(*arguments)

    monkeypatch.setattr(asyncio, "to_thread", here)


@pytest.mark.virtual
@pytest.mark.usefixtures("threadless")
async def test_a_session_is_renewed_while_requests_go_on() -> None:
    """Longer than three sessions, with requests all the time and no other connection."""
    async with SaslStubBroker(lifetime_ms=1500) as broker:
        broker.script(ApiKey.HEARTBEAT, slow_heartbeat)
        async with await Connection.open(broker.address, security=login(), max_in_flight=2) as connection:
            ends = asyncio.get_running_loop().time() + 4.0

            async def ask() -> int:
                count = 0
                while asyncio.get_running_loop().time() < ends:
                    await connection.request(ApiKey.HEARTBEAT, HeartbeatRequest(generation_id=count), version=4)
                    count += 1
                return count

            counts = await asyncio.gather(*(ask() for _ in range(4)))
            assert min(counts) > 10
        assert broker.connections == 1
        assert len(broker.logins) in (3, 4)


async def slow_heartbeat(request: HeartbeatRequest, _: int) -> HeartbeatResponse:
    await asyncio.sleep(0.01)
    return HeartbeatResponse()


@pytest.mark.virtual
@pytest.mark.usefixtures("threadless")
async def test_a_renewal_that_is_refused_ends_the_connection_with_its_requests() -> None:
    async with (
        SaslStubBroker(lifetime_ms=1100) as broker,
        await Connection.open(broker.address, security=login()) as connection,
    ):
        broker.users["alice"] = "changed"
        why = await asyncio.wait_for(connection.wait_closed(), HANG_S)
        assert isinstance(why, AuthenticationFailed)
        with pytest.raises(AuthenticationFailed):
            await connection.request(ApiKey.METADATA, MetadataRequest(), version=9)


async def test_requests_are_encrypted_and_the_host_name_is_checked(tls_files: Any) -> None:
    secured = security("SSL", ssl_truststore_location=tls_files.ca)
    async with SaslStubBroker(context=tls_files.server()) as broker:
        for host in ("127.0.0.1", "localhost"):
            async with await Connection.open(Address(host, broker.address.port), security=secured) as connection:
                assert connection.is_open


async def test_a_login_goes_through_tls(tls_files: Any) -> None:
    secured = security(
        "SASL_SSL",
        ssl_truststore_certificates=tls_files.ca_text,
        sasl_mechanism="PLAIN",
        sasl_jaas_config=f"{PLAIN_MODULE} required username=alice password=pencil;",
    )
    async with SaslStubBroker(context=tls_files.server()) as broker:
        async with Client([broker.address], security=secured) as client:
            await client.metadata("topic")
        assert broker.logins == ["alice"]


async def test_a_certificate_that_is_not_trusted_is_one_sentence(tls_files: Any) -> None:
    async with SaslStubBroker(context=tls_files.server()) as broker:
        why = await refused(broker.address, security("SSL", ssl_truststore_location=tls_files.other_ca))
        assert isinstance(why, AuthenticationFailed)
        assert str(why).startswith(f"{broker.address} shows a certificate that is not trusted: ")
        assert "[SSL" not in str(why)


async def test_a_certificate_of_another_name_is_one_sentence_unless_names_are_not_checked(tls_files: Any) -> None:
    async with SaslStubBroker(context=tls_files.server(tls_files.elsewhere)) as broker:
        why = await refused(broker.address, security("SSL", ssl_truststore_location=tls_files.ca))
        assert isinstance(why, AuthenticationFailed)
        assert "IP address mismatch" in str(why)
        lax = security("SSL", ssl_truststore_location=tls_files.ca, ssl_endpoint_identification_algorithm="")
        async with await Connection.open(broker.address, security=lax) as connection:
            assert connection.is_open


async def test_a_client_certificate_that_is_missing_is_told(tls_files: Any) -> None:
    """By the broker's alert, or by a hint where the reset of the connection is faster than it."""

    def serve(listener: socket.socket, context: ssl.SSLContext) -> None:
        """Not asyncio's: before Python 3.12 its server sends no alert."""
        with listener, contextlib.suppress(OSError):
            accepted, _ = listener.accept()
            with accepted, context.wrap_socket(accepted, server_side=True) as secured:
                secured.recv(1)

    secured = security("SSL", ssl_truststore_location=tls_files.ca)
    listener = socket.create_server(("127.0.0.1", 0))
    listener.settimeout(HANG_S)
    address = Address("127.0.0.1", listener.getsockname()[1])
    thread = threading.Thread(target=serve, args=(listener, tls_files.server(client_auth=True)))
    thread.start()
    try:
        with pytest.raises(ClientError, match=r"certificate.*\(ssl\.keystore\.\*\)$"):
            async with await Connection.open(address, security=secured) as connection:
                await request_versions(connection)
    finally:
        await asyncio.to_thread(thread.join, 10)


def test_the_alert_of_a_broker_that_misses_a_certificate_is_final() -> None:
    alert = ssl.SSLError(1, "[SSL: TLSV13_ALERT_CERTIFICATE_REQUIRED] tlsv13 alert certificate required")
    alert.reason = "TLSV13_ALERT_CERTIFICATE_REQUIRED"
    why = lost(Address("b", 1), alert, Stage.TLS_UNANSWERED)
    assert isinstance(why, AuthenticationFailed)
    assert str(why) == ("b:1 refuses this client's certificate, or misses it: certificate required (ssl.keystore.*)")


async def test_a_client_shows_its_certificate(tls_files: Any) -> None:
    identified = security("SSL", ssl_truststore_location=tls_files.ca, ssl_keystore_location=tls_files.broker)
    async with (
        SaslStubBroker(context=tls_files.server(client_auth=True)) as broker,
        await Connection.open(broker.address, security=identified) as connection,
    ):
        await request_versions(connection)


async def test_stores_may_be_pkcs12(tls_files: Any) -> None:
    identified = security(
        "SSL",
        ssl_truststore_location=tls_files.trusted_pkcs12,
        ssl_truststore_password="storepass",
        ssl_keystore_location=tls_files.pkcs12,
        ssl_keystore_password="storepass",
    )
    async with (
        SaslStubBroker(context=tls_files.server(client_auth=True)) as broker,
        await Connection.open(broker.address, security=identified) as connection,
    ):
        await request_versions(connection)


async def test_a_plain_client_on_a_tls_port_is_told(tls_files: Any) -> None:
    async with SaslStubBroker(context=tls_files.server()) as broker:
        why = await refused_plain(broker.address)
        assert "TLS" in str(why)


async def refused_plain(address: Address) -> ClientError:
    with pytest.raises(ClientError) as caught:
        async with Client([address], retry_timeout_ms=100) as client:
            await client.metadata()
    return caught.value


async def test_a_tls_alert_is_understood_by_a_plain_client() -> None:
    async with answering(bytes.fromhex("15030300020246")) as address:
        why = await refused(address, None)
    assert isinstance(why, ProtocolViolation)
    assert str(why) == f"{address} speaks TLS: security.protocol is SSL or SASL_SSL there"


@pytest.mark.parametrize("answer", [b"", b"HTTP/1.1 400 Bad Request\r\n\r\n"])
async def test_a_tls_client_on_a_plain_port_is_told(tls_files: Any, answer: bytes) -> None:
    async with answering(answer) as address:
        with pytest.raises(ClientError) as caught:
            await Connection.open(address, security=security("SSL", ssl_truststore_location=tls_files.ca))
    assert str(caught.value) == (
        f"{address} does not speak TLS: security.protocol is PLAINTEXT or SASL_PLAINTEXT there"
        if answer
        else f"cannot connect to {address}: it hung up during the TLS handshake; perhaps its listener is without TLS"
        " (security.protocol)"
    )


@contextlib.asynccontextmanager
async def answering(answer: bytes) -> AsyncIterator[Address]:
    """A server that says this to whatever comes, and hangs up."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(answer)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield Address("127.0.0.1", server.sockets[0].getsockname()[1])
