"""Two brokers: one writes markers for the other, and answers what its leaders ask (cluster.md 6.7 and 6.8). The wire is
the real codec; only the sockets are missing."""

import asyncio
import logging
from typing import Any

import pytest
from data_broker import DataBroker, settle

from eosin.broker.handlers import add_partitions_to_txn, init_producer_id, write_txn_markers
from eosin.client.addresses import Address
from eosin.client.errors import ConnectionFailed
from eosin.client.peer import Peer
from eosin.client.versions import Versions
from eosin.cluster.peers.connections import OtherBroker, Peers, PeerUnreachable, VersionedResponse
from eosin.cluster.peers.remote_markers import MAX_IN_FLIGHT, RemoteBrokers, RemoteMarkers
from eosin.cluster.peers.remote_verifier import CoordinatorRoutes, RemoteCoordinators
from eosin.coordinator.transactions.ports import MarkersForPartitions
from eosin.model.cluster import NO_LEADER
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.names import TopicPartition
from eosin.protocol.schemas.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTransaction
from eosin.protocol.schemas.add_partitions_to_txn import AddPartitionsToTxnTopic as Topic
from eosin.protocol.schemas.api_versions import ApiVersion, ApiVersionsResponse
from eosin.protocol.schemas.init_producer_id import InitProducerIdRequest
from eosin.protocol.schemas.write_txn_markers import WriteTxnMarkersRequest
from eosin.protocol.types import Message
from eosin.storage.results.log_results import Marker

ORDERS = TopicPartition("orders", 0)
APIS = {
    ApiKey.WRITE_TXN_MARKERS: write_txn_markers.API,
    ApiKey.ADD_PARTITIONS_TO_TXN: add_partitions_to_txn.BETWEEN_BROKERS,
}


class WiredPeer(OtherBroker):
    """Another broker, reached through the codec and its handlers."""

    def __init__(self, broker: DataBroker, *, version: int | None = None) -> None:
        super().__init__(2, address=lambda _: None, dial=never, request_timeout_ms=1000)
        self._broker = broker
        self._version = version
        self.requests: list[Message] = []
        self.is_reachable = True
        self.gate: asyncio.Event | None = None

    async def request(self, key: ApiKey, message: Message, *, at_least: int = 0) -> VersionedResponse:
        self.requests.append(message)
        if self.gate is not None:
            await self.gate.wait()
        if not self.is_reachable:
            raise PeerUnreachable("broker 2 is gone")
        api = APIS[key]
        version = api.versions[-1] if self._version is None else self._version
        return VersionedResponse(await self._broker.call(api, message, version), version)


async def never(address: Address, *, timeout_ms: int) -> Peer:
    raise ConnectionFailed("nobody is there")


def marker(producer_id: int, *, epoch: int = 0, commit: bool = True) -> MarkersForPartitions:
    return MarkersForPartitions(Marker(producer_id, epoch, commit, 0, 2), (ORDERS,))


async def started() -> DataBroker:
    broker = await DataBroker.started()
    await broker.create_topic()
    return broker


# Markers


async def test_markers_of_one_turn_go_in_one_request_and_each_hears_its_own_answer() -> None:
    peer = WiredPeer(await started())
    target = RemoteMarkers(peer)
    first, second = await asyncio.gather(target.write_markers((marker(1),)), target.write_markers((marker(2),)))
    assert first == {(1, ORDERS): ErrorCode.NONE}
    assert second == {(2, ORDERS): ErrorCode.NONE}
    assert len(peer.requests) == 1


async def test_two_markers_of_one_producer_never_share_a_request() -> None:
    peer = WiredPeer(await started())
    target = RemoteMarkers(peer)
    await asyncio.gather(target.write_markers((marker(1),)), target.write_markers((marker(1, epoch=1),)))
    assert len(peer.requests) == 2


async def test_no_more_than_five_requests_are_on_their_way_and_the_rest_goes_together() -> None:
    peer = WiredPeer(await started())
    peer.gate = asyncio.Event()
    target = RemoteMarkers(peer)
    waiting = []
    for producer_id in range(MAX_IN_FLIGHT + 3):
        waiting.append(asyncio.ensure_future(target.write_markers((marker(producer_id),))))
        await settle()
    assert len(peer.requests) == MAX_IN_FLIGHT
    peer.gate.set()
    await asyncio.gather(*waiting)
    assert len(peer.requests) == MAX_IN_FLIGHT + 1


