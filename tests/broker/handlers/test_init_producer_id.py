"""InitProducerId over real logs, at each version."""

import pytest
from data_broker import DataBroker

from eosin.broker.handlers.add_partitions_to_txn import API as ADD
from eosin.broker.handlers.init_producer_id import API
from eosin.network.api import RequestContext
from eosin.protocol.errors import ErrorCode
from eosin.protocol.schemas.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from eosin.protocol.schemas.init_producer_id import InitProducerIdRequest, InitProducerIdResponse


def fields_of(response: InitProducerIdResponse) -> tuple[int, int, int]:
    return response.error_code, response.producer_id, response.producer_epoch


@pytest.mark.parametrize("version", API.versions)
async def test_every_version_gets_a_producer_id_and_each_time_a_new_epoch(version: int) -> None:
    broker = await DataBroker.started()
    for epoch in (0, 1):
        assert fields_of(await broker.call(API, InitProducerIdRequest("tx", 60_000), version)) == (0, 0, epoch)


@pytest.mark.parametrize("version", API.versions)
async def test_without_an_id_whatever_else_is_sent_does_not_matter(version: int) -> None:
    broker = await DataBroker.started()
    for producer_id in (0, 1):
        response = await broker.call(API, InitProducerIdRequest(None, 2**31 - 1), version)
        assert fields_of(response) == (0, producer_id, 0)


async def test_a_pair_is_understood_from_version_3_on() -> None:
    broker = await DataBroker.started()
    await broker.call(API, InitProducerIdRequest("tx", 60_000))
    assert fields_of(await broker.call(API, InitProducerIdRequest("tx", 60_000, 0, 0), 3)) == (0, 0, 1)
    assert fields_of(await broker.call(API, InitProducerIdRequest("tx", 60_000, 0, 0), 3)) == (0, 0, 1)


@pytest.mark.parametrize(
    ("version", "error"),
    [(3, ErrorCode.INVALID_PRODUCER_EPOCH), (4, ErrorCode.PRODUCER_FENCED), (5, ErrorCode.PRODUCER_FENCED)],
)
async def test_a_fenced_producer_is_told_so_in_the_words_of_its_version(version: int, error: ErrorCode) -> None:
    broker = await DataBroker.started()
    for _ in range(3):
        await broker.call(API, InitProducerIdRequest("tx", 60_000))
    response = await broker.call(API, InitProducerIdRequest("tx", 60_000, 0, 0), version)
    assert fields_of(response) == (error, -1, -1)


@pytest.mark.parametrize(
    ("request_", "error"),
    [
        (InitProducerIdRequest("", 60_000), ErrorCode.INVALID_REQUEST),
        (InitProducerIdRequest("tx", 60_000, 5, -1), ErrorCode.INVALID_REQUEST),
        (InitProducerIdRequest("tx", 0), ErrorCode.INVALID_TRANSACTION_TIMEOUT),
        (InitProducerIdRequest("tx", 900_001), ErrorCode.INVALID_TRANSACTION_TIMEOUT),
    ],
)
async def test_a_refusal_carries_no_producer_id(request_: InitProducerIdRequest, error: ErrorCode) -> None:
    broker = await DataBroker.started()
    assert fields_of(await broker.call(API, request_)) == (error, -1, -1)


@pytest.mark.parametrize(
    ("two_phase", "keep", "error"),
    [
        (False, False, ErrorCode.NONE),
        (True, False, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
        (False, True, ErrorCode.UNSUPPORTED_VERSION),
        (True, True, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
    ],
)
async def test_where_two_phase_commit_is_off_it_is_refused_as_by_apache_kafka(
    two_phase: bool, keep: bool, error: ErrorCode
) -> None:
    # Apache Kafka 4.3.1 was asked, with `unstable.api.versions.enable`.
    broker = await DataBroker.started()
    request = InitProducerIdRequest("tx", 60_000, enable_2pc=two_phase, keep_prepared_txn=keep)
    assert (await broker.call(API, request, 6)).error_code == error


async def test_a_transaction_that_was_left_open_is_told_by_its_own_pair() -> None:
    broker = await DataBroker.started(transaction_two_phase_commit_enable=True)
    await broker.create_topic()
    request = InitProducerIdRequest("tx", 0, enable_2pc=True, keep_prepared_txn=True)
    answers = [await broker.call(API, request, 6)]
    topic = AddPartitionsToTxnTopic("orders", (0,))
    await broker.call(ADD, AddPartitionsToTxnRequest((), "tx", 0, 0, (topic,)))
    answers += [await broker.call(API, request, 6) for _ in range(2)]
    assert [fields_of(each) for each in answers] == [(0, 0, 0), (0, 0, 1), (0, 0, 2)]
    ongoing = [(each.ongoing_txn_producer_id, each.ongoing_txn_producer_epoch) for each in answers]
    assert ongoing == [(-1, -1), (0, 0), (0, 0)]


async def test_a_malformed_request_leaves_a_line_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    broker = await DataBroker.started()
    await broker.call(API, InitProducerIdRequest("", 60_000), client_id="rdkafka")
    assert "client id rdkafka" in caplog.text


async def test_a_new_instance_ends_an_open_transaction_and_is_answered_at_once() -> None:
    broker = await DataBroker.started()
    await broker.create_topic()
    await broker.call(API, InitProducerIdRequest("tx", 60_000))
    topic = AddPartitionsToTxnTopic("orders", (0,))
    await broker.call(ADD, AddPartitionsToTxnRequest((), "tx", 0, 0, (topic,)))
    answer = broker.begin(API, InitProducerIdRequest("tx", 60_000), 5)
    assert isinstance(answer, InitProducerIdResponse)
    assert fields_of(answer) == (0, 0, 2)


def test_a_refusal_carries_its_error() -> None:
    context = RequestContext(5, None, "/127.0.0.1", "PLAINTEXT")
    response = API.refuse(InitProducerIdRequest("tx", 1), context, ErrorCode.UNKNOWN_SERVER_ERROR)
    assert fields_of(response) == (-1, -1, -1)
