"""OAUTHBEARER as each listener has it: where keys come from, and whom to trust for them (security.md 3.6)."""

import contextlib
import http.server
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from bearer_tokens import Issuer
from certificates import Authority, pem
from tls_broker import load_into

from eosin.node.configuration import load_config
from eosin.protocol.sasl.steps import Failure
from eosin.runtime.clock import SystemClock
from eosin.security.sasl.key_set import MAX_BYTES, fetched
from eosin.security.sasl.tokens import open_tokens
from eosin.security.tls.contexts import client_context
from eosin.security.tls.settings import TrustStoreSettings
from eosin.settings.settings import SettingError
from eosin.settings.start_error import StartError

ISSUED = Issuer()
JAVA = "org.apache.kafka.common.security.oauthbearer"


class Keys(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        if self.path == "/elsewhere":
            self.send_response(302)
            self.send_header("Location", "file:///etc/passwd")
            self.end_headers()
            return
        body = b" " * (MAX_BYTES + 1) if self.path == "/endless" else ISSUED.keys()
        self.send_response(200)
        self.end_headers()
        with contextlib.suppress(OSError):
            self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority.root()


@pytest.fixture(scope="module")
def issuer(authority: Authority) -> Iterator[str]:
    """An issuer's HTTPS server, whose certificate is the authority's."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    load_into(context, authority.issue())
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Keys)
    server.daemon_threads = True
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    yield f"https://localhost:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def trusting(authority: Authority, directory: Path) -> TrustStoreSettings:
    path = directory / "ca.pem"
    path.write_bytes(pem(authority.certificate))
    return TrustStoreSettings(type=None, location=str(path), password=None, certificates=None)


@pytest.mark.process
def test_keys_come_over_https_from_whom_the_trust_store_names(
    issuer: str, authority: Authority, tmp_path: Path
) -> None:
    """And case 29 of security.md 9.3: no redirect is followed, and nothing endless is read."""
    context = client_context(trusting(authority, tmp_path))
    assert fetched(f"{issuer}/keys", context) == ISSUED.keys()
    with pytest.raises(OSError, match="CERTIFICATE_VERIFY_FAILED"):
        fetched(f"{issuer}/keys")
    with pytest.raises(OSError, match="CERTIFICATE_VERIFY_FAILED"):
        fetched(f"{issuer}/keys", client_context(trusting(Authority.root(), tmp_path)))
    with pytest.raises(OSError, match="the answer is 302"):
        fetched(f"{issuer}/elsewhere", context)
    with pytest.raises(OSError, match="more than 1048576 bytes"):
        fetched(f"{issuer}/endless", context)


def settings(*more: str) -> tuple[str, ...]:
    return (
        "listeners=A://127.0.0.1:0,B://127.0.0.1:0",
        "listener.security.protocol.map=A:SASL_PLAINTEXT,B:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms=OAUTHBEARER",
        "sasl.oauthbearer.expected.audience=kafka",
        "sasl.oauthbearer.expected.issuer=https://a.example",
        *more,
    )


@pytest.mark.process
async def test_each_listener_has_its_own_issuer_and_its_own_keys(
    issuer: str, authority: Authority, tmp_path: Path
) -> None:
    store = trusting(authority, tmp_path)
    config = load_config(
        assignments=settings(
            f"sasl.oauthbearer.jwks.endpoint.url={ISSUED.write(tmp_path / 'keys.json')}",
            f"listener.name.b.oauthbearer.sasl.oauthbearer.jwks.endpoint.url={issuer}/keys",
            "listener.name.b.sasl.oauthbearer.expected.issuer=https://b.example",
            f"listener.name.b.oauthbearer.ssl.truststore.location={store.location}",
        )
    ).config
    clock = SystemClock()
    for name in ("A", "B"):
        tokens = await open_tokens(config, clock, name)
        for other in ("a", "b"):
            found = tokens._reader.read(ISSUED.token(iss=f"https://{other}.example"))
            assert isinstance(found, Failure) is (name.lower() != other), found
        tokens.close()


@pytest.mark.process
async def test_a_trust_store_that_cannot_be_read_ends_the_start(issuer: str, tmp_path: Path) -> None:
    config = load_config(
        assignments=settings(
            f"sasl.oauthbearer.jwks.endpoint.url={issuer}/keys",
            f"listener.name.a.oauthbearer.ssl.truststore.location={tmp_path}/none.pem",
        )
    ).config
    with pytest.raises(StartError, match=r"the keys of tokens cannot be fetched: .*none\.pem"):
        await open_tokens(config, SystemClock(), "A")


URL = "sasl.oauthbearer.jwks.endpoint.url=https://x.example/keys"


@pytest.mark.parametrize(
    "line",
    [
        f"sasl.server.callback.handler.class={JAVA}.OAuthBearerValidatorCallbackHandler",
        f"listener.name.a.oauthbearer.sasl.server.callback.handler.class={JAVA}.OAuthBearerValidatorCallbackHandler",
        f"sasl.oauthbearer.jwt.validator.class={JAVA}.BrokerJwtValidator",
    ],
)
def test_kafkas_own_validators_are_taken_by_their_names(line: str) -> None:
    assert load_config(assignments=settings(URL, line)).warnings == ()


@pytest.mark.parametrize(
    "line",
    [
        "sasl.server.callback.handler.class=com.example.Handler",
        f"listener.name.b.oauthbearer.sasl.server.callback.handler.class={JAVA}.internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler",
        "sasl.oauthbearer.jwt.validator.class=com.example.Validator",
    ],
)
def test_other_classes_end_the_start(line: str) -> None:
    with pytest.raises(SettingError, match="names a class of Java, which Eosin cannot run"):
        load_config(assignments=settings(URL, line))


def test_a_listener_without_keys_of_its_own_or_the_brokers_ends_the_start() -> None:
    own = "listener.name.a.sasl.oauthbearer.jwks.endpoint.url=https://x.example/keys"
    with pytest.raises(SettingError, match=r"OAUTHBEARER needs sasl\.oauthbearer\.jwks\.endpoint\.url"):
        load_config(assignments=settings(own))
