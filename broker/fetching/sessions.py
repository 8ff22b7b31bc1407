"""Fetch sessions (KIP-227; storage.md section 16): what a consumer wants, remembered, so that each fetch says only what
changed and each answer carries only what is new.

`FetchSessions` owns the sessions, at most `slots` of them, with so many partitions and bytes. Always true: who holds
most gives way, and never the newest to the oldest alone; a session ends with its connection, or when it is not used;
a session's epoch moves on when a request is accepted, not when it is answered, so a request sent twice is noticed;
and a partition's place in its session is its turn: whoever was answered with data goes to the end.
"""

from collections import OrderedDict
from collections.abc import Hashable, Sequence
from itertools import chain
from typing import TYPE_CHECKING, ClassVar, Final

from msgspec.structs import replace

from eosin.broker.fetching.resting import RestingPartitions
from eosin.network.many_items import pieces
from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import TopicPartition
from eosin.runtime.chance import Chance
from eosin.runtime.clock import Clock, Timer
from eosin.runtime.turns import next_turn

if TYPE_CHECKING:
    from eosin.cluster.replication.known_follower import FetchingFollower, KnownFollower
    from eosin.network.api import ClientConnection
    from eosin.protocol.schemas.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic

INITIAL_EPOCH: Final = 0
"""A full fetch that asks for a new session."""
NO_SESSION: Final = 0

MIN_EVICTION_MS: Final = 120_000
"""A session younger than this keeps its slot; one idle for longer loses it to whoever comes next (Kafka's constant)."""

MAX_PARTITIONS: Final = 10_000
"""Of one session of a consumer. Whoever wants more names them with each fetch."""
MAX_BYTES: Final = 128 << 20
"""Of all sessions, about."""
SHARES: Final = 2
"""One user has this part of all bytes at most."""
PARTITION_BYTES: Final = 1024
"""Bytes that a partition of a session takes, with its name."""

IDLE_MS: Final = 600_000
"""A session that was not used for so long is forgotten."""
CHECK_MS: Final = 30_000
"""Between two looks for such sessions, and for those whose connection is gone."""

_MAX_EPOCH: Final = 2**31 - 1


class WantedPartition:
    """One partition as a fetcher wants it, and what it was last told about it."""

    __slots__ = (
        "current_leader_epoch",
        "fetch_offset",
        "is_named",
        "key",
        "known",
        "last_fetched_epoch",
        "last_sent_high_watermark",
        "last_sent_log_start_offset",
        "log_start_offset",
        "max_bytes",
        "name",
        "partition",
        "topic",
        "topic_id",
    )

    def __init__(self, topic: "FetchTopic", request: "FetchPartition", *, key: Hashable) -> None:
        self.topic = topic.topic
        """Empty when the fetcher names topics by id."""
        self.topic_id = topic.topic_id
        """Zero when the fetcher names topics by name."""
        self.partition = request.partition
        self.name = TopicPartition(topic.topic, request.partition)
        """With the topic's name, or what it was when it was last looked up."""
        self.key = key
        """The key that tells it from the session's other partitions: its topic, as the fetcher names it, and its
        number."""
        self.last_sent_high_watermark = -1
        self.last_sent_log_start_offset = -1
        self.current_leader_epoch = request.current_leader_epoch
        self.known: KnownFollower | None = None
        """Since a follower's last fetch: what would have to change for it to be refused, or to hear something."""
        self.update(request)

    def update(self, request: "FetchPartition") -> None:
        """Take over what the fetcher now asks for. A follower that has heard of a new leader epoch does not count what
        it was told in the old one, also where the leader is the same: it is told again."""
        if self.known is not None:
            self.known.rise()
        if request.current_leader_epoch != self.current_leader_epoch:
            self.last_sent_high_watermark = -1
            self.known = None
        self.is_named = True
        self.fetch_offset = request.fetch_offset
        self.max_bytes = request.partition_max_bytes
        self.current_leader_epoch = request.current_leader_epoch
        self.last_fetched_epoch = request.last_fetched_epoch
        self.log_start_offset = request.log_start_offset


