"""Share groups from the heartbeat to the acknowledgement in a whole broker, in virtual time, and across every end that
a broker can come to: nothing that was acknowledged comes again, nothing else is lost (share-partitions.md 6)."""

import asyncio
import random
from collections.abc import AsyncIterator
from typing import Any

import pytest
from asked_broker import KILLED, STOPPED
from virtual_broker import POWER_LOST, VirtualBroker
from waiting import settled, until
from wire import Wire
from wire_producer import transactional

from eosin.client.errors import ClientError
from eosin.lab.disk.lying_files import Inode
from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import TopicPartition
from eosin.protocol.records.batch import NewRecord, batches, build_batch, iter_records
from eosin.protocol.schemas.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from eosin.protocol.schemas.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
)
from eosin.protocol.schemas.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from eosin.protocol.schemas.share_acknowledge import (
    AcknowledgementBatch,
    AcknowledgePartition,
    AcknowledgeTopic,
    ShareAcknowledgeRequest,
)
from eosin.protocol.schemas.share_fetch import FetchPartition, FetchTopic, ShareFetchRequest
from eosin.protocol.schemas.share_group_heartbeat import ShareGroupHeartbeatRequest

pytestmark = pytest.mark.virtual

GROUP = "workers"
SETTINGS = {"share.coordinator.state.topic.num.partitions": "2", "offsets.topic.num.partitions": "2"}
ACCEPT, RELEASE, REJECT = 1, 2, 3
GROUP_RESOURCE = 32


class Member:
    """A member of the group: heartbeats, fetches and acknowledgements over one connection."""

    def __init__(self, wire: Wire, name: str, topic: str) -> None:
        self.wire = wire
        self.name = name
        self.topic = topic
        self.member_epoch = 0
        self.epoch = 0
        self.assigned: dict[bytes, tuple[int, ...]] = {}

    async def join(self) -> None:
        """Be assigned partitions."""

        async def has_some() -> bool:
            request = ShareGroupHeartbeatRequest(
                group_id=GROUP,
                member_id=self.name,
                member_epoch=self.member_epoch,
                subscribed_topic_names=(self.topic,) if self.member_epoch == 0 else None,
            )
            answer = await self.wire.ask(request, 1)
            if answer.error_code:
                assert ErrorCode(answer.error_code).retriable, answer
                return False
            self.member_epoch = answer.member_epoch
            if answer.assignment is not None:
                self.assigned = {each.topic_id: each.partitions for each in answer.assignment.topic_partitions}
            return bool(self.assigned)

        await until(has_some, every_s=1)

    def send_fetch(self, max_wait_ms: int = 5000, max_records: int = 500) -> "asyncio.Future[Any]":
        """Begin a fetch."""
        topics = tuple(
            FetchTopic(topic_id, tuple(FetchPartition(each) for each in some))
            for topic_id, some in self.assigned.items()
        )
        request = ShareFetchRequest(
            group_id=GROUP,
            member_id=self.name,
            share_session_epoch=self.epoch,
            max_wait_ms=max_wait_ms,
            min_bytes=1,
            max_bytes=1 << 20,
            max_records=max_records,
            batch_size=500,
            topics=topics if self.epoch == 0 else (),
        )
        return self.wire.send(request, 2)

    async def fetch(self, **how: int) -> list[tuple[int, int, str, int]]:
        """Partition, offset, value and delivery count of each record that came."""
        answer = await self.send_fetch(**how)
        assert answer.error_code == 0, answer
        self.epoch += 1
        found = []
        for topic in answer.responses:
            for each in topic.partitions:
                assert each.error_code == 0, each
                mine = {
                    offset: some.delivery_count
                    for some in each.acquired_records
                    for offset in range(some.first_offset, some.last_offset + 1)
                }
                data = bytes(each.records or b"")
                for position, header in batches(data):
                    for record in iter_records(data[position : position + header.size]):
                        if record.offset in mine:
                            value = (record.value or b"").decode()
                            found.append((each.partition_index, record.offset, value, mine[record.offset]))
        return found

    async def acknowledge(self, records: list[tuple[int, int]], kind: int = ACCEPT) -> ErrorCode:
        """The first error of any partition."""
        by_partition: dict[int, list[AcknowledgementBatch]] = {}
        for partition, offset in sorted(records):
            by_partition.setdefault(partition, []).append(AcknowledgementBatch(offset, offset, (kind,)))
        request = ShareAcknowledgeRequest(
            group_id=GROUP,
            member_id=self.name,
            share_session_epoch=self.epoch,
            topics=tuple(
                AcknowledgeTopic(
                    topic_id, tuple(AcknowledgePartition(each, tuple(some)) for each, some in by_partition.items())
                )
                for topic_id in self.assigned
            ),
        )
        answer = await self.wire.ask(request, 2)
        assert answer.error_code == 0, answer
        self.epoch += 1
        errors = [each.error_code for topic in answer.responses for each in topic.partitions]
        return ErrorCode(max(errors, default=0))


