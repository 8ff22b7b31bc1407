"""Groups of two kinds with one name, of which brokers wrote that did not know the other's: one keeps the name, the
records of the other are deleted, and Apache Kafka can load what is left (consumer-groups.md 12.3)."""

import itertools
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Final

import pytest
from consumer_group import topic
from fake_share_states import FakeShareStates
from group_fakes import Broker, FakeOffsetsLog, turns
from kafka_replay import KafkaReplay

from eosin.coordinator.groups.consumer.ports import NoTopics
from eosin.coordinator.groups.consumer.rules.events import ConsumerHeartbeat
from eosin.coordinator.groups.consumer.rules.topics import SubscribedTopic
from eosin.coordinator.groups.rules.config import GroupConfig, StreamsGroupConfig
from eosin.coordinator.groups.rules.group import Group
from eosin.coordinator.groups.share.log.records import encoded
from eosin.coordinator.groups.share.ports import ShareSurroundings
from eosin.coordinator.groups.share.rules.events import ShareHeartbeat
from eosin.coordinator.groups.share.rules.records import ShareKind, ShareRecord
from eosin.coordinator.groups.streams.rules.events import StreamsHeartbeat
from eosin.coordinator.groups.streams.topology.topology import Subtopology, Topology
from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import TopicIdPartition
from eosin.protocol.records.batch import build_batch, read_header
from eosin.protocol.records.scan import KeyValue, key_values

CONFIG: Final = GroupConfig(streams=StreamsGroupConfig(initial_rebalance_delay_ms=0))
TOPOLOGY: Final = Topology(0, (Subtopology("0", ("orders",), (), (), (), (), ()),))


class Topics(NoTopics):
    """A cluster with one topic."""

    topics: Mapping[str, SubscribedTopic] = {"orders": topic("orders", 2)}
    metadata_version = 1


def broker_on(log: FakeOffsetsLog | None = None) -> Broker:
    return Broker(CONFIG, log=log, topics=Topics(), share=ShareSurroundings(FakeShareStates()))


async def _classic(broker: Broker) -> None:
    await broker.member(api_version=3)


async def _consumer(broker: Broker) -> None:
    joins = ConsumerHeartbeat("m", 0, rebalance_timeout_ms=60_000, topics=("orders",), owned=frozenset())
    assert (await broker.groups.consumer_heartbeat("g", joins)).error is ErrorCode.NONE


async def _share(broker: Broker) -> None:
    assert (await broker.groups.share.heartbeat("g", ShareHeartbeat("m", 0, topics=("orders",)))).epoch == 3


async def _streams(broker: Broker) -> None:
    joins = StreamsHeartbeat("m", 0, topology=TOPOLOGY, process_id="p", rebalance_timeout_ms=60_000)
    assert (await broker.groups.streams.heartbeat("g", joins)).error is ErrorCode.NONE


KINDS: Final[Mapping[str, Callable[[Broker], Coroutine[Any, Any, None]]]] = {
    "classic": _classic,
    "consumer": _consumer,
    "share": _share,
    "streams": _streams,
}


def kind_of(broker: Broker) -> tuple[str, Any]:
    """The kind of the group, and what is known of it."""
    groups = broker.groups
    found = {
        "consumer": groups.describe_consumer("g"),
        "share": groups.share.describe("g"),
        "streams": groups.streams.describe("g"),
    }
    if (classic := groups.describe("g")) is not None and isinstance(classic, Group) and classic.members:
        found["classic"] = classic
    (only,) = ((name, group) for name, group in found.items() if not isinstance(group, ErrorCode) and group is not None)
    return only


async def written_by(*kinds: str) -> FakeOffsetsLog:
    """A log in which one broker behind the other wrote a group of the same name."""
    log = FakeOffsetsLog()
    for kind in kinds:
        broker = await broker_on().started()
        await KINDS[kind](broker)
        await turns()
        for batch in broker.log.written:
            log._append(bytearray(batch))
    return log


def records_of(log: FakeOffsetsLog, begin: int = 0) -> list[KeyValue]:
    return [record for batch in log.written[begin:] for record in key_values(batch, read_header(batch))]


def compacted(log: FakeOffsetsLog) -> list[KeyValue]:
    return sorted({record.key: record for record in records_of(log)}.values())


@pytest.mark.parametrize(("before", "after"), list(itertools.permutations(KINDS, 2)))
async def test_the_later_one_keeps_the_name_and_apache_kafka_finds_it_alone(before: str, after: str) -> None:
    log = await written_by(before, after)
    loaded = await broker_on(log).started()
    await turns()
    name, group = kind_of(loaded)
    assert name == after
    last = KafkaReplay(compacted(loaded.log))
    assert last.kind_of("g") == after
    again = await broker_on(loaded.log.after_crash()).started()
    written = len(again.log.written)
    await turns()
    assert len(again.log.written) == written, "there is nothing to clear any more"
    name, kept = kind_of(again)
    assert name == after
    if after in ("consumer", "share"):
        assert kept == group
    elif after == "streams":
        assert (kept.members, kept.targets, kept.topology, kept.epoch) == (
            group.members,
            group.targets,
            group.topology,
            group.epoch,
        )


async def test_three_kinds_of_one_name_leave_the_last() -> None:
    loaded = await broker_on(await written_by("share", "streams", "classic")).started()
    await turns()
    assert kind_of(loaded)[0] == "classic"
    assert KafkaReplay(compacted(loaded.log)).kind_of("g") == "classic"


async def test_what_is_left_of_a_share_group_goes_from_behind_a_classic_group_of_its_name() -> None:
    """A target of a member of which nothing else is known."""
    log = FakeOffsetsLog()
    place = frozenset({TopicIdPartition(b"t" * 16, 0)})
    log._append(build_batch(encoded("g", [ShareRecord(ShareKind.TARGET, "m", place)]), timestamp=0))
    for batch in (await written_by("classic")).written:
        log._append(bytearray(batch))
    begin = len(log.written)
    loaded = await broker_on(log).started()
    await turns()
    KafkaReplay([*records_of(await written_by("classic")), *records_of(loaded.log, begin)])
    assert kind_of(loaded)[0] == "classic"
