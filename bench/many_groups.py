"""Very many groups of one member each, consumer, share and streams groups: the longest time for which anybody else
waits while they join, while they are at rest, while their logs are read and when all their sessions end; and the memory
of a group.

The coordinator is called without sockets, on a log in memory, and its times are those of the processor. Collections of
the interpreter are as in a broker (ADR 58).
"""

import asyncio
import gc
import tracemalloc
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, NamedTuple

from fake_share_states import FakeShareStates
from group_fakes import CountingChance, FakeOffsetsLogs, FakeTransactions

from bench.group_members import LONG_MS, NOTHING, Cluster, Work
from bench.groups import STEP_MS
from bench.report import Row
from eosin.coordinator.groups.consumer.rules.events import ConsumerHeartbeat
from eosin.coordinator.groups.coordinator import GroupCoordinator
from eosin.coordinator.groups.rules.config import (
    ConsumerGroupConfig,
    GroupConfig,
    ShareGroupConfig,
    StreamsGroupConfig,
)
from eosin.coordinator.groups.share.ports import ShareSurroundings
from eosin.coordinator.groups.share.rules.events import ShareHeartbeat
from eosin.coordinator.groups.streams.rules.events import StreamsHeartbeat
from eosin.coordinator.groups.streams.rules.reconciliation import OwnedTasks
from eosin.coordinator.groups.streams.topology.topology import Subtopology, Topology
from eosin.node.full_collections import FullCollections
from eosin.protocol.errors import ErrorCode
from eosin.runtime.clock import SystemClock

GROUP: Final = "Many groups"
REST_MS: Final = 2_000
"""Turns are watched for so long while the groups are at rest: time for a look for offsets to forget, too."""
PARTITIONS: Final = 50
"""Of `__consumer_offsets`, by default."""
BEATS: Final = 5_000
"""Heartbeats meanwhile, of groups that are chosen in turn."""
SESSION_MS: Final = 5_000
"""Of the members whose sessions all end."""
LOADED_BEFORE_MS: Final = 1_000
SAMPLES: Final = 20
"""Groups that are looked at to see whether the sessions have ended: to look at all of them takes as long as a turn."""
_TIMEOUT_MS: Final = 300_000


class Kind(NamedTuple):
    """A kind of groups."""

    name: str
    beat: Callable[[GroupCoordinator, str, str, int], Awaitable[Any]]
    """A heartbeat of the member of a group, with its epoch; 0 joins."""
    describe: Callable[[GroupCoordinator, str], Any]
    """The group, or an error."""


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
    Kind("consumer", _consumer, lambda groups, group_id: groups.describe_consumer(group_id)),
    Kind("share", _share, lambda groups, group_id: groups.share.describe(group_id)),
    Kind("streams", _streams, lambda groups, group_id: groups.streams.describe(group_id)),
)


def run(quick: bool = False) -> list[Row]:
    """Each kind, with more and more groups."""
    gc.collect()
    gc.freeze()  # as a broker does with all that its start has made
    collections = FullCollections.of_this_process(_soon)
    rows: list[Row] = []
    for kind in KINDS:
        rows += asyncio.run(_memory(kind, 1_000 if quick else 10_000))
        for count in (1_000,) if quick else (10_000, 100_000):
            rows += asyncio.run(_of_kind(kind, count, collections))
            gc.collect()
            gc.freeze()
    return rows


def _soon(check: Callable[[], None]) -> None:
    """Call back between two turns of the event loop that runs now, if one does."""
    try:
        asyncio.get_running_loop().call_soon(check)
    except RuntimeError:
        return


class _Groups:
    """Groups of one kind, and their coordinator."""

    def __init__(self, kind: Kind) -> None:
        self.kind = kind
        self.logs = FakeOffsetsLogs(PARTITIONS)
        self.states = FakeShareStates()
        self.epochs: dict[str, int] = {}
        self.coordinator = self._made(LONG_MS)

    def _made(self, session_ms: int) -> GroupCoordinator:
        return GroupCoordinator(
            logs=self.logs,
            verifier=FakeTransactions(),
            clock=SystemClock(),
            chance=CountingChance(),
            config=GroupConfig(
                consumer=ConsumerGroupConfig(session_timeout_ms=session_ms),
                share=ShareGroupConfig(session_timeout_ms=session_ms),
                streams=StreamsGroupConfig(session_timeout_ms=session_ms, initial_rebalance_delay_ms=0),
                eosin_group_max_groups=1_000_000,
                offsets_retention_check_interval_ms=REST_MS // 2,
            ),
            topics=Cluster(1, 1),
            share=ShareSurroundings(self.states),
        )

    async def beat(self, group_id: str) -> None:
        """The next heartbeat of a group's member. Each brings its own strings, as one from a socket does."""
        member_id = f"member-{group_id[-20:]}"
        told = await self.kind.beat(
            self.coordinator, group_id[:1] + group_id[1:], member_id, self.epochs.get(group_id, 0)
        )
        assert told.error is ErrorCode.NONE, told
        self.epochs[group_id] = told.epoch

    def has_member(self, group_id: str) -> bool:
        """True until its member is gone."""
        found = self.kind.describe(self.coordinator, group_id)
        return not isinstance(found, ErrorCode) and bool(found.members)

    async def join(self, count: int) -> None:
        """So many groups come into being, each with its member, one after the other."""
        for number in range(count):
            await self.beat(f"group-{number * 2_654_435_761 % 2**64:020}")
            self.states.calls.clear()
            await asyncio.sleep(0)

    async def stop(self, session_ms: int) -> GroupCoordinator:
        """Stop the coordinator, and put another in its place. Returns the old one: it takes a while to let go."""
        stopped = self.coordinator
        await stopped.stop()
        self.coordinator = self._made(session_ms)
        return stopped


async def _of_kind(kind: Kind, count: int, collections: FullCollections) -> list[Row]:
    groups = _Groups(kind)
    await groups.coordinator.load()
    label = f"{count:,} {kind.name} groups"
    with Work() as joins:
        await groups.join(count)
    names = list(groups.epochs)
    with Work() as rest:
        for number in range(BEATS):
            await groups.beat(names[number * 7919 % count])
            await asyncio.sleep(0)
        collections.check()  # as a broker does every ten seconds
        groups.coordinator.topic_deleted("another")
        await asyncio.sleep(REST_MS / 1000)
    stopped = await groups.stop(SESSION_MS)
    await asyncio.sleep(0)
    with Work() as load:
        await groups.coordinator.load()
        await asyncio.sleep(0)
    del stopped
    await asyncio.sleep(max(0, SESSION_MS - LOADED_BEFORE_MS) / 1000)
    with Work() as end:
        while any(groups.has_member(name) for name in names[:: count // SAMPLES]):  # noqa: ASYNC110
            await asyncio.sleep(0)
    await groups.coordinator.stop()
    return [
        Row(GROUP, f"{label}: a join", joins.took_s / count * 1e6, "us"),
        *(
            Row(GROUP, f"{label}, {what}: longest turn", work.steps.longest_ms, "ms", budget=STEP_MS)
            for what, work in (("all join", joins), ("at rest", rest), ("a load", load), ("all sessions end", end))
        ),
        Row(GROUP, f"{label}: a load", load.took_s, "s"),
    ]


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
