"""`Fetcher`: what a follower asks one leader for next, and what it makes of the answer (cluster.md 4.6 and 4.10).

No sockets, no tasks: `next_step` says what to send or until when to wait; `FetcherTask` does it. Always true:
- One request is on its way at a time.
- A partition takes part in a request only from a durable log end. After an answer with records the next fetch waits for
  the syncs of all its partitions, which run side by side; one that takes longer than `sync_patience_ms` is forgotten in
  the session, and comes back when it is done (cluster.md 4.10.2).
- A round costs what has changed since the last one, not the number of partitions.
- An answer that comes too late for a partition ends the session: nothing in it counts as told.
- A partition that is throttled is left out while the throttle holds it, and looked at again each round.
"""

from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from eosin.cluster.replication.fetch_session import (
    SESSION_ERRORS,
    FollowerFetchLimits,
    FollowerFetchSession,
    PartitionKey,
    error_of,
    partitions_of,
)
from eosin.cluster.replication.followed_replica import FollowedReplica
from eosin.cluster.replication.rules.followed_partition import Answered, FetchRetryDue, OffsetListed
from eosin.cluster.replication.rules.truncation import Divergence
from eosin.protocol.errors import ErrorCode
from eosin.protocol.records.compression import BytesLike
from eosin.protocol.schemas.fetch import FetchRequest, FetchResponse, PartitionData
from eosin.protocol.schemas.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)

if TYPE_CHECKING:
    from eosin.protocol.names import TopicPartition

SYNC_PATIENCE_MS: Final = 200
"""`eosin.replica.sync.patience.ms`."""


HELD_CHECK_MS: Final = 1000
"""Longest time until partitions that are throttled are looked at again: the throttle may be another by then."""


class FetchThrottle(Protocol):
    """Holds partitions back (`FollowerThrottle`)."""

    @property
    def is_on(self) -> bool:
        """True if anything is throttled."""

    def count(self, partition: "TopicPartition", size: int, now_ms: int) -> None:
        """So many bytes of a partition were copied."""

    def holds(self, partition: "TopicPartition", now_ms: int) -> bool:
        """True if a partition is not to be fetched now."""

    def free_at_ms(self, now_ms: int) -> int:
        """The time when it will hold nothing, unless more comes."""


class Fetch(NamedTuple):
    """Send this; then say `fetched` or `connection_lost`."""

    request: FetchRequest


class SendListOffsets(NamedTuple):
    """Send this; then say `offsets_listed` or `connection_lost`."""

    request: ListOffsetsRequest


class Wait(NamedTuple):
    """There is nothing to send."""

    until_ms: int | None
    """On the monotonic clock; None: until something changes."""


Step = Fetch | SendListOffsets | Wait


