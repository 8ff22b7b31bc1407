"""The asyncio runner and time that passes without a record: offsets that expire, and an id that is forgotten."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from local_broker import SOCKET, local_broker
from pipeline_broker import AheadClock
from runner_job import Job
from waiting import HANG_S, until

from eosin.client.admin import Admin
from eosin.client.client import Client, CoordinatorType
from eosin.client.consumer import ConsumedRecord
from eosin.client.errors import BrokerError
from eosin.client.producer import Producer
from eosin.client.transactions import TransactionAdmin
from eosin.pipeline.common.errors import BadProgressTopic, ConflictingSettings, MissingOffsets, PipelineFenced
from eosin.pipeline.common.group_offsets import committed_offsets
from eosin.pipeline.runner.input_marker import InputMarker, ReadTopic, marker_topic
from eosin.pipeline.runner.runner import Output, Runner
from eosin.pipeline.sink.batch_transactions import BatchTransactions
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.names import TopicPartition
from eosin.protocol.schemas.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)

pytestmark = pytest.mark.virtual

MINUTE_MS = 60_000
REFRESH = {"eosin.offsets.refresh.interval.ms": "50"}


@pytest.fixture
def clock() -> AheadClock:
    """The broker's."""
    return AheadClock()


FORGETS_IDS = {
    "transactional_id_expiration_ms": 10 * MINUTE_MS,
    "transaction_remove_expired_transaction_cleanup_interval_ms": 20,
}
FORGETS_OFFSETS = {"offsets_retention_minutes": 1, "offsets_retention_check_interval_ms": 20}


@pytest.fixture
async def job(clock: AheadClock) -> AsyncIterator[Job]:
    """An application whose broker keeps offsets for a minute and ids for ten, and looks all the time."""
    async with local_broker(clock=clock, listeners=SOCKET, **FORGETS_OFFSETS, **FORGETS_IDS) as server:
        yield await Job(server.addresses[0]).create()


@pytest.fixture
async def kept(clock: AheadClock) -> AsyncIterator[Job]:
    """One whose broker keeps offsets for longer than ids."""
    async with local_broker(clock=clock, listeners=SOCKET, **FORGETS_IDS) as server:
        yield await Job(server.addresses[0]).create()


async def offsets(job: Job) -> dict[int, int]:
    """What the group of the application has committed."""
    partitions = [TopicPartition(job.input, index) for index in range(3)]
    async with Client(job.address) as client:
        found = await committed_offsets(client, f"app-{job.name}", partitions)
    return {each.partition: kept.offset for each, kept in found.items()}


async def comes_to_be(job: Job, expected: dict[int, int]) -> None:
    async def is_so() -> bool:
        return await offsets(job) == expected

    await until(is_so)


async def is_forgotten(job: Job, clock: AheadClock) -> None:
    """Time passes until the coordinator has forgotten the application."""
    clock.ahead_ms += 11 * MINUTE_MS
    async with Client(job.address) as client:

        async def is_not_listed() -> bool:
            listed = await TransactionAdmin(client).list_transactions()
            return all(each.transactional_id != f"app-{job.name}" for each in listed)

        await until(is_not_listed)


# Offsets --------------------------------------------------------------------------------------------------------------


async def test_a_start_commits_where_every_partition_begins(job: Job) -> None:
    await job.feed("a", partition=0)
    runner = job.runner()
    running = asyncio.create_task(runner.run())
    await until(lambda: runner.partitions)
    assert (await offsets(job)).keys() == {0, 1, 2}
    await until(lambda: job.records_in() == 1)
    assert [report.positions for report in job.reports] == [{TopicPartition(job.input, 0): 1}]
    runner.stop()
    await running