class FetchSession:
    """One session: its partitions, in the order in which they are read."""

    __slots__ = (
        "connection",
        "created_ms",
        "epoch",
        "held_bytes",
        "is_follower",
        "last_used_ms",
        "owner",
        "partitions",
        "resting",
        "session_id",
        "uses_topic_ids",
    )

    def __init__(self, session_id: int, fetch: "FullFetch", *, now_ms: int) -> None:
        self.session_id = session_id
        self.connection = fetch.connection
        """The last one that it was used on."""
        self.held_bytes = 0
        self.is_follower = fetch.is_follower
        self.owner = fetch.owner
        """The user that opened it: nobody else may go on with it, or end it (security.md 6.2)."""
        self.uses_topic_ids = fetch.uses_topic_ids
        self.partitions: dict[Hashable, WantedPartition] = {each.key: each for each in fetch.wanted}
        self.resting = RestingPartitions(self.partitions.values()) if fetch.is_follower else None
        """The partitions of a follower that its next fetch need not look at."""
        self.epoch = 1
        """The epoch that the next request must carry."""
        self.created_ms = now_ms
        self.last_used_ms = now_ms

    def sent(self, wanted: WantedPartition, *, high_watermark: int, log_start_offset: int, has_records: bool) -> None:
        """Remember what an answer says about a partition. `high_watermark` is -1 after an error, so that the next
        answer speaks of the partition again, whatever it has to say."""
        wanted.last_sent_high_watermark = high_watermark
        wanted.last_sent_log_start_offset = log_start_offset
        if has_records and self.partitions.get(wanted.key) is wanted:
            self.partitions[wanted.key] = self.partitions.pop(wanted.key)
            if self.resting is not None:
                self.resting.sent(wanted)


class FullFetch:
    """A request that names everything it wants. `wants_session` when the answer may open a session."""

    __slots__ = ("connection", "is_follower", "owner", "uses_topic_ids", "wanted", "wants_session")
    resting: ClassVar[RestingPartitions | None] = None

    def __init__(
        self,
        wanted: Sequence[WantedPartition],
        *,
        wants_session: bool,
        uses_topic_ids: bool,
        owner: Hashable = None,
        connection: "ClientConnection | None" = None,
    ) -> None:
        self.connection = connection
        self.is_follower = False
        """True if a broker of the cluster asks, which may want any number of partitions."""
        self.wanted = wanted
        self.owner = owner
        self.wants_session = wants_session
        self.uses_topic_ids = uses_topic_ids

    def to_check(self, follower: "FetchingFollower | None", *, tells: bool) -> Sequence[WantedPartition]:
        """All of them."""
        return self.wanted


class IncrementalFetch:
    """A request within a session. `wanted` is everything that a consumer's session held when it came."""

    __slots__ = ("added", "resting", "session", "wanted")

    def __init__(self, session: FetchSession, added: Sequence[WantedPartition] = ()) -> None:
        self.session = session
        self.added = added
        """The partitions that the session did not hold before."""
        self.resting = session.resting
        """The partitions of a follower that need not be looked at."""
        self.wanted: Sequence[WantedPartition] = ()
        if self.resting is None:
            self.wanted = tuple(session.partitions.values())

    def to_check(self, follower: "FetchingFollower | None", *, tells: bool) -> Sequence[WantedPartition]:
        """The partitions that may have something to say now; all of them for who is no `follower` whom any batch wakes.
        `tells`: of high watermarks, too."""
        everything, resting = self.session.partitions.values(), self.session.resting
        if resting is None:
            return self.wanted
        if follower is None:
            self.resting = None
            resting.rise(everything)
            return tuple(resting.awake)
        return resting.begin_pass(follower, everything, tells=tells)


