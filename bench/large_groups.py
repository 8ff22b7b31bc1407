"""Groups that are very large, and requests about very much of one group: the longest turn of the event loop, which is
the time for which anybody else waits.

The coordinator is called without sockets, on a log in memory; handlers are called as a connection does, and their
responses encoded. Times are those of the processor. Collections of the interpreter are as in a broker (ADR 58).
"""

import asyncio
import gc
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, Final

from msgspec.structs import replace

from bench.group_members import Work, collections_of_a_broker
from bench.groups import STEP_MS
from bench.large_group import (
    HOUR_MS,
    JOIN_MS,
    LOADS,
    METADATA,
    TOPIC_ID,
    Bench,
    classic_group,
    consumer_group,
    name_of,
    share_group,
    streams_group,
)
from bench.report import Row
from eosin.broker.handlers import (
    consumer_group_describe,
    delete_groups,
    describe_groups,
    join_group,
    list_groups,
    offset_commit,
    offset_delete,
    offset_fetch,
    share_group_describe,
    streams_group_describe,
    streams_group_heartbeat,
)
from eosin.coordinator.groups.consumer.assignors.assignment import TopicIdPartition
from eosin.coordinator.groups.consumer.rules.events import ConsumerHeartbeat
from eosin.coordinator.groups.consumer.rules.group import ConsumerGroup, ConsumerGroupState
from eosin.coordinator.groups.consumer.rules.targets import computation
from eosin.coordinator.groups.rules.config import StreamsGroupConfig
from eosin.coordinator.groups.rules.events import GroupLoaded, LeavingMember
from eosin.coordinator.groups.rules.group import Group
from eosin.coordinator.groups.rules.offset_store import CommittedOffset
from eosin.coordinator.groups.shard import Shard
from eosin.coordinator.groups.share.rules.events import ShareHeartbeat
from eosin.coordinator.groups.share.rules.targets import target_in_steps as share_target
from eosin.coordinator.groups.streams.rules.events import StreamsHeartbeat
from eosin.coordinator.groups.streams.rules.group import UserEndpoint
from eosin.coordinator.groups.streams.rules.targets import target_in_steps as streams_target
from eosin.coordinator.groups.streams.streams_groups import HeldStreamsGroup
from eosin.network.api import Api
from eosin.observe.console.group_rounds import GroupRounds
from eosin.observe.console.tables import Table
from eosin.observe.metrics.group_metrics import GroupMetrics
from eosin.observe.survey.group_positions import GroupPositions
from eosin.observe.survey.survey import Survey
from eosin.protocol.keys import ApiKey
from eosin.protocol.names import TopicPartition
from eosin.protocol.schemas.consumer_group_describe import ConsumerGroupDescribeRequest
from eosin.protocol.schemas.delete_groups import DeleteGroupsRequest
from eosin.protocol.schemas.describe_groups import DescribeGroupsRequest
from eosin.protocol.schemas.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from eosin.protocol.schemas.list_groups import ListGroupsRequest
from eosin.protocol.schemas.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from eosin.protocol.schemas.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from eosin.protocol.schemas.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from eosin.protocol.schemas.share_group_describe import ShareGroupDescribeRequest
from eosin.protocol.schemas.streams_group_describe import StreamsGroupDescribeRequest
from eosin.protocol.wire.codec import encode_response
from eosin.runtime.clock import SystemClock
from eosin.runtime.sorted_map import SortedMap
from eosin.runtime.turns import next_turn, outcome_in_turns
from eosin.storage.results.log_results import Marker

GROUP: Final = "Large groups"


async def _measured(name: str, work: Callable[[], Awaitable[Any]]) -> Row:
    """The longest turn while some work is done, from the turn in which it begins."""
    gc.collect()
    gc.freeze()
    await asyncio.sleep(0)
    with Work() as done:
        await work()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    return Row(GROUP, f"{name}: longest turn", done.steps.longest_ms, "ms", budget=STEP_MS)


async def _of_members(count: int) -> list[Row]:
    """A group of each of the new kinds goes to another broker; and its members leave the timers one by one."""
    rows = []
    for kind, load in LOADS.items():
        bench = await Bench().begun()
        load(bench.shard, count)
        bench.remember_turns()
        await bench.idle()

        rows.append(await _measured(f"a {kind} group of {count:,} members goes to another broker", bench.leave))
        rows.append(await _timers_cancelled(kind, count, load))
    return rows


async def _timers_cancelled(kind: str, count: int, load: Callable[[Shard, int], None]) -> Row:
    bench = await Bench().begun()
    load(bench.shard, count)
    bench.remember_turns()
    await bench.idle()
    timers = getattr(bench.shard, kind)._timers
    keys = [key for key, _ in timers.running()]

    async def cancel() -> None:
        for key in keys:
            timers.cancel(key)
            await asyncio.sleep(0)

    return await _measured(f"the timers of {count:,} members of a {kind} group are cancelled", cancel)


