"""Places of those who have not proved who they are: who gets one, who keeps it, and who gives it (security.md 5.7)."""

import asyncio
import logging
import random
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count

import pytest
from call_counter import CallCounter
from hypothesis import given
from hypothesis import strategies as st
from manual_clock import ManualClock, PausingClock
from sasl_peer import PASSWORD, SCRAM, SaslBroker, SaslPeer, users

from eosin.model.address_group import network_of
from eosin.network.known_addresses import MOST, KnownAddresses
from eosin.network.refusal_log import RefusalLog
from eosin.network.unauthenticated_peers import (
    TIME_MS,
    UnauthenticatedPeer,
    UnauthenticatedPeerLimits,
    UnauthenticatedPeers,
    unauthenticated_peers_of,
)
from eosin.node.configuration import load_config
from eosin.protocol.sasl.scram_client import ScramClient
from eosin.protocol.sasl.steps import Challenge
from eosin.runtime.chance import SeededChance
from eosin.runtime.clock import Clock, SystemClock

pytestmark = pytest.mark.virtual

FIRST_BYTE_S, LOGIN_S = 2.0, 10.0
SOON_S = 0.05
ROUND_TRIP_S = 0.02
"""Between a client and the broker."""


class Layer:
    """What serves a connection."""

    def __init__(self, *, has_received: bool = False) -> None:
        self.has_received = has_received
        self.is_aborted = False
        self.told: Callable[[], None] = lambda: None

    def abort(self) -> None:
        self.is_aborted = True
        self.told()


class Places:
    """The places of one listener, and the connections that were let in."""

    def __init__(self, most: int, of_address: int = 100, seed: int = 1, clock: Clock | None = None) -> None:
        self.peers = UnauthenticatedPeers(
            "INSIDE",
            UnauthenticatedPeerLimits(most=most, most_per_address=of_address),
            KnownAddresses(),
            refusals=RefusalLog(),
            clock=clock or SystemClock(),
            chance=SeededChance(seed),
            loop=asyncio.get_running_loop(),
        )

    def enter(self, host: str, *, has_sent: bool = False) -> Layer | None:
        peer = self.peers.admit(host)
        if peer is None:
            return None
        layer = Layer(has_received=has_sent)
        peer.served_by(layer, "tls")
        return layer

    def fill(self, hosts: Iterator[str], places: int, *, has_sent: bool = False) -> list[Layer]:
        entered = [self.enter(next(hosts), has_sent=has_sent) for _ in range(places)]
        assert None not in entered
        return [each for each in entered if each is not None]


def networks() -> Iterator[str]:
    """Addresses of one network each."""
    return (f"10.{number // 256}.{number % 256}.1" for number in count())


def of_one_network() -> Iterator[str]:
    return (f"10.0.0.{number % 250}" for number in count())


async def until_all_had_their_time() -> None:
    await asyncio.sleep(TIME_MS / 1000 + SOON_S)


async def until_the_first_byte_is_late() -> None:
    await asyncio.sleep(FIRST_BYTE_S + SOON_S)


# How long each may take


async def test_a_peer_that_sends_nothing_has_two_seconds_and_one_that_sends_has_ten() -> None:
    places = Places(10)
    silent, slow = places.enter("10.0.0.1"), places.enter("10.0.0.2")
    assert silent is not None
    assert slow is not None
    await asyncio.sleep(FIRST_BYTE_S - SOON_S)
    slow.has_received = True
    assert not silent.is_aborted
    await asyncio.sleep(2 * SOON_S)
    assert (silent.is_aborted, slow.is_aborted) == (True, False)
    assert places.peers.count == 1
    await asyncio.sleep(LOGIN_S - FIRST_BYTE_S)
    assert slow.is_aborted
    assert places.peers.count == 0


@pytest.mark.parametrize("pause_s", [3, 60])
async def test_a_broker_that_stood_still_reads_what_was_sent_before_it_judges(pause_s: int) -> None:
    clock = PausingClock()
    places = Places(20, clock=clock)
    sends, silent = places.enter("10.0.0.1"), places.enter("10.0.0.2")
    assert sends is not None
    assert silent is not None
    await clock.run(100)
    clock.pause(pause_s * 1000)
    clock.call_soon(partial(setattr, sends, "has_received", True))
    await clock.run(0)
    assert places.enter("10.0.0.3") is not None
    assert not silent.is_aborted, "it has its time to send something still"
    await clock.run(FIRST_BYTE_S * 1000)
    assert (sends.is_aborted, silent.is_aborted) == (False, True)


