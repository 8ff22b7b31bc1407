"""A broker in this process that gets the requests of `hostile_requests.py`, and how long they keep its event loop.

    async with Attacked.started() as attacked:
        took = await attacked.took(hostile, NOBODY)
        assert not took.wrong, took

It has topics, groups, offsets and transactions, decides by access control entries, and writes its log. Those who ask
are a super user, somebody with every right on a prefix, and somebody without any.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any, Final, NamedTuple, Self

from guarded_broker import ADMIN, GuardedBroker, guarded_broker
from hostile_requests import EXISTING, MINE, PARTITIONS, Existing, Group, Hostile, existing_name, needs_session
from loop_steps import LoopSteps
from waiting import settled, until

from eosin.model.acls import PatternType
from eosin.model.resources import Operation, ResourceType
from eosin.protocol.keys import ApiKey
from eosin.protocol.schemas.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from eosin.protocol.schemas.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from eosin.protocol.schemas.create_topics import CreatableTopic, CreateTopicsRequest
from eosin.protocol.schemas.init_producer_id import InitProducerIdRequest
from eosin.protocol.schemas.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from eosin.protocol.schemas.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from eosin.protocol.schemas.share_fetch import FetchPartition, FetchTopic, ShareFetchRequest
from eosin.protocol.schemas.share_group_heartbeat import ShareGroupHeartbeatRequest
from eosin.protocol.schemas.streams_group_heartbeat import StreamsGroupHeartbeatRequest, Subtopology, Topology
from eosin.protocol.schemas.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from eosin.runtime.chance import SeededChance
from eosin.runtime.logging_format import TextFormatter

NOBODY: Final = "User:nobody"
OWNER: Final = "User:owner"
"""The user with every right on names that begin with `MINE`."""
USERS: Final = (ADMIN, NOBODY, OWNER)
SHARE_GROUP: Final = "sharing"
SHARE_MEMBER: Final = "m"
MOST_S: Final = 0.1
"""Of processor time for one step: five times the aim (security.md 6.2), so that no machine is too slow."""
MOST_ANSWER: Final = 50
"""So many times the bytes of a request its response may have, beyond `_ANSWER_ROOM`."""
_ANSWER_ROOM: Final = 1 << 20
"""For what a request without names asks for: everything."""
_PIECE: Final = 65_536
_LIMITS: Final[dict[str, Any]] = {
    "group_initial_rebalance_delay_ms": 0,
    "eosin_connection_refused_delay_ms": 0,
    "eosin_shutdown_timeout_ms": 200,
}


class Took(NamedTuple):
    """The cost of one request for the broker."""

    hostile: Hostile
    who: str
    longest_s: float
    longest: str
    """The callback of the longest step."""
    request_bytes: int
    response_bytes: int
    """0 for a connection that was closed."""
    lines: int
    """In the log."""
    tracebacks: tuple[str, ...]

    @property
    def wrong(self) -> str:
        """The fault of the request's treatment; empty for none."""
        if self.tracebacks:
            return self.tracebacks[0]
        if self.response_bytes > MOST_ANSWER * self.request_bytes + _ANSWER_ROOM:
            return f"the response has more than {MOST_ANSWER} times the bytes of the request"
        return f"one step takes more than {MOST_S * 1000:.0f} ms" if self.longest_s > MOST_S else ""

    def __str__(self) -> str:
        return (
            f"{self.longest_s * 1000:.0f} ms for {self.hostile} by {self.who}: {self.request_bytes} bytes, answered"
            f" with {self.response_bytes}, {self.lines} lines; in {self.longest}"
        )


