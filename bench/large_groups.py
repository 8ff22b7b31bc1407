"""Groups that are very large, and requests about very much of one group: the longest turn of the event loop, which is
the time for which anybody else waits.

The coordinator is called without sockets, on a log in memory; handlers are called as a connection does, and their
responses encoded. Times are those of the processor. Collections of the interpreter are as in a broker (ADR 58).
"""

import asyncio
import gc
from collections.abc import Awaitable, Callable, Mapping
from types import SimpleNamespace
from typing import Any, Final

from fake_share_states import FakeShareStates
from group_fakes import Broker
from jumping_clock import JumpingClock

from bench.group_members import KnownTopic, Work
from bench.groups import STEP_MS
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
)
from eosin.coordinator.groups.consumer.assignors.assignment import TopicIdPartition
from eosin.coordinator.groups.consumer.consumer_groups import HeldConsumerGroup
from eosin.coordinator.groups.consumer.ports import NoTopics
from eosin.coordinator.groups.consumer.rules.events import ConsumerHeartbeat
from eosin.coordinator.groups.consumer.rules.group import ConsumerGroup, ConsumerMember
from eosin.coordinator.groups.consumer.rules.targets import computation
from eosin.coordinator.groups.rules.config import GroupConfig
from eosin.coordinator.groups.rules.events import LeavingMember
from eosin.coordinator.groups.rules.group import Group, GroupState, Member
from eosin.coordinator.groups.rules.offset_store import CommittedOffset
from eosin.coordinator.groups.shard import Shard
from eosin.coordinator.groups.share.ports import ShareSurroundings
from eosin.coordinator.groups.share.rules.group import ShareGroup, ShareMember
from eosin.coordinator.groups.share.rules.targets import target_in_steps as share_target
from eosin.coordinator.groups.share.share_groups import HeldShareGroup
from eosin.coordinator.groups.streams.assignors.tasks import MemberTasks, Task
from eosin.coordinator.groups.streams.rules.group import HeldTasks, Owner, StreamsGroup, StreamsMember
from eosin.coordinator.groups.streams.rules.targets import target_in_steps as streams_target
from eosin.coordinator.groups.streams.streams_groups import HeldStreamsGroup
from eosin.coordinator.groups.streams.topology.configuration import configured
from eosin.coordinator.groups.streams.topology.topology import Subtopology, Topology
from eosin.model.cluster import Topic
from eosin.network.api import Api, RequestContext
from eosin.node.full_collections import FullCollections
from eosin.observe.console.group_rounds import GroupRounds
from eosin.observe.console.tables import Table
from eosin.observe.metrics.group_metrics import GroupMetrics
from eosin.observe.survey.group_positions import GroupPositions
from eosin.observe.survey.survey import Survey
from eosin.protocol.errors import ErrorCode
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
from eosin.protocol.wire.codec import EncodedBody, encode_response
from eosin.runtime.clock import SystemClock
from eosin.runtime.sorted_map import SortedMap
from eosin.runtime.turns import outcome_in_turns
from eosin.storage.results.log_results import Marker

GROUP: Final = "Large groups"
TOPIC_ID: Final = bytes(15) + b"\1"
HOUR_MS: Final = 3_600_000
METADATA: Final = bytes(40)
TOPOLOGY: Final = Topology(0, (Subtopology("0", ("topic",), (), (), (), (), ()),))


class Topics(NoTopics):
    """One topic of very many partitions, and very many of one (`ClusterTopics`)."""

    metadata_version = 1

    def __init__(self, partitions: int, others: int = 0) -> None:
        found = {"topic": KnownTopic(TOPIC_ID, partitions)}
        found |= {f"topic-{number:06}": KnownTopic(number.to_bytes(16, "little"), 1) for number in range(1, others)}
        self.topics: Mapping[str, KnownTopic] = found