async def test_a_wall_clock_that_jumps_closes_nobody() -> None:
    clock = PausingClock()
    layer = Places(10, clock=clock).enter("10.0.0.1")
    assert layer is not None
    clock.ahead_ms = 86_400_000
    await clock.run(1000)
    clock.ahead_ms = -86_400_000
    await clock.run(500)
    assert not layer.is_aborted


async def test_those_who_send_nothing_have_one_line_for_each_address(caplog: pytest.LogCaptureFixture) -> None:
    places = Places(100)
    for _ in range(5):
        places.fill(iter(["10.0.0.1"] * 10 + ["10.0.0.2"] * 10), 20)
        await until_the_first_byte_is_late()
    assert caplog.text.count("the peer has sent nothing within 2000 ms") == 2


async def test_what_was_sent_below_tls_counts_when_the_connection_above_has_nothing_yet() -> None:
    places = Places(10)
    peer = places.peers.admit("10.0.0.1")
    assert peer is not None
    peer.served_by(Layer(has_received=True), "tls")
    above = Layer()
    peer.served_by(above, "sasl")
    await until_the_first_byte_is_late()
    assert not above.is_aborted


async def test_a_connection_that_is_served_after_its_time_is_closed() -> None:
    peer = Places(10).peers.admit("10.0.0.1")
    assert peer is not None
    await until_the_first_byte_is_late()
    late = Layer()
    peer.served_by(late, "tls")
    assert late.is_aborted


# Who gives its place


async def test_when_all_places_are_taken_one_that_sent_nothing_goes_and_not_the_newest() -> None:
    gone = set()
    for seed in range(20):
        places = Places(20, seed=seed)
        hosts = networks()
        speaking, silent = places.fill(hosts, 9, has_sent=True), places.fill(hosts, 9)
        await until_all_had_their_time()
        assert places.enter(next(hosts)) is not None
        assert not any(each.is_aborted for each in speaking)
        gone |= {number for number, each in enumerate(silent) if each.is_aborted}
        assert sum(each.is_aborted for each in silent) == 1
        assert places.peers.count == 18, "its place is free at once"
    assert len(gone) > 4, "always the same one"


async def test_when_all_have_sent_something_one_of_the_fullest_network_goes() -> None:
    places = Places(200)
    many = places.fill(of_one_network(), 60, has_sent=True)
    hosts = (f"192.168.{number}.1" for number in count())
    few = places.fill(hosts, 120, has_sent=True)
    for _ in range(15):
        assert places.enter(next(hosts), has_sent=True) is not None
    assert sum(each.is_aborted for each in many) == 15
    assert not any(each.is_aborted for each in few)


async def test_many_of_one_network_that_log_in_at_once_do_not_push_out_each_other() -> None:
    places = Places(200)
    hosts = of_one_network()
    first = places.fill(hosts, 180, has_sent=True)
    assert [places.enter(next(hosts)) for _ in range(100)] == [None] * 100
    assert not any(each.is_aborted for each in first)
    await until_all_had_their_time()
    assert places.enter(next(hosts)) is not None, "those who had their time make room"


async def test_those_who_have_just_come_keep_their_places_where_no_network_has_many() -> None:
    places = Places(200)
    hosts = networks()
    first = places.fill(hosts, 180, has_sent=True)
    assert places.enter(next(hosts)) is None
    await until_all_had_their_time()
    assert places.enter(next(hosts)) is not None
    assert sum(each.is_aborted for each in first) == 1


async def test_one_that_has_sent_nothing_yet_is_not_pushed_out_by_many_that_have_sent_a_byte() -> None:
    for seed in range(20):
        places = Places(200, seed=seed)
        hosts = networks()
        places.fill(hosts, 179, has_sent=True)
        await until_all_had_their_time()
        honest = places.enter("172.16.0.1")
        assert honest is not None
        for _ in range(20):
            assert places.enter(next(hosts), has_sent=True) is not None
        assert not honest.is_aborted


async def test_an_address_with_as_many_as_it_may_have_gives_of_its_own(caplog: pytest.LogCaptureFixture) -> None:
    places = Places(100, of_address=3)
    other = places.enter("10.0.0.2")
    mine = places.fill(iter(["10.0.0.1"] * 3), 3, has_sent=True)
    assert places.enter("10.0.0.1") is None
    await until_all_had_their_time()
    assert places.enter("10.0.0.1") is not None
    assert sum(each.is_aborted for each in mine) == 1
    assert other is not None
    assert not other.is_aborted
    assert caplog.text.count("too many connections of one address") == 1


