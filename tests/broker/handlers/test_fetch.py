"""Fetch, from the wire to a real log and back."""

import asyncio
import errno
from collections.abc import Awaitable
from typing import Any

import pytest
from data_broker import DataBroker, batch, settle

from eosin.broker.fetching.gone import MAX_LINES
from eosin.broker.handlers import fetch
from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import uuid_text
from eosin.protocol.records.batch import batches, iter_records
from eosin.protocol.schemas.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
    ReplicaState,
)
from eosin.storage.results.file_range import as_range
from eosin.storage.results.log_results import ReadResult


def values(answer: PartitionData) -> list[str]:
    """The values of all data records in an answer."""
    found = []
    data = bytes(answer.records or b"")
    for position, header in batches(data):
        if not header.is_control:
            found += [(each.value or b"").decode() for each in iter_records(data[position : position + header.size])]
    return found


async def broker_with_records(*records: str, partitions: int = 1) -> DataBroker:
    broker = await DataBroker.started()
    await broker.create_topic(partitions=partitions)
    for value in records:
        await broker.produce(batch(value))
    return broker


def request(
    broker: DataBroker,
    *partitions: FetchPartition,
    version: int = 12,
    topic: str = "orders",
    forget: tuple[int, ...] = (),
    **fields: Any,
) -> FetchRequest:
    topic_id = broker.cluster.topics[topic].topic_id if version >= 13 else bytes(16)
    return FetchRequest(
        topics=(FetchTopic(topic, topic_id, partitions),) if partitions else (),
        forgotten_topics_data=(ForgottenTopic(topic, topic_id, forget),) if forget else (),
        **{"min_bytes": 1, "max_wait_ms": 0, **fields},
    )


def wanted(partition: int = 0, offset: int = 0, *, max_bytes: int = 1 << 20, **fields: Any) -> FetchPartition:
    return FetchPartition(partition, fetch_offset=offset, partition_max_bytes=max_bytes, **fields)


def partitions_of(response: FetchResponse) -> dict[int, PartitionData]:
    return {each.partition_index: each for topic in response.responses for each in topic.partitions}


# What is returned
# --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", fetch.API.versions)
async def test_every_version_returns_what_was_written(version: int) -> None:
    broker = await broker_with_records("a", "b")
    answer = await broker.fetch(version=version)
    assert values(answer) == ["a", "b"]
    assert (answer.high_watermark, answer.last_stable_offset) == (2, 2)
    assert answer.log_start_offset == (0 if version >= 5 else -1)
    assert answer.aborted_transactions is None
    assert answer.preferred_read_replica == -1


async def test_an_answer_starts_with_the_batch_that_holds_the_offset() -> None:
    broker = await broker_with_records()
    await broker.produce(batch("a", "b", "c"))
    await broker.produce(batch("d"))
    assert values(await broker.fetch(1)) == ["a", "b", "c", "d"]
    assert values(await broker.fetch(3)) == ["d"]


async def test_at_the_end_there_are_empty_records_and_never_null() -> None:
    broker = await broker_with_records("a")
    for answer in (await broker.fetch(1), await broker.fetch(2), await broker.fetch(0, topic="orders", partition=5)):
        assert answer.records is not None
        assert len(answer.records) == 0


@pytest.mark.parametrize("offset", [-1, 2])
async def test_an_offset_outside_of_the_log_is_out_of_range(offset: int) -> None:
    broker = await broker_with_records("a")
    answer = await broker.fetch(offset)
    assert (answer.error_code, answer.high_watermark) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)


async def test_a_record_that_is_not_durable_is_not_visible() -> None:
    broker = await broker_with_records("a")
    broker.flusher.held = True
    writing = broker.begin_produce(batch("b"))
    assert values(await broker.fetch()) == ["a"]
    after_the_end = await broker.fetch(2)
    assert (after_the_end.error_code, after_the_end.records) == (ErrorCode.NONE, b"")
    broker.flusher.release()
    await writing
    assert values(await broker.fetch()) == ["a", "b"]


