"""The asyncio runner and what happens to its user: topics that come and go, transforms that go wrong, large records."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Any

import pytest
from asked_broker import KILLED, STOPPED
from local_broker import SOCKET, local_broker
from runner_job import Job
from virtual_broker import VirtualBroker
from waiting import until

from eosin.client.admin import Admin
from eosin.client.client import Client
from eosin.client.consumer import ConsumedRecord
from eosin.client.errors import BrokerError
from eosin.client.producer import Producer
from eosin.pipeline.common.errors import BadRows, DataLoss, MissingTopic, TransactionTimedOut
from eosin.pipeline.runner.runner import Output, Runner
from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import TopicPartition
from eosin.protocol.records.batch import NewRecord

pytestmark = pytest.mark.virtual


@pytest.fixture
async def job() -> AsyncIterator[Job]:
    """An application with a broker of its own."""
    async with local_broker(listeners=SOCKET) as server:
        yield await Job(server.addresses[0]).create()


async def goes_on(job: Job, count: int) -> None:
    """Nothing was committed of so many records, and a new runner does them all."""
    assert not job.reports
    await job.run_until(job.runner(), lambda: job.records_in() == count)
    assert len(await job.written()) == count


# Topics ---------------------------------------------------------------------------------------------------------------


async def test_an_output_topic_that_does_not_exist_ends_the_run_at_once_with_its_name(job: Job) -> None:
    await job.feed("a")
    with pytest.raises(MissingTopic, match="output topic nowhere does not exist: create it, or name it in outputs"):
        await job.runner(lambda _: [Output("nowhere", b"")]).run()
    await goes_on(job, 1)


async def test_a_runner_may_be_started_before_its_broker(caplog: pytest.LogCaptureFixture) -> None:
    async with local_broker(listeners=SOCKET) as server:
        address = server.addresses[0]
    settings = {"request.timeout.ms": "200", "task.timeout.ms": "60000"}
    running = asyncio.create_task(Runner(address, "early", "words", lambda _: [], settings=settings).run())
    await until(lambda: any("early (" in said and "Connection refused" in said for said in caplog.messages))
    async with local_broker(listeners=(f"PLAINTEXT://{address}",)):
        with pytest.raises(MissingTopic, match="topic words does not exist"):
            await running


async def test_a_topic_may_be_named_alone(job: Job) -> None:
    await job.feed("a")
    runner = Runner(job.address, "alone", job.input, job.upper, outputs={job.output: 1}, settings=job.settings)
    await job.run_until(runner, lambda: True)
    assert await job.written() == ["A"]


async def test_an_input_that_is_deleted_times_out_while_the_others_go_on(job: Job) -> None:
    kept, gone = job.input, "gone"
    async with Client(job.address) as client:
        await Admin(client).create_topic(gone, 1)
    runner = Runner(
        job.address,
        "app-gone",
        [kept, gone],
        job.upper,
        outputs={job.output: 1},
        settings={**job.settings, "task.timeout.ms": "3000"},
        on_commit=job.reports.append,
        patience_ms=50,
    )
    running = asyncio.create_task(runner.run())
    await until(lambda: runner.partitions)
    async with Client(job.address) as client:
        await Admin(client).delete_topics([gone])
    await until(lambda: f"{gone}-0" in runner.timeouts.skipped)
    await job.feed("a")
    await until(lambda: job.records_in() == 1)
    with pytest.raises(BrokerError, match="gone-0") as raised:
        await running
    assert raised.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert "task gone-0 gave up after task.timeout.ms=3000" in raised.value.__notes__[0]
    assert await job.written() == ["A"]


async def test_an_input_that_was_deleted_and_created_anew_is_not_taken_for_the_old_one(job: Job) -> None:
    await job.feed("a", "b", partition=0)
    runner = job.runner()
    running = asyncio.create_task(runner.run())
    await until(lambda: job.records_in() == 2)
    await job.create_input_anew()
    await job.feed("c", "d", "e", partition=0)
    with pytest.raises(DataLoss, match=f"topic {job.input} was deleted and created anew while {job.input}-"):
        await running
    await job.run_until(job.runner(), lambda: job.records_in() == 5)
    assert await job.written() == ["A", "B", "C", "D", "E"]


async def test_lost_records_are_reported_with_the_group_whose_offsets_to_set(job: Job) -> None:
    await job.feed("a", "b", partition=0)
    await job.run_until(job.runner(), lambda: job.records_in() == 2)
    await job.feed("c", "d", partition=0)
    async with Client(job.address) as client:
        await Admin(client).delete_records(TopicPartition(job.input, 0), 3)
    with pytest.raises(DataLoss, match=f"{job.input}-0 has no offset 2 any more: .* offsets of group 'app-{job.name}'"):
        await job.runner().run()


# Transforms -----------------------------------------------------------------------------------------------------------


async def test_an_error_of_a_transform_names_the_record_and_commits_nothing(job: Job) -> None:
    await job.feed("a", "b", partition=1)

    def broken(consumed: ConsumedRecord) -> Iterable[Output]:
        yield from job.upper(consumed)
        if consumed.record.value == b"b":
            raise ZeroDivisionError("no such letter")

    with pytest.raises(ZeroDivisionError, match="no such letter") as raised:
        await job.runner(broken, **{"commit.interval.ms": "60000"}).run()
    assert raised.value.__notes__ == [f"while transforming {job.input}-1 at offset 1; its whole transaction is aborted"]
    await goes_on(job, 2)


ANSWERS = {
    "nothing": (lambda: None, "the transform returned NoneType, and must return a list of outputs"),
    "one output": (lambda: Output("out", b""), "the transform returned Output, and must return a list of outputs"),
    "text": (lambda: ["a"], "the transform returned str among its outputs"),
    "a value that is text": (
        lambda: [Output("out", "a")],  # type: ignore[arg-type]
        "the value of an output for topic out is str, and must be bytes or None",
    ),
    "a header that is a number": (
        lambda: [Output("out", b"", headers=(("n", 1),))],  # type: ignore[arg-type]
        "the header 'n' of an output for topic out is int, and must be bytes or None",
    ),
}


@pytest.mark.parametrize("answer", ANSWERS)
async def test_a_transform_that_does_not_return_outputs_is_refused(job: Job, answer: str) -> None:
    made, told = ANSWERS[answer]
    await job.feed("a", partition=2)
    with pytest.raises(BadRows, match=told) as raised:
        await job.runner(lambda _: made()).run()
    assert f"{job.input}-2 at offset 0" in raised.value.__notes__[0]
    await goes_on(job, 1)


async def test_an_output_for_a_missing_partition_names_its_input_record(job: Job) -> None:
    await job.feed("a", "b", partition=0)

    def wild(consumed: ConsumedRecord) -> Iterable[Output]:
        yield Output(job.output, b"", partition=consumed.record.offset + 1)

    with pytest.raises(BadRows, match=f"partition 2 of topic {job.output}, which has 2") as raised:
        await job.runner(wild).run()
    assert raised.value.__notes__ == [f"its input record is {job.input}-0 at offset 1"]
    await goes_on(job, 2)


async def test_a_transform_may_be_a_coroutine_or_an_async_generator(job: Job) -> None:
    async def waits(consumed: ConsumedRecord) -> Sequence[Output]:
        await asyncio.sleep(0)
        return list(job.upper(consumed))

    async def yields(consumed: ConsumedRecord) -> AsyncIterator[Output]:
        for each in await waits(consumed):
            yield each

    await job.feed("a")
    await job.run_until(job.runner(waits), lambda: True)
    await job.feed("b")
    await job.run_until(job.runner(yields), lambda: job.records_in() == 2)
    assert await job.written() == ["A", "B"]


async def test_a_transform_that_outlives_the_transaction_is_reported_and_its_work_is_repeated(job: Job) -> None:
    async def slow(consumed: ConsumedRecord) -> Sequence[Output]:
        if consumed.record.value == b"slow":
            await until(lambda: job.is_in("CompleteAbort"))
        return list(job.upper(consumed))

    await job.feed("a", partition=0)
    settings = {"commit.interval.ms": "60000", "transaction.timeout.ms": "500"}
    runner = job.runner(slow, **settings)
    running = asyncio.create_task(runner.run())
    await job.is_transforming(runner)
    await job.feed("slow", partition=0)
    with pytest.raises(TransactionTimedOut, match=r"took \d+ ms, and was aborted after transaction.timeout.ms=500"):
        await running
    await goes_on(job, 2)


# Stopping -------------------------------------------------------------------------------------------------------------


async def test_a_run_that_is_cancelled_aborts_what_it_has_not_committed(job: Job) -> None:
    await job.feed("a")
    runner = job.runner(**{"commit.interval.ms": "60000"})
    running = asyncio.create_task(runner.run())
    await job.is_transforming(runner)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert await job.is_in("CompleteAbort")
    await goes_on(job, 1)


async def test_a_run_goes_on_when_its_broker_is_stopped_or_killed_and_started_again() -> None:
    broker = VirtualBroker({})
    await broker.start()
    job = await Job(broker.address).create()
    job.settings |= {"commit.interval.ms": "50", "request.timeout.ms": "1000"}
    runner = job.runner()
    running = asyncio.create_task(runner.run())
    for number, end in enumerate((KILLED, STOPPED, KILLED), 1):
        await job.feed(*(f"{number}-{each:03}" for each in range(300)))
        await until(lambda: job.records_in() > 300 * (number - 1))  # noqa: B023
        await broker.restart(end)  # while it reads, writes or commits the rest
    await until(lambda: job.records_in() == 900)
    runner.stop()
    await running
    written = await job.written()
    assert written == sorted(f"{number}-{each:03}" for number in (1, 2, 3) for each in range(300))


# Records --------------------------------------------------------------------------------------------------------------


async def test_outputs_that_exceed_a_batch_are_all_written_in_order(job: Job) -> None:
    def many(_: ConsumedRecord) -> Iterable[Output]:
        return (Output(job.output, f"{number:0500}".encode(), key=b"k") for number in range(3000))

    await job.feed("a")
    await job.run_until(job.runner(many), lambda: True)
    assert [int(each.record.value or b"") for each in await job.outputs()] == list(range(3000))


async def test_headers_count_for_the_size_of_a_batch(job: Job) -> None:
    def labelled(_: ConsumedRecord) -> Iterable[Output]:
        return (Output(job.output, b"", key=b"k", headers=(("label", b"x" * 1000),)) for _ in range(2000))

    await job.feed("a")
    await job.run_until(job.runner(labelled), lambda: True)
    assert len(await job.outputs()) == 2000


async def test_a_topic_of_small_batches_is_written_to_with_a_smaller_batch_size(job: Job) -> None:
    async with Client(job.address) as client:
        await Admin(client).create_topic(job.output, 1, configs={"max.message.bytes": "20000"})

    def many(_: ConsumedRecord) -> Iterable[Output]:
        return (Output(job.output, b"x" * 1000) for _ in range(100))

    await job.feed("a")
    with pytest.raises(BrokerError, match="MESSAGE_TOO_LARGE") as raised:
        await job.runner(many).run()
    assert raised.value.__notes__[0].endswith("limits a batch, and batch.size says how large batches are made")
    await job.run_until(job.runner(many, **{"batch.size": "16384"}), lambda: True)
    assert len(await job.outputs()) == 100


async def test_an_output_that_is_too_large_names_its_input_record(job: Job) -> None:
    await job.feed("a", "b", "c", partition=0)

    def grows(consumed: ConsumedRecord) -> Iterable[Output]:
        yield Output(job.output, b"x" * (2_000_000 if consumed.record.value == b"b" else 10))

    with pytest.raises(BrokerError, match="MESSAGE_TOO_LARGE") as raised:
        await job.runner(grows).run()
    (note,) = raised.value.__notes__
    assert f"has about 2000032 bytes, goes to topic {job.output} and comes from {job.input}-0 at offset 1" in note
    await goes_on(job, 3)


async def test_tombstones_headers_and_timestamps_can_be_handed_on(job: Job) -> None:
    async with Client(job.address) as client:
        headers = (("trace", b"\x01"), ("none", None))
        records = [NewRecord(b"k", None, 1_700_000_000_000, headers), NewRecord(None, b"", 1_700_000_000_001)]
        await Producer(client).send(TopicPartition(job.input, 0), records)

    def same(consumed: ConsumedRecord) -> Iterable[Output]:
        record = consumed.record
        yield Output(
            job.output, record.value, key=record.key, headers=record.headers, timestamp=record.timestamp, partition=1
        )
        yield Output(job.output, b"now", partition=0)

    await job.run_until(job.runner(same), lambda: job.records_in() == 2)
    written: list[Any] = [each.record for each in await job.outputs() if each.partition.partition == 1]
    assert [(each.key, each.value, each.timestamp, each.headers) for each in written] == [
        (b"k", None, 1_700_000_000_000, headers),
        (None, b"", 1_700_000_000_001, ()),
    ]
    now = [each.record.timestamp for each in await job.outputs() if each.partition.partition == 0]
    assert all(each > 1_700_000_000_001 for each in now)
