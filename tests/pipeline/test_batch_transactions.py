"""One batch, one transaction (A2 to A5): with a fault at every request, and a driver that dies at every request."""

import asyncio
import functools
from collections.abc import AsyncIterator

import pytest
from local_broker import SOCKET, local_broker
from pipeline_broker import AheadClock, Faults, Seen
from pipeline_job import Job, rows, run_until_done
from waiting import until

from eosin.client.admin import Admin
from eosin.client.client import Client
from eosin.client.producer import TV1, TV2, Producer
from eosin.client.transactions import TransactionAdmin
from eosin.node.running import RunningNode
from eosin.pipeline.common.errors import (
    BadProgressTopic,
    BatchGap,
    ForeignMarker,
    MissingMarker,
    PipelineFenced,
    RangeMismatch,
    RolledBackCheckpoint,
    TransactionTimedOut,
    UnknownOutcome,
)
from eosin.pipeline.common.progress_marker import ProgressMarker, read_marker
from eosin.protocol.keys import ApiKey

pytestmark = pytest.mark.virtual


@pytest.fixture
def faults() -> Faults:
    """What the broker loses."""
    return Faults()


@pytest.fixture
async def broker(faults: Faults) -> AsyncIterator[RunningNode]:
    """A broker that loses what `faults` says."""
    async with local_broker(hooks=faults, listeners=SOCKET) as server:
        yield server


@pytest.fixture(params=[TV1, TV2], ids=["TV1", "TV2"])
def version(request: pytest.FixtureRequest) -> int:
    """The transaction protocol that the drivers use."""
    assert isinstance(request.param, int)
    return request.param


async def requests_of_a_run(job: Job, faults: Faults) -> int:
    await job.create()
    assert await run_until_done(job, 2) == 1
    return len(faults.seen)


@pytest.mark.parametrize("lost", ["request", "answer"])
async def test_each_batch_is_written_once_whichever_request_or_response_is_lost(
    broker: RunningNode, faults: Faults, version: int, lost: str
) -> None:
    total = await requests_of_a_run(Job(broker.addresses[0], version), faults)
    assert total > 12
    for number in range(total):
        job = await Job(broker.addresses[0], version).create()
        faults.clear()
        setattr(faults, "before" if lost == "request" else "after", lambda now, seen, at=number: now == at)
        await run_until_done(job, 2)
        assert await job.visible() == rows(0, 1), f"request {number}: {faults.seen[number].key.name}"


@pytest.mark.parametrize("handled", [False, True], ids=["not handled", "handled"])
async def test_each_batch_is_written_once_at_whichever_request_the_driver_dies(
    broker: RunningNode, faults: Faults, version: int, handled: bool
) -> None:
    total = await requests_of_a_run(Job(broker.addresses[0], version), faults)
    for number in range(total):
        job = await Job(broker.addresses[0], version).create()
        faults.clear()
        running: list[Client] = []

        def die(now: int, seen: Seen, at: int = number, running: list[Client] = running) -> bool:
            if now == at:
                running[-1]._closed = True  # nothing leaves this client any more, not even an abort
            return now == at

        setattr(faults, "after" if handled else "before", die)
        assert await run_until_done(job, 2, running.append) == 2
        assert await job.visible() == rows(0, 1), f"request {number}: {faults.seen[number].key.name}"


async def test_a_driver_that_dies_before_spark_has_noted_the_commit_skips_the_batch(
    broker: RunningNode, version: int
) -> None:
    job = await Job(broker.addresses[0], version).create()
    async with job.client() as first:
        transactions = job.driver(first)
        await transactions.start("q")
        assert await job.batch(transactions, 0)
    async with job.client() as second:
        transactions = job.driver(second)
        assert (await transactions.start("q")) == transactions.marker
        assert not await job.batch(transactions, 0)
        assert await job.batch(transactions, 1)
    assert await job.visible() == rows(0, 1)
    assert job.attempts == 2


async def test_an_empty_batch_writes_a_marker(broker: RunningNode, version: int) -> None:
    job = await Job(broker.addresses[0], version).create()

    async def nothing(_: Producer) -> int:
        return 0

    async with job.client() as client:
        transactions = job.driver(client)
        await transactions.start("q")
        assert await transactions.run(0, "range-0", nothing)
        assert await job.batch(transactions, 1)
        found = await read_marker(client, job.name, f"{job.name}-progress")
    assert found is not None
    assert (found.batch, found.rows, found.range, found.query) == (1, 2, "range-1", "q")