class Fetcher:
    """Everything that one fetcher of this broker follows at one leader."""

    def __init__(
        self,
        limits: FollowerFetchLimits,
        *,
        backoff_ms: int,
        sync_patience_ms: int = SYNC_PATIENCE_MS,
        throttle: FetchThrottle | None = None,
    ) -> None:
        """`backoff_ms` (`replica.fetch.backoff.ms`) is the pause after a lost connection."""
        self.replicas: dict[PartitionKey, FollowedReplica] = {}
        self._limits = limits
        self._backoff_ms = backoff_ms
        self._sync_patience_ms = sync_patience_ms
        self._session = FollowerFetchSession(limits)
        self._changed: dict[PartitionKey, None] = {}
        """Replicas to look at before the next request."""
        self._resting: dict[PartitionKey, FollowedReplica] = {}
        """The partitions that back off."""
        self._asking: dict[PartitionKey, FollowedReplica] = {}
        self._asked: dict[tuple[str, int], tuple[FollowedReplica, int]] = {}
        """On their way in a ListOffsets: each with the leader epoch at which it asks."""
        self._syncing: dict[PartitionKey, int] = {}
        """Partitions of the last answer whose records are not durable yet, each with the end of patience."""
        self._throttle = throttle
        self._held: dict[PartitionKey, FollowedReplica] = {}
        """The partitions that the throttle holds back."""
        self._retry_at_ms = 0

    # Partitions -----------------------------------------------------------------------------------------------------

    def add(self, replica: FollowedReplica) -> None:
        """Fetch a partition from now on."""
        self.replicas[replica.key] = replica
        self._changed[replica.key] = None

    def remove(self, replica: FollowedReplica) -> None:
        """Fetch a partition no more. An answer that is on its way does not reach it."""
        key = replica.key
        if self.replicas.pop(key, None) is not None:
            for kept in (self._resting, self._asking, self._syncing, self._held):
                kept.pop(key, None)
            self._changed[key] = None

    def changed(self, replica: FollowedReplica) -> None:
        """A replica may want something else."""
        self._changed[replica.key] = None

    @property
    def is_idle(self) -> bool:
        """True if it has no partitions."""
        return not self.replicas

    # Requests -------------------------------------------------------------------------------------------------------

    def next_step(self, now_ms: int, *, broker_epoch: int) -> Step:
        """The step to take now. `now_ms` is of the monotonic clock; `broker_epoch` is this broker's."""
        if self._held:
            self._changed.update(dict.fromkeys(self._held))
        self._check_changed(now_ms)
        self._end_rests(now_ms)
        self._check_changed(now_ms)
        if now_ms < self._retry_at_ms:
            return Wait(self._retry_at_ms)
        if self._asking:
            return SendListOffsets(self._list_offsets())
        patience_ends = [until_ms for until_ms in self._syncing.values() if until_ms > now_ms]
        if patience_ends:
            return Wait(min(patience_ends))
        self._syncing.clear()
        if not self._session.is_empty:
            return Fetch(self._session.request(broker_epoch))
        rests = [replica.retry_at_ms or 0 for replica in self._resting.values()]
        if self._held and self._throttle is not None:
            rests.append(min(self._throttle.free_at_ms(now_ms), now_ms + HELD_CHECK_MS))
        return Wait(min(rests) if rests else None)

    def _end_rests(self, now_ms: int) -> None:
        for replica in list(self._resting.values()):
            if (replica.retry_at_ms or 0) <= now_ms:
                replica.handle(FetchRetryDue())
                self._changed[replica.key] = None

    def _check_changed(self, now_ms: int) -> None:
        """Let the session, and the lists of what else is waited for, follow each replica that has changed."""
        changed, self._changed = self._changed, {}
        for key in changed:
            replica = self.replicas.get(key)
            position = None if replica is None else replica.position
            if replica is not None and self._is_held(replica, now_ms):
                position = None
            if position is None:
                self._session.forget(key)
            else:
                self._session.want(key, position)
            if replica is None:
                continue
            if not replica.waits_for_sync:
                self._syncing.pop(key, None)
            _keep(self._resting, replica, wanted=replica.retry_at_ms is not None)
            _keep(self._asking, replica, wanted=replica.requested_timestamp is not None)

    def _is_held(self, replica: FollowedReplica, now_ms: int) -> bool:
        throttle = self._throttle
        held = throttle is not None and throttle.is_on and throttle.holds(replica.partition, now_ms)
        if held or self._held:
            _keep(self._held, replica, wanted=held)
        return held

    def _list_offsets(self) -> ListOffsetsRequest:
        self._asked = {}
        topics: dict[str, list[ListOffsetsPartition]] = {}
        for replica in self._asking.values():
            epoch, timestamp = replica.followed.leader_epoch, replica.requested_timestamp
            assert timestamp is not None
            self._asked[replica.partition] = replica, epoch
            topics.setdefault(replica.partition.topic, []).append(
                ListOffsetsPartition(
                    partition_index=replica.partition.partition, current_leader_epoch=epoch, timestamp=timestamp
                )
            )
        return ListOffsetsRequest(
            replica_id=self._limits.replica_id,
            topics=tuple(ListOffsetsTopic(name=name, partitions=tuple(each)) for name, each in topics.items()),
        )

    # Answers --------------------------------------------------------------------------------------------------------

    def fetched(self, response: FetchResponse, now_ms: int) -> None:
        """The leader has answered a `Fetch`."""
        error = self._session.handle_response(response)
        if error is not ErrorCode.NONE:
            if error not in SESSION_ERRORS:
                self._retry_at_ms = now_ms + self._backoff_ms
            return
        patience_ends_ms = now_ms + self._sync_patience_ms
        for key, data in partitions_of(response):
            replica, position = self.replicas.get(key), self._session.requested_position(key)
            if replica is None or position is None:
                continue
            if not replica.awaits(position):
                # Its leader takes it for told, the high watermark too, and would say nothing until somebody writes.
                self._session.lost()
            replica.handle(
                Answered(
                    position,
                    error_of(data.error_code),
                    data.high_watermark,
                    data.log_start_offset,
                    _divergence(data),
                    _records(data),
                )
            )
            self._changed[key] = None
            if data.records:
                self._session.got_data(key)
                if self._throttle is not None and self._throttle.is_on:
                    self._throttle.count(replica.partition, len(data.records), now_ms)
                if replica.waits_for_sync:
                    self._syncing[key] = patience_ends_ms

    def offsets_listed(self, response: ListOffsetsResponse) -> None:
        """The leader has answered an `SendListOffsets`. A partition that it left out is asked for again."""
        asked, self._asked = self._asked, {}
        for topic in response.topics:
            for told in topic.partitions:
                replica, epoch = asked.get((topic.name, told.partition_index), (None, 0))
                if replica is not None and self.replicas.get(replica.key) is replica:
                    replica.handle(OffsetListed(epoch, error_of(told.error_code), told.offset))
                    self._changed[replica.key] = None

    def connection_lost(self, now_ms: int) -> None:
        """A request could not be sent, or was not answered: try again after a pause."""
        self._session.lost()
        self._asked = {}
        self._retry_at_ms = now_ms + self._backoff_ms


def _keep(kept: dict[PartitionKey, FollowedReplica], replica: FollowedReplica, *, wanted: bool) -> None:
    if wanted:
        kept[replica.key] = replica
    else:
        kept.pop(replica.key, None)


def _divergence(data: PartitionData) -> Divergence | None:
    diverging = data.diverging_epoch
    return Divergence(diverging.epoch, diverging.end_offset) if diverging.epoch >= 0 else None


def _records(data: PartitionData) -> BytesLike:
    """One run of bytes, whatever the decoder made of them."""
    return data.records if data.records is not None else b""
