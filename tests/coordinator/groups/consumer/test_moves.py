"""A coordinator of consumer groups moves to another broker: groups go on as they were, and the one that was deposed
answers nothing that it decided afterwards (cluster.md 6.3; consumer-groups.md 12.4, 12.5)."""

import asyncio
from typing import Any

from consumer_group import NamedTopic, topic
from group_fakes import Broker, FakeOffsetsLog, subscription, turns
from kafka_replay import KafkaReplay
from manual_clock import ManualClock
from msgspec.structs import replace

from eosin.coordinator.groups.consumer.log.records import encoded
from eosin.coordinator.groups.consumer.ports import NoTopics
from eosin.coordinator.groups.consumer.rules.events import ConsumerHeartbeat, HeartbeatResult
from eosin.coordinator.groups.consumer.rules.group import ConsumerGroup, ConsumerMemberState
from eosin.coordinator.groups.consumer.rules.records import all_records
from eosin.coordinator.groups.consumer.rules.topics import PartitionRacks
from eosin.coordinator.groups.departures import MOST_REMOVED
from eosin.coordinator.groups.log import records as group_records
from eosin.coordinator.groups.offset_requests import Committer
from eosin.coordinator.groups.rules.config import ConsumerGroupConfig, GroupConfig
from eosin.coordinator.groups.rules.events import LeavingMember
from eosin.coordinator.groups.rules.group import Group
from eosin.coordinator.groups.rules.offset_store import OffsetToCommit
from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import TopicPartition
from eosin.protocol.records.batch import read_header
from eosin.protocol.records.scan import KeyValue, key_values
from eosin.runtime.sorted_map import EMPTY

NONE, MOVED = ErrorCode.NONE, ErrorCode.NOT_COORDINATOR
CONFIG = GroupConfig(consumer=ConsumerGroupConfig(assignment_interval_ms=0))
LONG_MS = 3_600_000
P0 = TopicPartition("orders", 0)


class Topics(NoTopics):
    """Topics as one broker knows them: each has a number of its own for the state that it has seen last."""

    def __init__(self, version: int, racks: PartitionRacks = ()) -> None:
        self.topics: dict[str, NamedTopic] = {"orders": topic("orders", 4), "audit": topic("audit", 2)}
        self.metadata_version = version
        self.racks = racks

    def partition_racks(self, topic: str) -> PartitionRacks:
        return self.racks if topic == "orders" else ()


def next_one(log: FakeOffsetsLog, version: int = 7, racks: PartitionRacks = ()) -> Broker:
    """Another broker with what is durable of a log."""
    return Broker(CONFIG, log=log.after_crash(), topics=Topics(version, racks), clock=ManualClock())


async def started(clock: ManualClock | None = None) -> Broker:
    return await Broker(CONFIG, topics=Topics(1), clock=clock).started()


async def heartbeat(broker: Broker, member_id: str, epoch: int = 0, **fields: Any) -> HeartbeatResult:
    if epoch == 0:
        joins = {"rebalance_timeout_ms": 60_000, "topics": ("orders",), "owned": frozenset()}
        fields = {**joins, **fields}
    return await broker.groups.consumer_heartbeat("g", ConsumerHeartbeat(member_id, epoch, **fields))


def group_of(broker: Broker) -> ConsumerGroup:
    group = broker.groups.describe_consumer("g")
    assert isinstance(group, ConsumerGroup)
    return group


async def test_a_group_of_all_kinds_of_members_is_the_same_at_the_next_coordinator() -> None:
    broker = await started()
    assert (await heartbeat(broker, "a")).epoch == 2
    assert (await heartbeat(broker, "b", topics=(), regex="aud.*")).error is NONE
    await turns()  # the topics of the regular expression are found
    assert (await heartbeat(broker, "s", instance_id="i")).error is NONE
    classic = await broker.join(protocols=(("range", subscription("orders")),), api_version=3)
    assert classic.error is NONE
    assert (await heartbeat(broker, "s", -2, instance_id="i")).error is NONE  # it is away, and comes back
    owned = frozenset(group_of(broker).members["a"].assigned)
    assert (await heartbeat(broker, "a", 2, owned=owned)).error is NONE
    before = group_of(broker)
    assert before.members["a"].state is ConsumerMemberState.UNREVOKED_PARTITIONS
    assert set(before.regexes) == {"aud.*"}
    offsets = [OffsetToCommit(P0, 5)]
    committed = await broker.groups.offsets.commit("g", offsets, committer=Committer(2, "a"), api_version=9)
    assert committed == [NONE]

    after = await next_one(broker.log).started()
    assert group_of(after) == before
    error, found = await after.groups.offsets.fetch("g", None, require_stable=False)
    assert (error, {each.partition: each.offset for each in found}) == (NONE, {P0: 5})
    # What was begun at one goes on at the other, with no further epoch: the topics are the same.
    assert (await heartbeat(after, "a", 2, owned=owned)).epoch == 2
    kept = frozenset(group_of(after).members["a"].assigned)
    assert kept < owned
    assert (await heartbeat(after, "a", 2, owned=kept)).epoch == before.epoch
    assert group_of(after).epoch == before.epoch