async def test_a_partition_that_is_quiet_for_longer_than_offset_retention_is_not_transformed_again(
    job: Job, clock: AheadClock
) -> None:
    await job.feed("a", "b", "c", "d", partition=0)
    runner = job.runner(**REFRESH)
    running = asyncio.create_task(runner.run())
    await until(lambda: job.records_in() == 4)
    busy = 0
    for _ in range(3):
        clock.ahead_ms += 40_000
        busy += 1
        await job.feed(f"busy{busy}", partition=1)
        await comes_to_be(job, {0: 4, 1: busy, 2: 0})
        await asyncio.sleep(0.15)  # some looks for what has expired, and some refreshes
    runner.stop()
    await running
    assert await offsets(job) == {0: 4, 1: busy, 2: 0}
    await job.feed("e")
    await job.run_until(job.runner(), lambda: job.records_in() == 5 + busy)
    assert await job.written() == sorted(["A", "B", "C", "D", "E", "BUSY1", "BUSY2", "BUSY3"])


async def test_an_input_of_more_partitions_than_a_batch_of_offsets_holds_is_committed_piece_by_piece(job: Job) -> None:
    # Apache Kafka writes the offsets of a request as one batch, of a MiB at most.
    async with Client(job.address) as client:
        await Admin(client).create_partitions(job.input, 33)
    await job.feed("a", "b", "c")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("eosin.pipeline.runner.runner.OFFSETS_AT_ONCE", 10)
        runner = job.runner(**REFRESH)
        await job.run_until(runner, lambda: job.records_in() == 3)
    every = [TopicPartition(job.input, index) for index in range(33)]
    async with Client(job.address) as client:
        found = await committed_offsets(client, f"app-{job.name}", every)
        assert [found[each].offset for each in every] == [1, 1, 1] + 30 * [0]
        for each in every:
            await delete_offset(client, f"app-{job.name}", each)
    with pytest.raises(MissingOffsets, match=f"has read {job.input}-0, .*, {job.input}-19 and 13 more before"):
        await job.runner().run()


async def test_offsets_that_expired_between_two_runs_end_the_next_start_with_a_sentence(
    job: Job, clock: AheadClock
) -> None:
    await job.feed("a", "b")
    await job.run_until(job.runner(), lambda: job.records_in() == 2)
    clock.ahead_ms += 2 * MINUTE_MS
    await comes_to_be(job, {})
    told = f"{job.input}-0, {job.input}-1, {job.input}-2 before, and its group has lost the offset there"
    for _ in range(2):
        with pytest.raises(MissingOffsets, match=told):
            await job.runner().run()
    assert await job.written() == ["A", "B"]
    await job.run_until(job.runner(**{"auto.offset.reset": "earliest"}), lambda: job.records_in() == 4)
    assert await job.written() == ["A", "A", "B", "B"]
    await job.feed("c")
    await job.run_until(job.runner(), lambda: job.records_in() == 5)


async def test_offsets_that_expire_while_the_runner_works_are_committed_again(job: Job, clock: AheadClock) -> None:
    await job.feed("a", "b")
    runner = job.runner(**{"eosin.offsets.refresh.interval.ms": "1000"})
    running = asyncio.create_task(runner.run())
    await until(lambda: job.records_in() == 2)
    clock.ahead_ms += 24 * 60 * MINUTE_MS  # a clock that is set ahead
    await comes_to_be(job, {})
    await comes_to_be(job, {0: 1, 1: 1, 2: 0})
    runner.stop()
    await running


async def test_a_partition_that_is_new_begins_at_its_beginning_and_is_remembered_with_the_others(
    job: Job,
) -> None:
    await job.feed("a")
    await job.run_until(job.runner(), lambda: job.records_in() == 1)
    async with Client(job.address) as client:
        await Admin(client).create_partitions(job.input, 4)
    await job.feed("b", partition=3)
    runner = job.runner(**{"metadata.max.age.ms": "20", **REFRESH})
    running = asyncio.create_task(runner.run())
    await until(lambda: job.records_in() == 2)
    async with Client(job.address) as client:
        await Admin(client).create_partitions(job.input, 5)
    await until(lambda: len(runner.partitions) == 5)
    added = TopicPartition(job.input, 4)
    async with Client(job.address) as client:

        async def is_committed() -> bool:
            return added in await committed_offsets(client, f"app-{job.name}", [added])

        await until(is_committed)
        runner.stop()
        await running
        await delete_offset(client, f"app-{job.name}", added)
    with pytest.raises(MissingOffsets, match=f"has read {job.input}-4 before"):
        await job.runner().run()


