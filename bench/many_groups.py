"""Very many groups of one member each, of each kind: the longest time for which anybody else waits while they join, are
at rest, are listed and described, while their logs are read, when all their sessions end and when all their partitions
go to another broker; and the memory of a group.

The coordinator is called without sockets, on a log in memory, and its times are those of the processor. Collections of
the interpreter are as in a broker (ADR 58). Sessions end when the bench says so, all at one moment.
"""

import asyncio
import gc
import time
import tracemalloc
from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any, Final, NamedTuple

from fake_share_states import FakeShareStates
from group_fakes import CountingChance, FakeOffsetsLogs, FakeTransactions
from jumping_clock import JumpingClock

from bench.group_members import LONG_MS, NOTHING, Cluster, Work, collections_of_a_broker
from bench.groups import STEP_MS
from bench.report import Row
from eosin.broker.handlers import (
    consumer_group_describe,
    describe_groups,
    list_groups,
    share_group_describe,
    streams_group_describe,
)
from eosin.coordinator.groups.consumer.rules.events import ConsumerHeartbeat
from eosin.coordinator.groups.coordinator import GroupCoordinator
from eosin.coordinator.groups.rules.config import (
    ConsumerGroupConfig,
    GroupConfig,
    ShareGroupConfig,
    StreamsGroupConfig,
)
from eosin.coordinator.groups.rules.events import LeavingMember
from eosin.coordinator.groups.share.ports import ShareSurroundings
from eosin.coordinator.groups.share.rules.events import ShareHeartbeat
from eosin.coordinator.groups.streams.rules.events import StreamsHeartbeat
from eosin.coordinator.groups.streams.rules.reconciliation import OwnedTasks
from eosin.coordinator.groups.streams.topology.topology import Subtopology, Topology
from eosin.model.cluster import Topic
from eosin.network.api import Api, RequestContext
from eosin.node.full_collections import FullCollections
from eosin.protocol.errors import ErrorCode
from eosin.protocol.records.batch import NewRecord, build_batch, iter_records
from eosin.protocol.schemas.consumer_group_describe import ConsumerGroupDescribeRequest
from eosin.protocol.schemas.describe_groups import DescribeGroupsRequest
from eosin.protocol.schemas.list_groups import ListGroupsRequest
from eosin.protocol.schemas.share_group_describe import ShareGroupDescribeRequest
from eosin.protocol.schemas.streams_group_describe import StreamsGroupDescribeRequest
from eosin.runtime.clock import SystemClock

GROUP: Final = "Many groups"
REST_MS: Final = 2_000
"""Turns are watched for so long while the groups are at rest: time for a look for offsets to forget, too."""
PARTITIONS: Final = 50
"""Of `__consumer_offsets`, by default."""
BEATS: Final = 5_000
"""Heartbeats meanwhile, of groups that are chosen in turn."""
JOINED: Final = 10_000
"""So many groups join at most. Others are copies of one of them in the logs, which are loaded then."""
SAMPLES: Final = 20
"""Groups that are looked at to see whether the sessions have ended: to look at all of them takes as long as a turn."""
DIGITS: Final = 20
"""Of the number in the name of a group."""
_TIMEOUT_MS: Final = 300_000


class Kind(NamedTuple):
    """A kind of groups."""

    name: str
    beat: Callable[[GroupCoordinator, str, str, int], Awaitable[Any]]
    """A heartbeat of the member of a group, with its epoch; 0 joins."""
    describe: Callable[[GroupCoordinator, str], Any]
    """The group, or an error."""
    api: Api
    """Describes groups."""
    request: Callable[[tuple[str, ...]], Any]


class Told(NamedTuple):
    """The answer to a member of a classic group, as those of other groups have it."""

    error: ErrorCode
    epoch: int
    member_id: str | None = None