class ShareBroker:
    """A broker that serves share groups, with a topic of two partitions that a group reads from its start."""

    def __init__(self, broker: VirtualBroker) -> None:
        self.broker = broker
        self.wire: Wire
        self.members: list[Member] = []

    async def begin(self) -> None:
        self.wire = await Wire.open(self.broker.address)
        await self.wire.create_topic("orders", partitions=2)
        await self.configure("share.auto.offset.reset", "earliest")

    async def configure(self, name: str, value: str) -> None:
        change = AlterableConfig(name, 0, value)
        request = IncrementalAlterConfigsRequest((AlterConfigsResource(GROUP_RESOURCE, GROUP, (change,)),))
        answer = await self.wire.ask(request, 1)
        assert answer.responses[0].error_code == 0, answer

    async def member(self, name: str) -> Member:
        made = Member(await Wire.open(self.broker.address), name, "orders")
        self.members.append(made)
        await made.join()
        return made

    async def write(self, first: int, count: int, partition: int = 0) -> None:
        for number in range(first, first + count):
            batch = build_batch([NewRecord(b"k", str(number).encode())], timestamp=1_700_000_000_000)
            answer = await self.wire.produce(TopicPartition("orders", partition), batch)
            assert answer.error_code == 0

    async def restart(self, how: str) -> None:
        for each in self.members:
            await each.wire.close()
        self.members.clear()
        await self.wire.close()
        await self.broker.restart(how)
        self.wire = await Wire.open(self.broker.address)

    async def alter(self, offsets: dict[int, int]) -> None:
        """Have the group, which has no members, begin at these offsets."""
        topic = AlterShareGroupOffsetsRequestTopic(
            "orders",
            tuple(AlterShareGroupOffsetsRequestPartition(index, offset) for index, offset in offsets.items()),
        )

        async def is_done() -> bool:
            answer = await self.wire.ask(AlterShareGroupOffsetsRequest(GROUP, (topic,)), 0)
            codes = {each.error_code for some in answer.responses for each in some.partitions} | {answer.error_code}
            return codes == {0}

        await until(is_done, every_s=1)

    async def described(self) -> dict[int, tuple[int, int]]:
        """Start offset and lag of each partition."""
        request = DescribeShareGroupOffsetsRequest((DescribeShareGroupOffsetsRequestGroup(GROUP, None),))
        answer = await self.wire.ask(request, 1)
        return {
            each.partition_index: (each.start_offset, each.lag)
            for topic in answer.groups[0].topics
            for each in topic.partitions
        }


@pytest.fixture
async def served() -> AsyncIterator[ShareBroker]:
    broker = VirtualBroker(SETTINGS, durability="fsync")
    await broker.start()
    made = ShareBroker(broker)
    await made.begin()
    yield made
    await made.restart(STOPPED)
    await made.wire.close()


async def test_two_members_divide_the_records_of_a_topic(served: ShareBroker) -> None:
    await served.write(0, 10)
    await served.write(10, 10, partition=1)
    one, two = await served.member("m1"), await served.member("m2")
    found: list[str] = []
    while len(found) < 20:
        for member in (one, two):
            got = await member.fetch(max_records=5)
            found += [value for _, _, value, _ in got]
            assert await member.acknowledge([each[:2] for each in got]) is ErrorCode.NONE
    assert sorted(map(int, found)) == list(range(20))
    assert {lag for _, lag in (await served.described()).values()} == {0}


async def test_a_member_that_vanishes_while_it_waits_is_given_nothing(served: ShareBroker) -> None:
    gone, other = await served.member("m1"), await served.member("m2")
    gone.assigned = other.assigned = dict.fromkeys(gone.assigned, (0, 1))
    await gone.fetch(max_wait_ms=0)
    waiting = gone.send_fetch(max_wait_ms=60_000)
    await settled()
    await gone.wire.close()
    with pytest.raises(ClientError):
        await waiting
    await served.write(0, 3)
    assert {count for _, _, _, count in await other.fetch()} == {1}


