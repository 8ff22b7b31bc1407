"""Requests of members of groups who know what they were told: most are valid, some are damaged on their way.

A frame that stands alone does not get far: the epoch of its member is wrong, its share session is not open, no topic
has its id. Here few groups, members and topics are named, and epochs, sessions, tasks and offsets are those of earlier
responses. So all kinds of groups meet what their members may really say, in any order.

    async with Members.started(seed) as members:
        await members.ask()             # one request, and its response
"""

import random
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final, Self

from frame_fuzz import Draw, damaged, sized
from fuzz_requests import NOBODY
from guarded_broker import ADMIN, GuardedBroker, guarded_broker
from waiting import settled, until

from eosin.broker.handlers.registry import BY_KEY
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.records.batch import NewRecord, build_batch
from eosin.protocol.schemas import schema_of
from eosin.protocol.schemas.create_topics import CreatableTopic, CreateTopicsRequest
from eosin.protocol.schemas.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from eosin.protocol.schemas.share_fetch import FetchPartition, FetchTopic, ShareFetchRequest
from eosin.protocol.schemas.share_group_heartbeat import ShareGroupHeartbeatRequest
from eosin.protocol.types import Message
from eosin.protocol.wire.codec import DecodeError, decode_response, encode_request
from eosin.runtime.chance import SeededChance

TOPICS: Final = ("t0", "t1", "t2")
PARTITIONS: Final = 3
GROUPS: Final = 2
"""Of each kind."""
EMPTY: Final = "share-empty"
"""A share group whose member has left."""
MEMBERS: Final = ("m0", "m1", "m2")
KINDS: Final[Mapping[str, Mapping[ApiKey, int]]] = {
    "classic": {ApiKey.JOIN_GROUP: 3, ApiKey.SYNC_GROUP: 3, ApiKey.HEARTBEAT: 1, ApiKey.LEAVE_GROUP: 1},
    "consumer": {ApiKey.CONSUMER_GROUP_HEARTBEAT: 5, ApiKey.CONSUMER_GROUP_DESCRIBE: 1},
    "streams": {
        ApiKey.STREAMS_GROUP_HEARTBEAT: 6,
        ApiKey.STREAMS_GROUP_DESCRIBE: 1,
        ApiKey.STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE: 2,
    },
    "share": {
        ApiKey.SHARE_GROUP_HEARTBEAT: 5,
        ApiKey.SHARE_GROUP_DESCRIBE: 1,
        ApiKey.SHARE_FETCH: 10,
        ApiKey.SHARE_ACKNOWLEDGE: 5,
        ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: 1,
        ApiKey.ALTER_SHARE_GROUP_OFFSETS: 1,
        ApiKey.DELETE_SHARE_GROUP_OFFSETS: 1,
        ApiKey.INITIALIZE_SHARE_GROUP_STATE: 1,
        ApiKey.READ_SHARE_GROUP_STATE: 1,
        ApiKey.WRITE_SHARE_GROUP_STATE: 1,
        ApiKey.DELETE_SHARE_GROUP_STATE: 1,
        ApiKey.READ_SHARE_GROUP_STATE_SUMMARY: 1,
    },
    "any": {
        ApiKey.OFFSET_COMMIT: 2,
        ApiKey.OFFSET_FETCH: 2,
        ApiKey.OFFSET_DELETE: 1,
        ApiKey.DESCRIBE_GROUPS: 1,
        ApiKey.DELETE_GROUPS: 1,
        ApiKey.LIST_GROUPS: 1,
    },
}
"""The APIs of each kind of group, and how often each is asked."""
NEWER: Final = ("consumer", "streams", "share")
_WEIGHTS: Final = {(kind, key): weight for kind, keys in KINDS.items() for key, weight in keys.items()}
_TEXTS: Final[Mapping[str, tuple[str, ...]]] = {
    **dict.fromkeys(("topic_name", "subscribed_topic_names", "source_topics", "name"), TOPICS),
    **dict.fromkeys(("instance_id", "group_instance_id"), ("i0", "i1")),
    **dict.fromkeys(("repartition_sink_topics", "sink_topic"), ("again",)),
    "rack_id": ("rack",),
    "subscribed_topic_regex": ("t.*", "t[01]", "("),
    "server_assignor": ("uniform", "range", "nobody"),
    "protocol_type": ("consumer",),
    "protocol_name": ("range",),
    "subtopology_id": ("0", "1"),
    "process_id": ("p0", "p1"),
}
"""By the name of the field."""
_NAMES: Final = {"classic": "range", "streams": "again"}
"""Of fields that are called just name: of a protocol, and of a topic that an application writes and reads."""
_NUMBERS: Final[Mapping[str, tuple[int, ...]]] = {
    **dict.fromkeys(("partition", "partitions", "partition_index", "partition_indexes"), tuple(range(PARTITIONS))),
    **{"max_wait_ms": (0,), "min_bytes": (0, 1), "max_bytes": (1 << 20,), "max_records": (1, 5, 500)},
    **{"batch_size": (1, 5, 500), "share_acquire_mode": (0, 1), "acknowledge_types": (0, 1, 2, 3, 4)},
    **{"session_timeout_ms": (30_000,), "rebalance_timeout_ms": (30_000,), "replication_factor": (0, 1)},
    **{
        "delivery_state": (0, 2, 4),
        "node_type": (1, 2, 3),
        "topology_epoch": (0, 0, 1),
        "epoch": (0, 0, 1),
        "retention_time_ms": (-1,),
    },
}
_OTHERWISE: Final = (-1, 0, 1, 2, 5)
_RARE: Final = frozenset(
    {"instance_id", "group_instance_id", "subscribed_topic_regex", "is_renew_ack", "user_endpoint", "rack_id"}
)
"""Mostly null, or false."""
_OWNED: Final = frozenset({"active_tasks", "standby_tasks", "warmup_tasks", "topic_partitions"})
"""Who joins has none of them, and says so."""
_OF_WHO_JOINS: Final = frozenset({"topology", "subscribed_topic_names", *_OWNED})
_MOSTLY_EMPTY: Final = frozenset(
    {"source_topic_regex", "copartition_groups", "forgotten_topics_data", "topic_configs", "global_stores"}
)
_OF_MEMBERS: Final = tuple(kind for kind in KINDS if kind != "any")
_FORGOTTEN: Final = frozenset(
    {
        *(ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH),
        *(ErrorCode.SHARE_SESSION_NOT_FOUND, ErrorCode.INVALID_SHARE_SESSION_EPOCH),
    }
)
"""Of a member that has to begin anew."""