async def _classic(groups: GroupCoordinator, group_id: str, member_id: str, epoch: int) -> Told:
    if epoch > 0:
        return Told(groups.heartbeat(group_id, generation_id=epoch, member_id=member_id), epoch)
    if epoch < 0:
        return Told(groups.leave(group_id, [LeavingMember(member_id, None)]).error, epoch)
    joined = await groups.join(
        group_id,
        member_id="",
        instance_id=None,
        protocol_type="consumer",
        protocols=(("range", b"\0" * 20),),
        session_timeout_ms=LONG_MS,
        rebalance_timeout_ms=_TIMEOUT_MS,
        client_id="bench",
        client_host="/127.0.0.1",
        api_version=3,
    )
    synced = await groups.sync(
        group_id,
        generation_id=joined.generation_id,
        member_id=joined.member_id,
        instance_id=None,
        protocol_type="consumer",
        protocol_name="range",
        assignments=((joined.member_id, b"\0" * 20),),
        api_version=3,
    )
    return Told(synced.error, joined.generation_id, joined.member_id)


def _name(number: int) -> str:
    return f"group-{number * 2_654_435_761 % 2**64:0{DIGITS}}"


def _topology() -> Topology:
    return Topology(0, (Subtopology("0", ("topic" + "-0",), (), (), (), (), ()),))


def _consumer(groups: GroupCoordinator, group_id: str, member_id: str, epoch: int) -> Awaitable[Any]:
    joining: Mapping[str, Any] = {}
    if not epoch:
        joining = {"rebalance_timeout_ms": _TIMEOUT_MS, "topics": ("topic" + "-0",), "owned": NOTHING}
    request = ConsumerHeartbeat(member_id, epoch, client_id="bench", client_host="/127.0.0.1", **joining)
    return groups.consumer_heartbeat(group_id, request)


def _share(groups: GroupCoordinator, group_id: str, member_id: str, epoch: int) -> Awaitable[Any]:
    topics = None if epoch else ("topic" + "-0",)
    request = ShareHeartbeat(member_id, epoch, topics=topics, client_id="bench", client_host="/127.0.0.1")
    return groups.share.heartbeat(group_id, request)


def _streams(groups: GroupCoordinator, group_id: str, member_id: str, epoch: int) -> Awaitable[Any]:
    joining: Mapping[str, Any] = {}
    if not epoch:
        joining = {"rebalance_timeout_ms": _TIMEOUT_MS, "topology": _topology(), "owned": OwnedTasks()}
        joining = {**joining, "process_id": member_id}
    request = StreamsHeartbeat(member_id, epoch, client_id="bench", client_host="/127.0.0.1", **joining)
    return groups.streams.heartbeat(group_id, request)


KINDS: Final = (
    Kind(
        "classic",
        _classic,
        lambda groups, group_id: groups.describe(group_id),
        describe_groups.API,
        lambda names: DescribeGroupsRequest(groups=names),
    ),
    Kind(
        "consumer",
        _consumer,
        lambda groups, group_id: groups.describe_consumer(group_id),
        consumer_group_describe.API,
        lambda names: ConsumerGroupDescribeRequest(group_ids=names),
    ),
    Kind(
        "share",
        _share,
        lambda groups, group_id: groups.share.describe(group_id),
        share_group_describe.API,
        lambda names: ShareGroupDescribeRequest(group_ids=names),
    ),
    Kind(
        "streams",
        _streams,
        lambda groups, group_id: groups.streams.describe(group_id),
        streams_group_describe.API,
        lambda names: StreamsGroupDescribeRequest(group_ids=names),
    ),
)


def run(quick: bool = False) -> list[Row]:
    """Each kind, with more and more groups."""
    gc.collect()
    gc.freeze()  # as a broker does with all that its start has made
    collections = collections_of_a_broker()
    rows: list[Row] = []
    for kind in KINDS:
        rows += asyncio.run(_memory(kind, 1_000 if quick else 10_000))
        for count in (1_000,) if quick else (10_000, 100_000):
            rows += asyncio.run(_of_kind(kind, count, collections))
            gc.collect()
            gc.freeze()
    return rows


