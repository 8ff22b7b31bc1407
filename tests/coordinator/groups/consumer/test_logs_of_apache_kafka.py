"""A coordinator takes over a partition that Apache Kafka has written: its consumer groups go on as they were, and no
epoch begins (consumer-groups.md 12, 14). The logs are kept (`tests/support/record_consumer_groups.py`)."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from consumer_group import NamedTopic
from group_fakes import Broker, FakeOffsetsLog, turns

from eosin.coordinator.groups.consumer.ports import NoTopics
from eosin.coordinator.groups.consumer.rules.events import ConsumerHeartbeat
from eosin.coordinator.groups.consumer.rules.group import ConsumerGroup, ConsumerMember
from eosin.coordinator.groups.consumer.rules.topics import PartitionRacks
from eosin.coordinator.groups.rules.group import Group
from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import TopicPartition
from eosin.protocol.records.batch import read_header
from eosin.storage.results.log_results import Marker

LOGS = sorted((Path(__file__).parent / "logs").glob("*.json"))
ORDERS = TopicPartition("orders", 0)


class Topics(NoTopics):
    """The topics as the recorded cluster had them: ids, partitions, racks."""

    metadata_version = 1

    def __init__(self, recorded: dict[str, Any]) -> None:
        self.topics = {
            name: NamedTopic(bytes.fromhex(each["id"]), each["partitions"]) for name, each in recorded["topics"].items()
        }
        self._rack = recorded["rack"]

    def partition_racks(self, topic: str) -> PartitionRacks:
        return ((self._rack,),) * self.topics[topic].partitions

    def names(self, places: Any) -> list[str]:
        """Partitions by the names of their topics."""
        names = {each.topic_id: name for name, each in self.topics.items()}
        return sorted(f"{names[topic_id]}-{partition}" for topic_id, partition in places)


@pytest.fixture(params=LOGS, ids=lambda path: path.stem)
def recorded(request: pytest.FixtureRequest) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(request.param.read_text())
    return found


async def loaded(recorded: dict[str, Any]) -> Broker:
    log, data = FakeOffsetsLog(), base64.b64decode(recorded["batches"])
    while data:
        size = read_header(data).size
        log._append(bytearray(data[:size]))
        data = data[size:]
    return await Broker(log=log, topics=Topics(recorded)).started()


def told(group: ConsumerGroup, member: ConsumerMember, topics: Topics) -> dict[str, Any]:
    return {
        "epoch": member.epoch,
        "instance_id": member.instance_id,
        "topics": sorted(member.topics),
        "regex": member.regex,
        "assigned": topics.names({*member.assigned, *member.pending}),
        "target": topics.names(group.target(member.member_id)),
        "is_classic": member.classic is not None,
    }


async def test_groups_are_what_their_last_coordinator_told_of_them(recorded: dict[str, Any]) -> None:
    broker, topics = await loaded(recorded), Topics(recorded)
    assert {"reconciling", "converted", "empty"} == set(recorded["groups"])
    for name, facts in recorded["groups"].items():
        group = broker.groups.describe_consumer(name)
        assert isinstance(group, ConsumerGroup), name
        assert {
            "state": group.state.value,
            "epoch": group.epoch,
            "assignment_epoch": group.assignment_epoch,
            "members": {each.member_id: told(group, each, topics) for each in group.members.values()},
        } == facts
    assert isinstance(broker.groups.describe("classic-again"), Group), "it was converted, and back"


async def test_no_epoch_begins_since_the_topics_are_the_same(recorded: dict[str, Any]) -> None:
    broker = await loaded(recorded)
    before = broker.groups.describe_consumer("reconciling")
    assert isinstance(before, ConsumerGroup)
    member = before.members["first"]
    answer = await broker.groups.consumer_heartbeat("reconciling", ConsumerHeartbeat("first", member.epoch))
    assert (answer.error, answer.epoch) == (ErrorCode.NONE, member.epoch)
    await turns()
    after = broker.groups.describe_consumer("reconciling")
    assert isinstance(after, ConsumerGroup)
    assert (after.epoch, after.metadata_hash) == (before.epoch, before.metadata_hash)


async def test_offsets_are_there_and_the_one_in_a_transaction_comes_with_its_end(recorded: dict[str, Any]) -> None:
    broker = await loaded(recorded)

    async def offset(group: str) -> int:
        error, found = await broker.groups.offsets.fetch(group, None, require_stable=False)
        assert error is ErrorCode.NONE
        return {each.partition: each.offset for each in found}[ORDERS]

    assert [await offset(group) for group in ("reconciling", "converted", "classic-again", "empty")] == [5, 9, 9, 3]
    assert broker.groups.pending_offsets("reconciling") == {ORDERS: 7}
    header = next(read_header(each) for each in broker.log.written if read_header(each).attributes & 16)
    marker = Marker(header.producer_id, header.producer_epoch, commit=True, coordinator_epoch=0)
    assert await broker.groups.write_markers(0, marker) is ErrorCode.NONE
    assert await offset("reconciling") == 7


async def test_there_is_a_log_of_the_reference_release() -> None:
    from kafka_releases import REFERENCE

    assert f"apache-kafka-{REFERENCE}" in {each.stem for each in LOGS}