async def test_one_that_waits_for_the_answer_to_its_failed_login_may_go_for_others() -> None:
    places = Places(2, of_address=10)
    hosts = networks()
    held = [places.peers.admit(next(hosts)) for _ in range(2)]
    for each in held:
        assert each is not None
        each.served_by(Layer(has_received=True), "PLAIN")
        each.hold()
    assert places.enter(next(hosts)) is not None


# Who is known


async def test_a_tenth_of_the_places_is_left_to_addresses_that_have_logged_in_before() -> None:
    places = Places(100)
    before = places.peers.admit("172.16.0.1")
    assert before is not None
    before.is_proved()
    hosts = networks()
    strangers = places.fill(hosts, 90, has_sent=True)
    assert places.enter(next(hosts)) is None
    known = [places.enter("172.16.0.1") for _ in range(10)]
    assert None not in known
    await until_all_had_their_time()
    for _ in range(200):
        places.enter(next(hosts), has_sent=True)
    assert sum(each.is_aborted for each in strangers) == 90
    assert not any(each.is_aborted for each in known if each is not None)


async def test_strangers_get_what_the_known_ones_have_beyond_their_tenth() -> None:
    places = Places(100, of_address=100)
    places.peers.known.add("172.16.0.1")
    known = places.fill(iter(["172.16.0.1"] * 100), 100, has_sent=True)
    hosts = networks()
    entered = [places.enter(next(hosts), has_sent=True) for _ in range(200)]
    assert sum(each is not None and not each.is_aborted for each in entered) == 90
    assert sum(not each.is_aborted for each in known) == 10


async def test_addresses_that_are_known_are_bounded_and_those_who_come_again_stay() -> None:
    known = KnownAddresses()
    known.add("faithful")
    for number in range(3 * MOST):
        known.add(f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}")
        if number % 1000 == 0:
            known.add("faithful")
    assert len(known) == MOST
    assert "faithful" in known
    assert "10.0.0.0" not in known


async def test_a_login_makes_its_address_known_and_a_failed_one_does_not() -> None:
    broker = SaslBroker(users("alice"))
    await broker.peer("10.0.0.1").scram("alice")
    await broker.peer("10.0.0.2").scram("alice", "wrong")
    known = broker.unauthenticated_peers.known
    assert ("10.0.0.1" in known, "10.0.0.2" in known) == (True, False)


async def test_each_listener_has_its_own_places_and_all_know_the_same_addresses() -> None:
    config = load_config(assignments=["eosin.unauthenticated.connections.max=10"]).config
    loop = asyncio.get_running_loop()
    inside, outside = unauthenticated_peers_of(
        config,
        ["INSIDE", "OUTSIDE"],
        refusals=RefusalLog(),
        clock=SystemClock(),
        chance=SeededChance(1),
        loop=loop,
    ).values()
    hosts = networks()
    while outside.admit(next(hosts)) is not None:
        pass
    assert (inside.count, outside.count) == (0, 9)
    peer = inside.admit(next(hosts))
    assert peer is not None
    peer.is_proved()
    assert len(outside.known) == 1


@pytest.mark.parametrize(
    ("host", "network"),
    [
        ("192.168.7.9", "192.168.7"),
        ("::ffff:192.168.7.9", "192.168.7"),
        ("2001:db8:1:2:3::4", "2001:db8:1::/48"),
        ("fe80::1%eth0", "fe80::/48"),
        ("?", "?"),
    ],
)
async def test_a_network_is_a_24_or_a_48(host: str, network: str) -> None:
    assert network_of(host) == network


# Many


async def asked_again_and_again(places: UnauthenticatedPeers, address: str, chance: random.Random, sends: int) -> None:
    """One connection of an attacker, made again whenever it is refused or closed, which sends so many bytes."""
    loop = asyncio.get_running_loop()
    while True:
        peer = places.admit(address)
        if peer is not None:
            closed = loop.create_future()
            layer = Layer(has_received=bool(sends))
            layer.told = partial(closed.set_result, None)
            peer.served_by(layer, "sasl")
            await closed
        await asyncio.sleep(ROUND_TRIP_S * (0.5 + chance.random()))


async def login_s(broker: SaslBroker, address: str, chance: random.Random) -> float:
    """How long a login takes whose client comes again some 50 ms after each refusal and each close."""
    loop = asyncio.get_running_loop()
    begun = loop.time()
    while True:
        unauthenticated = broker.unauthenticated_peers.admit(address)
        if unauthenticated is not None:
            peer = SaslPeer(broker, address, unauthenticated)
            if await logs_in(peer):
                peer.transport.lose()
                return loop.time() - begun
        await asyncio.sleep(0.05 + ROUND_TRIP_S * chance.random())