async def delete_offset(client: Client, group: str, partition: TopicPartition) -> None:
    topic = OffsetDeleteRequestTopic(partition.topic, (OffsetDeleteRequestPartition(partition.partition),))
    request = OffsetDeleteRequest(group, (topic,))
    answer = await client.call_coordinator(CoordinatorType.GROUP, group, ApiKey.OFFSET_DELETE, request)
    assert answer.error_code == 0


async def test_an_input_that_was_recreated_between_two_runs_is_read_from_its_beginning(job: Job) -> None:
    await job.feed("a", "b", "c", partition=0)
    await job.run_until(job.runner(), lambda: job.records_in() == 3)
    await job.create_input_anew()
    await job.feed("d", "e", "f", "g", partition=0)
    await job.run_until(job.runner(), lambda: job.records_in() == 7)
    assert await job.written() == ["A", "B", "C", "D", "E", "F", "G"]


async def test_an_offset_of_a_topic_that_was_deleted_is_not_taken_for_one_of_the_new_topic(
    job: Job, caplog: pytest.LogCaptureFixture
) -> None:
    await job.feed("a", "b", "c", partition=0)
    await job.run_until(job.runner(), lambda: job.records_in() == 3)
    await job.create_input_anew()
    await job.feed("d", "e", "f", "g", partition=0)
    at = TopicPartition(job.input, 0)
    group = f"app-{job.name}"

    async def leave(offset: int, metadata: dict[str, str]) -> None:
        async with Client(job.address) as client:
            producer = Producer(client, "other")
            await producer.init()
            producer.begin()
            await producer.send_offsets({at: offset}, group, metadata=metadata)
            await producer.commit()

    # As a coordinator does that was not there when the topic was deleted.
    await leave(3, {job.input: "topic-id=AAAAAAAAAAAAAAAAAAAAAQ"})
    await job.run_until(job.runner(), lambda: job.records_in() == 7)
    assert await job.written() == ["A", "B", "C", "D", "E", "F", "G"]
    assert f"the committed offset of {at} belongs to a deleted topic" in caplog.text
    # What a tool has set says nothing of a topic, and is taken as it is.
    await leave(2, {})
    await job.run_until(job.runner(), lambda: job.records_in() == 9)
    assert (await job.written())[-2:] == ["G", "G"]


async def test_inputs_that_are_all_deleted_while_they_are_quiet_cost_no_other_error(job: Job) -> None:
    runner = job.runner(**REFRESH, **{"task.timeout.ms": "1500"})
    running = asyncio.create_task(runner.run())
    await until(lambda: runner.partitions)
    async with Client(job.address) as client:
        await Admin(client).delete_topics([job.input])
    with pytest.raises(BrokerError, match="UNKNOWN_TOPIC_OR_PARTITION") as raised:
        await running
    assert raised.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert "gave up after task.timeout.ms=1500" in raised.value.__notes__[0]


# The marker -----------------------------------------------------------------------------------------------------------


def test_a_marker_survives_encoding_as_a_record() -> None:
    marker = InputMarker("run", {"t": ReadTopic("AAAAAAAAAAAAAAAAAAAAAQ", 3), "old": ReadTopic("", 1)})
    record = marker.record("app")
    assert record.key == b"app"
    assert InputMarker.parse(record.value or b"") == marker
    for value, said in ((b"{}", "no marker of a runner"), (b'{"v":2}', "version 2"), (b"\xff", "no marker")):
        with pytest.raises(ValueError, match=said):
            InputMarker.parse(value)


def test_a_marker_tells_what_was_read_by_the_id_of_the_topic() -> None:
    marker = InputMarker("run", {"t": ReadTopic("one", 2), "old": ReadTopic("", 1)})
    assert marker.has_read(TopicPartition("t", 1), "one")
    assert marker.has_read(TopicPartition("t", 1), "")  # a broker that gives no ids
    assert marker.has_read(TopicPartition("old", 0), "one")
    assert not marker.has_read(TopicPartition("t", 2), "one")
    assert not marker.has_read(TopicPartition("t", 1), "two")
    assert not marker.has_read(TopicPartition("u", 0), "one")


def test_any_application_id_has_a_topic_for_its_marker() -> None:
    assert marker_topic("orders") == "orders-progress"
    assert marker_topic("my app/ä") == "my_app__-progress"
    assert len(marker_topic("x" * 1000)) < 249