class _Groups:
    """Groups of one kind, and their coordinator."""

    def __init__(self, kind: Kind) -> None:
        self.kind = kind
        self.logs = FakeOffsetsLogs(PARTITIONS)
        self.states = FakeShareStates()
        self.cluster = Cluster(1, 1)
        self.sessions = JumpingClock()
        self.epochs: dict[str, int] = {}
        self.members: dict[str, str] = {}
        self.coordinator = self._made()

    def _made(self) -> GroupCoordinator:
        return GroupCoordinator(
            logs=self.logs,
            verifier=FakeTransactions(),
            clock=SystemClock(),
            session_clock=self.sessions,
            chance=CountingChance(),
            config=GroupConfig(
                consumer=ConsumerGroupConfig(session_timeout_ms=LONG_MS),
                share=ShareGroupConfig(session_timeout_ms=LONG_MS),
                streams=StreamsGroupConfig(session_timeout_ms=LONG_MS, initial_rebalance_delay_ms=0),
                eosin_group_max_groups=1_000_000,
                offsets_retention_check_interval_ms=REST_MS // 2,
            ),
            topics=self.cluster,
            share=ShareSurroundings(self.states),
        )

    async def beat(self, group_id: str) -> None:
        """The next heartbeat of a group's member. Each brings its own strings, as one from a socket does."""
        member_id = self.members.get(group_id, f"member-{group_id[-DIGITS:]}")
        told = await self.kind.beat(
            self.coordinator, group_id[:1] + group_id[1:], member_id[:1] + member_id[1:], self.epochs.get(group_id, 0)
        )
        assert told.error is ErrorCode.NONE, told
        self.epochs[group_id] = told.epoch
        if told.member_id is not None:
            self.members[group_id] = told.member_id

    async def ask(self, api: Api, request: Any) -> Any:
        """The response of a handler, which is encoded where it is large."""
        services: Any = SimpleNamespace(
            groups=self.coordinator,
            clock=SystemClock(),
            cluster=SimpleNamespace(
                topics=self.cluster.topics,
                topic_by_id=lambda topic_id: Topic("topic-0", topic_id, 1),
                features=SimpleNamespace(level=lambda _: 1),
            ),
            config=SimpleNamespace(group_consumer_assignors=("uniform",), group_share_assignors=("simple",)),
        )
        version = api.versions[-1]
        context = RequestContext(version, "bench", "/127.0.0.1", "PLAINTEXT", is_large=True, api_key=api.key)
        return await api.response(request, context, services)

    def has_member(self, group_id: str) -> bool:
        """True until its member is gone."""
        found = self.kind.describe(self.coordinator, group_id)
        return not isinstance(found, ErrorCode) and bool(found.members)

    async def join(self, count: int) -> None:
        """So many groups come into being, each with its member, one after the other."""
        for number in range(count):
            await self.beat(_name(number))
            self.states.calls.clear()
            await asyncio.sleep(0)

    def copy(self, count: int) -> None:
        """Write so many copies of the last group that has joined."""
        name, epoch = next(reversed(self.epochs.items()))
        written = self.logs.logs[self.coordinator.partition_for(name)].written
        found = (each for batch in written for each in iter_records(batch) if each.key and name.encode() in each.key)
        last = {each.key or b"": each.value for each in found}
        number, now_ms = name[-DIGITS:], SystemClock().now_ms()
        for copied in map(_name, range(len(self.epochs), len(self.epochs) + count)):
            old, new = number.encode(), copied[-DIGITS:].encode()
            records = [
                NewRecord(key.replace(old, new), value and value.replace(old, new)) for key, value in last.items()
            ]
            batch = bytes(build_batch(records, timestamp=now_ms))
            self.logs.logs[self.coordinator.partition_for(copied)].append(batch, now_ms=now_ms)
            self.epochs[copied] = epoch
            if name in self.members:
                self.members[copied] = self.members[name].replace(number, copied[-DIGITS:])

    async def stop(self) -> GroupCoordinator:
        """Stop the coordinator, and put another in its place. Returns the old one: it takes a while to let go."""
        stopped = self.coordinator
        await stopped.stop()
        self.coordinator = self._made()
        return stopped