class FetchSessions:
    """All sessions of this broker, the least recently used first."""

    def __init__(self, *, slots: int, clock: Clock, chance: Chance) -> None:
        self._slots = slots
        self._clock = clock
        self._chance = chance
        self._sessions: OrderedDict[int, FetchSession] = OrderedDict()
        self._held: dict[Hashable, int] = {}
        """Bytes by owner."""
        self.held_bytes = 0
        self._timer: Timer | None = None
        """Forgets sessions, while there are any."""

    def __len__(self) -> int:
        return len(self._sessions)

    def begin(
        self,
        request: "FetchRequest",
        *,
        uses_topic_ids: bool,
        owner: Hashable = None,
        connection: "ClientConnection | None" = None,
    ) -> FullFetch | IncrementalFetch | ErrorCode:
        """The fetch that a request of `owner` wants, with the help of its session if it has one; or the error of the
        whole request."""
        epoch = request.session_epoch  # below the initial one: a full fetch that closes its session and wants none
        if epoch > INITIAL_EPOCH:
            session = self._continue(request, uses_topic_ids=uses_topic_ids, owner=owner, connection=connection)
            if isinstance(session, ErrorCode):
                return session
            if not request.topics and not request.forgotten_topics_data:
                return IncrementalFetch(session)
            return self._changed(session, _apply(request.topics, request.forgotten_topics_data, session))
        if request.session_id != NO_SESSION and self._owned(request.session_id, owner) is not None:
            self.drop(request.session_id)
        return FullFetch(
            _wanted(request.topics, uses_topic_ids=uses_topic_ids),
            wants_session=epoch == INITIAL_EPOCH,
            uses_topic_ids=uses_topic_ids,
            owner=owner,
            connection=connection,
        )

    async def begin_in_turns(
        self,
        request: "FetchRequest",
        *,
        uses_topic_ids: bool,
        owner: Hashable = None,
        connection: "ClientConnection | None" = None,
    ) -> FullFetch | IncrementalFetch | ErrorCode:
        """The same for a request of very many partitions."""
        if request.session_epoch <= INITIAL_EPOCH:
            bare = replace(request, topics=(), forgotten_topics_data=())
            fetch = self.begin(bare, uses_topic_ids=uses_topic_ids, owner=owner, connection=connection)
            assert isinstance(fetch, FullFetch)
            wanted: list[WantedPartition] = []
            for piece in pieces(request.topics, "partitions"):
                wanted += _wanted(piece, uses_topic_ids=uses_topic_ids)
                await next_turn()
            fetch.wanted = wanted
            return fetch
        session = self._continue(request, uses_topic_ids=uses_topic_ids, owner=owner, connection=connection)
        if isinstance(session, ErrorCode):
            return session
        added: list[WantedPartition] = []
        changes = chain(
            ((piece, ()) for piece in pieces(request.topics, "partitions")),
            (((), piece) for piece in pieces(request.forgotten_topics_data, "partitions")),
        )
        for topics, forgotten in changes:
            added += _apply(topics, forgotten, session)
            if len(session.partitions) > MAX_PARTITIONS and not session.is_follower:
                break  # it ends
            await next_turn()
        if self._sessions.get(session.session_id) is not session:
            return ErrorCode.FETCH_SESSION_ID_NOT_FOUND  # it has ended meanwhile
        return self._changed(session, added)

    def open(self, fetch: FullFetch) -> FetchSession | None:
        """A session for the partitions of a full fetch, when it wants one and there is room."""
        if not fetch.wants_session or (len(fetch.wanted) > MAX_PARTITIONS and not fetch.is_follower):
            return None
        session = FetchSession(self._new_id(), fetch, now_ms=self._clock.elapsed_ms())
        if not self._fits(session) or not self._make_room(len(session.partitions)):
            return None
        self._sessions[session.session_id] = session
        self._count(session)
        if self._timer is None:
            self._timer = self._clock.call_later(CHECK_MS, self._forget)
        return session

    def partitions(self, session_id: int) -> list[WantedPartition]:
        """The partitions that a session has; none for one that is not there."""
        session = self._sessions.get(session_id)
        return [] if session is None else list(session.partitions.values())

    def drop(self, session_id: int) -> None:
        """Forget a session: its first response was not sent, or it has ended."""
        session = self._sessions.pop(session_id, None)
        if session is not None:
            if session.resting is not None:
                session.resting.close(session.partitions.values())
            session.partitions.clear()
            self._count(session)

    def end_waits(self) -> None:
        """Answer the fetches of followers: the broker stops."""
        for session in self._sessions.values():
            if session.resting is not None:
                session.resting.end_wait()

    def _forget(self) -> None:
        """Drop sessions that are not used, and those whose connection is gone."""
        now_ms = self._clock.elapsed_ms()
        for session in list(self._sessions.values()):
            home = session.connection
            if now_ms - session.last_used_ms > IDLE_MS or (home is not None and home.is_gone):
                self.drop(session.session_id)
        self._timer = self._clock.call_later(CHECK_MS, self._forget) if self._sessions else None

    def _count(self, session: FetchSession) -> None:
        """Count what a session holds now; a follower takes nothing from consumers."""
        if session.is_follower:
            return
        more = len(session.partitions) * PARTITION_BYTES - session.held_bytes
        session.held_bytes += more
        self.held_bytes += more
        held = self._held.pop(session.owner, 0) + more
        if held:
            self._held[session.owner] = held

    def _fits(self, session: FetchSession) -> bool:
        """True if a session may hold its partitions; those of whoever holds most end for it."""
        more = len(session.partitions) * PARTITION_BYTES - session.held_bytes
        if session.is_follower:
            return True
        mine = self._held.get(session.owner, 0) + more
        if len(session.partitions) > MAX_PARTITIONS or mine > MAX_BYTES // SHARES:
            return False
        while self.held_bytes + more > MAX_BYTES:
            most = max(self._held, key=self._held.__getitem__)
            if self._held[most] <= mine:
                return False
            self.drop(next(key for key, each in self._sessions.items() if each.owner == most))
        return True

    def _owned(self, session_id: int, owner: Hashable) -> FetchSession | None:
        session = self._sessions.get(session_id)
        return session if session is not None and session.owner == owner else None

    def _continue(
        self,
        request: "FetchRequest",
        *,
        uses_topic_ids: bool,
        owner: Hashable,
        connection: "ClientConnection | None",
    ) -> FetchSession | ErrorCode:
        """The session of a request, which moves on."""
        session = self._owned(request.session_id, owner)
        if session is None:
            return ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        if request.session_epoch != session.epoch:
            return ErrorCode.INVALID_FETCH_SESSION_EPOCH
        if session.uses_topic_ids != uses_topic_ids:
            return ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
        session.connection = connection
        session.epoch = session.epoch + 1 if session.epoch < _MAX_EPOCH else 1
        session.last_used_ms = self._clock.elapsed_ms()
        self._sessions.move_to_end(session.session_id)
        return session

    def _changed(
        self, session: FetchSession, added: Sequence[WantedPartition]
    ) -> FullFetch | IncrementalFetch | ErrorCode:
        """The fetch that a request wants whose changes its session has taken over."""
        if not session.partitions:
            self.drop(session.session_id)
            return FullFetch((), wants_session=False, uses_topic_ids=session.uses_topic_ids)
        if added and not self._fits(session):
            self.drop(session.session_id)
            return ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        self._count(session)
        return IncrementalFetch(session, added)

    def _make_room(self, size: int) -> bool:
        """True if a session of `size` partitions may open; drops another one for it if that is fair."""
        if len(self._sessions) < self._slots:
            return True
        oldest = next(iter(self._sessions.values()), None)
        if oldest is None:
            return False
        now_ms = self._clock.elapsed_ms()
        idle = now_ms - oldest.last_used_ms > MIN_EVICTION_MS
        # Among sessions that are all in use the larger one wins: it saves more. Equal ones would only evict each other.
        outweighed = now_ms - oldest.created_ms > MIN_EVICTION_MS and len(oldest.partitions) < size
        if idle or outweighed:
            self.drop(oldest.session_id)
            return True
        return False

    def _new_id(self) -> int:
        while True:
            session_id = 1 + self._chance.below(_MAX_EPOCH)
            if session_id not in self._sessions:
                return session_id