async def test_an_application_with_the_name_of_a_pipeline_is_refused(job: Job) -> None:
    async with Client(job.address) as client:
        transactions = BatchTransactions(client, f"app-{job.name}")
        await transactions.start("query")

        async def nothing(_: object) -> int:
            return 0

        await transactions.run(0, "range", nothing)
    with pytest.raises(BadProgressTopic, match="it is no marker of a runner"):
        await job.runner().run()


def test_a_reset_that_does_not_exist_is_refused_in_a_sentence() -> None:
    with pytest.raises(ConflictingSettings, match=r"auto\.offset\.reset is 'latest', and can be none or earliest"):
        Runner("127.0.0.1:9", "app", "t", lambda _: [], settings={"auto.offset.reset": "latest"})


# The id ---------------------------------------------------------------------------------------------------------------


async def test_a_runner_whose_id_was_forgotten_initialises_it_again_and_goes_on(
    job: Job, clock: AheadClock, caplog: pytest.LogCaptureFixture
) -> None:
    await job.feed("a", "b")
    runner = job.runner()
    running = asyncio.create_task(runner.run())
    for fed in (2, 4):
        await until(lambda: job.records_in() == fed)  # noqa: B023
        await is_forgotten(job, clock)
        await job.feed(f"c{fed}", f"d{fed}")
    await until(lambda: job.records_in() == 6)
    runner.stop()
    await running
    assert await job.written() == ["A", "B", "C2", "C4", "D2", "D4"]
    told = [each for each in caplog.messages if "initialises its producer id again" in each]
    assert len(told) == 2
    assert "transactional.id.expiration.ms" in told[0]


async def test_a_runner_whose_id_was_forgotten_in_silence_refreshes_its_offsets(job: Job, clock: AheadClock) -> None:
    await job.feed("a", "b")
    runner = job.runner(**{"eosin.offsets.refresh.interval.ms": "1000"})
    running = asyncio.create_task(runner.run())
    await until(lambda: job.records_in() == 2)
    await is_forgotten(job, clock)
    await comes_to_be(job, {0: 1, 1: 1, 2: 0})
    runner.stop()
    await running


async def test_a_forgotten_runner_does_not_fence_its_successor(kept: Job, clock: AheadClock) -> None:
    await kept.feed("a")
    first, second = kept.runner(), kept.runner()
    sleeping = asyncio.create_task(first.run())
    await until(lambda: kept.records_in() == 1)
    await is_forgotten(kept, clock)
    running = asyncio.create_task(second.run())
    await until(lambda: second.partitions)
    await kept.feed("b")
    with pytest.raises(PipelineFenced, match="was taken over by another instance"):
        async with asyncio.timeout(HANG_S):
            await sleeping
    await until(lambda: kept.records_in() == 2)
    await kept.feed("c")
    await until(lambda: kept.records_in() == 3)
    second.stop()
    await running
    assert await kept.written() == ["A", "B", "C"]


async def test_a_runner_that_slept_through_the_whole_run_of_another_does_not_repeat_its_work(
    kept: Job, clock: AheadClock
) -> None:
    taken: list[bytes | None] = []

    def take(consumed: ConsumedRecord) -> list[Output]:
        taken.append(consumed.record.value)  # and write nothing, so that no partition tells that the epoch is old
        return []

    awake = asyncio.Event()
    awake.set()

    async def sleepy(consumed: ConsumedRecord) -> list[Output]:
        await awake.wait()
        return take(consumed)

    await kept.feed("a")
    first, second = kept.runner(sleepy), kept.runner(take)
    sleeping = asyncio.create_task(first.run())
    await until(lambda: kept.records_in() == 1)
    awake.clear()
    await kept.feed("b")
    running = asyncio.create_task(second.run())
    await until(lambda: kept.records_in() == 2)
    second.stop()
    await running
    await is_forgotten(kept, clock)
    awake.set()
    with pytest.raises(PipelineFenced, match="was taken over by another instance while it was idle"):
        async with asyncio.timeout(HANG_S):
            await sleeping
    assert kept.records_in() == 2
