"""Clients that begin a request and do not end it (security.md 6.2)."""

import asyncio
import struct

import pytest
from fake_peer import FakePeer, host_of
from virtual_broker import VirtualBroker

from eosin.network.refusal_log import RefusalLog
from eosin.network.watch import PROGRESS_BYTES, ConnectionWatch, UnfinishedFrames
from eosin.protocol.keys import ApiKey
from eosin.settings.broker import BrokerConfig


class Client:
    """A connection whose frame is so far at each look."""

    listener = "PLAINTEXT"
    peer = "10.0.0.5:50000"

    def __init__(self, *seen: tuple[int, int] | None) -> None:
        self.left = list(seen)
        self.aborted = False

    def unfinished(self) -> tuple[int, int] | None:
        return self.left.pop(0)

    def abort(self) -> None:
        self.aborted = True


def looked(*seen: tuple[int, int] | None, looks: int = 3) -> bool:
    client, watch = Client(*seen), UnfinishedFrames(looks=looks, refusals=RefusalLog())
    for _ in seen:
        watch.check([] if client.aborted else [client])
    return client.aborted


def test_a_client_that_adds_a_byte_now_and_then_is_given_up(caplog: pytest.LogCaptureFixture) -> None:
    assert not looked((0, 10), (0, 11), (0, 12))
    assert looked((0, 10), (0, 11), (0, 12), (0, 13))
    assert "the client does not end the request that it has begun" in caplog.text


def test_a_client_that_goes_on_stays_however_long_it_takes() -> None:
    steps = [(0, 10 + number * PROGRESS_BYTES // 3 + number) for number in range(30)]
    assert not looked(*steps)
    assert not looked((0, 10), (0, 10), (0, 10), None, (0, 10), (0, 10), (0, 10)), "it had to wait meanwhile"
    assert not looked((0, 10), (0, 10), (0, 10), (1, 10), (1, 10), (1, 10)), "another frame"


async def test_a_connection_that_is_not_read_is_in_the_middle_of_nothing() -> None:
    peer = FakePeer(host_of())
    assert peer.connection.unfinished() is None
    peer.transport.feed(struct.pack(">ih", 100, ApiKey.METADATA))
    assert peer.connection.unfinished() == (0, 6)
    peer.connection.hold()
    peer.connection._steer_reading()
    assert peer.connection.unfinished() is None


@pytest.mark.virtual
async def test_a_slow_loris_is_closed_after_its_login_too() -> None:
    """On a listener of nobody's: there the time for a login does not count."""
    broker = VirtualBroker({"eosin.frame.timeout.ms": "2000"})
    await broker.start()
    host, _, port = broker.address.rpartition(":")
    loris, large, idle = [await asyncio.open_connection(host, int(port)) for _ in range(3)]
    large[1].write(struct.pack(">ih", 50_000_000, ApiKey.PRODUCE))
    reader, writer = loris
    for byte in struct.pack(">ihh", 1000, ApiKey.METADATA, 12):
        writer.write(bytes((byte,)))
        await asyncio.sleep(0.3)
    for closed in (reader, large[0]):
        assert await closed.read() == b""
    assert not idle[0].at_eof(), "who has begun nothing may stay"
    for _, opened in (loris, large, idle):
        opened.close()


def test_without_a_limit_nothing_is_looked_at() -> None:
    assert ConnectionWatch(host_of(), BrokerConfig(eosin_frame_timeout_ms=-1))._unfinished is None
    assert ConnectionWatch(host_of(), BrokerConfig())._unfinished is not None