@pytest.mark.parametrize("replica_id", [0, 2])
async def test_a_client_that_poses_as_a_replica_reads_nothing(replica_id: int) -> None:
    broker = await broker_with_records("a")
    broker.flusher.held = True
    writing = broker.begin_produce(batch("b"))
    older = await broker.call(fetch.API, request(broker, wanted(), replica_id=replica_id), 12)
    state = ReplicaState(replica_id)
    newer = await broker.call(fetch.API, request(broker, wanted(), version=18, replica_state=state), 18)
    broker.flusher.release()
    await writing
    for answer in (partitions_of(older)[0], partitions_of(newer)[0]):
        assert answer.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
        assert (answer.high_watermark, answer.records) == (-1, b"")


# Sizes
# -------------------------------------------------------------------------------------------------------------------


async def test_the_first_batch_comes_whole_even_if_it_exceeds_every_limit() -> None:
    broker = await broker_with_records("x" * 5000, "y" * 5000)
    response = await broker.call(fetch.API, request(broker, wanted(max_bytes=10), max_bytes=10), 12)
    assert values(partitions_of(response)[0]) == ["x" * 5000]


async def test_without_memory_for_answers_each_still_has_its_first_batch() -> None:
    broker = await broker_with_records("x" * 500, partitions=3)
    for partition in (1, 2):
        await broker.produce(batch("y" * 500), partition=partition)
    broker.services.response_memory.held_bytes = broker.services.response_memory.limit_bytes
    wants = (wanted(0), wanted(1), wanted(2))
    answered = partitions_of(await broker.call(fetch.API, request(broker, *wants), 12))
    assert [len(values(answered[index])) for index in (0, 1, 2)] == [1, 0, 0]
    answered = partitions_of(await broker.call(fetch.API, request(broker, *wants[1:]), 12))
    assert [len(values(answered[index])) for index in (1, 2)] == [1, 0]


async def test_many_records_are_sent_from_their_file_and_hold_no_memory() -> None:
    broker = await broker_with_records(*["x" * 20_000] * 10)
    memory = broker.services.response_memory
    found = broker.begin(fetch.API, request(broker, wanted()), 12)
    assert as_range(found.responses[0].partitions[0].records) is not None
    few = broker.begin(fetch.API, request(broker, wanted(max_bytes=50_000)), 12)
    assert as_range(few.responses[0].partitions[0].records) is None
    memory.held_bytes = memory.limit_bytes
    few = broker.begin(fetch.API, request(broker, wanted(max_bytes=50_000)), 12)
    assert as_range(few.responses[0].partitions[0].records) is not None
    assert values(partitions_of(await broker.answer(fetch.API, few, 12))[0]) == ["x" * 20_000] * 2


async def test_without_descriptors_to_spare_records_are_read_while_there_is_memory() -> None:
    broker = await broker_with_records(*["x" * 20_000] * 10, partitions=2)
    for _ in range(10):
        await broker.produce(batch("y" * 20_000), partition=1)
    memory = broker.services.response_memory
    broker.disk.open_files.limit_to(0)
    both = request(broker, wanted(0), wanted(1))
    found = broker.begin(fetch.API, both, 12).responses[0].partitions
    assert [as_range(each.records) for each in found] == [None, None]
    assert [len(each.records) for each in found] == [len(found[0].records)] * 2
    memory.held_bytes = memory.limit_bytes
    found = broker.begin(fetch.API, both, 12).responses[0].partitions
    assert as_range(found[0].records) is not None
    assert len(found[1].records) == 0


async def test_after_the_first_data_the_limits_are_hard() -> None:
    broker = await broker_with_records("x" * 500, partitions=3)
    for partition in (1, 2):
        await broker.produce(batch("y" * 500), partition=partition)
    both = request(broker, wanted(0), wanted(1), wanted(2), max_bytes=1000)
    answered = partitions_of(await broker.call(fetch.API, both, 12))
    assert [len(values(answered[index])) for index in (0, 1, 2)] == [1, 0, 0]
    small = request(broker, wanted(0), wanted(1, max_bytes=100), wanted(2))
    answered = partitions_of(await broker.call(fetch.API, small, 12))
    assert [len(values(answered[index])) for index in (0, 1, 2)] == [1, 0, 1]


async def test_the_brokers_own_limit_holds_as_well() -> None:
    broker = await DataBroker.started(fetch_max_bytes=1024)
    await broker.create_topic()
    for value in ("x", "y", "z"):
        await broker.produce(batch(value * 500))
    assert [value[0] for value in values(await broker.fetch())] == ["x"]


