"""EndTxn over real logs: what readers see, and what each version is told."""

import asyncio

import pytest
from data_broker import DataBroker, batch, settle

from eosin.broker.handlers.add_partitions_to_txn import API as ADD
from eosin.broker.handlers.end_txn import API
from eosin.broker.handlers.init_producer_id import API as INIT
from eosin.network.api import RequestContext
from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import IsolationLevel
from eosin.protocol.records.batch import iter_records, read_header
from eosin.protocol.schemas.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from eosin.protocol.schemas.end_txn import EndTxnRequest, EndTxnResponse
from eosin.protocol.schemas.init_producer_id import InitProducerIdRequest
from eosin.protocol.types import Message

COMMIT, ABORT = EndTxnRequest("tx", 0, 0, True), EndTxnRequest("tx", 0, 0, False)


async def in_transaction(*values: str, partitions: int = 2, **config: object) -> DataBroker:
    """A broker on which producer 0 at epoch 0 has written `values` into each partition of its open transaction."""
    broker = await DataBroker.started(**config)
    await broker.create_topic(partitions=partitions)
    await broker.call(INIT, InitProducerIdRequest("tx", 60_000))
    topic = AddPartitionsToTxnTopic("orders", tuple(range(partitions)))
    await broker.call(ADD, AddPartitionsToTxnRequest((), "tx", 0, 0, (topic,)))
    for partition in range(partitions):
        for sequence, value in enumerate(values):
            records = batch(value, producer_id=0, producer_epoch=0, base_sequence=sequence, transactional=True)
            answer = await broker.produce(records, partition=partition, transactional_id="tx")
            assert answer.error_code == 0
    return broker


def fields_of(response: EndTxnResponse) -> tuple[int, int, int]:
    return response.error_code, response.producer_id, response.producer_epoch


async def visible(broker: DataBroker, partition: int = 0) -> list[bytes | None]:
    """The values that a read_committed reader keeps."""
    answer = await broker.fetch(partition=partition, isolation=IsolationLevel.READ_COMMITTED)
    records = bytes(answer.records or b"")
    aborted = {each.producer_id for each in answer.aborted_transactions or ()}
    values = []
    while records:
        header = read_header(records)
        if not header.is_control and header.producer_id not in aborted:
            values += [record.value for record in iter_records(records[: header.size])]
        records = records[header.size :]
    return values


@pytest.mark.parametrize("version", API.versions)
async def test_a_commit_makes_everything_visible_in_every_partition(version: int) -> None:
    broker = await in_transaction("a", "b")
    assert await visible(broker) == []
    response = await broker.call(API, COMMIT, version)
    assert fields_of(response) == ((0, 0, 1) if version >= 5 else (0, -1, -1))
    assert await visible(broker, 0) == await visible(broker, 1) == [b"a", b"b"]
    assert fields_of(await broker.call(API, COMMIT, version)) == fields_of(response), "asked again"


@pytest.mark.parametrize("version", API.versions)
async def test_an_abort_makes_nothing_visible(version: int) -> None:
    broker = await in_transaction("a")
    response = await broker.call(API, ABORT, version)
    assert response.error_code == 0
    assert await visible(broker) == []
    assert broker.log().last_stable_offset == broker.log().high_watermark == 2


async def test_a_small_commit_runs_inside_its_request() -> None:
    broker = await in_transaction("a")
    response = broker.begin(API, COMMIT, 5)
    assert isinstance(response, Message), "nothing to wait for: no task, no timer, no turn of the loop"
    assert await visible(broker) == [b"a"]


async def test_nothing_is_answered_and_nothing_is_visible_before_the_outcome_is_durable() -> None:
    broker = await in_transaction("a")
    broker.flusher.held = True
    begun = broker.begin(API, COMMIT, 5)
    assert isinstance(begun, asyncio.Task)
    await settle()
    assert not begun.done()
    assert broker.log().log_end_offset == 1, "no marker yet"
    broker.flusher.held = False
    broker.flusher.release()
    assert (await broker.answer(API, begun, 5)).error_code == 0
    assert await visible(broker) == [b"a"]


async def test_slow_markers_hold_the_answer_for_five_milliseconds_only() -> None:
    broker = await in_transaction("a")
    broker.flusher.held = True
    begun = broker.begin(API, COMMIT, 5)
    broker.flusher.release()
    await settle()
    assert not begun.done()
    broker.clock.advance(5)
    assert (await broker.answer(API, begun, 5)).error_code == 0
    assert await visible(broker) == []
    broker.flusher.release()
    await settle()
    assert await visible(broker) == [b"a"]


@pytest.mark.parametrize("version", API.versions)
async def test_a_fenced_producer_is_told_so_in_the_words_of_its_version(version: int) -> None:
    broker = await in_transaction("a")
    await broker.call(INIT, InitProducerIdRequest("tx", 60_000))
    expected = ErrorCode.PRODUCER_FENCED if version >= 2 else ErrorCode.INVALID_PRODUCER_EPOCH
    assert fields_of(await broker.call(API, COMMIT, version)) == (expected, -1, -1)
    assert fields_of(await broker.call(API, ABORT, version)) == (expected, -1, -1)


async def test_an_unknown_id_has_nothing_to_commit() -> None:
    broker = await DataBroker.started()
    unmapped = ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert fields_of(await broker.call(API, COMMIT)) == fields_of(await broker.call(API, ABORT)) == (unmapped, -1, -1)
    assert fields_of(await broker.call(API, COMMIT, 4)) == (unmapped, -1, -1)
    assert fields_of(await broker.call(API, ABORT, 4)) == (0, -1, -1), "nor to abort, which is just what was asked"


async def test_committed_is_committed_after_a_restart() -> None:
    broker = await in_transaction("a")
    await broker.call(API, COMMIT)
    await broker.stop()
    again = await DataBroker.started(disk=broker.disk, clock=broker.clock)
    assert await visible(again) == [b"a"]
    assert fields_of(await again.call(API, COMMIT)) == (0, 0, 1)


async def test_a_transaction_open_at_a_restart_can_be_committed_after_it() -> None:
    broker = await in_transaction("a")
    await broker.stop()
    again = await DataBroker.started(disk=broker.disk, clock=broker.clock)
    assert await visible(again) == []
    assert fields_of(await again.call(API, COMMIT)) == (0, 0, 1)
    assert await visible(again) == [b"a"]


async def test_a_transaction_that_takes_too_long_is_aborted() -> None:
    broker = await in_transaction("a")
    broker.clock.advance(60_100)
    await settle()
    assert broker.log().last_stable_offset == 2
    assert await visible(broker) == []


def test_a_refusal_carries_its_error() -> None:
    context = RequestContext(5, None, "/127.0.0.1", "PLAINTEXT")
    assert fields_of(API.refuse(COMMIT, context, ErrorCode.UNKNOWN_SERVER_ERROR)) == (-1, -1, -1)
