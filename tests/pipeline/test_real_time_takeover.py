"""The driver's part of Real-time Mode: it fences earlier runs, and keeps the positions of idle partitions alive."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator

import pytest
from local_broker import SOCKET, local_broker
from virtual_time import VirtualLoop  # the loop of these tests, whose time is ours

from eosin.client.admin import Admin
from eosin.client.client import Client
from eosin.client.errors import BrokerError, RequestTimedOut
from eosin.client.producer import Producer
from eosin.pipeline.common.errors import BadProgressTopic, MissingOffsets
from eosin.pipeline.common.progress_marker import ensure_topic
from eosin.pipeline.realtime.positions import WrittenPosition, transactional_id
from eosin.pipeline.realtime.takeover import PartitionTakeover, read_positions
from eosin.protocol.names import TopicPartition, uuid_text
from eosin.protocol.records.batch import NewRecord

pytestmark = pytest.mark.virtual

PIPELINE = "p"
PROGRESS = "p-progress"
FIRST, SECOND = TopicPartition("orders", 0), TopicPartition("orders", 1)


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    """Of a broker with an input and an output."""
    async with local_broker(listeners=SOCKET) as server, Client(server.addresses[0]) as client:
        for topic in ("orders", "out"):
            await Admin(client).create_topic(topic, 2)
        yield client


class Task:
    """What a task of Spark does to one partition, as `TxnWriter` does it."""

    def __init__(self, client: Client, partition: TopicPartition, *, timeout_ms: int = 60_000) -> None:
        self.client, self.partition = client, partition
        name = transactional_id(PIPELINE, partition)
        self.producer = Producer(client, name, transaction_timeout_ms=timeout_ms)
        self.commits = 0

    async def begin(self, offset: int, *, marks: bool = True) -> None:
        topic, index = self.partition
        topic_id = uuid_text((await self.client.metadata(topic)).topic_id(topic))
        self.producer.begin()
        await self.producer.send(TopicPartition("out", 0), [NewRecord(None, f"{index}:{offset}".encode())])
        if marks:
            marker = {"v": 1, "topic": topic, "partition": index, "topic_id": topic_id}
            key = transactional_id(PIPELINE, self.partition).encode()
            await self.producer.send(TopicPartition(PROGRESS, 0), [NewRecord(key, json.dumps(marker).encode())])
        self.commits += 1
        fields = {"v": 1, "offset": offset, "rows": 1, "topic_id": topic_id, "owner": "task", "at": self.commits}
        text = json.dumps(fields)
        await self.producer.send_offsets({self.partition: offset + 1}, PIPELINE, metadata={topic: text})

    async def write(self, offset: int) -> None:
        await self.producer.init()
        await self.begin(offset)
        await self.producer.commit()


def takeover(client: Client, *, adopt: bool = False) -> PartitionTakeover:
    return PartitionTakeover(client, client, PIPELINE, topic=PROGRESS, transaction_timeout_ms=60_000, adopt=adopt)


async def test_a_new_pipeline_has_no_position(client: Client) -> None:
    begun = takeover(client)
    assert await begun.start() == {}
    assert (begun.known, begun.owned) == ((), frozenset())


async def test_a_start_fences_earlier_tasks_and_ends_their_transactions(client: Client) -> None:
    await ensure_topic(client, PROGRESS)
    done, half = Task(client, FIRST), Task(client, SECOND)
    await done.write(4)
    await half.write(1)
    await half.begin(9)
    begun = takeover(client)
    positions = await begun.start()
    assert {each: found.offset for each, found in positions.items()} == {FIRST: 4, SECOND: 1}
    with pytest.raises(BrokerError):
        await half.producer.commit()
    with pytest.raises(BrokerError):
        await done.begin(5)
    assert (await read_positions(client, PIPELINE, [FIRST, SECOND])) == positions


async def test_the_driver_commits_positions_again_until_a_task_has_the_partition(client: Client) -> None:
    await ensure_topic(client, PROGRESS)
    for partition in (FIRST, SECOND):
        await Task(client, partition).write(4)
    begun = takeover(client)
    await begun.start()
    assert begun.owned == {FIRST, SECOND}
    await Task(client, FIRST).write(7)
    await begun.refresh()
    assert begun.owned == {SECOND}, "the other one has an owner who fenced the driver"
    found = await read_positions(client, PIPELINE, [FIRST, SECOND])
    assert {each: position.offset for each, position in found.items()} == {FIRST: 7, SECOND: 4}


async def test_a_refresh_that_failed_in_the_middle_does_not_keep_the_next_one_from_its_work(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Brokers were away for longer than a step is repeated."""
    await ensure_topic(client, PROGRESS)
    await Task(client, FIRST).write(4)
    begun = takeover(client)
    await begun.start()

    async def gives_up(*_: object, **__: object) -> None:
        raise RequestTimedOut("nobody has answered")

    with monkeypatch.context() as broken:
        broken.setattr(Producer, "commit", gives_up)
        with pytest.raises(RequestTimedOut):
            await begun.refresh()
    await begun.refresh()
    assert begun.owned == {FIRST}
    found = await read_positions(client, PIPELINE, [FIRST])
    assert {each: position.offset for each, position in found.items()} == {FIRST: 4}
    await Task(client, FIRST).write(7)
    await begun.refresh()
    assert begun.owned == frozenset()


@contextlib.asynccontextmanager
async def short_retention(minutes: int = 1) -> AsyncIterator[Client]:
    """Of a broker that keeps offsets for some minutes, with an input and an output."""
    async with (
        local_broker(
            listeners=SOCKET, offsets_retention_minutes=minutes, offsets_retention_check_interval_ms=1000
        ) as server,
        Client(server.addresses[0]) as client,
    ):
        assert isinstance(asyncio.get_running_loop(), VirtualLoop)
        for topic in ("orders", "out"):
            await Admin(client).create_topic(topic, 2)
        await ensure_topic(client, PROGRESS)
        yield client


