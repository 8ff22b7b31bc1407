"""A partition whose leader does not answer, as `txnlog` sees it (S4): planning without Spark, and a query with it."""

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from read_ranges import records_of
from stalling_leader import TwoBrokers
from topic_load import TopicLoad
from waiting import wait_until

from eosin.client.consumer import Consumer
from eosin.client.errors import ClientError, RequestTimedOut
from eosin.client.producer import Producer
from eosin.pipeline.common.retrying_client import RetryingClient
from eosin.pipeline.common.task_timeouts import TaskTimeouts
from eosin.pipeline.sink.batch_transactions import BatchTransactions
from eosin.protocol.names import TopicPartition
from eosin.protocol.records.batch import NewRecord

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from eosin.pipeline.source.txnlog import TxnLogStreamReader

pytest.importorskip("pyspark")
pytestmark = [pytest.mark.process, pytest.mark.slow]

STALLED = "orders-2"


@pytest.fixture
def brokers() -> Iterator[TwoBrokers]:
    """Partition 2 of topic `orders` is led by a broker of its own; each of the three has one record."""
    with TwoBrokers(("orders", 2)) as running:
        load = TopicLoad(running.address)
        load.create("orders", 3)
        load.transaction("orders", [(0, "a"), (1, "b"), (2, "c")])
        yield running


def options(brokers: TwoBrokers, **changed: str) -> dict[str, str]:
    return {
        "bootstrap.servers": brokers.address,
        "subscribe": "orders",
        "request.timeout.ms": "300",
        "task.timeout.ms": "60000",
        **changed,
    }


# Planning


@pytest.fixture
def reader(brokers: TwoBrokers, request: pytest.FixtureRequest) -> Iterator["TxnLogStreamReader"]:
    """The reader of a query, as Spark's planning process holds it."""
    from eosin.pipeline.source.options import SourceOptions
    from eosin.pipeline.source.txnlog import TxnLogStreamReader

    changed = getattr(request, "param", {})
    found = TxnLogStreamReader(SourceOptions.parse(options(brokers, **changed)), schema=None)  # type: ignore[arg-type]
    yield found
    found.stop()


def latest(reader: "TxnLogStreamReader", start: dict[str, int]) -> dict[str, int]:
    from pyspark.sql.streaming.datasource import ReadAllAvailable

    return reader.latestOffset(start, ReadAllAvailable())


def ends(offset: dict[str, int]) -> dict[str, int]:
    """Of each partition, without the ids of topics."""
    return {name: end for name, end in offset.items() if not name.endswith(":id")}


def test_a_partition_whose_leader_times_out_stays_where_it_is_and_the_others_advance(
    brokers: TwoBrokers, reader: "TxnLogStreamReader", caplog: pytest.LogCaptureFixture
) -> None:
    start = reader.initialOffset()
    position = latest(reader, start)
    assert ends(position) == {"orders:0": 2, "orders:1": 2, "orders:2": 2}
    load = TopicLoad(brokers.address)
    load.transaction("orders", [(0, "d"), (2, "e"), (2, "f")])
    assert ends(latest(reader, position)) == {"orders:0": 4, "orders:1": 2, "orders:2": 5}
    brokers.relay.stall()
    load.transaction("orders", [(0, "g")])
    found = latest(reader, position)
    assert ends(found) == {"orders:0": 6, "orders:1": 2, "orders:2": 2}
    wait_until(lambda: latest(reader, found) and reader._reading.planning.timeouts.skipped)
    # Its lag is still to be seen, with the time that it has left and how often it was left out.
    reported = reader.reportLatestOffset() or {}
    assert reported["orders:2"] == 5
    assert 0 < reported[f"task_timeout_remaining_ms:{STALLED}"] <= 60_000
    assert reported[f"task_skips_total:{STALLED}"] >= 1
    assert any(said.startswith(STALLED) and "the others go on" in said for said in caplog.messages)
    assert [piece.partition for piece in reader.partitions(position, found)] == [TopicPartition("orders", 0)]
    brokers.relay.recover()
    wait_until(lambda: ends(latest(reader, found)) == {"orders:0": 6, "orders:1": 2, "orders:2": 5})
    assert not any(name.startswith("task_timeout_remaining_ms") for name in reader.reportLatestOffset() or {})


@pytest.mark.parametrize("reader", [{"task.timeout.ms": "400"}], indirect=True)
def test_a_leader_that_stays_away_fails_planning_with_its_own_timeout(
    brokers: TwoBrokers, reader: "TxnLogStreamReader"
) -> None:
    position = latest(reader, reader.initialOffset())
    brokers.relay.stall()
    with pytest.raises(ClientError, match="did not answer") as raised:
        wait_until(lambda: not latest(reader, position))
    assert raised.value.__notes__[0].startswith(f"task {STALLED} gave up after task.timeout.ms=400")


def test_a_planned_range_is_waited_for(brokers: TwoBrokers) -> None:
    from eosin.pipeline.source.options import SourceOptions
    from eosin.pipeline.source.range_reader import RangeReader

    def read(**changed: str) -> list[bytes | None]:
        source = SourceOptions.parse(options(brokers, **changed))
        pieces = RangeReader(source, TopicPartition("orders", 2), 0, 2)
        return [each.value for each in records_of(pieces)]

    assert read() == [b"c"]
    brokers.relay.stall()
    recovery = threading.Timer(1.0, brokers.relay.recover)
    recovery.start()
    assert read() == [b"c"]
    recovery.join()
    brokers.relay.stall()
    with pytest.raises(ClientError, match="did not answer") as raised:
        read(**{"task.timeout.ms": "400"})
    assert "gave up after task.timeout.ms=400" in raised.value.__notes__[0]
    with pytest.raises(ClientError, match="did not answer"):
        read(**{"task.timeout.ms": "0"})
    brokers.relay.recover()