async def test_a_broker_that_is_not_reached_is_an_error_after_which_the_leader_is_looked_up_again() -> None:
    peer = WiredPeer(await started())
    peer.is_reachable = False
    target = RemoteMarkers(peer)
    with pytest.raises(OSError, match="gone"):
        await target.write_markers((marker(1),))
    peer.is_reachable = True
    assert await target.write_markers((marker(1),)) == {(1, ORDERS): ErrorCode.NONE}


async def test_a_partition_without_a_log_here_is_told_so() -> None:
    target = RemoteMarkers(WiredPeer(await started()))
    elsewhere = TopicPartition("nowhere", 0)
    markers = MarkersForPartitions(Marker(1, 0, True, 0, 2), (elsewhere,))
    assert await target.write_markers((markers,)) == {(1, elsewhere): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}


async def test_coordinators_hear_no_error_of_a_marker_that_would_end_their_process() -> None:
    broker = await started()
    log = broker.log()
    log.fail(OSError("broken"))
    target = RemoteMarkers(WiredPeer(broker))
    (answer,) = (await target.write_markers((marker(1),))).values()
    assert answer in write_txn_markers.EXPECTED


async def test_a_broker_whose_address_is_not_known_is_waited_for() -> None:
    peers = Peers(address=lambda node_id: None, dial=never, request_timeout_ms=100)
    assert RemoteBrokers(peers).marker_target(2) is ErrorCode.LEADER_NOT_AVAILABLE
    with pytest.raises(PeerUnreachable, match="no address of broker 2"):
        await peers.peer(2).request(ApiKey.WRITE_TXN_MARKERS, write_txn_markers_request())


def write_txn_markers_request() -> Message:
    from eosin.protocol.schemas.write_txn_markers import WriteTxnMarkersRequest

    return WriteTxnMarkersRequest()


class Answering:
    """A connection on which everything is answered with its own request."""

    is_open = True

    async def request(self, key: ApiKey, message: Message, *, version: int, timeout_ms: int | None = None) -> Any:
        return message

    async def close(self) -> None:
        return


async def test_a_broker_that_is_not_reached_is_logged_once_and_once_when_it_is_back(
    caplog: pytest.LogCaptureFixture,
) -> None:
    is_there = False

    async def dial(address: Address, *, timeout_ms: int) -> Peer:
        if not is_there:
            raise ConnectionFailed("nobody is there")
        return Peer(Answering(), Versions(ApiVersionsResponse(api_keys=(ApiVersion(ApiKey.WRITE_TXN_MARKERS, 1, 2),))))

    peer = OtherBroker(2, address=lambda _: Address("localhost", 9092), dial=dial, request_timeout_ms=1000)
    caplog.set_level(logging.INFO)
    for _ in range(3):
        with pytest.raises(PeerUnreachable):
            await peer.request(ApiKey.WRITE_TXN_MARKERS, WriteTxnMarkersRequest())
    is_there = True
    for _ in range(3):
        await peer.request(ApiKey.WRITE_TXN_MARKERS, WriteTxnMarkersRequest())
    assert [record.message for record in caplog.records] == [
        "broker 2 did not answer WRITE_TXN_MARKERS: nobody is there",
        "broker 2 answers again",
    ]


# Verification


class Elsewhere:
    """A cluster in which broker 2 coordinates every transaction."""

    def __init__(self, broker: DataBroker, leader: int | None = 2) -> None:
        self._broker = broker
        self.leader = leader
        self.node_id = 1

    @property
    def topics(self) -> Any:
        return self._broker.cluster.topics

    def leader_of(self, partition: TopicPartition) -> int | None:
        return self.leader


class OnePeer(Peers):
    def __init__(self, peer: OtherBroker) -> None:
        super().__init__(address=lambda _: None, dial=never, request_timeout_ms=1000)
        self._peer = peer

    def peer(self, node_id: int) -> OtherBroker:
        assert node_id == 2
        return self._peer


async def routes(
    coordinator: DataBroker, *, version: int | None = None
) -> tuple[CoordinatorRoutes, WiredPeer, Elsewhere]:
    peer, cluster = WiredPeer(coordinator, version=version), Elsewhere(coordinator)
    here = await DataBroker.started()
    remote = RemoteCoordinators(cluster, OnePeer(peer))  # type: ignore[arg-type]
    return CoordinatorRoutes(remote, local=here.transactions), peer, cluster


