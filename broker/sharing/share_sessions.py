"""`ShareSessions`: the partitions that each member of a share group fetches here (KIP-932; share-partitions.md 1).

Always true: a session is that of one group and member, belongs to the user who opened it, and ends with its
connection: what its member has acquired goes to others at once, before that member can open another one. There are at
most `max_sessions`, whose partitions are bounded in all and for each user. When the last session of a group has gone,
its share partitions go. A session's epoch moves on when a request is accepted, so that a request sent twice is noticed.
"""

from collections.abc import Hashable, Iterable, Iterator
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple

from eosin.broker.sharing.share_partitions import SharePartitions
from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import TopicIdPartition
from eosin.runtime.clock import Clock
from eosin.runtime.turns import TurnQueue

if TYPE_CHECKING:
    from eosin.network.api import ClientConnection

INITIAL_EPOCH: Final = 0
"""A request that opens a session."""
FINAL_EPOCH: Final = -1
"""One that ends it."""
MAX_PARTITIONS: Final = 10_000
"""Of one session."""
MAX_ALL_PARTITIONS: Final = 800_000
"""Of all sessions: some 128 MiB."""
SHARES: Final = 2
"""One user has this part of them at most."""
RELEASES_PER_TURN: Final = 100
"""Each takes some 30 us."""
_MAX_EPOCH: Final = 2**31 - 1


class SessionKey(NamedTuple):
    """A member of a share group, as it names itself."""

    group_id: str
    member_id: str


class ShareSession:
    """One session."""

    __slots__ = ("connection", "counted", "epoch", "has_ended", "key", "owner", "partitions", "turn")

    def __init__(self, key: SessionKey, owner: Hashable) -> None:
        self.key = key
        self.owner = owner
        """The user that opened it: nobody else may go on with it, or take its place (security.md 6.2)."""
        self.connection: ClientConnection | None = None
        """The one that it was last used on."""
        self.counted = 0
        """The number of its partitions that its owner is charged with."""
        self.epoch = 1
        """The epoch that the next request must carry."""
        self.partitions: dict[TopicIdPartition, None] = {}
        self.has_ended = False
        self.turn = 0
        """The partition that is read first, by its place: each has its turn."""

    def in_turn(self) -> list[TopicIdPartition]:
        """Its partitions in the order in which they are read now."""
        some = list(self.partitions)
        if not some:
            return some
        at = self.turn % len(some)
        self.turn = at + 1
        return some[at:] + some[:at]