# Waiting
# -----------------------------------------------------------------------------------------------------------------


def begin(broker: DataBroker, *partitions: FetchPartition, version: int = 12, **fields: Any) -> Awaitable[Any]:
    asked = request(broker, *partitions, version=version, **{"max_wait_ms": 500, **fields})
    begun: Awaitable[Any] = broker.begin(fetch.API, asked, version)
    return begun


async def test_a_fetch_waits_for_records() -> None:
    broker = await broker_with_records("a")
    begun = begin(broker, wanted(offset=1))
    assert isinstance(begun, asyncio.Task)
    await settle()
    assert not begun.done()
    await broker.produce(batch("b"))
    assert values(partitions_of(await begun)[0]) == ["b"]
    assert broker.partitions.long_polls.waiting(broker.log()) == 0


async def test_a_fetch_waits_for_as_many_bytes_as_it_asked_for() -> None:
    broker = await broker_with_records(partitions=2)
    size = len(batch("x" * 100))
    begun = begin(broker, wanted(0), wanted(1), min_bytes=2 * size)
    assert isinstance(begun, asyncio.Task)
    await broker.produce(batch("x" * 100))
    await settle()
    assert not begun.done()
    await broker.produce(batch("y" * 100), partition=1)
    answered = partitions_of(await begun)
    assert [len(values(answered[index])) for index in (0, 1)] == [1, 1]


async def test_a_fetch_that_waited_long_enough_gets_what_there_is() -> None:
    broker = await broker_with_records("a")
    begun = begin(broker, wanted(), min_bytes=10_000)
    assert isinstance(begun, asyncio.Task)
    broker.clock.advance(499)
    await settle()
    assert not begun.done()
    broker.clock.advance(1)
    assert values(partitions_of(await begun)[0]) == ["a"]


async def test_enough_bytes_an_error_or_no_wish_to_wait_is_answered_at_once() -> None:
    broker = await broker_with_records("a")
    assert isinstance(begin(broker, wanted()), FetchResponse)
    assert isinstance(begin(broker, wanted(offset=1), wanted(offset=9)), FetchResponse)
    assert isinstance(begin(broker, wanted(7), wanted(8)), FetchResponse)
    assert isinstance(begin(broker, wanted(offset=1), max_wait_ms=0), FetchResponse)
    assert isinstance(begin(broker, wanted(offset=1), min_bytes=0), FetchResponse)
    assert isinstance(begin(broker), FetchResponse)


async def test_a_partition_that_is_unknown_waits_with_the_others() -> None:
    broker = await broker_with_records("a")
    begun = begin(broker, wanted(offset=1), wanted(7))
    assert isinstance(begun, asyncio.Task)
    broker.clock.advance(499)
    await settle()
    assert not begun.done()
    broker.clock.advance(1)
    answered = partitions_of(await begun)
    assert [answered[index].error_code for index in (0, 7)] == [
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]


async def test_a_consumer_of_what_is_gone_is_a_line_in_the_log_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    broker = await broker_with_records("a")
    old = request(broker, wanted(offset=1), version=13)
    await broker.cluster.delete_topic("orders")
    await broker.create_topic()

    async def ask(fetching: FetchRequest, version: int) -> None:
        await broker.call(fetch.API, fetching, version, client_id="reader")

    async def ask_of_all() -> list[str]:
        caplog.clear()
        for _ in range(3):
            await ask(old, 13)
            await ask(request(broker, wanted(7), wanted(8)), 12)
            await ask(FetchRequest(topics=(FetchTopic("nowhere", partitions=(wanted(),)),)), 12)
        return [each.getMessage() for each in caplog.records if each.name == "eosin.broker.fetching.gone"]

    topic_id = old.topics[0].topic_id
    lines = await ask_of_all()
    assert lines == [
        f"client 'reader' at /127.0.0.1 fetches from {what}, which does not exist"
        for what in (
            f"partition 0 of the topic of id {uuid_text(topic_id)}",
            "partition 7 of topic 'orders'",
            "partition 0 of topic 'nowhere'",
        )
    ]
    broker.clock.advance(59_999)
    assert await ask_of_all() == []
    broker.clock.advance(1)
    assert await ask_of_all() == lines


