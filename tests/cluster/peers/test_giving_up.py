"""What waits for a silent broker follows the image: it fails, retriably and with its connection, once another broker is
to be asked (cluster.md 6.11)."""

import asyncio
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from cluster_images import broker, delta, image, partition, topic
from waiting import until

from eosin.client.addresses import Address
from eosin.client.peer import Peer
from eosin.client.versions import Versions
from eosin.cluster.peers.connections import Peers, PeerUnreachable
from eosin.cluster.peers.remote_markers import MAX_IN_FLIGHT, RemoteBrokers, RemoteMarkers
from eosin.cluster.peers.remote_verifier import CoordinatorRoutes, RemoteCoordinators
from eosin.coordinator.transactions.ports import MarkersForPartitions
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.names import TRANSACTION_STATE_TOPIC, TopicPartition
from eosin.protocol.schemas.api_versions import ApiVersion, ApiVersionsResponse
from eosin.protocol.types import Message
from eosin.storage.results.log_results import Marker

pytestmark = pytest.mark.virtual

ORDERS = TopicPartition("orders", 0)
COORDINATOR = TopicPartition(TRANSACTION_STATE_TOPIC, 0)
SERVED = Versions(
    ApiVersionsResponse(
        api_keys=(ApiVersion(ApiKey.WRITE_TXN_MARKERS, 1, 2), ApiVersion(ApiKey.ADD_PARTITIONS_TO_TXN, 0, 5))
    )
)
WHOLE_DAY_MS = 86_400_000
"""Nobody waits so long: what fails does not fail by its time limit."""


class Silent:
    """A link on which nothing is ever answered."""

    def __init__(self) -> None:
        self.is_open = True
        self.asked: list[Message] = []

    async def request(self, key: ApiKey, message: Message, *, version: int, timeout_ms: int | None = None) -> Any:
        self.asked.append(message)
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            self.is_open = False

    async def close(self) -> None:
        self.is_open = False


class SilentBrokers:
    """Brokers that accept connections and answer nothing; with `is_dark`, they do not even accept."""

    def __init__(self) -> None:
        self.links: list[Silent] = []
        self.is_dark = False
        self.dials = 0
        self.peers = Peers(
            address=lambda node_id: Address(f"host-{node_id}", 9092), dial=self._dial, request_timeout_ms=WHOLE_DAY_MS
        )

    async def _dial(self, address: Address, *, timeout_ms: int) -> Peer:
        self.dials += 1
        if self.is_dark:
            await asyncio.get_running_loop().create_future()
        self.links.append(Silent())
        return Peer(self.links[-1], SERVED)


def led_by(leader: int) -> Any:
    return image(
        topic(partition(leader)),
        topic(partition(leader), name=TRANSACTION_STATE_TOPIC, topic_id=b"t" * 16),
    )


def moved(*partitions: TopicPartition) -> Any:
    return delta(led_by(2), led_by(3), *partitions)


def markers() -> tuple[MarkersForPartitions]:
    return (MarkersForPartitions(Marker(1, 0, True, 0, 1), (ORDERS,)),)


async def asked_for_markers(brokers: SilentBrokers, count: int = 1) -> tuple[RemoteBrokers, list[asyncio.Task[Any]]]:
    """So many markers of one producer, each of which takes a request of its own."""
    others = RemoteBrokers(brokers.peers)
    target = others.marker_target(2)
    assert isinstance(target, RemoteMarkers)
    waiting = [asyncio.create_task(target.write_markers(markers())) for _ in range(count)]
    await until(lambda: brokers.dials)
    return others, waiting


async def all_fail(waiting: list[asyncio.Task[Any]], why: str) -> None:
    for each in waiting:
        with pytest.raises(PeerUnreachable, match=why):
            await each


