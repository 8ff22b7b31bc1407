"""Fetch sessions on the wire (KIP-227): after the first response, only changed partitions (storage.md 16)."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest
from wire import Wire, better_than_kafka, data_offsets, fetched
from wire_producer import transactional

from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import TopicPartition
from eosin.protocol.schemas.fetch import FetchResponse, ForgottenTopic

pytestmark = pytest.mark.virtual


class Session:
    """A reader with a session: what it asks for in each request is what it changes."""

    def __init__(self, wire: Wire, *, version: int = 12) -> None:
        self.wire = wire
        self.version = version
        self.id = 0
        self.epoch = 0

    async def ask(self, positions: Mapping[TopicPartition, int], **how: Any) -> FetchResponse:
        """The answer, whatever it is; the epoch stays."""
        request = self.wire.fetch_request(positions, session=(self.id, self.epoch), **how)
        answer: FetchResponse = await self.wire.ask(request, self.version)
        return answer

    async def next(self, positions: Mapping[TopicPartition, int], **how: Any) -> dict[int, list[int]]:
        """The offsets of the batches by partition, of partitions that are in the answer."""
        answer = await self.ask(positions, **how)
        assert answer.error_code == ErrorCode.NONE
        self.id = answer.session_id
        self.epoch += 1
        return {each.partition_index: data_offsets(each.records) for each in fetched(answer)}


@pytest.fixture
async def partitions(wire: Wire) -> list[TopicPartition]:
    topic = await wire.topic(partitions=3)
    return [TopicPartition(topic, index) for index in range(3)]


@pytest.fixture
async def session(wire: Wire) -> Session:
    return Session(wire)


@pytest.mark.parametrize("version", [7, 12, 13, 17])
async def test_a_full_fetch_opens_a_session_that_returns_only_changes(
    wire: Wire, partitions: list[TopicPartition], version: int
) -> None:
    session = Session(wire, version=version)
    await wire.append(partitions[0])
    assert await session.next(dict.fromkeys(partitions, 0)) == {0: [0], 1: [], 2: []}
    assert session.id > 0
    assert await session.next({partitions[0]: 1}) == {}
    await wire.append(partitions[2])
    assert await session.next({}) == {2: [0]}
    assert await session.next({partitions[2]: 1}) == {}


async def test_a_session_returns_the_same_records_until_the_position_moves(
    wire: Wire, session: Session, partitions: list[TopicPartition]
) -> None:
    await wire.append(partitions[1])
    assert (await session.next(dict.fromkeys(partitions, 0)))[1] == [0]
    assert await session.next({}) == {1: [0]}


async def test_partitions_can_be_added_and_forgotten(
    wire: Wire, session: Session, partitions: list[TopicPartition]
) -> None:
    await session.next({partitions[0]: 0})
    assert await session.next({partitions[1]: 0}) == {1: []}
    topic = partitions[0].topic
    forgotten = (ForgottenTopic(topic, wire.topic_id(topic), (0,)),)
    assert await session.next({}, forgotten_topics_data=forgotten) == {}
    for each in partitions:
        await wire.append(each)
    assert await session.next({}) == {1: [0]}


async def test_a_session_without_partitions_is_closed(
    wire: Wire, session: Session, partitions: list[TopicPartition]
) -> None:
    await session.next({partitions[0]: 0})
    topic = partitions[0].topic
    answer = await session.ask({}, forgotten_topics_data=(ForgottenTopic(topic, wire.topic_id(topic), (0,)),))
    assert (answer.error_code, answer.session_id) == (ErrorCode.NONE, 0)
    session.epoch += 1
    assert (await session.ask({})).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


async def test_an_unknown_fetch_session_is_an_error(session: Session, partitions: list[TopicPartition]) -> None:
    session.id, session.epoch = 123_456_789, 1
    answer = await session.ask({partitions[0]: 0})
    assert (answer.error_code, answer.responses) == (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, ())


async def test_a_repeated_or_skipped_session_epoch_is_an_error(
    session: Session, partitions: list[TopicPartition]
) -> None:
    await session.next({partitions[0]: 0})
    await session.next({})
    for epoch in (1, 3, 100):
        session.epoch = epoch
        answer = await session.ask({})
        assert (answer.error_code, answer.responses) == (ErrorCode.INVALID_FETCH_SESSION_EPOCH, ())
    session.epoch = 2
    assert await session.next({}) == {}


async def test_a_closed_session_is_unknown(session: Session, partitions: list[TopicPartition]) -> None:
    await session.next({partitions[0]: 0})
    session.epoch = -1
    assert (await session.ask({partitions[0]: 0})).session_id == 0
    session.epoch = 1
    assert (await session.ask({})).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


async def test_a_full_fetch_replaces_its_session(session: Session, partitions: list[TopicPartition]) -> None:
    await session.next({partitions[0]: 0})
    old = session.id
    session.epoch = 0
    await session.next({partitions[0]: 0})
    assert session.id not in (0, old)
    session.id, session.epoch = old, 1
    assert (await session.ask({})).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


async def test_a_session_outlives_its_connection(
    wire: Wire, other: Wire, session: Session, partitions: list[TopicPartition]
) -> None:
    await session.next({partitions[0]: 0})
    await wire.close()
    session.wire = other
    await other.append(partitions[0])
    assert await session.next({}) == {0: [0]}


async def test_a_session_repeats_an_error_in_every_response(session: Session, partitions: list[TopicPartition]) -> None:
    for positions in ({partitions[0]: 50}, {}, {}):
        answer = await session.ask(positions)
        session.id, session.epoch = answer.session_id, session.epoch + 1
        assert [each.error_code for each in fetched(answer)] == [ErrorCode.OFFSET_OUT_OF_RANGE]


async def test_a_session_never_mixes_topic_names_and_topic_ids(
    session: Session, partitions: list[TopicPartition]
) -> None:
    await session.next({partitions[0]: 0})
    session.version = 13
    assert (await session.ask({})).error_code == ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR


async def test_a_partition_that_returned_data_is_last_in_the_next_response(
    wire: Wire, session: Session, partitions: list[TopicPartition]
) -> None:
    await session.next(dict.fromkeys(partitions, 0))
    for each in partitions:
        await wire.append(each, size=1000)
    turns = [await session.next({}, max_bytes=1) for _ in range(4)]
    assert [next(index for index, offsets in turn.items() if offsets) for turn in turns] == [0, 1, 2, 0]


async def test_a_session_waits_for_changes(
    wire: Wire, other: Wire, session: Session, partitions: list[TopicPartition]
) -> None:
    await session.next(dict.fromkeys(partitions, 0))
    waiting = asyncio.ensure_future(session.next({}, wait_ms=20_000))
    await asyncio.sleep(0.05)
    assert not waiting.done()
    await other.append(partitions[1])
    async with asyncio.timeout(5):
        assert await waiting == {1: [0]}


async def test_a_committed_session_returns_when_the_stable_offset_moves(
    wire: Wire, other: Wire, session: Session, partitions: list[TopicPartition]
) -> None:
    producer = await transactional(other)
    await producer.append(partitions[0])
    assert await session.next({partitions[0]: 0}, isolation=1) == {0: []}
    await producer.commit()
    async with asyncio.timeout(5):
        assert await session.next({}, isolation=1, wait_ms=20_000) == {0: [0]}


@better_than_kafka("Apache Kafka says UNKNOWN_TOPIC_OR_PARTITION of an id that names no topic any more")
async def test_a_session_waits_though_one_of_its_topics_is_gone(
    wire: Wire, other: Wire, partitions: list[TopicPartition]
) -> None:
    session = Session(wire, version=13)
    gone = await wire.partition()
    await session.next({partitions[1]: 0, gone: 0})
    await wire.delete_topic(gone.topic)
    loop = asyncio.get_running_loop()
    for _ in range(2):
        began = loop.time()
        answer = await session.ask({}, wait_ms=2000)
        session.epoch += 1
        assert loop.time() - began >= 1.9
        assert [each.error_code for each in fetched(answer)] == [ErrorCode.UNKNOWN_TOPIC_ID]
    waiting = asyncio.create_task(session.ask({}, wait_ms=60_000))
    await asyncio.sleep(0.5)
    await other.append(partitions[1])
    answer = await waiting
    assert {each.partition_index: data_offsets(each.records) for each in fetched(answer)} == {0: [], 1: [0]}
