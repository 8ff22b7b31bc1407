"""Which connection gives its place when a broker is full (security.md 5.7)."""

import asyncio
import random
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from broker_process import BrokerProcess
from fake_peer import FakePeer, host_of, turns
from waiting import HANG_S

from eosin.broker.services import Services
from eosin.client.client import Client
from eosin.client.errors import ClientError
from eosin.model.principals import Principal
from eosin.network.api import Api, RequestContext
from eosin.network.host import ConnectionHost
from eosin.network.limits import ConnectionLimits, NetworkLimits, close_if_too_many
from eosin.network.places import QUIET_CHECKS, WAITING_CHECKS
from eosin.protocol.keys import ApiKey
from eosin.protocol.schemas.fetch import FetchRequest, FetchResponse
from eosin.protocol.schemas.heartbeat import HeartbeatRequest, HeartbeatResponse

BEAT, FETCH = ApiKey.HEARTBEAT, ApiKey.FETCH


async def for_ever(request: Any, context: RequestContext, services: Services) -> Any:
    await asyncio.get_running_loop().create_future()


async def at_once(request: Any, context: RequestContext, services: Services) -> HeartbeatResponse:
    return HeartbeatResponse(throttle_time_ms=0)


def full_host(most: int, *, beats: Any = at_once) -> ConnectionHost:
    beat = Api(key=BEAT, versions=range(0, 5), handle=beats, refuse=lambda *_: HeartbeatResponse())
    fetch = Api(key=FETCH, versions=range(4, 19), handle=for_ever, refuse=lambda *_: FetchResponse())
    return host_of(beat, fetch, max_connections=most)


def client(host: ConnectionHost, address: str = "127.0.0.1", listener: str = "PLAINTEXT") -> FakePeer:
    return FakePeer(host, address=address, listener=listener)


def logged_in(peer: FakePeer, user: str) -> FakePeer:
    """The same, known as this user from now on."""
    peer.connection.adopt(replace(peer.connection.session, principal=Principal("User", user)))
    close_if_too_many(peer.host, peer.connection)
    return peer


def beat(*peers: FakePeer) -> None:
    for each in peers:
        each.send(BEAT, 4, HeartbeatRequest(group_id="g", generation_id=1, member_id="m"))


def fetch(*peers: FakePeer) -> None:
    for each in peers:
        each.send(FETCH, 12, FetchRequest(max_wait_ms=500, min_bytes=1, topics=()))


async def look(host: ConnectionHost, times: int) -> None:
    for _ in range(times):
        host.places.sample()
        await turns()


def those_that_went(*peers: FakePeer) -> list[int]:
    return [number for number, each in enumerate(peers) if each.transport.is_closing()]


async def test_a_connection_that_is_quiet_for_a_while_gives_its_place() -> None:
    host = full_host(2)
    quiet, busy = client(host), client(host)
    for _ in range(QUIET_CHECKS):
        assert not host.places.give("PLAINTEXT"), "too early"
        beat(busy)
        await look(host, 1)
    assert host.places.give("PLAINTEXT")
    assert those_that_went(quiet, busy) == [0]
    await turns()
    assert not host.places.give("PLAINTEXT"), "the other one asks for something each time"


async def test_a_connection_that_asks_again_before_it_was_its_turn_keeps_its_place() -> None:
    host = full_host(1)
    peer = client(host)
    await look(host, QUIET_CHECKS)
    beat(peer)
    assert not host.places.give("PLAINTEXT")
    assert len(peer.answers()) == 1


async def test_a_client_that_asks_for_something_every_second_keeps_its_place_however_long_it_is_there() -> None:
    host = full_host(1)
    busy = client(host)
    for _ in range(3 * WAITING_CHECKS):
        beat(busy)
        await look(host, 1)
        assert not host.places.give("PLAINTEXT")
    assert len(busy.answers()) == 3 * WAITING_CHECKS


async def test_a_client_whose_requests_are_held_by_a_quota_keeps_its_place() -> None:
    host = full_host(1)
    held = client(host)
    held.connection.hold()
    await look(host, WAITING_CHECKS)
    assert not host.places.give("PLAINTEXT")
    held.connection.release()
    await look(host, 1)
    assert host.places.give("PLAINTEXT")


async def test_handshakes_that_take_places_count_among_those_that_are_taken() -> None:
    host = full_host(4)
    quiet = client(host)
    host.layers = cast(Any, dict.fromkeys(range(3)))
    await look(host, QUIET_CHECKS)
    assert host.places.give("PLAINTEXT")
    assert those_that_went(quiet) == [0]


async def test_a_request_under_way_or_begun_or_an_answer_that_is_not_taken_keeps_a_place() -> None:
    host = full_host(3, beats=for_ever)
    waits, begins, reads_slowly = client(host), client(host), client(host)
    beat(waits)
    begins.transport.feed(b"\0\0\0\x40half of a request")
    reads_slowly.transport.read_slowly()
    reads_slowly.transport.write(b"an answer")
    await look(host, WAITING_CHECKS + 1)
    assert not host.places.give("PLAINTEXT")
    assert those_that_went(waits, begins, reads_slowly) == []


