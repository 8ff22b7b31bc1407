"""Certificates change under a running broker (security.md 2.5): new connections get the new one, open ones live on, and
whatever cannot be used changes nothing."""

import asyncio
import logging
import os
import signal
import ssl
from pathlib import Path
from typing import Any

import pytest
import uvloop
from broker_process import BrokerProcess
from certificates import Authority, Issued, ed25519_key, rsa_key
from manual_clock import ManualClock
from tls_broker import TlsBroker, TlsClient, tls_broker
from waiting import HANG_S, wait_until

from eosin.node.configuration import load_config
from eosin.runtime.key_files import StoreError
from eosin.security.tls.contexts import build_context
from eosin.security.tls.reload import PATIENCE_MS, StoreWatch
from eosin.security.tls.settings import tls_settings

CLOCK_MS = 1_000_000_000


class Watched:
    """A key store on disk, and who watches it."""

    def __init__(self, directory: Path, *settings: str) -> None:
        self.authority = Authority.root()
        self.path = directory / "broker.pem"
        self.first = self.authority.issue("broker")
        self.put(self.first)
        given = ["listeners=SSL://localhost:1", f"ssl.keystore.location={self.path}", *settings]
        self.clock = ManualClock(int(self.first.certificate.not_valid_before_utc.timestamp() * 1000) + 86_400_000)
        self.watch = StoreWatch(
            tls_settings(load_config(assignments=given).config, "SSL"), self.clock, build=build_context
        )

    def put(self, issued: Issued) -> None:
        """As tools do it that replace a file at once."""
        aside = self.path.with_suffix(".new")
        issued.write(aside)
        aside.replace(self.path)

    @property
    def serial(self) -> int:
        return self.watch.built.key_store.leaf.serial_number

    def has(self, issued: Issued) -> bool:
        return self.serial == issued.certificate.serial_number


@pytest.fixture
def watched(tmp_path: Path) -> Watched:
    return Watched(tmp_path)


async def test_a_store_that_has_not_changed_is_not_built_again(watched: Watched) -> None:
    before = watched.watch.built
    assert not await watched.watch.refresh()
    assert watched.watch.built is before
    assert await watched.watch.refresh(forced=True)
    assert watched.watch.built is not before


async def test_a_changed_store_is_a_new_context(watched: Watched) -> None:
    before, following = watched.watch.built, watched.authority.issue("broker")
    watched.put(following)
    assert await watched.watch.refresh()
    assert watched.has(following)
    assert watched.watch.built.context is not before.context


async def test_a_symbolic_link_that_leads_elsewhere_is_a_change(tmp_path: Path) -> None:
    """As Kubernetes replaces a mounted secret."""
    authority = Authority.root()
    one, two = authority.issue(), authority.issue()
    for name, issued in (("one", one), ("two", two)):
        (tmp_path / name).mkdir()
        issued.write(tmp_path / name / "broker.pem")
    (tmp_path / "now").symlink_to("one")
    watched = Watched(tmp_path / "one")
    watched.put(one)
    path = tmp_path / "now" / "broker.pem"
    given = ["listeners=SSL://localhost:1", f"ssl.keystore.location={path}"]
    watch = StoreWatch(tls_settings(load_config(assignments=given).config, "SSL"), watched.clock, build=build_context)
    (tmp_path / "next").symlink_to("two")
    (tmp_path / "next").replace(tmp_path / "now")
    assert await watch.refresh()
    assert watch.built.key_store.leaf == two.certificate


async def test_an_unusable_certificate_leaves_the_old_one_and_is_told_once(
    watched: Watched, caplog: pytest.LogCaptureFixture
) -> None:
    other_key = watched.authority.issue().key_pem()
    bad = {
        "garbage": b"\0garbage",
        "no private key": watched.authority.issue().chain_pem(),
        "another private key": other_key + watched.authority.issue().chain_pem(),
        "expired": b"".join(
            (issued.key_pem() + issued.chain_pem()) for issued in [watched.authority.issue(starts_days=-9, days=-8)]
        ),
        "another subject": b"".join(
            (issued.key_pem() + issued.chain_pem()) for issued in [watched.authority.issue("somebody")]
        ),
        "a name less": b"".join(
            (issued.key_pem() + issued.chain_pem()) for issued in [watched.authority.issue(names=("localhost",))]
        ),
    }
    for why, content in bad.items():
        watched.path.write_bytes(content)
        caplog.clear()
        for _ in range(3):
            assert not await watched.watch.refresh(), why
            watched.clock.advance(PATIENCE_MS)
        assert watched.has(watched.first), why
        assert caplog.text.count("the old one stays") == 1, why
        assert b"garbage" not in caplog.text.encode(), why
    watched.path.unlink()
    assert not await watched.watch.refresh(forced=True)
    assert "cannot read" in caplog.text