async def test_an_idle_position_outlives_the_retention_of_offsets_while_the_query_runs() -> None:
    async with short_retention() as client:
        await Task(client, FIRST).write(4)
        begun = takeover(client)
        await begun.start()
        for _ in range(30):  # ten minutes of virtual time
            await asyncio.sleep(20)
            await begun.refresh()
        assert {each.offset for each in (await read_positions(client, PIPELINE, [FIRST])).values()} == {4}
        await asyncio.sleep(120)
        with pytest.raises(MissingOffsets, match="has lost the position there"):
            await takeover(client).start()
        adopted = takeover(client, adopt=True)
        assert await adopted.start() == {}
        assert adopted.known == ("p:orders:0",)


async def test_the_driver_takes_back_a_partition_whose_task_is_gone_before_its_position_expires() -> None:
    """An executor was lost, and no row has come since: no other one knows that it reads this partition."""
    async with short_retention(minutes=3) as client:
        begun = takeover(client)
        await begun.start()
        await Task(client, FIRST).write(4)
        half = Task(client, SECOND)
        await half.producer.init()
        await half.begin(9)
        for _ in range(30):
            await asyncio.sleep(20)
            await begun.refresh()
        assert begun.owned == {FIRST}, "the other one has never had a position"
        assert {each.offset for each in (await read_positions(client, PIPELINE, [FIRST])).values()} == {4}
        await Task(client, FIRST).write(5)
        await begun.refresh()
        assert begun.owned == frozenset()


async def test_a_task_that_commits_its_position_again_or_has_a_transaction_open_keeps_its_partition() -> None:
    async with short_retention() as client:
        begun = takeover(client)
        await begun.start()
        kept, late = Task(client, FIRST), Task(client, SECOND, timeout_ms=600_000)
        await kept.write(4)
        await late.write(6)
        await late.begin(7, marks=False)
        for _ in range(8):
            await asyncio.sleep(20)
            await kept.begin(4, marks=False)
            await kept.producer.commit()
            await begun.refresh()
        await late.producer.commit()
        for _ in range(8):
            await asyncio.sleep(20)
            for task, offset in ((kept, 4), (late, 7)):
                await task.begin(offset, marks=False)
                await task.producer.commit()
            await begun.refresh()
        assert begun.owned == frozenset()


async def test_the_driver_of_a_later_start_is_left_its_positions_by_one_that_has_not_noticed_it() -> None:
    async with short_retention() as client:
        await Task(client, FIRST).write(4)
        earlier, later = takeover(client), takeover(client)
        await earlier.start()
        await later.start()
        for _ in range(10):
            await asyncio.sleep(20)
            await earlier.refresh()
            await later.refresh()
        assert (earlier.owned, later.owned) == (frozenset(), {FIRST})


async def test_a_topic_that_was_created_anew_is_not_taken_for_the_old_one(client: Client) -> None:
    await ensure_topic(client, PROGRESS)
    await Task(client, FIRST).write(4)
    await Admin(client).delete_topics(["orders"])
    await Admin(client).create_topic("orders", 2)
    with pytest.raises(MissingOffsets, match="deleted and created anew"):
        await takeover(client).start()
    assert await takeover(client, adopt=True).start() == {}


async def test_a_topic_that_is_gone_needs_no_position(client: Client) -> None:
    await ensure_topic(client, PROGRESS)
    await Task(client, FIRST).write(4)
    await Admin(client).delete_topics(["orders"])
    assert await takeover(client).start() == {}


async def test_an_offset_that_a_tool_has_set_is_kept_as_it_is(client: Client) -> None:
    await ensure_topic(client, PROGRESS)
    task = Task(client, FIRST)
    await task.write(4)
    task.producer.begin()
    await task.producer.send_offsets({FIRST: 2}, PIPELINE)
    await task.producer.commit()
    begun = takeover(client)
    assert {each.next_offset for each in (await begun.start()).values()} == {2}
    await begun.refresh()
    assert {each.committed for each in (await read_positions(client, PIPELINE, [FIRST])).values()} == {2}


async def test_progress_shows_the_positions_and_where_a_new_checkpoint_begins(client: Client) -> None:
    from eosin.pipeline.cli.progress import progress_of, text_of

    await ensure_topic(client, PROGRESS)
    for partition in (FIRST, SECOND):
        await Task(client, partition).write(4 + partition.partition)
    found = await progress_of(client, PIPELINE, PROGRESS)
    assert found is not None
    assert text_of(found).splitlines() == [
        "pipeline  p",
        "position  orders-0 4",
        "position  orders-1 5",
        'starting  {"orders": {"0": 4, "1": 5}}',
    ]
    assert await progress_of(client, "other", PROGRESS) is None


async def test_a_marker_that_is_none_is_an_error(client: Client) -> None:
    await ensure_topic(client, PROGRESS)
    await Producer(client).send(TopicPartition(PROGRESS, 0), [NewRecord(b"p:orders:0", b"?")])
    with pytest.raises(BadProgressTopic, match="unreadable"):
        await takeover(client).start()


async def test_records_of_other_pipelines_in_the_same_topic_mean_nothing(client: Client) -> None:
    await ensure_topic(client, PROGRESS)
    await Producer(client).send(
        TopicPartition(PROGRESS, 0), [NewRecord(b"other:orders:0", b"?"), NewRecord(b"p", b"?")]
    )
    assert await takeover(client).start() == {}
    assert WrittenPosition(1, 1) != WrittenPosition(1, 2)