Owner = tuple[str, str]
"""A group and a member."""


class InformedDraw(Draw):
    """Draws requests of members who remember what they were told."""

    def __init__(self, chance: random.Random, topic_ids: tuple[bytes, ...]) -> None:
        super().__init__(chance)
        self.topic_ids = topic_ids
        self.epochs: dict[Owner, int] = {}
        """Of members."""
        self.sessions: dict[Owner, int] = {}
        """The next epochs of their share sessions."""
        self.acquired: dict[tuple[Owner, bytes, int], tuple[int, int]] = {}
        """First and last offset that a member was given of a partition."""
        self.joined: list[str] = []
        """Ids that members of classic groups were given."""
        self._kind = ""
        self._key = ApiKey.PRODUCE
        self._owner: Owner = ("", "")
        self._place = (bytes(16), 0)
        self._joins = False
        self._session = self._first = self._count = 0

    def request(self, kind: str, key: ApiKey, version: int) -> Message:
        """One of a member of a group of this kind."""
        schema = schema_of(key)
        assert schema is not None
        self._kind, self._key = kind, key
        made: Any = self.value(schema.request_layout(version))
        return made  # type: ignore[no-any-return]

    def flag(self, name: str, likely: float) -> bool:
        if name in _OF_WHO_JOINS:
            likely = 0.05 if self._joins else 0.8
        elif name in ("group_id", "member_id"):
            likely = 0.02
        elif name in _RARE:
            likely = 0.05 if likely == 0.5 else 0.9
        return super().flag(name, likely)

    def length(self, name: str) -> int:
        if name == "acknowledge_types":
            return self.chance.choice((1, self._count))
        if name == "acknowledgement_batches" and self._key is ApiKey.SHARE_FETCH and self._session == 0:
            return 0  # who opens a session has nothing to acknowledge
        if (name in _MOSTLY_EMPTY or (name in _OWNED and self._joins)) and self.chance.random() < 0.95:
            return 0
        if name in ("partitions", "topic_partitions") and self.chance.random() < 0.8:
            return 1  # nothing is named twice
        return super().length(name)

    def text(self, name: str) -> str:
        chance = self.chance
        if chance.random() < 0.02:
            return super().text(name)
        if name in ("group_id", "group_ids", "groups", "groups_names"):
            self._owner = (self._group(), self._owner[1])
            return self._owner[0]
        if name == "member_id":
            self._owner = (self._owner[0], self._member())
            return self._owner[1]
        if name == "name" and self._kind in _NAMES:
            return _NAMES[self._kind]
        return chance.choice(_TEXTS[name]) if name in _TEXTS else super().text(name)

    def _group(self) -> str:
        chance = self.chance
        if self._key in (ApiKey.ALTER_SHARE_GROUP_OFFSETS, ApiKey.DELETE_SHARE_GROUP_OFFSETS) and chance.random() < 0.8:
            return EMPTY
        any_kind = self._kind == "any" or chance.random() < 0.05
        return f"{chance.choice(_OF_MEMBERS) if any_kind else self._kind}-{chance.randrange(GROUPS)}"

    def _member(self) -> str:
        is_new = self._key is ApiKey.JOIN_GROUP and not self.joined
        if is_new or (self._key in (ApiKey.JOIN_GROUP, ApiKey.OFFSET_COMMIT) and self.chance.random() < 0.3):
            return ""
        return self.chance.choice(self.joined if self._kind == "classic" and self.joined else MEMBERS)

    def uuid(self, name: str) -> bytes:
        found = self.chance.choice(self.topic_ids) if self.chance.random() < 0.95 else super().uuid(name)
        self._place = (found, 0)
        return found

    def number(self, name: str) -> int:
        chance = self.chance
        if chance.random() < 0.02:
            return super().number(name)
        if name in ("member_epoch", "generation_id", "generation_id_or_member_epoch"):
            told = self.epochs.get(self._owner, 0) if self._owner[1] else -1
            epoch = chance.choice((*[told] * 12, 0, -1, -2 if name == "member_epoch" else -1))
            self._joins = epoch == 0
            return epoch
        if name == "share_session_epoch":
            self._session = chance.choice((*[self.sessions.get(self._owner, 0)] * 12, 0, -1))
            return self._session
        if name in ("first_offset", "last_offset"):
            return self._offset(name)
        found = chance.choice(_NUMBERS.get(name, _OTHERWISE))
        if name == "partition_index":
            self._place = (self._place[0], found)
        return found

    def _offset(self, name: str) -> int:
        first, last = self.acquired.get((self._owner, *self._place), (0, self.chance.randrange(5)))
        if name == "first_offset":
            self._first = self.chance.randint(first, last)
            return self._first
        last = self.chance.randint(self._first, max(self._first, last))
        self._count = last - self._first + 1
        return last

    def learn(self, request: Any, response: Any) -> None:
        """Remember what a member was told."""
        owner = (getattr(request, "group_id", ""), getattr(request, "member_id", ""))
        if self._kind == "classic" and getattr(response, "member_id", ""):
            self.joined = [*self.joined[-3:], response.member_id]
            owner = (owner[0], response.member_id)
        if error := getattr(response, "error_code", 0):
            if error in _FORGOTTEN:
                self.sessions.pop(owner, None)
                self.epochs.pop(owner, None)
            return
        for name in ("member_epoch", "generation_id"):
            if hasattr(response, name):
                self.epochs[owner] = max(0, getattr(response, name))
        if hasattr(request, "share_session_epoch"):
            epoch = request.share_session_epoch
            self.sessions[owner] = 0 if epoch < 0 else epoch + 1
        if self._key is ApiKey.SHARE_FETCH:
            for topic in response.responses:
                for part in topic.partitions:
                    if part.acquired_records:
                        given = part.acquired_records[0].first_offset, part.acquired_records[-1].last_offset
                        self.acquired[owner, topic.topic_id, part.partition_index] = given