class Bench:
    """A coordinator, and what handlers and observers have beside it."""

    def __init__(self, partitions: int = 100_000, others: int = 0) -> None:
        clock: Any = JumpingClock()
        self.clock = clock
        self.topics = Topics(partitions, others)
        config = GroupConfig(group_initial_rebalance_delay_ms=HOUR_MS)
        share = ShareSurroundings(FakeShareStates())
        self.broker = Broker(config, clock=clock, topics=self.topics, share=share)
        self.services: Any = SimpleNamespace(
            groups=self.broker.groups,
            group_shares=None,
            clock=SystemClock(),
            cluster=SimpleNamespace(
                topics=self.topics.topics,
                topic_by_id=lambda topic_id: Topic("topic", topic_id, partitions),
                features=SimpleNamespace(level=lambda _: 1),
            ),
            config=SimpleNamespace(
                group_consumer_assignors=("uniform",),
                group_share_assignors=("simple",),
                eosin_metrics_max_partitions=10_000,
            ),
            partitions=SimpleNamespace(get=lambda _: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
            unserved_groups=SimpleNamespace(why=lambda _: None),
        )

    async def begun(self) -> "Bench":
        await self.broker.started()
        return self

    @property
    def shard(self) -> Shard:
        """The partition of `__consumer_offsets` that has all groups."""
        (shard,) = self.broker.groups._shards
        return shard

    async def ask(self, api: Api, request: Any, *, is_large: bool = False) -> Any:
        """The response to a request, which is encoded in the turn in which it is made, unless a thread does that."""
        version = api.versions[-1]
        context = RequestContext(version, "bench", "/127.0.0.1", "PLAINTEXT", is_large=is_large, api_key=api.key)
        response = await api.response(request, context, self.services)
        if not isinstance(response, EncodedBody) and not is_large:
            encode_response(api.key, version, 0, response)
        return response

    async def idle(self) -> None:
        """Wait until nothing is left to do in turns."""
        while self.shard_turns._waiting or self.shard_turns._next:  # noqa: ASYNC110
            await asyncio.sleep(0)

    def remember_turns(self) -> None:
        """Keep the turns of the shard, which may go."""
        self.shard_turns = self.shard._turns

    def resign(self) -> None:
        """Another broker coordinates the partition from now on."""
        self.remember_turns()
        self.broker.groups.resign(0)


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


# One group of very many members


def _name(number: int) -> str:
    return f"{number * 2_654_435_761 % 2**64:020}-{number}"


def consumer_group(count: int, *, has_target: bool = True) -> ConsumerGroup:
    """A consumer group of so many members, each of which has one partition."""
    places = [TopicIdPartition(TOPIC_ID, number) for number in range(count)]
    names = [_name(number) for number in range(count)]
    topics = ("topic",)
    members = {
        name: ConsumerMember(name, topics=topics, epoch=1, assigned={place: 1} if has_target else {})
        for name, place in zip(names, places, strict=True)
    }
    one_each = {name: frozenset((place,)) for name, place in zip(names, places, strict=True)}
    owners = dict(zip(places, names, strict=True))
    return ConsumerGroup(
        "g",
        epoch=2,
        members=SortedMap(members),
        targets=SortedMap(one_each if has_target else {}),
        owners=SortedMap(owners if has_target else {}),
        counts=_counts(topics, count),
    )


def _counts(topics: tuple[str, ...], count: int) -> Any:
    from eosin.coordinator.groups.consumer.rules.counts import MemberCounts

    return MemberCounts(
        lists=SortedMap({topics: (topics, count)}), listed=SortedMap({"topic": 1}), names=frozenset(topics)
    )


def share_group(count: int) -> ShareGroup:
    """A share group of so many members, each of which has one partition."""
    places = {_name(number): frozenset((TopicIdPartition(TOPIC_ID, number),)) for number in range(count)}
    members = {name: ShareMember(name, topics=("topic",), epoch=1, assigned=has) for name, has in places.items()}
    return ShareGroup(
        "g", epoch=2, members=SortedMap(members), targets=SortedMap(places), counts=_counts(("topic",), count)
    )


def streams_group(count: int) -> StreamsGroup:
    """A streams group of so many members, each of which has one task."""
    tasks = {_name(number): Task("0", number) for number in range(count)}
    members = {
        name: StreamsMember(name, process_id=name, epoch=1, assigned=HeldTasks({task: 1}))
        for name, task in tasks.items()
    }
    return StreamsGroup(
        "g",
        epoch=2,
        topology=TOPOLOGY,
        configured=configured(TOPOLOGY, {"topic": count}),
        members=SortedMap(members),
        targets=SortedMap({name: MemberTasks(frozenset((task,)), frozenset()) for name, task in tasks.items()}),
        owners={task: Owner(name, name) for name, task in tasks.items()},
    )


def classic_group(count: int) -> Group:
    """A stable classic group of so many members."""
    names = [_name(number) for number in range(count)]
    members = {
        name: Member(name, None, "bench", "/127.0.0.1", HOUR_MS // 2, HOUR_MS, (("range", METADATA),), METADATA)
        for name in names
    }
    return Group("g", GroupState.STABLE, 0, 1, "consumer", "range", names[0], members)


LOADS: Final[Mapping[str, Callable[[Shard, int], None]]] = {
    "consumer": lambda shard, count: shard.consumer.load({"g": _held(HeldConsumerGroup, consumer_group(count))}),
    "share": lambda shard, count: shard.share.load({"g": _held(HeldShareGroup, share_group(count))}),
    "streams": lambda shard, count: shard.streams.load({"g": _held(HeldStreamsGroup, streams_group(count))}),
}


def _held(kind: Callable[[Any, Any], Any], group: Any) -> Any:
    return kind(group, group)


async def _of_members(count: int) -> list[Row]:
    """A group of each of the new kinds goes to another broker; and its members leave the timers one by one."""
    rows = []
    for kind, load in LOADS.items():
        bench = await Bench().begun()
        load(bench.shard, count)
        bench.remember_turns()
        await bench.idle()

        async def leaves(bench: Bench = bench) -> None:
            bench.resign()
            await bench.idle()

        rows.append(await _measured(f"a {kind} group of {count:,} members goes to another broker", leaves))
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
            await _measured(
                f"the description of a {kind} group of {count:,} members", lambda b=bench, a=api, r=request: b.ask(a, r)
            )
        )
    return rows


# Classic groups


async def _of_classic(count: int) -> list[Row]:
    label = f"classic group of {count:,} members"
    rows = []
    bench = await Bench().begun()
    protocols = (JoinGroupRequestProtocol("range", METADATA),)

    def request(member_id: str = "") -> JoinGroupRequest:
        return JoinGroupRequest(
            group_id="g",
            session_timeout_ms=HOUR_MS // 2,
            rebalance_timeout_ms=HOUR_MS,
            member_id=member_id,
            protocol_type="consumer",
            protocols=protocols,
        )

    ids = [(await bench.ask(join_group.API, request())).member_id for _ in range(count)]
    joins: list[asyncio.Task[Any]] = []

    async def join() -> None:
        for name in ids:
            joins.append(asyncio.ensure_future(bench.ask(join_group.API, request(name))))
            await asyncio.sleep(0)

    rows.append(await _measured(f"{label}: all join", join))

    async def complete() -> None:
        bench.clock.jump(2 * HOUR_MS)
        await asyncio.gather(*joins)

    rows.append(await _measured(f"{label}: its join phase ends", complete))
    syncs: list[asyncio.Task[Any]] = []

    def sync(name: str, assignments: tuple[tuple[str, bytes], ...] = ()) -> Awaitable[Any]:
        return bench.broker.groups.sync(
            "g",
            generation_id=generation,
            member_id=name,
            instance_id=None,
            protocol_type="consumer",
            protocol_name="range",
            assignments=assignments,
            api_version=5,
        )

    others = [name for name in ids if name != bench.shard.groups["g"].leader_id]
    leader = bench.shard.groups["g"].leader_id or ""
    generation = bench.shard.groups["g"].generation_id

    async def followers() -> None:
        for name in others:
            syncs.append(asyncio.ensure_future(sync(name)))
            await asyncio.sleep(0)

    rows.append(await _measured(f"{label}: all but the leader sync", followers))

    async def leader_syncs() -> None:
        await sync(leader, tuple((name, METADATA) for name in ids))
        await asyncio.gather(*syncs)

    rows.append(await _measured(f"{label}: its leader syncs", leader_syncs))
    rows.append(
        await _measured(
            f"the description of a {label}",
            lambda: bench.ask(describe_groups.API, DescribeGroupsRequest(groups=("g",))),
        )
    )
    leaving = [LeavingMember(name, None) for name in others[: min(1000, count // 2)]]
    rows.append(
        await _measured(
            f"{label}: {len(leaving):,} leave with one request",
            lambda: bench.broker.groups.remove_members("g", leaving),
        )
    )

    async def leaves() -> None:
        bench.resign()
        await bench.idle()

    rows.append(await _measured(f"{label}: goes to another broker", leaves))
    bench = await Bench().begun()
    group = classic_group(count)
    shard = bench.shard

    async def loaded() -> None:
        from eosin.coordinator.groups.rules.events import GroupLoaded

        shard.runner.groups["g"] = group
        shard.runner.happen("g", GroupLoaded())
        await asyncio.sleep(0)

    rows.append(await _measured(f"{label}: its sessions begin after a load", loaded))
    return rows


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
        rows.append(await _measured(name, lambda r=request: bench.ask(offset_fetch.API, r)))
    positions = GroupPositions(bench.services)

    async def console() -> None:
        await GroupRounds(bench.services, positions, Table[str]()).round(1)

    rows.append(await _measured(f"the console looks at a group of {count:,} offsets", console))

    async def scrape() -> None:
        async for _ in GroupMetrics(bench.services, Survey(bench.services)).families():
            pass

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
        bench.shard.commits.offsets.put(_name(number), TopicPartition("topic", 0), CommittedOffset(1, -1, "", 0))
        bench.shard.create_group(_name(number))
    listing = ListGroupsRequest()
    rows.append(await _measured(f"ListGroups of {count:,} groups", lambda: bench.ask(list_groups.API, listing)))

    async def scrape() -> None:
        async for _ in GroupMetrics(bench.services, Survey(bench.services)).families():
            pass

    rows.append(await _measured(f"metrics of {count:,} groups", scrape))
    rounds = GroupRounds(bench.services, GroupPositions(bench.services), Table[str]())

    async def console() -> None:
        for _ in range(50):
            await rounds.round(1)

    rows.append(await _measured(f"the console's list of {count:,} groups", console))
    names = tuple(_name(number) for number in range(named))
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
    FullCollections.of_this_process(_soon)
    many, some = (10_000, 1_000) if quick else (100_000, 10_000)

    async def everything() -> list[Row]:
        rows = await _of_members(many)
        rows += await _described(some)
        for members in (some // 10, some // 2, some):
            rows += await _of_classic(members)
        rows += await _of_offsets(many, some)
        rows += await _of_groups(many, some)
        rows += await _of_targets(some)
        rows += [await _of_regex(topics) for topics in (some, many)]
        return rows

    return asyncio.run(everything())


def _soon(check: Callable[[], None]) -> None:
    """Call back between two turns of the event loop that runs now, if one does."""
    try:
        asyncio.get_running_loop().call_soon(check)
    except RuntimeError:
        return
