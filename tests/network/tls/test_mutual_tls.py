"""Certificates of clients: who is let in, and as whom (security.md 2.2, 3.7)."""

import asyncio
import logging
import ssl
from pathlib import Path
from typing import Any

import pytest
import uvloop
from certificates import CLIENT, SERVER, Authority, Issued, common_name
from cryptography import x509
from cryptography.x509.oid import NameOID
from tls_broker import TlsBroker, TlsClient, tls_broker
from waiting import HANG_S

from eosin.model.principals import ANONYMOUS, Principal
from eosin.security.session import SecurityProtocol

pytestmark = [pytest.mark.process, pytest.mark.smoke]


class World:
    """An authority, a broker's key store, and the settings that ask clients for certificates."""

    def __init__(self, directory: Path) -> None:
        self.authority = Authority.root()
        self.directory = directory
        self.key_store = f"ssl.keystore.location={self.authority.issue().write(directory / 'broker.pem')}"
        self.trust_store = f"ssl.truststore.location={self.authority.write(directory / 'ca.pem')}"

    def settings(self, auth: str = "required") -> tuple[str, ...]:
        return self.key_store, self.trust_store, f"ssl.client.auth={auth}"


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


async def refused(broker: TlsBroker, certificate: Issued | None, version: ssl.TLSVersion | None = None) -> bool:
    """Whether a client with this certificate gets no answer."""
    context = broker.context(certificate)
    if version is not None:
        context.maximum_version = version
    try:
        client = await broker.connect(context)
        await asyncio.wait_for(client.ask(), HANG_S)
    except (ssl.SSLError, ConnectionError, asyncio.IncompleteReadError):
        return not broker.connections
    return False


async def user_of(broker: TlsBroker, certificate: Issued | None) -> Principal:
    client: TlsClient = await broker.connect(broker.context(certificate))
    await client.ask()
    (connection,) = broker.connections
    assert connection.session.security_protocol is SecurityProtocol.SSL
    principal = connection.session.principal
    await broker.quiet()
    return principal