async def test_records_of_a_connection_that_ends_are_delivered_to_others_at_once(served: ShareBroker) -> None:
    gone, other = await served.member("m1"), await served.member("m2")
    gone.assigned = other.assigned = dict.fromkeys(gone.assigned, (0, 1))
    await served.write(0, 3)
    assert len(await gone.fetch()) == 3
    await gone.wire.close()
    assert [(offset, count) for _, offset, _, count in await other.fetch()] == [(0, 2), (1, 2), (2, 2)]


@pytest.mark.parametrize("how", [STOPPED, KILLED, POWER_LOST])
async def test_what_was_acknowledged_does_not_come_again_and_the_rest_does(served: ShareBroker, how: str) -> None:
    chosen = random.Random(how)
    await served.write(0, 100)
    left = set(range(100))
    for life in range(4):
        member = await served.member("m")
        got = await member.fetch()
        assert {offset for _, offset, _, _ in got} == left, life
        accepted = {offset for offset in left if chosen.random() < 0.3}
        assert await member.acknowledge([(0, offset) for offset in accepted]) is ErrorCode.NONE
        rejected = set(sorted(left - accepted)[:1])
        assert await member.acknowledge([(0, offset) for offset in rejected], REJECT) is ErrorCode.NONE
        left -= accepted | rejected
        await served.restart(how)
    member = await served.member("m")
    assert {offset for _, offset, _, _ in await member.fetch()} == left


def keep_all_but_the_records(broker: VirtualBroker) -> None:
    """Have the next loss of power take what was not synced of the records of `orders`, and nothing else: each file has
    its own luck."""
    disk = broker._machine.disk
    disk.chance = None
    for path, directory in disk._directories.items():
        directory.sync()
        for entry in directory.entries.values():
            if isinstance(entry, Inode) and "orders-" not in path:
                entry.sync()


@pytest.mark.parametrize("done", [range(10), range(1, 10)], ids=["all of it", "all but the first"])
@pytest.mark.parametrize("how_many", [2, 7, 20], ids=["less", "as much", "more"])
async def test_what_is_written_in_place_of_records_that_the_power_took_is_delivered(done: range, how_many: int) -> None:
    """Acknowledged was what is lost, and not what comes in its place, however much of that there is when the group
    reads again."""
    broker = VirtualBroker(SETTINGS, durability="os")
    await broker.start()
    served = ShareBroker(broker)
    await served.begin()
    await served.write(0, 3)
    broker._machine.disk.sync_everything()
    await served.write(3, 7)
    member = await served.member("m")
    assert len(await member.fetch()) == 10
    assert await member.acknowledge([(0, offset) for offset in done]) is ErrorCode.NONE
    keep_all_but_the_records(broker)
    await served.restart(POWER_LOST)
    await served.write(10, how_many)
    member = await served.member("m")
    again = [(offset, offset) for offset in range(3) if offset not in done]
    anew = [(3 + number, 10 + number) for number in range(how_many)]
    assert [(offset, int(value)) for _, offset, value, _ in await member.fetch()] == again + anew
    await served.restart(STOPPED)
    await served.wire.close()


async def test_where_a_group_is_set_to_is_no_sign_of_lost_records(served: ShareBroker) -> None:
    """An administrator chooses an offset after a restart, before anybody reads in the new leader epoch."""
    await served.write(0, 5)
    member = await served.member("m")
    assert len(await member.fetch()) == 5
    assert await member.acknowledge([(0, offset) for offset in range(5)]) is ErrorCode.NONE
    await served.restart(KILLED)
    await served.write(5, 5)
    await served.alter({0: 8})
    member = await served.member("m")
    assert [offset for _, offset, _, _ in await member.fetch()] == [8, 9]


async def test_delivery_counts_that_were_written_survive(served: ShareBroker) -> None:
    await served.write(0, 1)
    for count in (1, 2, 3, 4, 5):
        member = await served.member("m")
        assert await member.fetch() == [(0, 0, "0", count)]
        assert await member.acknowledge([(0, 0)], RELEASE) is ErrorCode.NONE
        await served.restart(KILLED)
    member = await served.member("m")
    assert await member.fetch() == []
    assert (await served.described())[0][1] == 0


async def test_a_group_is_set_to_read_committed_while_it_runs(served: ShareBroker) -> None:
    producer = await transactional(served.wire)
    await producer.append(TopicPartition("orders", 0))
    member = await served.member("m1")
    await served.configure("share.isolation.level", "read_committed")
    assert await member.fetch() == []
    await producer.abort()
    await producer.completed()
    assert await member.fetch() == []
    await producer.append(TopicPartition("orders", 0), 2)
    await producer.commit()
    assert [(partition, offset) for partition, offset, _, _ in await member.fetch()] == [(0, 2), (0, 3)]
