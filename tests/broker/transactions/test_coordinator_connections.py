"""Markers that come late, on a connection that their coordinator has replaced, end nothing (cluster.md 6.11)."""

from collections.abc import Callable

import pytest
from data_broker import DataBroker, batch

from eosin.broker import markers as local_markers
from eosin.broker.handlers.add_partitions_to_txn import API as ADD
from eosin.broker.handlers.init_producer_id import API as INIT
from eosin.broker.handlers.write_txn_markers import API as MARKERS
from eosin.broker.transactions.coordinator_connections import MAX_BROKERS, CoordinatorConnections
from eosin.model.close_connection import CloseConnection
from eosin.protocol.schemas.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from eosin.protocol.schemas.init_producer_id import InitProducerIdRequest
from eosin.protocol.schemas.write_txn_markers import WritableTxnMarker, WritableTxnMarkerTopic, WriteTxnMarkersRequest

APACHE_KAFKA = "broker-1-txn-marker-sender"
EOSIN = "broker-1"


class OneConnection:
    """As far as markers look at it."""

    def __init__(self, number: int) -> None:
        self.number = number

    def pause_for(self, pause_ms: int) -> None:
        raise AssertionError("nothing pauses here")

    def fetch_waits(self, end_wait: Callable[[], None]) -> None:
        raise AssertionError("nothing is fetched here")


OLDER, NEWER = OneConnection(7), OneConnection(8)


async def in_a_transaction(partitions: int = 1) -> DataBroker:
    """A broker on which producer 0 at epoch 0, of version 1, has a transaction open in every partition of `orders`."""
    broker = await DataBroker.started()
    await broker.create_topic(partitions=partitions)
    await broker.call(INIT, InitProducerIdRequest("tx", 60_000))
    await goes_on(broker, 0, partitions)
    return broker


async def goes_on(broker: DataBroker, base_sequence: int, partitions: int = 1) -> None:
    indexes = tuple(range(partitions))
    await broker.call(ADD, AddPartitionsToTxnRequest((), "tx", 0, 0, (AddPartitionsToTxnTopic("orders", indexes),)))
    for partition in indexes:
        records = batch("v", producer_id=0, producer_epoch=0, base_sequence=base_sequence, transactional=True)
        assert (await broker.produce(records, partition=partition, transactional_id="tx")).error_code == 0


def request(*, commit: bool = True, producer_id: int = 0, partitions: int = 1) -> WriteTxnMarkersRequest:
    topics = (WritableTxnMarkerTopic("orders", tuple(range(partitions))),)
    return WriteTxnMarkersRequest((WritableTxnMarker(producer_id, 0, commit, topics, 9, 1),))


async def send(broker: DataBroker, connection: OneConnection, client_id: str, *, commit: bool = True) -> int:
    begun = broker.begin(MARKERS, request(commit=commit), 2, client_id=client_id, connection=connection)
    response = await broker.answer(MARKERS, begun, 2)
    code: int = response.markers[0].topics[0].partitions[0].error_code
    return code


def is_open(broker: DataBroker, partition: int = 0) -> bool:
    return any(each.transaction_start_offset >= 0 for each in broker.log(partition=partition).producers())


@pytest.mark.parametrize("client_id", [APACHE_KAFKA, EOSIN])
async def test_a_late_marker_of_version_1_does_not_end_the_next_transaction(client_id: str) -> None:
    """The first request is cut off on its way; the markers are sent again on another connection, the next transaction
    begins, and then the cut is healed."""
    broker = await in_a_transaction()
    assert await send(broker, NEWER, client_id) == 0
    await goes_on(broker, 1)
    with pytest.raises(CloseConnection):
        await send(broker, OLDER, client_id)
    assert is_open(broker)


async def test_markers_on_the_newest_connection_go_on_and_on_a_later_one() -> None:
    broker = await in_a_transaction()
    assert await send(broker, OLDER, APACHE_KAFKA) == 0
    await goes_on(broker, 1)
    assert await send(broker, OLDER, APACHE_KAFKA) == 0
    assert not is_open(broker)
    assert await send(broker, NEWER, APACHE_KAFKA) == 0


async def test_other_coordinators_have_an_order_of_their_own_and_operators_have_none() -> None:
    broker = await in_a_transaction()
    assert await send(broker, NEWER, APACHE_KAFKA) == 0
    assert await send(broker, OLDER, "broker-2-txn-marker-sender") == 0
    for operator in ("adminclient-1", "eosin", "broker-one", "broker-1-fetcher-0"):
        assert await send(broker, NEWER, operator) == 0
        assert await send(broker, OLDER, operator) == 0


async def test_a_long_request_stops_where_a_newer_connection_has_overtaken_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_markers, "MARKERS_AT_ONCE", 1)
    monkeypatch.setattr(local_markers, "FEW_MARKERS", 0)
    broker = await in_a_transaction(partitions=2)
    late = broker.begin(MARKERS, request(partitions=2), 2, client_id=EOSIN, connection=OLDER)
    assert not is_open(broker, 0)
    assert is_open(broker, 1)
    await broker.answer(MARKERS, broker.begin(MARKERS, request(producer_id=5), 2, client_id=EOSIN, connection=NEWER), 2)
    with pytest.raises(CloseConnection):
        await late
    assert is_open(broker, 1)


def test_the_broker_that_was_silent_longest_is_forgotten_first() -> None:
    connections = CoordinatorConnections()
    assert connections.accepts("broker-0", 10)
    assert connections.accepts("broker-1", 10)
    for node_id in range(2, MAX_BROKERS):
        assert connections.accepts(f"broker-{node_id}", 10)
    assert not connections.accepts("broker-0", 9)
    assert connections.accepts(f"broker-{MAX_BROKERS}", 10), "which takes the place of broker-1"
    assert not connections.accepts("broker-0", 9)
    assert connections.accepts("broker-1", 9)