async def _described(count: int) -> list[Row]:
    rows = []
    asked: Mapping[str, tuple[Api, Any]] = {
        "consumer": (consumer_group_describe.API, ConsumerGroupDescribeRequest(group_ids=("g",))),
        "share": (share_group_describe.API, ShareGroupDescribeRequest(group_ids=("g",))),
        "streams": (streams_group_describe.API, StreamsGroupDescribeRequest(group_ids=("g",))),
    }
    for kind, (api, request) in asked.items():
        bench = await Bench().begun()
        LOADS[kind](bench.shard, count)
        bench.remember_turns()
        await bench.idle()
        rows.append(
            await _measured(f"the description of a {kind} group of {count:,} members", partial(bench.ask, api, request))
        )
    return rows


async def _of_one_member(partitions: int) -> list[Row]:
    """A group whose only member gets, one after the other, the target and the partitions of a wide topic."""
    bench = await Bench(partitions).begun()
    groups = bench.broker.groups

    async def consumer() -> None:
        epoch, owned = 0, frozenset[TopicIdPartition]()
        while bench.shard.consumer.current("c") is None or not _is_stable(bench, "c"):
            joins: dict[str, Any] = {} if epoch else {"rebalance_timeout_ms": HOUR_MS, "topics": ("topic",)}
            answer = await groups.consumer_heartbeat("c", ConsumerHeartbeat("m", epoch, owned=owned, **joins))
            epoch, owned = answer.epoch, owned if answer.assignment is None else answer.assignment
            await asyncio.sleep(0)

    async def share() -> None:
        epoch = 0
        while not epoch or len(bench.shard.share._held["s"].current.members["m"].assigned) < partitions:
            topics = None if epoch else ("topic",)
            epoch = (await groups.share.heartbeat("s", ShareHeartbeat("m", epoch, topics=topics))).epoch
            await asyncio.sleep(0)

    return [
        await _measured(f"the one member of a {kind} group gets {partitions:,} partitions", work)
        for kind, work in (("consumer", consumer), ("share", share))
    ]


def _is_stable(bench: Bench, group_id: str) -> bool:
    group = bench.broker.groups.describe_consumer(group_id)
    return isinstance(group, ConsumerGroup) and group.epoch > 1 and group.state is ConsumerGroupState.STABLE


async def _endpoints(count: int) -> Row:
    """A heartbeat of a member of a streams group that hears of the endpoints of all."""
    bench = await Bench(count).begun()
    group = streams_group(count)
    endpoints = {
        name: replace(each, endpoint=UserEndpoint("localhost", number))
        for number, (name, each) in enumerate(group.members.items())
    }
    group = replace(group, members=SortedMap(endpoints), endpoint_epoch=7)
    bench.shard.streams.load({"g": HeldStreamsGroup(group, group)})
    await asyncio.sleep(0)
    request = StreamsHeartbeat(next(iter(group.members)), 1)

    async def beat() -> None:
        answer = streams_group_heartbeat._response(
            await bench.broker.groups.streams.heartbeat("g", request), StreamsGroupConfig()
        )
        encode_response(ApiKey.STREAMS_GROUP_HEARTBEAT, 0, 0, answer)

    return await _measured(f"a heartbeat that hears of the endpoints of {count:,} members", beat)


# Classic groups