async def test_files_that_are_written_one_after_the_other_are_no_error(
    watched: Watched, caplog: pytest.LogCaptureFixture
) -> None:
    following = watched.authority.issue()
    watched.path.write_bytes(following.key_pem())
    assert not await watched.watch.refresh()
    watched.clock.advance(PATIENCE_MS - 1)
    assert not await watched.watch.refresh()
    following.write(watched.path)
    assert await watched.watch.refresh()
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


async def test_a_change_of_names_can_be_allowed(tmp_path: Path) -> None:
    watched = Watched(tmp_path, "ssl.allow.dn.changes=true", "ssl.allow.san.changes=true")
    other = watched.authority.issue("somebody", names=("elsewhere",))
    watched.put(other)
    assert await watched.watch.refresh()
    assert watched.has(other)


async def test_a_certificate_that_expires_soon_is_told_once_a_day(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    watched = Watched(tmp_path)
    watched.put(watched.authority.issue(days=12))
    assert await watched.watch.refresh()
    for _ in range(4):
        watched.clock.advance(12 * 3_600_000)
        await watched.watch.refresh()
    assert caplog.text.count("expires in") == 3


KEYS: dict[str, Any] = {"RSA": rsa_key, "Ed25519": ed25519_key}


@pytest.mark.parametrize("kind", KEYS)
async def test_keys_of_every_kind_can_be_used(tmp_path: Path, kind: str) -> None:
    watched = Watched(tmp_path)
    watched.put(watched.authority.issue(key=KEYS[kind]))
    assert await watched.watch.refresh()


def test_a_weak_key_is_refused_at_the_start(tmp_path: Path) -> None:
    authority = Authority.root()
    path = authority.issue(key=rsa_key(1024)).write(tmp_path / "weak.pem")
    given = ["listeners=SSL://localhost:1", f"ssl.keystore.location={path}"]
    with pytest.raises(StoreError, match="an RSA key of 1024 bits; at least 2048 are needed"):
        StoreWatch(
            tls_settings(load_config(assignments=given).config, "SSL"), ManualClock(CLOCK_MS), build=build_context
        )


@pytest.mark.process
@pytest.mark.parametrize("count", [40, pytest.param(200, marks=pytest.mark.full)])
@pytest.mark.parametrize("make_loop", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def test_connections_live_through_twenty_reloads(tmp_path: Path, make_loop: Any, count: int) -> None:
    async def run() -> None:
        authority = Authority.root()
        path = tmp_path / "broker.pem"
        authority.issue().write(path)
        async with tls_broker(authority, f"ssl.keystore.location={path}") as broker:
            clients = [await broker.connect() for _ in range(count)]
            stop, asked = asyncio.Event(), [0] * len(clients)
            tasks = [asyncio.create_task(asking(client, at, asked, stop)) for at, client in enumerate(clients)]
            for _ in range(20):
                following = authority.issue()
                os.replace(following.write(tmp_path / "next.pem"), path)
                assert broker.server.tls is not None
                await broker.server.tls.refresh()
                assert await shown(broker) == following.certificate.serial_number
            stop.set()
            await asyncio.gather(*tasks)
            assert min(asked) > 0
            assert len(broker.connections) >= len(clients)

    async def asking(client: TlsClient, at: int, asked: list[int], stop: asyncio.Event) -> None:
        while not stop.is_set():
            await client.ask()
            asked[at] += 1

    async def shown(broker: TlsBroker) -> int:
        client = await broker.connect()
        engine: ssl.SSLObject = client.writer.get_extra_info("ssl_object")
        certificate = engine.getpeercert()
        assert certificate is not None
        serial = int(str(certificate["serialNumber"]), 16)
        client.close()
        return serial

    with asyncio.Runner(loop_factory=make_loop) as runner:
        runner.run(asyncio.wait_for(run(), HANG_S))


@pytest.mark.process
@pytest.mark.slow
def test_a_signal_loads_the_certificate_again(tmp_path: Path) -> None:
    authority = Authority.root()
    path = authority.issue().write(tmp_path / "broker.pem")
    settings = {"ssl.keystore.location": path, "eosin.ssl.reload.interval.ms": "0"}
    broker = BrokerProcess(tmp_path / "data", settings=settings)
    broker.options = ("--listen", "SSL=127.0.0.1:0")
    with broker:
        following = authority.issue()
        following.write(tmp_path / "broker.pem")
        os.kill(broker.pid, signal.SIGHUP)
        wait_until(lambda: f"serial={following.certificate.serial_number:x}" in broker.log)
        (tmp_path / "broker.pem").write_bytes(b"garbage")
        os.kill(broker.pid, signal.SIGHUP)
        wait_until(lambda: "the old one stays" in broker.log)