# Writing


async def test_a_batch_with_a_stalled_output_waits_as_one_task_and_is_written_once(
    brokers: TwoBrokers, caplog: pytest.LogCaptureFixture
) -> None:
    timeouts = TaskTimeouts(60_000)
    async with RetryingClient(brokers.address, timeouts, ("copier batch 0",), request_timeout_ms=300) as client:
        transactions = BatchTransactions(client, "copier")
        await transactions.start("query")
        recovery = threading.Timer(1.0, brokers.relay.recover)

        async def write(producer: Producer) -> int:
            recovery.start()
            for index in range(3):
                await producer.send(TopicPartition("orders", index), [NewRecord(None, b"new")], timestamp=1)
            return 3

        brokers.relay.stall()
        assert await transactions.run(0, "range", write)
        recovery.join()
        assert timeouts.skips["copier batch 0"] >= 1
        assert timeouts.skipped == {}
        assert any(said.startswith("copier batch 0 (") for said in caplog.messages)
        consumer = Consumer(client)
        await consumer.assign_from([TopicPartition("orders", index) for index in range(3)])
        values = sorted(each.record.value or b"" for each in await consumer.read_to_end())
        assert values == [b"a", b"b", b"c", b"new", b"new", b"new"]


async def test_a_batch_whose_output_stays_stalled_fails_with_its_timeout_and_is_aborted(
    brokers: TwoBrokers,
) -> None:
    timeouts = TaskTimeouts(500)
    async with RetryingClient(brokers.address, timeouts, ("copier batch 0",), request_timeout_ms=200) as client:
        transactions = BatchTransactions(client, "copier")
        await transactions.start("query")

        async def write(producer: Producer) -> int:
            await producer.send(TopicPartition("orders", 0), [NewRecord(None, b"new")], timestamp=1)
            brokers.relay.stall()
            await producer.send(TopicPartition("orders", 2), [NewRecord(None, b"new")], timestamp=1)
            return 2

        with pytest.raises(ClientError, match="did not answer") as raised:
            await transactions.run(0, "range", write)
        failure = timeouts.failure
        assert failure is not None
        assert raised.value is failure
        assert failure.__notes__[0].startswith("task copier batch 0 gave up after task.timeout.ms=500")
    brokers.relay.recover()
    values = await asyncio.to_thread(TopicLoad(brokers.address).values, "orders", 3)
    assert values == [b"a", b"b", b"c"]


async def test_client_retries_limit_the_attempts_of_that_client(brokers: TwoBrokers) -> None:
    async def calls(retries: int | None) -> int:
        attempts = 0

        async def attempt() -> None:
            nonlocal attempts
            attempts += 1
            raise RequestTimedOut("no answer")

        async with RetryingClient(brokers.address, TaskTimeouts(), retries=retries, request_timeout_ms=500) as client:
            with pytest.raises(RequestTimedOut):
                await client.retry(attempt)
        return attempts

    assert await calls(0) == 1
    assert await calls(2) == 3
    assert await calls(None) > 3


# A query


@pytest.mark.long
@pytest.mark.timeout(900)
def test_a_query_goes_on_around_a_stalled_leader_recovers_and_fails_when_its_time_is_up(
    spark: "SparkSession", brokers: TwoBrokers, tmp_path: Path
) -> None:
    from pyspark.errors import StreamingQueryException

    rows: list[str] = []
    skipped: list[Any] = []
    load = TopicLoad(brokers.address)

    def take(frame: "DataFrame", _: int) -> None:
        rows.extend(bytes(row["value"]).decode() for row in frame.collect())

    def start(**changed: str) -> Any:
        reader = spark.readStream.format("txnlog").options(**options(brokers, **changed)).load()
        checkpoint = str(tmp_path / "checkpoint")
        return reader.writeStream.foreachBatch(take).option("checkpointLocation", checkpoint).start()

    def sees(value: str) -> bool:
        skipped.extend(
            name
            for progress in query.recentProgress
            for source in progress.sources
            for name in str(source.latestOffset).split('"')
            if name.startswith("task_timeout_remaining_ms:")
        )
        assert query.exception() is None
        return value in rows

    query = start()
    try:
        wait_until(lambda: sorted(rows) == ["a", "b", "c"])
        brokers.relay.stall()
        for number in range(40):
            load.transaction("orders", [(number % 2, f"x{number}")])
            wait_until(lambda number=number: sees(f"x{number}"))  # type: ignore[misc]
            if skipped:
                break
        assert set(skipped) == {f"task_timeout_remaining_ms:{STALLED}"}
        brokers.relay.recover()
        load.transaction("orders", [(2, "late")])
        wait_until(lambda: sees("late"))
    finally:
        query.stop()
    assert len(rows) == len(set(rows))
    query = start(**{"task.timeout.ms": "400"})
    try:
        load.transaction("orders", [(2, "z")])
        wait_until(lambda: "z" in rows)
        brokers.relay.stall()
        with pytest.raises(StreamingQueryException, match=r"gave up after task\.timeout\.ms=400"):
            query.awaitTermination(200)
    finally:
        query.stop()
        brokers.relay.recover()