class Members:
    """A broker in this loop, and those who ask it."""

    def __init__(self, broker: GuardedBroker, chance: random.Random, topic_ids: tuple[bytes, ...]) -> None:
        self.reached: Counter[ApiKey] = Counter()
        """Responses to whole requests that were not refused, not even in part."""
        self.asked: Counter[ApiKey] = Counter()
        self.connections = 0
        self.failures: list[str] = []
        self._broker = broker
        self._chance = chance
        self._draw = InformedDraw(chance, topic_ids)
        self._frames: list[bytes] = []
        """Of late, for damages that put two together."""

    @classmethod
    @asynccontextmanager
    async def started(cls, seed: int, **settings: Any) -> AsyncIterator[Self]:
        """A broker with topics that have records."""
        given = {**settings, "group_initial_rebalance_delay_ms": 0, "chance": SeededChance(seed)}
        async with guarded_broker(**given) as broker:
            topics = tuple(CreatableTopic(name, PARTITIONS, 1) for name in TOPICS)
            created = await broker.ask(ADMIN, ApiKey.CREATE_TOPICS, CreateTopicsRequest(topics, 5000))
            made = cls(broker, random.Random(f"members-{seed}"), tuple(each.topic_id for each in created.topics))
            for epoch in (0, -1):
                beat = ShareGroupHeartbeatRequest(EMPTY, "m", epoch, subscribed_topic_names=TOPICS)
                assert (await broker.ask(ADMIN, ApiKey.SHARE_GROUP_HEARTBEAT, beat)).error_code == 0
            await made._produce()
            yield made

    async def ask(self) -> None:
        """One request of somebody. What is wrong with its response is added to `failures`."""
        chance = self._chance
        kind, key = chance.choices(tuple(_WEIGHTS), tuple(_WEIGHTS.values()))[0]
        version = chance.choice(BY_KEY[key].versions)
        request = self._draw.request(kind, key, version)
        frame = b"".join(encode_request(key, version, 1, "member", request))[4:]
        is_whole = chance.randrange(12) > 0
        self._frames = [*self._frames[-50:], frame]
        peer = self._broker.peer(ADMIN if chance.randrange(12) else NOBODY)
        peer.transport.sent.clear()
        peer.transport.feed(sized(frame if is_whole else damaged(frame, chance, self._frames)))
        self.asked[key] += 1
        await settled()
        frames = peer.transport.frames()
        if not frames:  # it waits, for others or for a time that was damaged: its client does not
            peer.transport.lose()
            self.connections += 1
        elif is_whole:
            self._understand(key, version, request, frames[0])
        if chance.randrange(40) == 0:
            await self._produce()

    def _understand(self, key: ApiKey, version: int, request: Message, frame: bytes) -> None:
        try:
            _, response = decode_response(key, version, frame)
        except DecodeError as error:
            self.failures.append(f"the response to {request} in version {version} cannot be read: {error}")
            return
        codes = list(_codes(response))
        if codes and not any(codes):
            self.reached[key] += 1
        self._draw.learn(request, response)

    async def _produce(self) -> None:
        """Records for all partitions."""
        batch = build_batch([NewRecord(b"key", b"value")] * 5, timestamp=1)
        data = tuple(PartitionProduceData(number, bytes(batch)) for number in range(PARTITIONS))
        request = ProduceRequest(
            acks=-1, timeout_ms=5000, topic_data=tuple(TopicProduceData(each, partition_data=data) for each in TOPICS)
        )
        response = await self._broker.ask(ADMIN, ApiKey.PRODUCE, request, version=9)
        assert not any(_codes(response)), response

    async def serve_others(self) -> None:
        """A member of a group that has not been there before gets records. Raises AssertionError if it does not."""
        epoch, session = 0, 0

        async def gets_records() -> bool:
            nonlocal epoch, session
            names = TOPICS if epoch == 0 else None
            beat = ShareGroupHeartbeatRequest("honest", "honest", epoch, subscribed_topic_names=names)
            epoch = (await self._broker.ask(ADMIN, ApiKey.SHARE_GROUP_HEARTBEAT, beat)).member_epoch
            await self._produce()
            parts = tuple(FetchPartition(number) for number in range(PARTITIONS))
            topics = tuple(FetchTopic(each, parts) for each in self._draw.topic_ids)
            fetch = ShareFetchRequest("honest", "honest", session, 0, 0, 1 << 20, 100, 100, topics=topics)
            response = await self._broker.ask(ADMIN, ApiKey.SHARE_FETCH, fetch)
            assert response.error_code == 0, response
            session += 1
            return any(part.acquired_records for topic in response.responses for part in topic.partitions)

        await until(gets_records, "a member that did nothing wrong gets no records")


def _codes(part: Any) -> Iterator[int]:
    """The error codes in a message, wherever they are."""
    if isinstance(part, tuple):
        for each in part:
            yield from _codes(each)
    elif isinstance(part, Message):
        for name in part.__struct_fields__:
            value = getattr(part, name)
            if name.endswith("error_code"):
                yield value
            else:
                yield from _codes(value)