async def test_markers_for_a_silent_broker_fail_at_once_when_another_one_leads() -> None:
    brokers = SilentBrokers()
    others, waiting = await asked_for_markers(brokers, MAX_IN_FLIGHT + 3)
    await until(lambda: brokers.links and len(brokers.links[0].asked) == MAX_IN_FLIGHT)
    others.apply(moved(ORDERS))
    await all_fail(waiting, "does not lead")
    assert not brokers.links[0].is_open, "what was sent must not arrive later"
    assert len(brokers.links) == 1, "what had not been sent is asked of the next leader"


async def test_markers_for_a_broker_that_cannot_even_be_dialled_fail_as_well() -> None:
    brokers = SilentBrokers()
    brokers.is_dark = True
    others, waiting = await asked_for_markers(brokers)
    others.apply(moved(ORDERS))
    await all_fail(waiting, "does not lead")


async def test_markers_wait_on_while_another_partition_moves_or_only_its_followers_change() -> None:
    brokers = SilentBrokers()
    others, waiting = await asked_for_markers(brokers)
    await until(lambda: brokers.links and brokers.links[0].asked)
    others.apply(moved(COORDINATOR))
    shrunk = image(topic(partition(2, isr=(2,))))
    others.apply(delta(led_by(2), shrunk, ORDERS))
    assert await asyncio.wait(waiting, timeout=1) == (set(), set(waiting))
    assert brokers.links[0].is_open
    others.apply(delta(led_by(2), image(), ORDERS))
    await all_fail(waiting, "does not lead")


async def test_whatever_a_broker_was_asked_fails_when_it_is_fenced_or_has_begun_anew() -> None:
    before = led_by(2)
    for later in (replace(broker(2), fenced=True), replace(broker(2), epoch=900), None):
        brokers = SilentBrokers()
        _, waiting = await asked_for_markers(brokers)
        after = image(brokers=tuple(filter(None, (broker(1), later, broker(3)))))
        brokers.peers.apply(delta(before, before, brokers_changed=True))
        assert not waiting[0].done()
        brokers.peers.apply(delta(before, after, brokers_changed=True))
        await all_fail(waiting, "fenced, or has started again")


async def test_an_idle_link_to_a_broker_that_has_begun_anew_is_not_used_again() -> None:
    brokers = SilentBrokers()
    peer = brokers.peers.peer(2)
    _, waiting = await asked_for_markers(brokers)
    await until(lambda: brokers.links)
    peer.give_up("it has begun anew")
    await all_fail(waiting, "anew")
    brokers.links[0].is_open = True  # nothing was on its way
    asking = asyncio.create_task(peer.request(ApiKey.WRITE_TXN_MARKERS, SERVED))  # type: ignore[arg-type]
    await until(lambda: len(brokers.links) == 2)
    assert not brokers.links[0].is_open
    peer.give_up("the test is over")
    await all_fail([asking], "over")


async def test_questions_about_transactions_fail_retriably_when_another_broker_coordinates_them() -> None:
    brokers = SilentBrokers()
    cluster = SimpleNamespace(
        node_id=1, topics={TRANSACTION_STATE_TOPIC: SimpleNamespace(partitions=1)}, leader_of=lambda _: 2
    )
    remote = RemoteCoordinators(cluster, brokers.peers)  # type: ignore[arg-type]
    routes = CoordinatorRoutes(remote, local=None)  # type: ignore[arg-type]
    how: dict[str, Any] = {"producer_id": 1, "producer_epoch": 0, "partitions": [ORDERS]}
    on_its_way = asyncio.create_task(routes.verify("tx", **how))
    await until(lambda: brokers.links and brokers.links[0].asked)
    next_one = asyncio.create_task(routes.verify("tx", **how))
    behind = routes.add_partitions("tx", **how)
    remote.apply(moved(ORDERS))
    assert await asyncio.wait((on_its_way, next_one), timeout=1) == (set(), {on_its_way, next_one})
    remote.apply(moved(COORDINATOR))
    assert await on_its_way == await next_one == {ORDERS: ErrorCode.NETWORK_EXCEPTION}
    assert (await behind).error is ErrorCode.NETWORK_EXCEPTION
    await until(lambda: not brokers.links[0].is_open)
    await remote.close()
