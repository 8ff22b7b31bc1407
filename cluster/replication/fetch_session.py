"""`FollowerFetchSession`: what a follower's leader has been told to send, and what the next request must say (KIP-227,
storage.md 16). Pure: the requester's side; the leader's is `broker/fetching/sessions.py`.

Always true: while a session is open, `known` is what the leader answers for: a partition that is not named again keeps
its old offset there, so one that must not be sent is forgotten, never left out (cluster.md 4.10.2). One request is on
its way at a time; any doubt about what the leader knows ends the session, and the next request is a full one.
"""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from eosin.client.errors import known_code
from eosin.cluster.replication.rules.followed_partition import FetchPosition
from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import Uuid
from eosin.protocol.schemas.fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
    ReplicaState,
)

NO_SESSION: Final = 0
FIRST_EPOCH: Final = 0
"""Asks for a new session, with all partitions; what the given session held is dropped."""
MAX_EPOCH: Final = 2**31 - 1

SESSION_ERRORS: Final = frozenset(
    {
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
    }
)
"""At the top of an answer: the leader has another idea of the session, or none."""


class PartitionKey(NamedTuple):
    """A partition as requests name it."""

    topic_id: Uuid
    partition: int


class FollowerFetchLimits(NamedTuple):
    """The values that each request states beside its partitions."""

    replica_id: int
    max_wait_ms: int
    """`replica.fetch.wait.max.ms`."""
    min_bytes: int
    """`replica.fetch.min.bytes`."""
    max_bytes: int
    """`replica.fetch.response.max.bytes`."""
    partition_max_bytes: int
    """`replica.fetch.max.bytes`."""


class FollowerFetchSession:
    """The fetch session of one follower at one leader."""

    def __init__(self, limits: FollowerFetchLimits) -> None:
        self._limits = limits
        self._wanted: dict[PartitionKey, FetchPosition] = {}
        """The positions from which the leader should send, those that got data longest ago first."""
        self._known: dict[PartitionKey, FetchPosition] = {}
        """The positions that the leader has been told, in this session or the last request."""
        self._changed: dict[PartitionKey, None] = {}
        """The partitions in which the two may differ."""
        self._session_id = NO_SESSION
        self._epoch = FIRST_EPOCH

    def want(self, key: PartitionKey, position: FetchPosition) -> None:
        """Have the leader send a partition from `position` on. In a new leader epoch all it has said is to be said
        again: Apache Kafka's says a high watermark once in a session, whatever the epoch."""
        known = self._known.get(key)
        if known is not None and known.leader_epoch != position.leader_epoch:
            self.lost()
        self._wanted[key] = position
        self._changed[key] = None

    def forget(self, key: PartitionKey) -> None:
        """Have the leader send a partition no more."""
        if self._wanted.pop(key, None) is not None:
            self._changed[key] = None

    def got_data(self, key: PartitionKey) -> None:
        """A partition got records: it goes to the end of the round, as in the leader's session."""
        position = self._wanted.pop(key, None)
        if position is not None:
            self._wanted[key] = position

    @property
    def is_empty(self) -> bool:
        """True if there is nothing to ask for."""
        return not self._wanted

    @property
    def is_incremental(self) -> bool:
        """True if the next request names changes only."""
        return self._epoch != FIRST_EPOCH

    def requested_position(self, key: PartitionKey) -> FetchPosition | None:
        """From where the last request asked for a partition; None if it did not."""
        return self._known.get(key)

    def request(self, replica_epoch: int) -> FetchRequest:
        """The next request: only what has changed, in a session; everything, otherwise. `replica_epoch` is this
        broker's epoch now. It counts as sent: say then what came back."""
        if self.is_incremental:
            topics, forgotten = self._changes()
        else:
            topics, forgotten = _topics(self._wanted, self._limits.partition_max_bytes), ()
            self._known = dict(self._wanted)
        self._changed.clear()
        return FetchRequest(
            replica_id=self._limits.replica_id,
            replica_state=ReplicaState(self._limits.replica_id, replica_epoch),
            max_wait_ms=self._limits.max_wait_ms,
            min_bytes=self._limits.min_bytes,
            max_bytes=self._limits.max_bytes,
            session_id=self._session_id,
            session_epoch=self._epoch,
            topics=topics,
            forgotten_topics_data=forgotten,
        )

    def _changes(self) -> tuple[tuple[FetchTopic, ...], tuple[ForgottenTopic, ...]]:
        named: dict[PartitionKey, FetchPosition] = {}
        dropped: list[PartitionKey] = []
        for key in self._changed:
            position = self._wanted.get(key)
            if position is None:
                if self._known.pop(key, None) is not None:
                    dropped.append(key)
            elif self._known.get(key) != position:
                named[key] = self._known[key] = position
        return _topics(named, self._limits.partition_max_bytes), _forgotten(dropped)

    def handle_response(self, response: FetchResponse) -> ErrorCode:
        """Take note of an answer; returns its error at the top. After one of `SESSION_ERRORS` the next request is a
        full one, at once; after another error it is one as well."""
        error = error_of(response.error_code)
        if error is not ErrorCode.NONE:
            self.lost()
        elif response.session_id == NO_SESSION:
            self._session_id, self._epoch = NO_SESSION, FIRST_EPOCH  # the leader has no room for one, or has closed it
        else:
            self._session_id = response.session_id
            self._epoch = 1 if self._epoch == MAX_EPOCH else self._epoch + 1
        return error

    def lost(self) -> None:
        """Begin anew: it is not known whether the leader got the last request, or what it makes of it."""
        self._epoch = FIRST_EPOCH


def error_of(code: int) -> ErrorCode:
    """A code by name; one that we do not know is UNKNOWN_SERVER_ERROR."""
    known = known_code(code)
    return ErrorCode.UNKNOWN_SERVER_ERROR if known is None else known


def partitions_of(response: FetchResponse) -> Iterable[tuple[PartitionKey, PartitionData]]:
    """Every partition in an answer. One that is not there has nothing new (storage.md 16)."""
    topic: FetchableTopicResponse
    for topic in response.responses:
        for data in topic.partitions:
            yield PartitionKey(topic.topic_id, data.partition_index), data


def _topics(positions: Mapping[PartitionKey, FetchPosition], partition_max_bytes: int) -> tuple[FetchTopic, ...]:
    """The positions by topic, in their order. Partitions of a topic that do not stand together make several entries,
    so that the leader serves them in the order in which it is their turn."""
    topics: list[tuple[Uuid, list[FetchPartition]]] = []
    for key, position in positions.items():
        if not topics or topics[-1][0] != key.topic_id:
            topics.append((key.topic_id, []))
        topics[-1][1].append(
            FetchPartition(
                partition=key.partition,
                current_leader_epoch=position.leader_epoch,
                fetch_offset=position.fetch_offset,
                last_fetched_epoch=position.last_fetched_epoch,
                log_start_offset=position.log_start_offset,
                partition_max_bytes=partition_max_bytes,
            )
        )
    return tuple(FetchTopic(topic_id=topic_id, partitions=tuple(partitions)) for topic_id, partitions in topics)


def _forgotten(keys: Iterable[PartitionKey]) -> tuple[ForgottenTopic, ...]:
    by_topic: dict[Uuid, list[int]] = {}
    for key in keys:
        by_topic.setdefault(key.topic_id, []).append(key.partition)
    return tuple(ForgottenTopic(topic_id=each, partitions=tuple(indexes)) for each, indexes in by_topic.items())