async def test_who_waits_for_records_gives_its_place_later_and_after_those_that_ask_for_nothing() -> None:
    host = full_host(3)
    consumers = [client(host), client(host)]
    for number in range(WAITING_CHECKS):
        assert not host.places.give("PLAINTEXT"), f"too early, at look {number}"
        if number == 0:
            fetch(*consumers)
        await look(host, 1)
        if number == WAITING_CHECKS - QUIET_CHECKS - 1:
            quiet = client(host)
    everybody = (*consumers, quiet)
    gone = []
    for _ in range(3):
        assert host.places.give("PLAINTEXT")
        gone += [each for each in those_that_went(*everybody) if each not in gone]
        await turns()
    assert gone == [2, 0, 1]
    assert not host.places.give("PLAINTEXT")


async def test_the_address_with_the_most_connections_gives_first_and_then_the_oldest() -> None:
    host = full_host(6)
    one = client(host, "10.0.0.1")
    many = [client(host, "10.0.0.2") for _ in range(3)]
    two = [client(host, "10.0.0.3") for _ in range(2)]
    await look(host, QUIET_CHECKS)
    order = []
    everybody = (one, *many, *two)
    for _ in range(6):
        assert host.places.give("PLAINTEXT")
        order += [each for each in those_that_went(*everybody) if each not in order]
    assert order == [1, 2, 3, 4, 5, 0]


async def test_the_user_with_the_most_connections_gives_first_from_wherever_they_come() -> None:
    host = full_host(6)
    nobody = [client(host, "10.0.0.9") for _ in range(2)]
    bob = logged_in(client(host, "10.0.0.1"), "bob")
    mallory = [logged_in(client(host, f"10.0.1.{number}"), "mallory") for number in range(3)]
    await look(host, QUIET_CHECKS)
    order = []
    everybody = (*nobody, bob, *mallory)
    for _ in range(6):
        assert host.places.give("PLAINTEXT")
        order += [each for each in those_that_went(*everybody) if each not in order]
    assert order == [3, 4, 5, 0, 1, 2]


async def test_a_user_with_more_than_half_of_all_connections_leaves_the_last_ones_to_others(
    caplog: pytest.LogCaptureFixture,
) -> None:
    host = full_host(100)
    others = [logged_in(client(host), f"user-{number}") for number in range(40)]
    mallory = [logged_in(client(host), "mallory") for _ in range(55)]
    host.places.sample()
    beat(*others, *mallory)
    more = [logged_in(client(host), "mallory") for _ in range(2)]
    await turns()
    alice = logged_in(client(host), "alice")
    await turns()
    assert those_that_went(*others, *mallory, *more, alice) == [95, 96]
    assert caplog.text.count("the last ones are left to others") == 1


async def test_users_with_half_of_all_connections_each_may_fill_the_broker() -> None:
    host = full_host(100)
    peers = [logged_in(client(host), f"user-{number % 2}") for number in range(80)]
    host.places.sample()
    peers += [logged_in(client(host), f"user-{number % 2}") for number in range(20)]
    await turns()
    assert those_that_went(*peers) == []


async def test_a_user_that_takes_many_places_at_once_is_seen_before_the_next_look() -> None:
    host = full_host(100)
    host.places.sample()
    peers = [logged_in(client(host), "mallory") for _ in range(100)]
    await turns()
    assert len(those_that_went(*peers)) == 5


async def test_a_listener_with_places_of_its_own_gives_them_to_its_like_only() -> None:
    host = full_host(2)
    host.limits = ConnectionLimits(NetworkLimits(spared=frozenset({"LOCAL"})), possible=100)
    operator, other = client(host, listener="LOCAL"), client(host, listener="REMOTE")
    beat(other)
    await look(host, QUIET_CHECKS)
    beat(other)
    assert not host.places.give("REMOTE")
    assert host.places.give("LOCAL")
    assert those_that_went(operator, other) == [0]


async def test_nothing_is_noted_of_anybody_while_there_is_room_for_many() -> None:
    host = full_host(100)
    peers = [client(host) for _ in range(74)]
    await look(host, WAITING_CHECKS)
    assert not host.places.give("PLAINTEXT")
    assert host.places._seen == {}
    assert those_that_went(*peers) == []


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_with_twenty_two_places_each_of_sixty_clients_with_two_connections_is_answered(
    tmp_path: Path, loop: str
) -> None:
    """Each holds one connection while it waits for the other, and keeps what it has for as long as it may."""
    clients, done, all_done = 60, set[int](), asyncio.Event()

    async def ask(number: int) -> None:
        chance = random.Random(number)
        while number not in done:
            try:
                async with one_client() as one, one_client() as other:
                    await one.metadata()
                    await other.metadata()
                    done.add(number)
                    if len(done) == clients:
                        all_done.set()
                    await asyncio.sleep(60)
            except ClientError:
                await asyncio.sleep(chance.random())

    def one_client() -> Client:
        return Client(broker.address, retry_timeout_ms=300, request_timeout_ms=15_000)

    async def all_of_them() -> None:
        tasks = [asyncio.create_task(ask(number)) for number in range(clients)]
        try:
            async with asyncio.timeout(HANG_S):
                await all_done.wait()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    settings = {"eosin.event.loop": loop}
    with BrokerProcess(tmp_path / "data", durability="memory", settings=settings, descriptors=64) as broker:
        asyncio.run(all_of_them())
        assert "it asked for nothing and others come" in broker.log
        assert "Traceback" not in broker.log