class _Classic:
    """A classic group whose members send JoinGroup and SyncGroup by themselves."""

    def __init__(self, bench: Bench, count: int) -> None:
        self.bench = bench
        self._count = count
        self.names: list[str] = []
        self._joins: list[asyncio.Task[Any]] = []
        self._syncs: list[asyncio.Task[Any]] = []

    @property
    def group(self) -> Group:
        """The group as it is."""
        return self.bench.shard.groups["g"]

    def _request(self, member_id: str = "") -> JoinGroupRequest:
        return JoinGroupRequest(
            group_id="g",
            session_timeout_ms=HOUR_MS // 2,
            rebalance_timeout_ms=JOIN_MS,
            member_id=member_id,
            protocol_type="consumer",
            protocols=(JoinGroupRequestProtocol("range", METADATA),),
        )

    async def named(self) -> "_Classic":
        """Each member gets its id."""
        for _ in range(self._count):
            answer = await self.bench.ask(join_group.API, self._request())
            self.names.append(answer.member_id)
        return self

    async def join(self) -> None:
        """All members wait for the end of the join phase."""
        for name in self.names:
            self._joins.append(asyncio.ensure_future(self.bench.ask(join_group.API, self._request(name))))
            await asyncio.sleep(0)

    async def complete(self) -> None:
        """The join phase ends, and all are answered."""
        self.bench.clock.jump(2 * JOIN_MS)
        answers = await asyncio.gather(*self._joins)
        assert len(answers) == len(self.group.members) == self._count

    def _sync(self, name: str, assignments: tuple[tuple[str, bytes], ...] = ()) -> Awaitable[Any]:
        return self.bench.broker.groups.sync(
            "g",
            generation_id=self.group.generation_id,
            member_id=name,
            instance_id=None,
            protocol_type="consumer",
            protocol_name="range",
            assignments=assignments,
            api_version=5,
        )

    async def followers_sync(self) -> None:
        """All but the leader wait for their assignments."""
        for name in self.names:
            if name != self.group.leader_id:
                self._syncs.append(asyncio.ensure_future(self._sync(name)))
                await asyncio.sleep(0)

    async def leader_syncs(self) -> None:
        """The leader brings everybody's assignment, and all are answered."""
        await self._sync(self.group.leader_id or "", tuple((name, METADATA) for name in self.names))
        await asyncio.gather(*self._syncs)

    async def leave(self, count: int) -> None:
        """So many leave with one request."""
        leaving = [LeavingMember(name, None) for name in self.names[:count]]
        await self.bench.broker.groups.remove_members("g", leaving)

    async def describe(self) -> None:
        """DescribeGroups."""
        await self.bench.ask(describe_groups.API, DescribeGroupsRequest(groups=("g",)))

    async def load(self) -> None:
        """The group was read from its log: its sessions begin."""
        runner = self.bench.shard.runner
        runner.groups["g"] = classic_group(self._count)
        runner.happen("g", GroupLoaded())