async def logs_in(peer: SaslPeer) -> bool:
    """Whether a login gets to its end, of which each message takes its time."""
    client = ScramClient(SCRAM, "alice", PASSWORD, "nonce")
    token = client.first
    for step in range(3):
        await asyncio.sleep(ROUND_TRIP_S)
        if peer.is_closed:
            return False
        if step == 0:
            await peer.handshake()
            continue
        challenge = client.step((await peer.token(token)).auth_bytes)
        token = challenge.token if isinstance(challenge, Challenge) else b""
    return True


TEN = [f"10.0.{number}.1" for number in range(10)]
THOUSAND = [f"10.{number // 250}.{number % 250}.1" for number in range(1000)]


@pytest.mark.parametrize("sends", [0, 1])
@pytest.mark.parametrize(
    ("addresses", "connections"),
    [
        pytest.param([f"10.0.0.{number}" for number in range(10)], 1100, id="ten addresses of one network"),
        pytest.param(TEN, 1100, id="ten addresses of ten networks"),
        pytest.param([f"10.0.{number % 100}.{number // 100}" for number in range(1000)], 1000, id="a hundred networks"),
        pytest.param(THOUSAND, 1000, id="a thousand networks"),
    ],
)
async def test_others_log_in_within_a_second_while_all_places_are_asked_for_again_and_again(
    addresses: list[str], connections: int, sends: int, caplog: pytest.LogCaptureFixture
) -> None:
    broker, chance = SaslBroker(users("alice")), random.Random(1)
    places = broker.unauthenticated_peers
    attack = [
        asyncio.create_task(asked_again_and_again(places, addresses[number % len(addresses)], chance, sends))
        for number in range(connections)
    ]
    await asyncio.sleep(0.1)
    assert places.count >= 900, "all are taken"
    took = sorted([await login_s(broker, f"172.16.{number}.1", chance) for number in range(20)])
    assert took[-1] < 1
    assert len(caplog.records) <= 1 + len(addresses)
    for each in attack:
        each.cancel()
    await asyncio.gather(*attack, return_exceptions=True)


async def test_a_place_costs_the_same_however_many_there_are() -> None:
    calls = []
    for most in (500, 10_000):
        places = Places(most)
        hosts = networks()
        places.fill(hosts, most * 9 // 10)
        await until_all_had_their_time()
        with CallCounter() as counter:
            for _ in range(50):
                places.enter(next(hosts))
        calls.append(counter.calls)
    assert calls[1] < 1.2 * calls[0]


@given(st.lists(st.tuples(st.integers(0, 5), st.sampled_from(["127.0.0.1", "10.0.0.1", "2001:db8::1", "2001:db8::2"]))))
def test_counts_return_to_nothing_whatever_happens(steps: list[tuple[int, str]]) -> None:
    """Every admission ends once (security.md 5.7)."""
    loop = asyncio.new_event_loop()
    limits = UnauthenticatedPeerLimits(most=5, most_per_address=3)
    logging.disable(logging.WARNING)
    places = UnauthenticatedPeers(
        "SSL",
        limits,
        KnownAddresses(),
        refusals=RefusalLog(),
        clock=ManualClock(),
        chance=SeededChance(1),
        loop=loop,
    )
    held: dict[UnauthenticatedPeer, Layer] = {}
    ended: list[UnauthenticatedPeer] = []
    try:
        for step, host in steps:
            if step < 3:
                peer = places.admit(host)
                if peer is not None:
                    held[peer] = Layer()
                    peer.served_by(held[peer], "tls")
            elif held and step == 3:
                next(iter(held)).hold()
            elif held:
                peer = next(iter(held))
                (peer.end if step == 4 else peer.is_proved)()
            ended += [each for each in held if held[each].is_aborted]
            for each in ended:
                each.end()
            held = {each: layer for each, layer in held.items() if each._all is not None}
            assert places.count == len(held) == sum(map(len, places.by_address.values())) <= 5
            assert places.by_network.total() == len(held)
            assert all(0 < len(crowd) <= 3 for crowd in places.by_address.values())
        for each in held:
            each.end()
        assert places.count == 0
        assert not places.by_address
        assert not places.by_network
    finally:
        logging.disable(logging.NOTSET)
        loop.close()
