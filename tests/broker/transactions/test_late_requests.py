"""What a client has given up and sent again on another connection counts for no later transaction (transactions.md
4.5.1): before version 2 that one may have the same epoch."""

from typing import cast

import pytest
from data_broker import DataBroker, batch

from eosin.broker.handlers.add_offsets_to_txn import API as ADD_OFFSETS
from eosin.broker.handlers.add_partitions_to_txn import API as ADD
from eosin.broker.handlers.end_txn import API as END
from eosin.broker.handlers.init_producer_id import API as INIT
from eosin.broker.handlers.txn_offset_commit import API as COMMIT_OFFSETS
from eosin.broker.transactions.newest_connections import NewestConnections
from eosin.model.close_connection import CloseConnection
from eosin.network.api import Api, ClientConnection
from eosin.protocol.names import IsolationLevel, TopicPartition
from eosin.protocol.records.batch import iter_records, read_header
from eosin.protocol.schemas.add_offsets_to_txn import AddOffsetsToTxnRequest
from eosin.protocol.schemas.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from eosin.protocol.schemas.end_txn import EndTxnRequest
from eosin.protocol.schemas.init_producer_id import InitProducerIdRequest
from eosin.protocol.schemas.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from eosin.protocol.types import Message

LAST_OF_VERSION_1 = 4
PLACE = TopicPartition("orders", 0)


class OneConnection:
    """As far as these requests look at it."""

    closed_ms = -1

    def __init__(self, number: int) -> None:
        self.number = number


OLDER, NEWER = cast(ClientConnection, OneConnection(7)), cast(ClientConnection, OneConnection(8))


async def initialised() -> DataBroker:
    broker = await DataBroker.started()
    await broker.create_topic(partitions=1)
    await broker.call(INIT, InitProducerIdRequest("tx", 60_000))
    return broker


async def write(broker: DataBroker, value: str, sequence: int, *, epoch: int = 0) -> None:
    """A record of the next transaction, which begins with it, or of the open one."""
    topic = AddPartitionsToTxnTopic("orders", (0,))
    await broker.call(ADD, AddPartitionsToTxnRequest((), "tx", 0, epoch, (topic,)))
    records = batch(value, producer_id=0, producer_epoch=epoch, base_sequence=sequence, transactional=True)
    assert (await broker.produce(records, partition=0, transactional_id="tx")).error_code == 0


async def visible(broker: DataBroker) -> list[bytes | None]:
    """The values that a read_committed reader keeps; nothing is aborted here."""
    answer = await broker.fetch(partition=0, isolation=IsolationLevel.READ_COMMITTED)
    records, values = bytes(answer.records or b""), []
    while records:
        header = read_header(records)
        if not header.is_control:
            values += [record.value for record in iter_records(records[: header.size])]
        records = records[header.size :]
    return values


async def sent(
    broker: DataBroker, api: Api, request: Message, connection: ClientConnection, version: int = LAST_OF_VERSION_1
) -> int:
    """The error of the response."""
    response = await broker.answer(api, broker.begin(api, request, version, connection=connection), version)
    code: int = response.topics[0].partitions[0].error_code if api is COMMIT_OFFSETS else response.error_code
    return code


async def committed(broker: DataBroker, connection: ClientConnection, *, epoch: int = 0) -> int:
    return await sent(broker, END, EndTxnRequest("tx", 0, epoch, True), connection)


async def offset_added(broker: DataBroker, offset: int, connection: ClientConnection, version: int = 4) -> int:
    topics = (TxnOffsetCommitRequestTopic("orders", partitions=(TxnOffsetCommitRequestPartition(0, offset),)),)
    request = TxnOffsetCommitRequest("tx", "readers", 0, 0, topics=topics)
    return await sent(broker, COMMIT_OFFSETS, request, connection, version)


async def test_a_commit_that_was_sent_again_on_a_newer_connection_does_not_end_the_next_transaction() -> None:
    """The network has held the first request back, as after an outage that was longer than its client's patience."""
    broker = await initialised()
    await write(broker, "a", 0)
    assert await committed(broker, NEWER) == 0
    assert await committed(broker, OLDER) == 0  # nothing has begun since
    await write(broker, "b", 1)
    with pytest.raises(CloseConnection):
        await committed(broker, OLDER)
    assert await visible(broker) == [b"a"]
    await write(broker, "c", 2)
    assert await committed(broker, NEWER) == 0
    assert await visible(broker) == [b"a", b"b", b"c"]


async def test_a_producer_in_a_new_epoch_may_end_its_transaction_on_any_connection() -> None:
    broker = await initialised()
    await write(broker, "a", 0)
    assert await committed(broker, NEWER) == 0
    await broker.call(INIT, InitProducerIdRequest("tx", 60_000))
    await write(broker, "b", 0, epoch=1)
    assert await committed(broker, OLDER, epoch=1) == 0
    assert await visible(broker) == [b"a", b"b"]


async def test_offsets_that_were_sent_again_on_a_newer_connection_do_not_come_into_the_next_transaction() -> None:
    broker = await initialised()
    for offset in (10, 20):
        await broker.call(ADD_OFFSETS, AddOffsetsToTxnRequest("tx", 0, 0, "readers"))
        assert await offset_added(broker, offset, NEWER) == 0
        with pytest.raises(CloseConnection):
            await offset_added(broker, 10, OLDER)
        assert await committed(broker, NEWER) == 0
        _, (found,) = await broker.groups.offsets.fetch("readers", [PLACE], require_stable=True)
        assert found.offset == offset


async def test_version_2_needs_no_order_of_connections() -> None:
    broker = await initialised()
    assert await offset_added(broker, 10, NEWER, version=5) == 0
    assert await offset_added(broker, 20, OLDER, version=5) == 0


def test_the_peer_that_was_silent_longest_is_forgotten_first() -> None:
    connections = NewestConnections(2)
    assert connections.accepts("a", 5)
    assert connections.accepts("b", 5)
    assert not connections.accepts("a", 4)
    assert connections.accepts("c", 5), "which takes the place of b"
    assert not connections.accepts("a", 4)
    assert connections.accepts("b", 4)