class ShareSessions:
    """All sessions of this broker."""

    def __init__(
        self,
        partitions: SharePartitions,
        *,
        clock: Clock,
        max_sessions: int,
        max_partitions: int = MAX_ALL_PARTITIONS,
    ) -> None:
        """All sessions together have `max_partitions`, one user a part of them."""
        self._partitions = partitions
        self._max_sessions = max_sessions
        self._max_partitions = max_partitions
        self._sessions: dict[SessionKey, ShareSession] = {}
        self._of_group: dict[str, int] = {}
        """Number of sessions."""
        self._of_owner: dict[Hashable, int] = {}
        """Number of partitions."""
        self.partition_count = 0
        """Of all sessions."""
        self._turns = TurnQueue(clock, steps_per_turn=RELEASES_PER_TURN)
        self._releases: dict[SessionKey, Iterator[None]] = {}
        """The members that are gone, and have not let go of everything yet: one may have thousands of partitions."""
        self._by_connection: dict[ClientConnection, dict[ShareSession, None]] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def __iter__(self) -> Iterator[ShareSession]:
        return iter(list(self._sessions.values()))

    def open(
        self,
        key: SessionKey,
        partitions: Iterable[TopicIdPartition],
        connection: "ClientConnection | None",
        owner: Hashable = None,
    ) -> ShareSession | ErrorCode:
        """A new session in place of the member's old one: SHARE_SESSION_LIMIT_REACHED where there is no room for it,
        SHARE_SESSION_NOT_FOUND where the old one is somebody else's. What the member has acquired stays with it: it may
        still acknowledge that."""
        for _ in self._releases.get(key, ()):
            pass  # before it can acquire anything
        old = self._sessions.get(key)
        if old is not None and old.owner != owner:
            return ErrorCode.SHARE_SESSION_NOT_FOUND
        if old is None and len(self._sessions) >= self._max_sessions:
            self._partitions.counts.refused_sessions += 1
            return ErrorCode.SHARE_SESSION_LIMIT_REACHED
        if old is not None:
            old.has_ended = True
            self._leave_connection(old)
            old.partitions.clear()
            self._count(old)
        else:
            self._of_group[key.group_id] = self._of_group.get(key.group_id, 0) + 1
        session = self._sessions[key] = ShareSession(key, owner)
        self._move(session, connection)
        return self._grown(session, partitions)

    def go_on(
        self, key: SessionKey, epoch: int, connection: "ClientConnection | None", owner: Hashable = None
    ) -> ShareSession | ErrorCode:
        """The session of a request with `epoch`, which moves on; of `FINAL_EPOCH`, the session that `end` must end."""
        session = self._sessions.get(key)
        if session is None or session.owner != owner:
            return ErrorCode.SHARE_SESSION_NOT_FOUND
        if epoch == FINAL_EPOCH:
            return session
        if epoch != session.epoch:
            return ErrorCode.INVALID_SHARE_SESSION_EPOCH
        session.epoch = epoch + 1 if epoch < _MAX_EPOCH else 1
        self._move(session, connection)
        return session

    def change(
        self, session: ShareSession, added: Iterable[TopicIdPartition], forgotten: Iterable[TopicIdPartition]
    ) -> ErrorCode:
        """Add partitions, and forget others, also of those that are added: they are named to be acknowledged."""
        grown = self._grown(session, added)
        for each in forgotten:
            session.partitions.pop(each, None)
        self._count(session)
        return grown if isinstance(grown, ErrorCode) else ErrorCode.NONE

    def end(self, session: ShareSession) -> None:
        """Forget a session, and let others have what its member has acquired. Harmless for one that has ended."""
        if self._sessions.get(session.key) is not session:
            return
        session.has_ended = True
        self._leave_connection(session)
        session.partitions.clear()
        self._count(session)
        del self._sessions[session.key]
        group_id = session.key.group_id
        self._of_group[group_id] -= 1
        if not self._of_group[group_id]:
            del self._of_group[group_id]
        self._releases[session.key] = releases = self._released(session.key)
        self._turns.add(releases)

    def _released(self, key: SessionKey) -> Iterator[None]:
        """Let go of what a member has, partition by partition, and of the partitions if their group has nobody left."""
        group_id, member_id = key
        some = self._partitions.of_group(group_id)
        for each in some:
            each.release(member_id)
            yield
        del self._releases[key]
        for each in some:
            if group_id in self._of_group:
                return
            self._partitions.drop(each)
            yield

    def end_all(self) -> None:
        """Forget them all: the feature is switched off."""
        for each in self:
            self.end(each)

    def _grown(self, session: ShareSession, added: Iterable[TopicIdPartition]) -> ShareSession | ErrorCode:
        if session.has_ended:
            return session  # its connection had ended already, and its owner is charged for it no more
        some = list(islice(added, MAX_PARTITIONS + 1))  # of many more the rest is not even looked at
        new = [each for each in some if each not in session.partitions]
        session.partitions.update(dict.fromkeys(new))
        self._count(session)
        if (
            len(some) <= MAX_PARTITIONS
            and len(session.partitions) <= MAX_PARTITIONS
            and self.partition_count <= self._max_partitions
            and self._of_owner.get(session.owner, 0) <= self._max_partitions // SHARES
        ):
            if new:
                self._partitions.check_epochs(session.key.group_id, new)
            return session
        self.end(session)
        return ErrorCode.SHARE_SESSION_LIMIT_REACHED

    def _count(self, session: ShareSession) -> None:
        """Charge a session's owner with the partitions that it has now."""
        more = len(session.partitions) - session.counted
        session.counted += more
        self.partition_count += more
        held = self._of_owner.get(session.owner, 0) + more
        if held:
            self._of_owner[session.owner] = held
        else:
            self._of_owner.pop(session.owner, None)

    def _move(self, session: ShareSession, connection: "ClientConnection | None") -> None:
        """The session is one of this connection."""
        if connection is None or connection is session.connection:
            return
        self._leave_connection(session)
        session.connection = connection
        some = self._by_connection.get(connection)
        if some is None:
            some = self._by_connection[connection] = {}
            some[session] = None
            connection.when_gone(partial(self._connection_gone, connection))
        else:
            some[session] = None

    def _leave_connection(self, session: ShareSession) -> None:
        if session.connection is not None:
            self._by_connection.get(session.connection, {}).pop(session, None)
            session.connection = None

    def _connection_gone(self, connection: "ClientConnection") -> None:
        for each in list(self._by_connection.pop(connection, ())):
            self.end(each)