@pytest.mark.parametrize("make_loop", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def test_a_client_is_the_user_that_its_certificate_names(world: World, make_loop: Any) -> None:
    async def run() -> None:
        subject = x509.Name(
            [x509.NameAttribute(NameOID.ORGANIZATION_NAME, "A, B"), x509.NameAttribute(NameOID.COMMON_NAME, "alice")]
        )
        async with tls_broker(world.authority, *world.settings()) as broker:
            assert await user_of(broker, world.authority.issue(subject)) == Principal("User", "CN=alice,O=A\\, B")
            below = world.authority.below().issue("bob")
            assert await user_of(broker, below) == Principal("User", "CN=bob")

    with asyncio.Runner(loop_factory=make_loop) as runner:
        runner.run(asyncio.wait_for(run(), HANG_S))


async def test_without_a_certificate_a_client_is_refused_or_anonymous_as_the_listener_says(world: World) -> None:
    async with tls_broker(world.authority, *world.settings("required")) as broker:
        assert await refused(broker, None)
        assert await refused(broker, None, ssl.TLSVersion.TLSv1_2)
    async with tls_broker(world.authority, *world.settings("requested")) as broker:
        assert await user_of(broker, None) == ANONYMOUS
        assert await refused(broker, Authority.root("another").issue("mallory"))
        assert await user_of(broker, world.authority.issue("carol")) == Principal("User", "CN=carol")
    async with tls_broker(world.authority, *world.settings("none")) as broker:
        assert await user_of(broker, world.authority.issue("carol")) == ANONYMOUS


async def test_certificates_that_prove_nothing_are_refused(world: World) -> None:
    authority = world.authority
    async with tls_broker(authority, *world.settings()) as broker:
        bad = {
            "of another authority": Authority.root("another").issue("mallory"),
            "of an authority of the same name": Authority.root().issue("mallory"),
            "for servers only": authority.issue("mallory", usage=(SERVER,)),
            "expired": authority.issue("mallory", starts_days=-9, days=-1),
            "not valid yet": authority.issue("mallory", starts_days=1),
            "a control character": authority.issue(common_name("mal\nlory")),
            "NUL": authority.issue(common_name("alice\0.example")),
        }
        for why, certificate in bad.items():
            assert await refused(broker, certificate), why
        assert not await refused(broker, authority.issue("alice", usage=(CLIENT,)))


async def test_the_trust_store_may_hold_a_leaf_or_an_intermediate(world: World) -> None:
    middle = world.authority.below()
    store = f"ssl.truststore.location={middle.write(world.directory / 'middle.pem')}"
    async with tls_broker(world.authority, world.key_store, store, "ssl.client.auth=required") as broker:
        assert await user_of(broker, middle.issue("dora")) == Principal("User", "CN=dora")
        assert await refused(broker, world.authority.issue("elsewhere"))


async def test_a_revoked_certificate_is_refused(world: World) -> None:
    good, bad = world.authority.issue("good"), world.authority.issue("bad")
    revoked = world.directory / "revoked.pem"
    revoked.write_bytes(world.authority.revoke(bad))
    async with tls_broker(world.authority, *world.settings(), f"eosin.ssl.crl.location={revoked}") as broker:
        assert await user_of(broker, good) == Principal("User", "CN=good")
        assert await refused(broker, bad)


async def test_a_connection_ends_when_its_certificate_is_revoked_and_the_others_come_back(world: World) -> None:
    """With Apache Kafka all of them live on."""
    good, bad, gone = (world.authority.issue(name) for name in ("good", "bad", "gone"))
    revoked = world.directory / "revoked.pem"
    revoked.write_bytes(world.authority.revoke(gone))
    async with tls_broker(world.authority, *world.settings(), f"eosin.ssl.crl.location={revoked}") as broker:
        clients = [await broker.connect(broker.context(each)) for each in (good, bad)]
        for each in clients:
            await each.ask()
        assert broker.server.tls is not None
        await broker.server.tls.refresh(forced=True)
        for each in clients:
            await each.ask()  # nothing has changed
        revoked.write_bytes(world.authority.revoke(bad))
        await broker.server.tls.refresh()
        for each in clients:
            assert await each.ended() == b""
        assert await refused(broker, bad)
        assert not await refused(broker, good)


async def test_a_connection_ends_when_its_authority_leaves_the_trust_store(world: World, tmp_path: Path) -> None:
    """Not that of a client without a certificate, and not when the broker's own certificate is renewed."""
    leaves, another = world.authority.below(), Authority.root()
    store = tmp_path / "clients.pem"
    leaves.write(store)
    settings = (world.key_store, f"ssl.truststore.location={store}", "ssl.client.auth=requested")
    async with tls_broker(world.authority, *settings) as broker:
        named = await broker.connect(broker.context(leaves.issue("dora")))
        nobody = await broker.connect(broker.context())
        tls = broker.server.tls
        assert tls is not None
        world.authority.issue().write(world.directory / "broker.pem")
        await tls.refresh()
        for each in (named, nobody):
            await each.ask()
        another.write(store)
        await tls.refresh()
        assert await named.ended() == b""
        await nobody.ask()


async def test_a_connection_ends_soon_after_its_certificate(world: World) -> None:
    soon = 3 / 86_400
    async with tls_broker(world.authority, *world.settings()) as broker:
        short = await broker.connect(broker.context(world.authority.issue("short", days=soon)))
        long = await broker.connect(broker.context(world.authority.issue("long")))
        for each in (short, long):
            await each.ask()
        assert await short.ended() == b""
        await long.ask()


async def test_rules_give_names_and_a_name_without_a_rule_is_refused(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    rules = r"ssl.principal.mapping.rules=RULE:^CN=(\w+)-svc$/$1/U"
    async with tls_broker(world.authority, *world.settings(), rules) as broker:
        assert await user_of(broker, world.authority.issue("billing-svc")) == Principal("User", "BILLING")
        with caplog.at_level(logging.WARNING):
            assert await refused(broker, world.authority.issue("mallory"))
            assert await refused(broker, world.authority.issue("anonymous-svc")), "the user of those who show none"
    assert "ssl.principal.mapping.rules: no rule is for the name: CN=mallory" in caplog.text
    assert caplog.text.count("closing a connection") == 2