async def test_a_batch_with_invalid_rows_is_aborted(broker: RunningNode, version: int) -> None:
    job = await Job(broker.addresses[0], version).create()

    async def half(producer: Producer) -> int:
        await job.write(producer, 0)
        raise RuntimeError("bad row")

    async with job.client() as client:
        transactions = job.driver(client)
        await transactions.start("q")
        with pytest.raises(RuntimeError, match="bad row"):
            await transactions.run(0, "range-0", half)
        assert await job.visible() == []
        await transactions.start("q")
        assert await job.batch(transactions, 0)
    assert await job.visible() == rows(0)


# A3: the order of a start ---------------------------------------------------------------------------------------------


async def test_a_successor_waits_for_a_decided_commit_and_skips_its_batch(broker: RunningNode, version: int) -> None:
    job = await Job(broker.addresses[0], version).create()
    markers = broker.services.markers
    released = asyncio.Event()
    write_markers = markers.write_markers

    async def held(*arguments: object) -> object:
        await released.wait()
        return await write_markers(*arguments)  # type: ignore[arg-type]

    async with job.client() as first, job.client() as second:
        zombie, successor = job.driver(first), job.driver(second)
        await zombie.start("q")
        markers.write_markers = held  # type: ignore[method-assign,assignment]
        await job.batch(zombie, 0)
        starting = asyncio.create_task(successor.start("q"))
        await asyncio.sleep(0.2)
        assert not starting.done()
        markers.write_markers = write_markers  # type: ignore[method-assign]
        released.set()
        await starting
        assert not await job.batch(successor, 0)
    assert await job.visible() == rows(0)


async def test_a_zombie_that_commits_while_its_successor_starts_is_noticed(
    broker: RunningNode, faults: Faults, version: int
) -> None:
    job = await Job(broker.addresses[0], version).create()
    async with job.client() as first, job.client() as second:
        zombie, successor = job.driver(first), job.driver(second)
        await zombie.start("q")
        await zombie.begin()
        await job.write(zombie.producer, 0)
        await zombie.prepare(0, "range-0", 2)
        init = second.request
        committed = False

        async def at_the_last_moment(key: ApiKey, *arguments: object, **how: object) -> object:
            nonlocal committed
            if key is ApiKey.INIT_PRODUCER_ID and not committed:
                committed = True
                await zombie.commit()
            return await init(key, *arguments, **how)  # type: ignore[arg-type]

        second.request = at_the_last_moment  # type: ignore[method-assign,assignment]
        await successor.start("q")
        assert not await job.batch(successor, 0)
        with pytest.raises(PipelineFenced, match="taken over by another driver"):
            await job.batch(zombie, 1)
        assert await job.batch(successor, 1)
    assert await job.visible() == rows(0, 1)


async def test_a_successor_fences_a_zombie_in_the_middle_of_its_batch(broker: RunningNode, version: int) -> None:
    job = await Job(broker.addresses[0], version).create()
    async with job.client() as first, job.client() as second:
        zombie, successor = job.driver(first), job.driver(second)
        await zombie.start("q")

        async def slow(producer: Producer) -> int:
            await job.write(producer, 0)
            await successor.start("q")
            await job.batch(successor, 0)
            return 2

        with pytest.raises(PipelineFenced):
            await zombie.run(0, "range-0", slow)
    assert await job.visible() == rows(0)


# A4: a commit without an answer --------------------------------------------------------------------------------------


@pytest.mark.parametrize("lost", ["request", "answer"])
async def test_a_commit_without_a_response_is_repeated_unchanged(
    broker: RunningNode, faults: Faults, version: int, lost: str
) -> None:
    job = await Job(broker.addresses[0], version).create()
    losses = iter([True, True, True])

    def lose(_: int, seen: Seen) -> bool:
        return seen.key is ApiKey.END_TXN and next(losses, False)

    setattr(faults, "before" if lost == "request" else "after", lose)
    async with job.client() as client:
        transactions = job.driver(client)
        await transactions.start("q")
        assert await job.batch(transactions, 0)
        ends = faults.requests(ApiKey.END_TXN)
        assert len(ends) == 4
        assert all(each == ends[0] for each in ends)
        assert ends[0].committed
        assert await job.batch(transactions, 1)
    assert await job.visible() == rows(0, 1)


@pytest.mark.parametrize("lost", ["request", "answer"])
async def test_an_unanswered_commit_is_never_aborted_and_the_next_start_learns_its_outcome(
    broker: RunningNode, faults: Faults, version: int, lost: str
) -> None:
    job = await Job(broker.addresses[0], version).create()
    setattr(faults, "before" if lost == "request" else "after", lambda _, seen: seen.key is ApiKey.END_TXN)
    async with job.client(retry_timeout_ms=100) as client:
        transactions = job.driver(client)
        await transactions.start("q")
        with pytest.raises(UnknownOutcome, match="the next start finds out"):
            await job.batch(transactions, 0)
        await transactions.abort()
    assert all(each.committed for each in faults.requests(ApiKey.END_TXN))
    faults.clear()
    async with job.client() as client:
        transactions = job.driver(client)
        await transactions.start("q")
        assert await job.batch(transactions, 0) is (lost == "request")
    assert await job.visible() == rows(0)