async def test_clients_that_fetch_what_is_gone_cannot_fill_the_log(caplog: pytest.LogCaptureFixture) -> None:
    broker = await broker_with_records("a")
    for number in range(1000):
        await broker.call(fetch.API, request(broker, wanted(7)), 12, client_id=f"reader-{number}")
    assert len([each for each in caplog.records if each.name == "eosin.broker.fetching.gone"]) == MAX_LINES


async def test_a_fetch_is_not_woken_by_what_is_only_written() -> None:
    broker = await broker_with_records()
    begun = begin(broker, wanted())
    assert isinstance(begun, asyncio.Task)
    broker.flusher.held = True
    writing = broker.begin_produce(batch("a"))
    await settle()
    assert not begun.done()
    broker.flusher.release()
    assert values(partitions_of(await begun)[0]) == ["a"]
    await writing


async def test_a_fetch_hears_at_once_that_its_topic_is_deleted() -> None:
    broker = await broker_with_records("a")
    begun = begin(broker, wanted(offset=1))
    by_id = begin(broker, wanted(offset=1), version=13)
    await broker.cluster.delete_topic("orders")
    assert partitions_of(await begun)[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert partitions_of(await by_id)[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID


async def test_a_fetch_hears_at_once_that_its_log_failed() -> None:
    broker = await broker_with_records("a")
    begun = begin(broker, wanted(offset=1))
    broker.log().fail(OSError(errno.EIO, "gone"))
    assert partitions_of(await begun)[0].error_code == ErrorCode.KAFKA_STORAGE_ERROR


async def test_a_client_that_goes_away_leaves_nothing_behind() -> None:
    broker = await broker_with_records("a")
    before = broker.clock.pending
    begun = begin(broker, wanted(offset=1))
    assert isinstance(begun, asyncio.Task)
    await settle()
    begun.cancel()
    await settle()
    assert broker.partitions.long_polls.waiting(broker.log()) == 0
    assert broker.clock.pending == before


# Names, ids, epochs
# --------------------------------------------------------------------------------------------------------


async def test_an_unknown_topic_is_unknown_by_name_and_by_id() -> None:
    broker = await broker_with_records("a")
    by_name = FetchRequest(topics=(FetchTopic("nowhere", partitions=(wanted(),)),))
    by_id = FetchRequest(topics=(FetchTopic(topic_id=b"?" * 16, partitions=(wanted(),)),))
    assert (
        partitions_of(await broker.call(fetch.API, by_name, 12))[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    )
    response = await broker.call(fetch.API, by_id, 13)
    assert partitions_of(response)[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID
    assert response.responses[0].topic_id == b"?" * 16


async def test_a_log_of_another_topic_id_is_inconsistent() -> None:
    broker = await broker_with_records("a")
    broker.log().topic_id = b"!" * 16
    assert (await broker.fetch(version=13)).error_code == ErrorCode.INCONSISTENT_TOPIC_ID


async def test_leader_epochs_are_compared_before_anything_else() -> None:
    broker = await broker_with_records("a")
    current = broker.log().leader_epoch = 5
    for epoch, expected in ((current - 1, "FENCED_LEADER_EPOCH"), (current + 1, "UNKNOWN_LEADER_EPOCH")):
        answer = await broker.fetch(999, current_leader_epoch=epoch)
        assert ErrorCode(answer.error_code).name == expected
    assert (await broker.fetch(0, current_leader_epoch=current)).error_code == ErrorCode.NONE
    assert (await broker.fetch(0, version=8, current_leader_epoch=current + 1)).error_code == ErrorCode.NONE


async def test_a_fenced_reader_is_told_the_leader_from_version_16_on() -> None:
    broker = await broker_with_records("a")
    log = broker.log()
    log.leader_epoch = 5
    asked = request(broker, wanted(current_leader_epoch=log.leader_epoch - 1), version=16)
    response = await broker.call(fetch.API, asked, 16)
    leader = partitions_of(response)[0].current_leader
    assert (leader.leader_id, leader.leader_epoch) == (1, log.leader_epoch)
    assert [(each.node_id, each.host, each.port) for each in response.node_endpoints] == [(1, "localhost", 9092)]
    older = await broker.call(fetch.API, asked, 15)
    assert partitions_of(older)[0].current_leader.leader_id == -1


async def test_a_follower_whose_log_parts_from_ours_is_told_where() -> None:
    broker = await broker_with_records("a", "b")
    log = broker.log()
    first_epoch = log.leader_epoch
    log.leader_epoch += 3
    await broker.produce(batch("c"))
    parted = await broker.fetch(3, last_fetched_epoch=first_epoch)
    assert (parted.error_code, parted.records) == (ErrorCode.NONE, b"")
    assert (parted.diverging_epoch.epoch, parted.diverging_epoch.end_offset) == (first_epoch, 2)
    assert values(await broker.fetch(2, last_fetched_epoch=first_epoch)) == ["c"]
    between = await broker.fetch(2, last_fetched_epoch=first_epoch + 1)
    assert between.diverging_epoch.epoch == first_epoch
    unknown = await broker.fetch(2, last_fetched_epoch=first_epoch + 9)
    assert unknown.error_code == ErrorCode.OFFSET_OUT_OF_RANGE


async def test_zstd_is_not_given_to_clients_that_cannot_know_it() -> None:
    broker = await DataBroker.started()
    await broker.create_topic(compression_type="zstd")
    await broker.produce(batch("a"))
    assert (await broker.fetch(version=9)).error_code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    assert values(await broker.fetch(version=10)) == ["a"]


# Bytes that are not in the cache
# ---------------------------------------------------------------------------------------------


async def test_bytes_that_have_to_come_from_the_disk_are_waited_for_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = await broker_with_records("a", partitions=3)
    for partition in (1, 2):
        await broker.produce(batch("b"), partition=partition)
    cold = broker.log(partition=1)
    kind = type(cold)
    read = kind.read

    async def later(result: ReadResult) -> ReadResult:
        await asyncio.sleep(0)
        return result

    def slow_read(self: Any, *args: Any, **how: Any) -> Any:
        result = read(self, *args, **how)
        return later(result) if self is cold else result

    monkeypatch.setattr(kind, "read", slow_read)
    for max_bytes, expected in ((1 << 20, [1, 1, 1]), (10, [1, 0, 0])):
        asked = request(broker, wanted(0), wanted(1), wanted(2), max_bytes=max_bytes)
        answered = partitions_of(await broker.call(fetch.API, asked, 12))
        assert [len(values(answered[index])) for index in (0, 1, 2)] == expected
    cold_first = request(broker, wanted(1), wanted(0), max_bytes=10)
    answered = partitions_of(await broker.call(fetch.API, cold_first, 12))
    assert [len(values(answered[index])) for index in (1, 0)] == [1, 0]


# Sessions
# ----------------------------------------------------------------------------------------------------------------


class Session:
    """A consumer with a fetch session."""

    def __init__(self, broker: DataBroker, *, version: int = 12) -> None:
        self.broker = broker
        self.version = version
        self.session_id = 0
        self.epoch = 0

    async def fetch(self, *partitions: FetchPartition, **fields: Any) -> FetchResponse:
        asked = request(
            self.broker,
            *partitions,
            version=self.version,
            session_id=self.session_id,
            session_epoch=self.epoch,
            **fields,
        )
        response: FetchResponse = await self.broker.call(fetch.API, asked, self.version)
        if not response.error_code:
            self.session_id = response.session_id
            self.epoch += 1
        return response


@pytest.mark.parametrize("version", [7, 12, 13, 17])
async def test_a_session_speaks_only_of_partitions_with_news(version: int) -> None:
    broker = await broker_with_records("a", partitions=3)
    session = Session(broker, version=version)
    first = await session.fetch(wanted(0), wanted(1), wanted(2))
    assert session.session_id > 0
    assert sorted(partitions_of(first)) == [0, 1, 2]
    assert partitions_of(await session.fetch(wanted(0, 1))) == {}
    await broker.produce(batch("b"), partition=2)
    news = partitions_of(await session.fetch())
    assert list(news) == [2]
    assert values(news[2]) == ["b"]
    assert list(partitions_of(await session.fetch(wanted(2, 1)))) == []


async def test_a_moved_watermark_or_log_start_is_news() -> None:
    broker = await broker_with_records("a", "b")
    session = Session(broker)
    await session.fetch(wanted(0, 2))
    assert partitions_of(await session.fetch()) == {}
    assert await broker.log().delete_records_before(1) == ErrorCode.NONE
    assert partitions_of(await session.fetch())[0].log_start_offset == 1
    assert partitions_of(await session.fetch()) == {}


async def test_an_error_is_repeated_until_it_is_over() -> None:
    broker = await broker_with_records("a")
    session = Session(broker)
    await session.fetch(wanted(0, 2))
    beyond = ErrorCode.OFFSET_OUT_OF_RANGE
    assert [partitions_of(await session.fetch())[0].error_code for _ in range(2)] == [beyond] * 2
    await broker.produce(batch("b"))
    assert partitions_of(await session.fetch())[0].high_watermark == 2
    assert partitions_of(await session.fetch()) == {}


async def test_no_session_is_kept_for_partitions_that_do_not_exist() -> None:
    broker = await broker_with_records("a")
    session = Session(broker)
    response = await session.fetch(wanted(0), wanted(4))
    assert partitions_of(response)[4].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert session.session_id == 0


async def test_a_session_ends_when_partitions_are_added_that_do_not_exist() -> None:
    broker = await broker_with_records("a")
    session = Session(broker)
    await session.fetch(wanted(0))
    assert session.session_id > 0
    response = await session.fetch(wanted(4))
    assert partitions_of(response)[4].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert session.session_id == 0, "which tells the client to name all that it wants"
    assert len(broker.services.fetch_sessions) == 0


async def test_a_session_goes_on_when_a_partition_of_it_is_deleted() -> None:
    broker = await broker_with_records("a")
    session = Session(broker)
    await session.fetch(wanted(0, 1))
    await broker.cluster.delete_topic("orders")
    for _ in range(2):
        assert partitions_of(await session.fetch())[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert session.session_id > 0


async def test_a_topic_that_came_back_under_another_id_is_still_unknown_to_its_old_sessions() -> None:
    broker = await broker_with_records("a")
    session = Session(broker, version=13)
    await session.fetch(wanted(0, 1))
    await broker.cluster.delete_topic("orders")
    await broker.create_topic()
    assert partitions_of(await session.fetch())[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID


async def test_a_partition_whose_records_were_returned_is_read_last_the_next_time() -> None:
    broker = await broker_with_records(partitions=2)
    for partition in (0, 1):
        for _ in range(2):
            await broker.produce(batch("x" * 1000), partition=partition)
    session = Session(broker)
    one_batch = {"max_bytes": 1100}
    assert len(values(partitions_of(await session.fetch(wanted(0), wanted(1), **one_batch))[0])) == 1
    second = partitions_of(await session.fetch(wanted(0, 1), **one_batch))
    assert list(second) == [1]
    assert len(values(second[1])) == 1


@pytest.mark.parametrize(
    ("session_id", "epoch", "error"),
    [(99, 1, "FETCH_SESSION_ID_NOT_FOUND"), (0, 5, "FETCH_SESSION_ID_NOT_FOUND")],
)
async def test_the_errors_of_a_session_are_those_of_the_whole_answer(session_id: int, epoch: int, error: str) -> None:
    broker = await broker_with_records("a")
    asked = request(broker, wanted(), session_id=session_id, session_epoch=epoch)
    response = await broker.call(fetch.API, asked, 12)
    assert (ErrorCode(response.error_code).name, response.session_id, response.responses) == (error, 0, ())


async def test_a_request_sent_twice_is_noticed_even_while_the_first_still_waits() -> None:
    broker = await broker_with_records("a")
    session = Session(broker)
    await session.fetch(wanted(0, 1))
    again = request(broker, session_id=session.session_id, session_epoch=1, max_wait_ms=500)
    waiting = broker.begin(fetch.API, again, 12)
    assert isinstance(waiting, asyncio.Task)
    response = await broker.call(fetch.API, again, 12)
    assert response.error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH
    waiting.cancel()


# Refusals
# ----------------------------------------------------------------------------------------------------------------


async def test_a_refusal_is_at_the_top_or_in_every_partition() -> None:
    broker = await broker_with_records()
    asked = request(broker, wanted(0), wanted(1))
    for version, places in ((12, []), (6, [-1, -1])):
        context: Any = type("Context", (), {"api_version": version})
        response = fetch.API.refuse(asked, context, ErrorCode.UNKNOWN_SERVER_ERROR)
        assert [each.error_code for each in partitions_of(response).values()] == places
        assert response.error_code == (0 if places else -1)