async def _of_kind(kind: Kind, count: int, collections: FullCollections) -> list[Row]:
    groups = _Groups(kind)
    await groups.coordinator.load()
    label, joined = f"{count:,} {kind.name} groups", min(count, JOINED)
    with Work() as joins:
        await groups.join(joined)
    groups.copy(count - joined)
    names = list(groups.epochs)
    stopped = await groups.stop()
    await asyncio.sleep(0)
    with Work() as load:
        await groups.coordinator.load()
        await asyncio.sleep(0)
    del stopped
    beats_s = await _beats(groups, names)
    with Work() as rest:
        await _beats(groups, names)
        collections.check()  # as a broker does every ten seconds
        groups.coordinator.topic_deleted("another")
        await asyncio.sleep(REST_MS / 1000)
    with Work() as listing:
        listed = await groups.ask(list_groups.API, ListGroupsRequest())
    with Work() as describing:
        described = await groups.ask(kind.api, kind.request(tuple(names)))
    del listed, described
    with Work() as end:
        groups.sessions.jump(LONG_MS)
        while any(groups.has_member(name) for name in names[:: count // SAMPLES]):  # noqa: ASYNC110
            await asyncio.sleep(0)
    with Work() as leave:
        for partition in range(PARTITIONS):
            groups.coordinator.resign(partition)
        for _ in range(count // PARTITIONS):
            await asyncio.sleep(0)
    await groups.coordinator.stop()
    works = (
        (f"{joined:,} join", joins),
        ("at rest", rest),
        ("a load", load),
        ("a list of all", listing),
        ("a description of all", describing),
        ("all sessions end", end),
        ("all partitions leave", leave),
    )
    return [
        Row(GROUP, f"{label}: a join", joins.took_s / joined * 1e6, "us"),
        Row(GROUP, f"{label}: a heartbeat", beats_s / BEATS * 1e6, "us"),
        *(Row(GROUP, f"{label}: {what}", work.took_s, "s") for what, work in works[2:6]),
        *(
            Row(GROUP, f"{label}, {what}: longest turn", work.steps.longest_ms, "ms", budget=STEP_MS)
            for what, work in works
        ),
    ]


async def _beats(groups: _Groups, names: Sequence[str]) -> float:
    """Heartbeats of groups that are chosen in turn. Returns the seconds that they took, without what else was done."""
    took_s = 0.0
    for number in range(BEATS):
        begun = time.thread_time()
        await groups.beat(names[number * 7919 % len(names)])
        took_s += time.thread_time() - begun
        await asyncio.sleep(0)
    return took_s


async def _memory(kind: Kind, count: int) -> list[Row]:
    """The memory of a group with one member, at the group coordinator, and of the same without any."""
    groups = _Groups(kind)
    await groups.coordinator.load()
    gc.collect()
    tracemalloc.start()
    await groups.join(count)
    held = _held(groups)
    for name in groups.epochs:
        groups.epochs[name] = -1
        await groups.beat(name)
    empty = _held(groups)
    tracemalloc.stop()
    await groups.coordinator.stop()
    return [
        Row(GROUP, f"{kind.name} group: memory of one with a member", held / count, "bytes"),
        Row(GROUP, f"{kind.name} group: memory of one without any", empty / count, "bytes"),
    ]


def _held(groups: _Groups) -> int:
    """The bytes that are allocated, without what the fakes hold."""
    for log in groups.logs.logs.values():
        log.written.clear()
    gc.collect()
    held, _ = tracemalloc.get_traced_memory()
    return held