# A5: a checkpoint and a marker that do not belong together ------------------------------------------------------------


async def committed_up_to_2(broker: RunningNode) -> Job:
    job = await Job(broker.addresses[0]).create()
    async with job.client() as client:
        transactions = job.driver(client)
        await transactions.start("q")
        for batch in range(3):
            await job.batch(transactions, batch)
    return job


@pytest.mark.parametrize(
    ("batch", "range_hash", "handed_over", "error", "said"),
    [
        (4, "range-4", 3, BatchGap, "went on after the error of batch 3"),
        (9, "range-9", 3, BatchGap, "went on after the error of batch 3"),
        (4, "range-4", None, BatchGap, "it was copied in part"),
        (1, "range-1", 0, RolledBackCheckpoint, "from an older copy"),
        (0, "range-0", None, RolledBackCheckpoint, "from an older copy"),
        (3, "range-3", 1, RolledBackCheckpoint, "from an older copy"),
        (2, "another", 1, RangeMismatch, "another input range"),
    ],
)
async def test_a_batch_that_does_not_follow_the_marker_is_refused(
    broker: RunningNode, batch: int, range_hash: str, handed_over: int | None, error: type[Exception], said: str
) -> None:
    job = await committed_up_to_2(broker)
    async with job.client() as client:
        transactions = job.driver(client)
        await transactions.start("q")
        with pytest.raises(error, match=said):
            transactions.is_committed(batch, range_hash, handed_over)
    assert await job.visible() == rows(0, 1, 2)


async def test_the_marker_of_another_query_is_refused_until_the_checkpoint_is_adopted(broker: RunningNode) -> None:
    job = await committed_up_to_2(broker)
    async with job.client() as client:
        with pytest.raises(ForeignMarker, match=r"query q \(batch 2\), and this checkpoint is of query other"):
            await job.driver(client).start("other")
        adopting = job.driver(client, adopt=True)
        await adopting.start("other")
        assert await adopting.run(7, "range-7", lambda producer: job.write(producer, 7))
        with pytest.raises(BatchGap):
            adopting.is_committed(9, "range-9", 8)
        # Asked for at each start, adopting still does not write a batch twice.
        again = job.driver(client, adopt=True)
        await again.start("other")
        assert not await again.run(7, "range-7", lambda producer: job.write(producer, 7))
    assert await job.visible() == rows(0, 1, 2, 7)


async def test_a_checkpoint_whose_pipeline_has_no_marker_is_refused(broker: RunningNode) -> None:
    job = await committed_up_to_2(broker)
    async with job.client() as client:
        await Admin(client).delete_topics([f"{job.name}-progress"])
        transactions = job.driver(client)
        await transactions.start("q")
        with pytest.raises(MissingMarker, match=r"has no marker .* although batch 2 was handed over"):
            transactions.is_committed(3, "range-3", 2)
        assert not transactions.is_committed(0, "range-0", None)


async def test_the_sink_goes_on_after_batches_that_the_format_has_written_and_not_noted(broker: RunningNode) -> None:
    job = await Job(broker.addresses[0]).create()
    for batch, notes, handed_over in ((0, True, None), (1, False, 0), (2, True, 0), (3, True, 2)):
        async with job.client() as client:
            transactions = job.driver(client, notes=notes)
            await transactions.start("q")
            write = functools.partial(job.write, batch=batch)
            assert await transactions.run(batch, f"range-{batch}", write, handed_over=handed_over), batch
    assert await job.visible() == rows(0, 1, 2, 3)


async def test_batches_that_were_not_handed_over_are_no_gap(broker: RunningNode) -> None:
    job = await Job(broker.addresses[0]).create()
    handed_over = None
    for batch in (4, 5, 9):
        async with job.client() as client:
            transactions = job.driver(client)
            await transactions.start("q")
            write = functools.partial(job.write, batch=batch)
            assert await transactions.run(batch, f"range-{batch}", write, handed_over=handed_over)
            assert transactions.is_committed(batch, f"range-{batch}", handed_over)
        handed_over = batch
    assert await job.visible() == rows(4, 5, 9)