async def initialised(coordinator: DataBroker) -> tuple[int, int]:
    response = await coordinator.call(
        init_producer_id.API, InitProducerIdRequest(transactional_id="tx", transaction_timeout_ms=60_000), 5
    )
    assert response.error_code == 0
    return response.producer_id, response.producer_epoch


async def test_a_leader_adds_its_partitions_at_a_coordinator_elsewhere_and_verifies_them() -> None:
    coordinator = await started()
    producer_id, epoch = await initialised(coordinator)
    asked, _, _ = await routes(coordinator)
    how: dict[str, Any] = {"producer_id": producer_id, "producer_epoch": epoch, "partitions": [ORDERS]}
    assert await asked.verify("tx", **how) == {ORDERS: ErrorCode.TRANSACTION_ABORTABLE}
    pending = asked.add_partitions("tx", **how)
    assert (await pending).error is ErrorCode.NONE
    assert await asked.verify("tx", **how) == {ORDERS: ErrorCode.NONE}


async def test_version_4_does_not_know_transaction_abortable() -> None:
    coordinator = await started()
    producer_id, epoch = await initialised(coordinator)
    asked, _, _ = await routes(coordinator, version=4)
    found = await asked.verify("tx", producer_id=producer_id, producer_epoch=epoch, partitions=[ORDERS])
    assert found == {ORDERS: ErrorCode.INVALID_TXN_STATE}


async def test_every_transaction_and_partition_of_a_request_is_answered() -> None:
    coordinator = await started()
    transactions = tuple(
        AddPartitionsToTxnTransaction(name, 1, 0, verify_only, (Topic("orders", (0, 5)), Topic("gone", (1,))))
        for name, verify_only in (("a", True), ("b", False))
    )
    response = await coordinator.call(
        add_partitions_to_txn.BETWEEN_BROKERS, AddPartitionsToTxnRequest(transactions=transactions), 5
    )
    told = [
        (each.transactional_id, [(topic.name, len(topic.results_by_partition)) for topic in each.topic_results])
        for each in response.results_by_transaction
    ]
    assert told == [("a", [("orders", 2), ("gone", 1)]), ("b", [("orders", 2), ("gone", 1)])]


async def test_a_partition_that_the_coordinator_does_not_know_joins_no_transaction() -> None:
    """It would take the partition for deleted at the end, and leave the transaction open there."""
    coordinator = await started()
    producer_id, epoch = await initialised(coordinator)
    asked, _, _ = await routes(coordinator)
    how: dict[str, Any] = {"producer_id": producer_id, "producer_epoch": epoch}
    new = TopicPartition("new", 0)
    assert (
        await asked.add_partitions("tx", partitions=[ORDERS, new], **how)
    ).error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert await asked.verify("tx", partitions=[ORDERS], **how) == {ORDERS: ErrorCode.TRANSACTION_ABORTABLE}
    await coordinator.create_topic(new.topic)
    assert (await asked.add_partitions("tx", partitions=[ORDERS, new], **how)).error is ErrorCode.NONE


async def test_a_coordinator_that_cannot_be_asked_is_an_error_to_come_back_with() -> None:
    coordinator = await started()
    await initialised(coordinator)
    asked, peer, cluster = await routes(coordinator)
    how: dict[str, Any] = {"producer_id": 1, "producer_epoch": 0, "partitions": [ORDERS]}
    peer.is_reachable = False
    assert await asked.verify("tx", **how) == {ORDERS: ErrorCode.NETWORK_EXCEPTION}
    assert (await asked.add_partitions("tx", **how)).error is ErrorCode.NETWORK_EXCEPTION
    for leader in (NO_LEADER, None):
        cluster.leader = leader
        assert await asked.verify("tx", **how) == {ORDERS: ErrorCode.COORDINATOR_NOT_AVAILABLE}


async def test_a_coordinator_on_this_broker_is_asked_without_a_detour() -> None:
    coordinator = await started()
    await initialised(coordinator)
    asked, peer, cluster = await routes(coordinator)
    cluster.leader = 1
    await asked.verify("tx", producer_id=1, producer_epoch=0, partitions=[ORDERS])
    assert not peer.requests
