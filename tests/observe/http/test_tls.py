"""The HTTP listener over TLS, on both event loops: its certificates and their reload, who is asked for one, and what
greets it otherwise (console.md 6)."""

import asyncio
import gc
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
import uvloop
from certificates import Authority
from observed_broker import ORDERS_0, ObservedBroker, observed_broker
from waiting import HANG_S, until

from eosin.cli import health
from eosin.client.client import Client
from eosin.client.http import HttpError, get
from eosin.node.configuration import load_config
from eosin.observe.explain.cluster_facts import ClusterFacts
from eosin.observe.explain.subjects import find
from eosin.observe.http import tls as http_tls
from eosin.settings.settings import SettingError

pytestmark = pytest.mark.process

Loops = Callable[[], asyncio.AbstractEventLoop]


@pytest.fixture(params=[asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def loops(request: pytest.FixtureRequest) -> Loops:
    factory: Loops = request.param
    return factory


class Secured:
    """An authority, and a broker's certificate of it on disk."""

    def __init__(self, path: Path) -> None:
        self.authority = Authority.root()
        self.store = path / "broker.pem"
        self.ca = self.authority.write(path / "ca.pem")
        self.renew()

    def renew(self) -> int:
        """A new certificate in place of the last; its serial number."""
        issued = self.authority.issue("broker")
        aside = self.store.with_suffix(".new")
        issued.write(aside)
        aside.replace(self.store)
        return issued.certificate.serial_number

    @property
    def trusting(self) -> ssl.SSLContext:
        """What a client trusts."""
        return ssl.create_default_context(cafile=self.ca)


def run(loops: Loops, secured: Secured, scene: Callable[[ObservedBroker], Awaitable[None]], **settings: object) -> None:
    """A scene with a broker whose HTTP listener speaks TLS."""

    async def main() -> None:
        async with observed_broker(
            eosin_http_ssl_enable=True, ssl_keystore_location=str(secured.store), **settings
        ) as broker:
            await scene(broker)

    with asyncio.Runner(loop_factory=loops) as runner:
        runner.run(main())


async def serial(broker: ObservedBroker, context: ssl.SSLContext) -> int:
    """The serial number of the certificate that a new connection is shown."""
    host, _, port = broker.http.rpartition(":")
    _, writer = await asyncio.open_connection(host, int(port), ssl=context, server_hostname="localhost")
    shown = writer.get_extra_info("ssl_object").getpeercert()["serialNumber"]
    writer.close()
    return int(shown, 16)


async def sent(broker: ObservedBroker, greeting: bytes) -> bytes:
    """What the listener sends, until it closes, to whoever greets it so over TCP."""
    host, _, port = broker.http.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(greeting)
    try:
        return await asyncio.wait_for(reader.read(), HANG_S)
    finally:
        writer.close()


def test_health_metrics_and_explanations_come_over_tls(
    tmp_path: Path, loops: Loops, capsys: pytest.CaptureFixture[str]
) -> None:
    secured = Secured(tmp_path)

    async def scene(broker: ObservedBroker) -> None:
        url = f"https://{broker.http}"
        for path in ("readyz", "metrics"):
            assert (await get(f"{url}/{path}", timeout_ms=5000, tls=secured.trusting)).status == 200
        with pytest.raises(HttpError, match="has a certificate that is not trusted"):
            await get(f"{url}/readyz", timeout_ms=5000)
        for options, code in (([url, "--ca", secured.ca], 0), ([url, "--insecure"], 0), ([url], 1)):
            assert await asyncio.to_thread(health.main, options) == code
        producer = await broker.producer("invoicing")
        await producer.append(ORDERS_0)
        async with Client(broker.address) as client:
            asked = ClusterFacts(client, http=None, token=None, timeout_ms=5000, tls=secured.trusting)
            assert "orders-1 at" in (await find(asked, "invoicing", None)).sentence
            assert not asked.complaints

    given = {"eosin.http.listener": "0", "eosin.http.ssl.enable": "true"}  # by which explain finds it
    run(loops, secured, scene, given=given)
    assert capsys.readouterr().err.count("not trusted") == 1


def test_new_connections_get_a_renewed_certificate_and_open_ones_go_on(tmp_path: Path, loops: Loops) -> None:
    secured = Secured(tmp_path)

    async def scene(broker: ObservedBroker) -> None:
        before = await serial(broker, secured.trusting)
        host, _, port = broker.http.rpartition(":")
        reader, writer = await asyncio.open_connection(
            host, int(port), ssl=secured.trusting, server_hostname="localhost"
        )
        renewed = secured.renew()
        assert broker.server.has_certificates
        broker.server.reload()

        async def is_renewed() -> bool:
            return await serial(broker, secured.trusting) == renewed != before

        await until(is_renewed)
        secured.store.write_text("no certificate\n")
        assert broker.server.observability is not None
        await broker.server.observability.refresh()
        assert await serial(broker, secured.trusting) == renewed
        writer.write(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert (await reader.readline()).startswith(b"HTTP/1.1 200")
        writer.close()

    run(loops, secured, scene)


def test_plain_http_is_told_that_the_port_speaks_tls(tmp_path: Path, loops: Loops) -> None:
    secured = Secured(tmp_path)

    async def scene(broker: ObservedBroker) -> None:
        answer = await sent(broker, b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 400 Bad Request\r\n")
        assert answer.endswith(b"plain HTTP was sent to a port that speaks TLS: ask with https://\n")
        assert (await get(f"https://{broker.http}/livez", timeout_ms=5000, tls=secured.trusting)).status == 200

    run(loops, secured, scene)


def test_broken_greetings_are_closed_without_a_word_in_the_log(
    tmp_path: Path, loops: Loops, caplog: pytest.LogCaptureFixture
) -> None:
    secured = Secured(tmp_path)

    async def scene(broker: ObservedBroker) -> None:
        for greeting in (
            b"\x16\x03\x01\x00\x05hello" + b"x" * 100,
            b"\x16" + b"\xff" * 600,
            b"\x16\x03\x01\x02\x00\x01",
        ):
            host, _, port = broker.http.rpartition(":")
            reader, writer = await asyncio.open_connection(host, int(port))
            writer.write(greeting)
            writer.write_eof()
            await asyncio.wait_for(reader.read(), HANG_S)
            writer.close()
        assert (await get(f"https://{broker.http}/livez", timeout_ms=5000, tls=secured.trusting)).status == 200

    run(loops, secured, scene)
    gc.collect()
    assert not [each for each in caplog.records if each.levelname in ("WARNING", "ERROR", "CRITICAL")]


def test_a_handshake_that_takes_too_long_or_one_of_too_many_is_closed(
    tmp_path: Path, loops: Loops, monkeypatch: pytest.MonkeyPatch
) -> None:
    secured = Secured(tmp_path)
    monkeypatch.setattr(http_tls, "MOST_HANDSHAKES", 3)
    monkeypatch.setattr(http_tls, "HANDSHAKE_SECONDS", 0.2)

    async def scene(broker: ObservedBroker) -> None:
        host, _, port = broker.http.rpartition(":")
        slow = [await asyncio.open_connection(host, int(port)) for _ in range(5)]
        for reader, writer in slow:  # the oldest make room, the others run out of time
            assert await asyncio.wait_for(_ended(reader), HANG_S)
            writer.close()
        assert (await get(f"https://{broker.http}/livez", timeout_ms=5000, tls=secured.trusting)).status == 200

    run(loops, secured, scene)


async def _ended(reader: asyncio.StreamReader) -> bool:
    try:
        return await reader.read() == b""
    except ConnectionError:
        return True


def test_clients_show_certificates_where_the_http_listener_itself_asks_for_them(tmp_path: Path, loops: Loops) -> None:
    secured = Secured(tmp_path)
    mine = secured.authority.issue("prometheus").write(tmp_path / "mine.pem")
    settings = load_config(
        assignments=[
            "eosin.http.listener=0",
            "eosin.http.ssl.enable=true",
            f"ssl.keystore.location={secured.store}",
            f"ssl.truststore.location={secured.ca}",
            "listener.name.http.ssl.client.auth=required",
        ]
    ).config

    async def scene(broker: ObservedBroker) -> None:
        url, shown = f"https://{broker.http}/livez", secured.trusting
        shown.load_cert_chain(mine)
        assert (await get(url, timeout_ms=5000, tls=shown)).status == 200
        with pytest.raises(HttpError):
            await get(url, timeout_ms=5000, tls=secured.trusting)

    run(loops, secured, scene, ssl_truststore_location=secured.ca, overrides=settings.overrides)


@pytest.mark.parametrize(
    ("assignments", "sentence"),
    [
        (["eosin.http.ssl.enable=true"], "eosin.http.ssl.enable needs eosin.http.listener"),
        (["eosin.http.ssl.enable=true", "eosin.http.listener=0"], "listener HTTP speaks TLS, so it needs ssl.keystore"),
    ],
)
def test_tls_without_a_listener_or_a_certificate_is_refused(assignments: list[str], sentence: str) -> None:
    with pytest.raises(SettingError, match=sentence):
        load_config(assignments=assignments)


def test_a_greeting_of_tls_on_the_plain_port_is_closed() -> None:
    async def main() -> None:
        async with observed_broker() as broker:
            host, _, port = broker.http.rpartition(":")
            with pytest.raises((ssl.SSLError, ConnectionError)):
                await asyncio.open_connection(host, int(port), ssl=ssl.create_default_context())
            assert (await broker.get("livez")).status == 200

    asyncio.run(main())