async def test_a_batch_that_outlives_its_transaction_raises_transaction_timed_out(
    broker: RunningNode, version: int
) -> None:
    job = await Job(broker.addresses[0], version).create()

    async def slow(producer: Producer) -> int:
        await job.write(producer, 0)
        async with Client(job.address) as client:
            before = len((await client.fetch_metadata()).topics)  # any request: the broker must be alive
            assert before
        await asyncio.sleep(1.0)
        return 2

    async with job.client(retry_timeout_ms=1000) as client:
        transactions = job.driver(client, transaction_timeout_ms=200)
        await transactions.start("q")
        with pytest.raises(TransactionTimedOut, match=r"transaction\.timeout\.ms=200"):
            await transactions.run(0, "range-0", slow)
        await transactions.start("q")
        assert await job.batch(transactions, 0)
    assert await job.visible() == rows(0)


# The progress topic ---------------------------------------------------------------------------------------------------


async def test_a_progress_topic_that_would_lose_the_marker_is_refused(broker: RunningNode) -> None:
    job = await Job(broker.addresses[0]).create()
    async with job.client() as client:
        await Admin(client).create_topic("kept", 1)
        with pytest.raises(BadProgressTopic, match=r"cleanup\.policy is 'delete'"):
            await job.driver(client, topic="kept").start("q")
        await Admin(client).create_topic("wide", 2, configs={"cleanup.policy": "compact"})
        with pytest.raises(BadProgressTopic, match="has 2 partitions"):
            await job.driver(client, topic="wide").start("q")


async def test_a_marker_behind_an_open_transaction_of_another_pipeline_is_waited_for(broker: RunningNode) -> None:
    first, second = await Job(broker.addresses[0]).create(), await Job(broker.addresses[0]).create()
    async with first.client() as one, second.client() as two:
        blocking, hidden = first.driver(one, topic="shared"), second.driver(two, topic="shared")
        await blocking.start("q")
        await hidden.start("q")
        await blocking.begin()
        await blocking.prepare(0, "range-0", 0)
        await second.batch(hidden, 0)
        reading = asyncio.create_task(read_marker(two, second.name, "shared"))
        await asyncio.sleep(0.1)
        assert not reading.done()
        await blocking.commit()
        found = await reading
    assert found is not None
    assert found.batch == 0


@pytest.mark.parametrize("value", [b"", b"[]", b"{}", b'{"v":2}', b'{"v":1,"query":"q"}', b"\xff"])
def test_a_record_that_is_no_marker_is_refused(value: bytes) -> None:
    with pytest.raises(ValueError, match=r"^it (is no progress marker|has version 2)"):
        ProgressMarker.parse(value)


# A long silence -------------------------------------------------------------------------------------------------------


@pytest.fixture
async def forgetful() -> AsyncIterator[tuple[str, AheadClock]]:
    """A broker that forgets ids ten minutes after their last use, and the clock that says when that is."""
    clock = AheadClock()
    settings = {
        "transactional_id_expiration_ms": 600_000,
        "transaction_remove_expired_transaction_cleanup_interval_ms": 20,
    }
    async with local_broker(clock=clock, listeners=SOCKET, **settings) as server:
        yield server.addresses[0], clock


async def is_forgotten(job: Job, clock: AheadClock) -> None:
    clock.ahead_ms += 700_000
    async with Client(job.address) as client:

        async def is_not_listed() -> bool:
            listed = await TransactionAdmin(client).list_transactions()
            return all(each.transactional_id != job.name for each in listed)

        await until(is_not_listed)


async def test_a_driver_goes_on_after_the_coordinator_has_forgotten_its_idle_id(
    forgetful: tuple[str, AheadClock], version: int
) -> None:
    job = await Job(forgetful[0], version).create()
    async with job.client() as client:
        transactions = job.driver(client)
        await transactions.start("q")
        for batch in range(3):
            await is_forgotten(job, forgetful[1])
            assert await job.batch(transactions, batch)
    assert await job.visible() == rows(0, 1, 2)
    assert job.attempts == 3


async def test_a_forgotten_driver_does_not_repeat_the_batches_of_its_successor(
    forgetful: tuple[str, AheadClock], version: int
) -> None:
    job = await Job(forgetful[0], version).create()
    async with job.client() as one, job.client() as two:
        sleeping, other = job.driver(one), job.driver(two)
        await sleeping.start("q")
        assert await job.batch(sleeping, 0)
        await other.start("q")
        assert await job.batch(other, 1)
        await is_forgotten(job, forgetful[1])
        with pytest.raises(PipelineFenced, match="was taken over by another driver while it had no batch"):
            await job.batch(sleeping, 1)
    assert await job.visible() == rows(0, 1)