async def test_other_racks_begin_an_epoch_as_with_apache_kafka_and_the_same_do_not() -> None:
    racks = (("r1", "r2"),) * 4
    broker = await Broker(CONFIG, topics=Topics(1, racks)).started()
    assert (await heartbeat(broker, "m")).epoch == 2
    same = await next_one(broker.log, racks=racks).started()
    assert (await heartbeat(same, "m", 2)).epoch == 2
    other = await next_one(broker.log, racks=(("r1", "r3"),) * 4).started()
    assert (await heartbeat(other, "m", 2)).epoch == 3


async def test_what_was_decided_and_not_durable_is_answered_by_nobody() -> None:
    clock = ManualClock()
    broker = await started(clock)
    await heartbeat(broker, "m")
    broker.log.held = True
    joining = asyncio.ensure_future(heartbeat(broker, "n"))
    await turns()
    written = len(broker.log.written)
    broker.groups.resign(0)
    assert (await joining).error is MOVED
    for asked in (heartbeat(broker, "m", 2), heartbeat(broker, "n", 3), heartbeat(broker, "new")):
        assert (await asked).error is MOVED
    assert broker.groups.describe_consumer("g") is MOVED
    clock.advance(LONG_MS)  # no session ends here any more
    await broker.log.release()
    assert len(broker.log.written) == written


async def test_members_that_an_administrator_removes_are_not_unknown_to_a_coordinator_that_was_deposed() -> None:
    broker = await started()
    names = [f"m{number:03}" for number in range(MOST_REMOVED + 1)]
    for name in names:
        await heartbeat(broker, name)
    removing = asyncio.ensure_future(broker.groups.remove_members("g", [LeavingMember(name, None) for name in names]))
    await asyncio.sleep(0)  # the first hundred are gone, and the last one has its turn next
    assert len(group_of(broker).members) == 1
    broker.groups.resign(0)
    assert (await removing).error is MOVED


async def test_members_that_may_send_no_heartbeat_any_more_leave_when_their_sessions_end() -> None:
    """As after a level that was taken back (cluster.md 1.6)."""
    broker = await started()
    await heartbeat(broker, "m")
    clock = ManualClock()
    after = await Broker(CONFIG, log=broker.log.after_crash(), topics=Topics(3), clock=clock).started()
    await turns()
    assert set(group_of(after).members) == {"m"}
    clock.advance(CONFIG.consumer.session_timeout_ms)
    await turns()
    assert not group_of(after).members


def log_of(*brokers: Broker) -> FakeOffsetsLog:
    """What they have written, one behind the other, as if to one log."""
    log = FakeOffsetsLog()
    for broker in brokers:
        for batch in broker.log.written:
            log._append(bytearray(batch))
    return log


def records_of(log: FakeOffsetsLog) -> list[KeyValue]:
    return [record for batch in log.written for record in key_values(batch, read_header(batch))]


async def both_kinds() -> tuple[Broker, Broker]:
    """A consumer group and a classic group of one name, each written by a broker that did not know the other."""
    consumer, classic = await started(), await started()
    await heartbeat(consumer, "m", topics=(), regex="aud.*")
    await turns()
    await classic.member(api_version=3)
    return consumer, classic


async def test_apache_kafka_can_load_a_partition_that_was_cleared_of_a_consumer_group_behind_a_classic_one() -> None:
    """Older brokers of ours, at a level of 0, knew no consumer groups."""
    broker = await Broker(CONFIG, log=log_of(*await both_kinds()), topics=Topics(1)).started()
    await turns()
    KafkaReplay(records_of(broker.log))
    assert isinstance(broker.groups.describe("g"), Group)
    again = await next_one(broker.log).started()
    group = again.groups.describe("g")
    assert isinstance(group, Group)
    assert len(group.members) == 1
    written = len(again.log.written)
    await turns()
    assert len(again.log.written) == written, "there is nothing to clear any more"


async def test_a_consumer_group_that_took_a_name_is_there_for_apache_kafka_when_the_classic_one_is_cleared() -> None:
    consumer, classic = await both_kinds()
    broker = await Broker(CONFIG, log=log_of(classic, consumer), topics=Topics(1)).started()
    await turns()
    before = group_of(broker)
    last = {record.key: record for record in records_of(broker.log)}
    assert KafkaReplay(sorted(last.values())).members_of("g") == {"m": before.members["m"].epoch}
    assert group_of(await next_one(broker.log).started()) == before


async def test_topics_of_a_pattern_that_cannot_be_read_here_stay_as_the_other_coordinator_found_them() -> None:
    of_java = "ord(?=ers).*"
    broker = await started()
    assert (await heartbeat(broker, "m", topics=(), regex="ord.*")).epoch == 1
    await turns()
    assert (await heartbeat(broker, "m", 1)).epoch == 2
    group = group_of(broker)
    assert len(group.members["m"].assigned) == 4
    member = replace(group.members["m"], regex=of_java)
    long_ago = replace(group.regexes["ord.*"], timestamp_ms=0)
    found = replace(group, members=EMPTY.put("m", member), regexes={of_java: long_ago})
    log = FakeOffsetsLog()
    log.append(group_records.batch(encoded("g", all_records(found)), CONFIG, now_ms=0), now_ms=0)
    after = await next_one(log).started()
    assert (await heartbeat(after, "m", member.epoch)).error is NONE
    await turns()
    resolved = group_of(after).regexes[of_java]
    assert resolved.topics == {"orders"}
    assert resolved.timestamp_ms > 0, "it is not looked for at every heartbeat"
    assert (group_of(after).epoch, group_of(after).members["m"].assigned) == (group.epoch, member.assigned)