class _Lines(logging.Handler):
    """Writes each line as a broker does, and keeps those that tell of a fault of it."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.setFormatter(TextFormatter())
        self.count = 0
        self.tracebacks: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        line = self.format(record)
        self.count += 1
        if record.exc_info:
            self.tracebacks.append(line)

    def __enter__(self) -> Self:
        logger = logging.getLogger("eosin")
        self._before = logger.level, logger.propagate
        logger.addHandler(self)
        logger.setLevel(logging.INFO)
        logger.propagate = False
        return self

    def __exit__(self, *_: object) -> None:
        logger = logging.getLogger("eosin")
        logger.removeHandler(self)
        logger.level, logger.propagate = self._before


class Attacked:
    """The broker, while `LoopSteps` looks at the event loop."""

    def __init__(self, broker: GuardedBroker, steps: LoopSteps, lines: _Lines, existing: Existing) -> None:
        self._broker = broker
        self._steps = steps
        self._lines = lines
        self.existing = existing

    @classmethod
    @asynccontextmanager
    async def started(cls, **settings: Any) -> AsyncIterator[Self]:
        """A broker that has something of everything."""
        async with guarded_broker(**{**_LIMITS, "chance": SeededChance(1), **settings}) as broker:
            existing = await _fill(broker)
            with LoopSteps() as steps, _Lines() as lines:
                yield cls(broker, steps, lines, existing)

    async def took(self, hostile: Hostile, who: str) -> Took:
        """Send it, and wait for the response, or for the end of the connection."""
        frame = hostile.frame(self.existing)
        self._broker.peer(who).transport.sent.clear()
        if needs_session(hostile):
            await _open_session(self._broker, who, self.existing)
        peer = self._broker.peer(who)
        sent = peer.transport.sent
        lines, self._lines.count = self._lines, 0
        lines.tracebacks.clear()
        await asyncio.sleep(0)
        self._steps.forget()
        for start in range(0, len(frame), _PIECE):  # as they come from a socket, each in a turn of its own
            if start:
                await settled()
            self._steps.begin(peer.transport.feed, frame[start : start + _PIECE])
        await until(lambda: _is_whole(sent) or peer.transport.is_closing(), f"no answer to {hostile}", every_s=0.001)
        steps = self._steps
        told = lines.count, tuple(lines.tracebacks)
        return Took(hostile, who, steps.longest_s, steps.longest, len(frame), len(sent), *told)

    async def warm(self, hostiles: Iterable[Hostile]) -> None:
        """Ask for little: what is made, or loaded, once for all requests is no part of what one of them takes."""
        for hostile in hostiles:
            await self.took(hostile, ADMIN)


def _is_whole(sent: bytearray) -> bool:
    return len(sent) >= 4 and len(sent) >= 4 + int.from_bytes(sent[:4], "big")


async def _fill(broker: GuardedBroker) -> Existing:
    """Topics, groups with offsets and a member, transactions that are open."""
    for kind in (ResourceType.TOPIC, ResourceType.GROUP, ResourceType.TRANSACTIONAL_ID):
        await broker.grant(OWNER, Operation.ALL, MINE, kind=kind, pattern=PatternType.PREFIXED)
    names = [existing_name(number) for number in range(EXISTING)]
    topics = tuple(CreatableTopic(name, PARTITIONS, 1) for name in names)
    created = await broker.ask(ADMIN, ApiKey.CREATE_TOPICS, CreateTopicsRequest(topics, 5000))
    assert not any(each.error_code for each in created.topics)
    producer: Any = None
    for name in reversed(names):
        producer = await broker.ask(ADMIN, ApiKey.INIT_PRODUCER_ID, InitProducerIdRequest(name, 60_000), version=5)
        begun = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=name,
            v3_and_below_producer_id=producer.producer_id,
            v3_and_below_producer_epoch=producer.producer_epoch,
            v3_and_below_topics=(AddPartitionsToTxnTopic(name, (0,)),),
        )
        await broker.ask(ADMIN, ApiKey.ADD_PARTITIONS_TO_TXN, begun)
        offsets = (OffsetCommitRequestTopic(name, partitions=(OffsetCommitRequestPartition(0, 3),)),)
        await broker.ask(ADMIN, ApiKey.OFFSET_COMMIT, OffsetCommitRequest(name, topics=offsets), version=9)
    member = await _join(broker, names[0])
    ids = tuple(each.topic_id for each in created.topics)
    return Existing(
        ids, producer.producer_id, producer.producer_epoch, *member, await _join_new_kinds(broker, names[0])
    )


async def _join_new_kinds(broker: GuardedBroker, topic: str) -> dict[str, Group]:
    """A group of each newer kind with a member, and a share group whose member has left."""
    reads: dict[str, Any] = {"subscribed_topic_names": (topic,)}
    owns: dict[str, Any] = {"rebalance_timeout_ms": 30_000}
    runs = Topology(0, (Subtopology("0", source_topics=(topic,)),))
    none = dict.fromkeys(("active_tasks", "standby_tasks", "warmup_tasks"), ())
    asked: dict[str, tuple[ApiKey, Any]] = {
        "STREAMS_": (
            ApiKey.STREAMS_GROUP_HEARTBEAT,
            StreamsGroupHeartbeatRequest("streams", "m", topology=runs, process_id="p", **owns, **none),
        ),
        "CONSUMER_GROUP_": (
            ApiKey.CONSUMER_GROUP_HEARTBEAT,
            ConsumerGroupHeartbeatRequest("consumers", "m", topic_partitions=(), **reads, **owns),
        ),
        "SHARE_": (ApiKey.SHARE_GROUP_HEARTBEAT, ShareGroupHeartbeatRequest(SHARE_GROUP, SHARE_MEMBER, **reads)),
        "": (ApiKey.SHARE_GROUP_HEARTBEAT, ShareGroupHeartbeatRequest("empty", "m", **reads)),
    }
    groups = {}
    for part, (key, request) in asked.items():
        joined = await broker.ask(ADMIN, key, request)
        assert joined.error_code == 0, joined
        groups[part] = Group(request.group_id, request.member_id, joined.member_epoch)
    left = groups.pop("")
    await broker.ask(ADMIN, ApiKey.SHARE_GROUP_HEARTBEAT, ShareGroupHeartbeatRequest(left.name, left.member_id, -1))
    return {"ALTER_SHARE_": left, "DELETE_SHARE_GROUP_OFFSETS": left, **groups}


async def _open_session(broker: GuardedBroker, who: str, existing: Existing) -> None:
    """A share session of one partition; of somebody without rights it is refused."""
    topics = (FetchTopic(existing.topic_ids[0], (FetchPartition(0),)),)
    await broker.ask(who, ApiKey.SHARE_FETCH, ShareFetchRequest(SHARE_GROUP, SHARE_MEMBER, topics=topics))


async def _join(broker: GuardedBroker, group: str) -> tuple[str, int]:
    """The id and the generation of the only member."""
    protocols = (JoinGroupRequestProtocol("range", b""),)
    request = JoinGroupRequest(group, 30_000, 30_000, "", None, "consumer", protocols)
    joined = await broker.ask(ADMIN, ApiKey.JOIN_GROUP, request, version=3)
    assert joined.error_code == 0
    assignments = (SyncGroupRequestAssignment(joined.member_id, b""),)
    sync = SyncGroupRequest(group, joined.generation_id, joined.member_id, assignments=assignments)
    synced = await broker.ask(ADMIN, ApiKey.SYNC_GROUP, sync, version=3)
    assert synced.error_code == 0
    return joined.member_id, joined.generation_id
