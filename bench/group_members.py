"""Members of one consumer group (KIP-848) at a group coordinator without sockets or files, for `bench groups`."""

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

from group_fakes import CountingChance, FakeOffsetsLogs, FakeTransactions

from eosin.coordinator.groups.consumer.assignors.assignment import Partitions
from eosin.coordinator.groups.consumer.ports import NoTopics
from eosin.coordinator.groups.consumer.rules.events import ConsumerHeartbeat, HeartbeatResult
from eosin.coordinator.groups.consumer.rules.group import ConsumerGroup, ConsumerGroupState
from eosin.coordinator.groups.coordinator import GroupCoordinator
from eosin.coordinator.groups.rules.config import ConsumerGroupConfig, GroupConfig
from eosin.node.full_collections import FullCollections
from eosin.protocol.errors import ErrorCode
from eosin.runtime.clock import SystemClock

LONG_MS: Final = 1_800_000
"""Sessions that no busy machine ends."""
GROUP_ID: Final = "group"
NOTHING: Final[Partitions] = frozenset()


def collections_of_a_broker() -> FullCollections:
    """Collect garbage as a broker does: else the interpreter walks all members now and then."""
    return FullCollections.of_this_process(_soon)


def _soon(check: Callable[[], None]) -> None:
    """Call back between two turns of the event loop that runs now, if one does."""
    try:
        asyncio.get_running_loop().call_soon(check)
    except RuntimeError:
        return


class KnownTopic(NamedTuple):
    """A topic of the cluster."""

    topic_id: bytes
    partitions: int


class Cluster(NoTopics):
    """A cluster whose topics do not change (`ClusterTopics`)."""

    metadata_version = 1

    def __init__(self, topics: int, partitions: int) -> None:
        self.topics: Mapping[str, KnownTopic] = {
            f"topic-{number}": KnownTopic(number.to_bytes(16, "big"), partitions) for number in range(topics)
        }


class Steps:
    """The longest turn of the event loop, in CPU time of its thread, ms: what else the machine does is left out."""

    def __init__(self) -> None:
        self.longest_ms = 0.0
        self._begun = 0.0
        self._is_over = False

    @contextmanager
    def watched(self) -> Iterator["Steps"]:
        """Within it, each turn is timed."""
        self._begun = time.thread_time()
        asyncio.get_running_loop().call_soon(self._turn)
        try:
            yield self
        finally:
            self._is_over = True

    def _turn(self) -> None:
        if self._is_over:
            return  # what has come since is no part of it
        now = time.thread_time()
        self.longest_ms = max(self.longest_ms, (now - self._begun) * 1e3)
        self._begun = now
        asyncio.get_running_loop().call_soon(self._turn)


class Work:
    """Measures what is done within it, in CPU time of this thread: the machine may have others to serve."""

    def __init__(self) -> None:
        self.steps = Steps()
        self.took_s = 0.0

    def __enter__(self) -> "Work":
        self._watched = self.steps.watched()
        self._watched.__enter__()
        self._begun = time.thread_time()
        return self

    def __exit__(self, *_: object) -> None:
        self.took_s = time.thread_time() - self._begun
        self._watched.__exit__(None, None, None)


class Member:
    """A client that is quick: it has what it was told."""

    __slots__ = ("epoch", "member_id", "owned")

    def __init__(self, member_id: str) -> None:
        self.member_id = member_id
        self.epoch = 0
        self.owned = NOTHING


class Members:
    """The members of the group, and its coordinator."""

    def __init__(self, count: int, cluster: Cluster) -> None:
        self.members = [Member(f"{number * 2_654_435_761 % 2**64:020}-{number}") for number in range(count)]
        self._cluster = cluster
        self.session_timeout(LONG_MS)
        self.logs = FakeOffsetsLogs()
        self.groups = self._coordinator()

    def _coordinator(self) -> GroupCoordinator:
        return GroupCoordinator(
            logs=self.logs,
            verifier=FakeTransactions(),
            clock=SystemClock(),
            chance=CountingChance(),
            config=self._config,
            topics=self._cluster,
        )

    def session_timeout(self, timeout_ms: int) -> None:
        """Sessions last so long after the next restart."""
        self._config = GroupConfig(consumer=ConsumerGroupConfig(session_timeout_ms=timeout_ms))

    async def restarted(self) -> GroupCoordinator:
        """Stop the coordinator, and let another read its log. Returns the old one, for it takes a while to let go."""
        stopped = self.groups
        await stopped.stop()
        self.groups = self._coordinator()
        await self.groups.load()
        return stopped

    @property
    def group(self) -> ConsumerGroup:
        """The group as it is durable."""
        group = self.groups.describe_consumer(GROUP_ID)
        assert isinstance(group, ConsumerGroup), group
        return group

    @property
    def is_stable(self) -> bool:
        """True if every member has come to the target of the last group epoch."""
        return self.group.state is ConsumerGroupState.STABLE

    async def heartbeat(self, member: Member, **fields: Any) -> HeartbeatResult:
        """One heartbeat of a member, which follows what it is told."""
        # Each request brings its own strings, as those that are read from a socket do.
        member_id = member.member_id[:1] + member.member_id[1:]
        request = ConsumerHeartbeat(member_id, member.epoch, client_id="bench", client_host="/127.0.0.1", **fields)
        answer = await self.groups.consumer_heartbeat(GROUP_ID, request)
        assert answer.error is ErrorCode.NONE, answer
        member.epoch = answer.epoch
        if answer.assignment is not None:
            member.owned = answer.assignment
        return answer

    async def join(self, member: Member) -> None:
        """Join the group, subscribed to all topics."""
        member.epoch, member.owned = 0, NOTHING
        topics = tuple(name[:1] + name[1:] for name in self._cluster.topics)
        await self.heartbeat(member, rebalance_timeout_ms=300_000, topics=topics, owned=NOTHING)

    async def join_all(self) -> None:
        """Join, one after the other."""
        for member in self.members:
            await self.join(member)
            await asyncio.sleep(0)

    async def leave(self, member: Member) -> None:
        """Leave the group."""
        member.epoch = -1
        await self.heartbeat(member)

    async def settle(self) -> None:
        """Everybody sends heartbeats, with what it has as long as that changes, until the group is stable."""
        while not self.is_stable:
            for member in self.members:
                await self.heartbeat(member, owned=member.owned)
                await asyncio.sleep(0)