async def _of_classic(count: int) -> list[Row]:
    bench = await Bench().begun()
    group = await _Classic(bench, count).named()
    leaving = min(1000, count // 2)
    works: tuple[tuple[str, Callable[[], Awaitable[Any]]], ...] = (
        ("all join", group.join),
        ("its join phase ends", group.complete),
        ("all but its leader sync", group.followers_sync),
        ("its leader syncs", group.leader_syncs),
        ("its description", group.describe),
        (f"{leaving:,} leave with one request", lambda: group.leave(leaving)),
        ("goes to another broker", bench.leave),
        ("its sessions begin after a load", _Classic(await Bench().begun(), count).load),
    )
    return [await _measured(f"classic group of {count:,} members: {what}", work) for what, work in works]


# Offsets, and many groups


def _hold(bench: Bench, count: int, group_id: str = "g") -> None:
    for number in range(count):
        value = CommittedOffset(number, -1, "", bench.clock.now_ms())
        bench.shard.commits.offsets.put(group_id, TopicPartition("topic", number), value)
    bench.shard.create_group(group_id)


async def _of_offsets(count: int, named: int) -> list[Row]:
    rows = []
    bench = await Bench(partitions=count).begun()
    _hold(bench, count)
    everything = OffsetFetchRequest(groups=(OffsetFetchRequestGroup(group_id="g", topics=None),))
    for stable in (False, True):
        request = OffsetFetchRequest(groups=everything.groups, require_stable=stable)
        name = f"OffsetFetch of all of {count:,} offsets{', stable ones' if stable else ''}"
        rows.append(await _measured(name, partial(bench.ask, offset_fetch.API, request)))
    positions = GroupPositions(bench.services)

    async def console() -> None:
        await GroupRounds(bench.services, positions, Table[str]()).round(1)

    rows.append(await _measured(f"the console looks at a group of {count:,} offsets", console))

    async def scrape() -> None:
        async for _ in GroupMetrics(bench.services, Survey(bench.services)).families():
            await next_turn()  # as `MetricsCollector` does

    rows.append(await _measured(f"metrics of a group of {count:,} offsets", scrape))
    topic = OffsetCommitRequestTopic(
        name="topic",
        topic_id=TOPIC_ID,
        partitions=tuple(OffsetCommitRequestPartition(index, 5) for index in range(named)),
    )
    commit = OffsetCommitRequest(group_id="g", topics=(topic,))
    rows.append(
        await _measured(
            f"OffsetCommit of {named:,} partitions", lambda: bench.ask(offset_commit.API, commit, is_large=True)
        )
    )
    gone = OffsetDeleteRequestTopic("topic", tuple(OffsetDeleteRequestPartition(index) for index in range(named)))
    delete = OffsetDeleteRequest("g", (gone,))
    rows.append(
        await _measured(
            f"OffsetDelete of {named:,} partitions", lambda: bench.ask(offset_delete.API, delete, is_large=True)
        )
    )
    offsets = bench.shard.commits.offsets
    for number in range(named):
        offsets.put_pending(1, "g", TopicPartition("topic", number), CommittedOffset(1, -1, "", 0, record_offset=1))
    marker = Marker(1, 0, commit=True, coordinator_epoch=0)
    rows.append(
        await _measured(
            f"the marker of a transaction of {named:,} offsets", lambda: bench.broker.groups.write_markers(0, marker)
        )
    )

    async def deleted() -> None:
        bench.remember_turns()
        await bench.ask(delete_groups.API, DeleteGroupsRequest(groups_names=("g",)))
        await bench.idle()

    rows.append(await _measured(f"DeleteGroups of a group of {count:,} offsets", deleted))
    return rows


async def _of_groups(count: int, named: int) -> list[Row]:
    rows = []
    bench = await Bench().begun()
    for number in range(count):
        bench.shard.commits.offsets.put(name_of(number), TopicPartition("topic", 0), CommittedOffset(1, -1, "", 0))
        bench.shard.create_group(name_of(number))
    listing = ListGroupsRequest()
    rows.append(await _measured(f"ListGroups of {count:,} groups", lambda: bench.ask(list_groups.API, listing)))

    async def scrape() -> None:
        async for _ in GroupMetrics(bench.services, Survey(bench.services)).families():
            await next_turn()  # as `MetricsCollector` does

    rows.append(await _measured(f"metrics of {count:,} groups", scrape))
    rounds = GroupRounds(bench.services, GroupPositions(bench.services), Table[str]())

    async def console() -> None:
        for _ in range(50):
            await rounds.round(1)

    rows.append(await _measured(f"the console's list of {count:,} groups", console))
    names = tuple(name_of(number) for number in range(named))
    request = DeleteGroupsRequest(groups_names=names)
    rows.append(
        await _measured(
            f"DeleteGroups of {named:,} groups", lambda: bench.ask(delete_groups.API, request, is_large=True)
        )
    )
    return rows


# Targets, and regular expressions


async def _of_targets(count: int) -> list[Row]:
    rows = []
    bench = await Bench(partitions=count).begun()
    clock: Any = SystemClock()
    group = consumer_group(count, has_target=False)
    for assignor in ("uniform", "range"):

        async def assign(assignor: str = assignor) -> None:
            for _ in await outcome_in_turns(computation(group, bench.topics.topics, (assignor,)), clock):
                await asyncio.sleep(0)

        rows.append(await _measured(f"{assignor}: {count:,} members, {count:,} partitions", assign))

    async def share() -> None:
        for _ in await outcome_in_turns(share_target(share_group_, bench.topics.topics), clock):
            await asyncio.sleep(0)

    share_group_ = share_group(count)
    rows.append(await _measured(f"share: {count:,} members, {count:,} partitions", share))
    streams_group_ = streams_group(count)

    async def streams() -> None:
        for _ in await outcome_in_turns(streams_target(streams_group_, standby_replicas=1), clock):
            await asyncio.sleep(0)

    rows.append(await _measured(f"streams: {count:,} members, {count:,} tasks, one standby", streams))
    return rows


async def _of_regex(topics: int) -> Row:
    bench = await Bench(1, topics).begun()
    request = ConsumerHeartbeat(
        "m", 0, client_id="c", client_host="/h", rebalance_timeout_ms=HOUR_MS, regex="topic-.*", owned=frozenset()
    )

    async def subscribe() -> None:
        await bench.broker.groups.consumer_heartbeat("g", request)
        while bench.shard.consumer._search.runs("g"):  # noqa: ASYNC110
            await asyncio.sleep(0)
        for _ in range(100):
            await asyncio.sleep(0)

    return await _measured(f"a regular expression that {topics:,} topics match", subscribe)


def run(quick: bool = False) -> list[Row]:
    """All of it; a tenth or less of everything if it is to be quick."""
    gc.collect()
    gc.freeze()
    collections_of_a_broker()
    asyncio.run(_all(100, 50))  # the first use of a message makes its codec
    return asyncio.run(_all(10_000, 1_000) if quick else _all(100_000, 10_000))


async def _all(many: int, some: int) -> list[Row]:
    rows = await _of_members(many)
    rows += await _described(some)
    for partitions in (some // 10, some, many):
        rows += await _of_one_member(partitions)
    rows += [await _endpoints(count) for count in (some // 10, some)]
    for members in (some // 10, some // 2, some):
        rows += await _of_classic(members)
    rows += await _of_offsets(many, some)
    rows += await _of_groups(many, some)
    rows += await _of_targets(some)
    rows += [await _of_regex(topics) for topics in (some, many)]
    return rows