def _wanted(topics: "Sequence[FetchTopic]", *, uses_topic_ids: bool) -> list[WantedPartition]:
    return [
        WantedPartition(topic, partition, key=(topic.topic_id if uses_topic_ids else topic.topic, partition.partition))
        for topic in topics
        for partition in topic.partitions
    ]


def _apply(
    topics: "Sequence[FetchTopic]", forgotten_topics: "Sequence[ForgottenTopic]", session: FetchSession
) -> list[WantedPartition]:
    """Bring the session's partitions up to date: changed and added ones, then forgotten ones. Returns those added."""
    partitions, resting = session.partitions, session.resting
    added: list[WantedPartition] = []
    for topic in topics:
        name = topic.topic_id if session.uses_topic_ids else topic.topic
        for partition in topic.partitions:
            key = (name, partition.partition)
            known = partitions.get(key)
            if known is not None:
                known.update(partition)
            else:
                known = partitions[key] = WantedPartition(topic, partition, key=key)
                added.append(known)
            if resting is not None:
                resting.check_next(known)
    for forgotten in forgotten_topics:
        name = forgotten.topic_id if session.uses_topic_ids else forgotten.topic
        for index in forgotten.partitions:
            gone = partitions.pop((name, index), None)
            if gone is not None and resting is not None:
                resting.forget(gone)
    return added
