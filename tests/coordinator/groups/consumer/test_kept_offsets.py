"""Offsets of consumer groups that nobody may take away (consumer-groups.md 1.6 and 10.5)."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest
from consumer_group import topic
from group_fakes import Broker, turns

from eosin.coordinator.groups.consumer.log.records import encoded
from eosin.coordinator.groups.consumer.ports import NoTopics
from eosin.coordinator.groups.consumer.rules.events import ConsumerHeartbeat
from eosin.coordinator.groups.consumer.rules.records import GroupEpoch, GroupRecord, Kind
from eosin.coordinator.groups.consumer.rules.topics import SubscribedTopic
from eosin.coordinator.groups.log import records as group_records
from eosin.coordinator.groups.log.records import OffsetWritten, read
from eosin.coordinator.groups.offset_requests import Committer
from eosin.coordinator.groups.rules.config import GroupConfig
from eosin.coordinator.groups.rules.offset_store import OffsetToCommit
from eosin.coordinator.groups.streams.rules.events import StreamsHeartbeat
from eosin.coordinator.groups.streams.topology.topology import Subtopology, Topology
from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import TopicPartition
from eosin.protocol.records.batch import NewRecord, iter_records

P0 = TopicPartition("orders", 0)
OK = ErrorCode.NONE
DAY = 86_400_000
CONFIG = GroupConfig(offsets_retention_check_interval_ms=1000)
TOPOLOGY = Topology(0, (Subtopology("0", ("orders",), (), (), (), (), ()),))


class Topics(NoTopics):
    """A cluster with one topic."""

    topics: Mapping[str, SubscribedTopic] = {"orders": topic("orders", 2)}
    metadata_version = 1


@pytest.fixture
async def broker() -> Broker:
    return await Broker(CONFIG, topics=Topics()).started()


async def commit(broker: Broker, offset: int, *, days_ago: int = 0) -> None:
    when = broker.clock.now_ms() - days_ago * DAY
    offsets = [OffsetToCommit(P0, offset, commit_timestamp_ms=when)]
    assert list(await broker.groups.offsets.commit("g", offsets, committer=Committer(), api_version=9)) == [OK]


async def committed(broker: Broker) -> int:
    error, (found,) = await broker.groups.offsets.fetch("g", [P0], require_stable=True)
    assert error is OK
    return found.offset


async def join(broker: Broker, **fields: Any) -> None:
    joins: dict[str, Any] = {"rebalance_timeout_ms": 60_000, "topics": ("orders",), "owned": frozenset(), **fields}
    answer = await broker.groups.consumer_heartbeat("g", ConsumerHeartbeat("m", 0, **joins))
    assert answer.error is OK


async def test_offsets_do_not_expire_before_the_topics_of_a_regular_expression_are_known(broker: Broker) -> None:
    await commit(broker, 42, days_ago=8)
    await join(broker, topics=(), regex="ord.*")
    broker.clock.advance(CONFIG.offsets_retention_check_interval_ms)
    await turns()  # now they are
    assert await committed(broker) == 42
    broker.clock.advance(CONFIG.offsets_retention_check_interval_ms)
    assert await committed(broker) == 42


async def test_offsets_of_a_group_that_cannot_be_read_do_not_expire(broker: Broker) -> None:
    await commit(broker, 42, days_ago=8)
    (epoch,) = encoded("g", [GroupRecord(Kind.GROUP, value=GroupEpoch(3, 0))])
    newer = NewRecord(epoch.key, b"\0\7newer")
    broker.log.append(group_records.batch([newer], broker.config, now_ms=0), now_ms=0)
    await broker.crash()
    assert broker.groups.describe_consumer("g") is ErrorCode.COORDINATOR_NOT_AVAILABLE
    broker.clock.advance(CONFIG.offsets_retention_check_interval_ms)
    await turns()
    written = [read(record) for batch in broker.log.written for record in iter_records(batch)]
    assert [each.value is not None for each in written if isinstance(each, OffsetWritten)] == [True]


@pytest.mark.parametrize("kind", ["consumer", "streams"])
async def test_whoever_joins_keeps_the_offsets_of_its_topics_before_its_records_are_durable(
    broker: Broker, kind: str
) -> None:
    await commit(broker, 42)
    broker.log.held = True
    if kind == "consumer":
        joining: asyncio.Future[Any] = asyncio.ensure_future(join(broker))
    else:
        request = StreamsHeartbeat("m", 0, topology=TOPOLOGY, process_id="p", rebalance_timeout_ms=60_000)
        joining = asyncio.ensure_future(broker.groups.streams.heartbeat("g", request))
    await turns()
    assert await broker.groups.offsets.delete("g", [P0]) == (OK, [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC])
    await broker.log.release()
    await joining
    assert await committed(broker) == 42
