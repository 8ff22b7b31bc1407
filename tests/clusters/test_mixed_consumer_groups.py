"""Consumer groups (KIP-848) whose coordinator moves between an Eosin broker and one of Apache Kafka: members, epochs,
assignments and offsets stay, and what was begun at the one goes on at the other (cluster.md 6.9)."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from mixed_cluster import (
    EOSIN,
    KAFKA,
    Brokers,
    Cluster,
    Producer,
    answered,
    committed_offset,
    connected,
    create,
    firmly,
    mixed_brokers,
)
from waiting import until
from wire import unique
from wire_consumer_group import ConsumerMember, described
from wire_group import RawMember

from eosin.cli.__main__ import main
from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import TopicPartition
from eosin.protocol.records.internal import encode_value
from eosin.protocol.schemas.consumer_group_describe import DescribedGroup
from eosin.protocol.schemas.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from eosin.protocol.schemas.records.consumer_protocol import ConsumerProtocolSubscription

GROUP = 32
PARTITIONS = 4
DIRECTIONS = [(EOSIN, KAFKA), (KAFKA, EOSIN)]


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Brokers]:
    with mixed_brokers(tmp_path_factory.mktemp("mixed"), {"broker.rack": "hall-1"}) as made:
        yield made


@pytest.fixture
async def cluster(brokers: Brokers) -> AsyncIterator[Cluster]:
    async with connected(brokers) as made:
        yield made


class Members:
    """The members of one group; each sends its requests to the broker that coordinates."""

    def __init__(self, cluster: Cluster, at: int, topic: str) -> None:
        self.cluster = cluster
        self.topic = topic
        self.group = unique("group")
        self.at = at
        self.all: dict[str, ConsumerMember] = {}

    def move(self, node_id: int) -> None:
        self.at = node_id
        for each in self.all.values():
            each.wire = self.cluster.wires[node_id]

    async def configure(self, name: str, value: str) -> None:
        """A setting of the group, by way of the Eosin broker."""
        resource = AlterConfigsResource(GROUP, self.group, (AlterableConfig(name, 0, value),))
        await firmly(
            lambda: self.cluster.wires[EOSIN].ask(IncrementalAlterConfigsRequest(resources=(resource,)), 1),
            lambda answer: answer.responses[0].error_code,
        )

    async def join(self, name: str, *topics: str, instance_id: str | None = None, **fields: Any) -> ConsumerMember:
        member = ConsumerMember(self.cluster.wires[self.at], self.group, instance_id=instance_id)
        await firmly(lambda: member.join(*topics, **fields), lambda answer: int(answer.error_code))
        self.all[name] = member
        return member

    async def settle(self, classic: RawMember | None = None) -> None:
        """Everybody does as it is told until the group is stable, and each has something."""

        async def is_stable() -> bool:
            for each in self.all.values():
                await each.confirm()
            if classic is not None and await classic.heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS:
                await classic.joined()
                await classic.sync()
            return all(each.assigned for each in self.all.values()) and (await self.told()).group_state == "Stable"

        await until(is_stable, every_s=0.05)

    async def told(self) -> DescribedGroup:
        found: DescribedGroup = await answered(
            lambda: described(self.cluster.wires[self.at], self.group), lambda found: int(found.error_code)
        )
        return found

    async def facts(self) -> dict[str, Any]:
        """What must be the same at both."""
        found = await self.told()
        members = {
            each.member_id: (
                each.member_epoch,
                each.instance_id,
                sorted(each.subscribed_topic_names or ()),
                each.subscribed_topic_regex or "",
                _places(each.assignment),
                _places(each.target_assignment),
                each.member_type,
            )
            for each in found.members
        }
        return {"state": found.group_state, "epochs": (found.group_epoch, found.assignment_epoch), "members": members}


def _places(assignment: Any) -> list[tuple[str, tuple[int, ...]]]:
    return sorted((each.topic_name, tuple(sorted(each.partitions))) for each in assignment.topic_partitions)


async def members(cluster: Cluster, at: int) -> Members:
    """A new group, and a topic with partitions at both brokers."""
    await cluster.move(at)
    topic = unique("topic")
    await create(cluster.wires[at], topic, {number: (EOSIN + number % 2,) for number in range(PARTITIONS)})
    made = Members(cluster, at, topic)
    await made.configure("consumer.assignment.interval.ms", "0")
    return made


@pytest.mark.parametrize(("before", "after"), DIRECTIONS, ids=["eosin-kafka", "kafka-eosin"])
async def test_a_group_in_the_middle_of_a_reconciliation_is_the_same_at_the_next_coordinator_and_back(
    cluster: Cluster, before: int, after: int
) -> None:
    group = await members(cluster, before)
    partition = TopicPartition(group.topic, 0)
    first = await group.join("first", group.topic)
    await first.joined(group.topic, partitions=PARTITIONS)
    static = await group.join("static", group.topic, instance_id="i")
    await group.join("regex", subscribed_topic_names=None, subscribed_topic_regex=f"{group.topic}.*")
    await group.settle()
    classic = RawMember(cluster.wires[before], group.group, protocols=(("range", _subscription(group.topic)),))
    await classic.joined()
    assert (await classic.sync()).error_code == ErrorCode.NONE
    assert await static.leave(-2) == ErrorCode.NONE
    await first.confirm()  # it is to give some of its partitions to the one that joined
    producer = await Producer.made(cluster, before, {}, level=2)
    await producer.write_offsets(before, group.group, partition, 7)
    facts = await group.facts()
    assert facts["state"] == "Reconciling"
    assert len(facts["members"]) == 4

    for node_id in (after, before):
        await cluster.move(node_id)
        group.move(node_id)
        assert await group.facts() == facts
        answer = await first.heartbeat()
        assert (answer.error_code, answer.member_epoch) == (ErrorCode.NONE, first.epoch)
        told = await group.facts()
        assert told["epochs"] == facts["epochs"], "the topics are the same to both, and so no epoch begins"
    await cluster.move(after)
    group.move(after)
    await producer.end(after, commit=True)
    assert await committed_offset(cluster.wires[after], group.group, partition) == 7
    # The one that was away comes back as another process, and the group comes to rest under the epoch that it had.
    static.member_id, static.epoch = unique("member"), 0
    await firmly(lambda: static.join(group.topic), lambda answer: int(answer.error_code))
    classic.wire = cluster.wires[after]
    await group.settle(classic)
    assert (await group.facts())["epochs"] == facts["epochs"]


@pytest.mark.parametrize(("before", "after"), DIRECTIONS, ids=["eosin-kafka", "kafka-eosin"])
async def test_a_group_that_one_has_converted_is_converted_back_by_the_other(
    cluster: Cluster, before: int, after: int
) -> None:
    group = await members(cluster, before)
    partition = TopicPartition(group.topic, 0)
    wire = cluster.wires[before]
    classic = RawMember(wire, group.group, protocols=(("range", _subscription(group.topic)),))
    await firmly(classic.join, lambda answer: _but(answer.error_code, ErrorCode.MEMBER_ID_REQUIRED))
    everything = [TopicPartition(group.topic, number) for number in range(PARTITIONS)]
    await classic.assigned(*everything)
    assert await classic.commit(partition, 3) == ErrorCode.NONE
    joined = await group.join("new", group.topic)
    assert (await group.told()).group_epoch == 2

    await cluster.move(after)
    group.move(after)
    classic.wire = cluster.wires[after]
    assert await committed_offset(classic.wire, group.group, partition) == 3
    assert await joined.leave() == ErrorCode.NONE  # those that stay are a classic group
    assert (await group.told()).error_code == ErrorCode.GROUP_ID_NOT_FOUND

    await cluster.move(before)
    classic.wire = cluster.wires[before]
    await firmly(classic.join, lambda answer: int(answer.error_code))
    await classic.assigned(*everything)
    assert await classic.commit(partition, 4) == ErrorCode.NONE
    assert await committed_offset(classic.wire, group.group, partition) == 4


def _subscription(*topics: str) -> bytes:
    return encode_value(ConsumerProtocolSubscription(topics), 1)


def _but(code: int, fine: ErrorCode) -> int:
    return ErrorCode.NONE if code == fine else code


async def test_both_follow_the_level_of_group_version_at_once_and_keep_the_group(
    brokers: Brokers, cluster: Cluster
) -> None:
    group = await members(cluster, EOSIN)
    member = await group.join("m", group.topic)
    await member.joined(group.topic, partitions=PARTITIONS)
    at = ("--bootstrap-server", brokers.eosin.address)
    for level in (0, 1):
        if level:
            assert await asyncio.to_thread(main, ["features", "upgrade", "group.version", *at]) == 0
        else:
            lower = ("downgrade", "--feature", "group.version=0")
            await asyncio.to_thread(brokers.controller.run, "kafka-features.sh", *at, *lower)
        answer = await member.heartbeat()
        assert answer.error_code == (ErrorCode.NONE if level else ErrorCode.UNSUPPORTED_VERSION)
    assert (answer.member_epoch, len((await group.told()).members)) == (member.epoch, 1)
