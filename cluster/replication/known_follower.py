"""`KnownFollower`: a follower of one partition whose fetches are served, and what may change that.

While its partition rests in the session of its fetches, nobody looks at it: it tells the session when there is
something to say, and each fetch of the session counts as heard. Always true: a partition rests only while its follower
is idle, which is in sync and at the log end; and a follower that does not rest, or rests no more, counts as heard at
the last fetch that found it idle, whatever its session fetches since.
"""

from typing import TYPE_CHECKING, Protocol

from eosin.cluster.replication.rules.positions import Registrations

if TYPE_CHECKING:
    from eosin.storage.log.partition_log import PartitionLog


class FollowerWants(Protocol):
    """One partition as a follower wants it, and what it was last told about it."""

    fetch_offset: int
    log_start_offset: int
    current_leader_epoch: int
    last_sent_high_watermark: int
    last_sent_log_start_offset: int
    known: "KnownFollower | None"
    """As its last fetch has found it."""
    is_named: bool
    """True if the follower has said since then what it wants."""


class RestingPlace(Protocol):
    """The session in which a partition rests."""

    fetched_ms: int
    """The time of its last fetch."""

    def woken(self, wanted: FollowerWants) -> None:
        """There may be something to send of a partition: it rests no more, and a fetch that waits is answered."""

    def committed(self, wanted: FollowerWants) -> None:
        """The high watermark of a partition that rests has moved, and nothing else."""


class FetchingFollower(Protocol):
    """One fetch of a follower."""

    node_id: int
    told_epoch: int
    brokers: Registrations
    now_ms: int
    has_waited: bool
    """True if this is not the look with which its fetch came."""


class KnownFollower:
    """One follower of one partition, in one session of it."""

    __slots__ = (
        "_brokers",
        "_fetched_ms",
        "_is_over",
        "_place",
        "_told_epoch",
        "_wanted",
        "is_idle",
        "log",
    )

    def __init__(self, log: "PartitionLog", follower: FetchingFollower) -> None:
        """Its fetch was not refused."""
        self.log = log
        self.is_idle = False
        """True if its last fetch that named the partition was from the log end, and it is in sync."""
        self._brokers = follower.brokers
        self._told_epoch = follower.told_epoch
        self._fetched_ms = follower.now_ms
        self._is_over = False
        self._place: RestingPlace | None = None
        self._wanted: FollowerWants | None = None

    @property
    def fetched_ms(self) -> int:
        """The time of the last fetch that has found it idle."""
        return self._fetched_ms if self._place is None else self._place.fetched_ms

    def fetched(self, now_ms: int, *, is_idle: bool) -> None:
        """It has said what it wants."""
        self._fetched_ms = now_ms
        self.is_idle = is_idle

    def fetched_again(self, now_ms: int) -> None:
        """It is idle, and has fetched again."""
        self._fetched_ms = now_ms

    def is_served(self, follower: FetchingFollower) -> bool:
        """True if nothing has changed for which a fetch could be refused that is in the same leader epoch."""
        return (
            not self._is_over
            and self._brokers is follower.brokers
            and self._told_epoch == follower.told_epoch
            and self.log.unusable is None
        )

    def has_nothing_to_say(self, follower: FetchingFollower, wanted: FollowerWants) -> bool:
        """True if a fetch like the last one would find and change nothing, and tell at most a high watermark."""
        return self.is_idle and self._is_unmoved(wanted) and self.is_served(follower)

    def is_committed_further(self, wanted: FollowerWants) -> bool:
        """True if the follower has not been told of the high watermark."""
        return wanted.last_sent_high_watermark != self.log.high_watermark

    def _is_unmoved(self, wanted: FollowerWants) -> bool:
        log = self.log
        return wanted.fetch_offset == log.log_end_offset and wanted.last_sent_log_start_offset == log.log_start_offset

    # Resting --------------------------------------------------------------------------------------------------------

    def rest(self, place: RestingPlace, wanted: FollowerWants) -> None:
        """Tell `place` of changes, instead of being looked at with each fetch."""
        self._place = place
        self._wanted = wanted

    def rise(self) -> None:
        """Be looked at again. Harmless when it does not rest."""
        if self._place is not None:
            self._fetched_ms = self._place.fetched_ms
            self._place = self._wanted = None

    def log_moved(self) -> None:
        """The log has grown, committed, lost its beginning, or failed."""
        place, wanted = self._place, self._wanted
        if place is not None and wanted is not None:
            if self._is_unmoved(wanted) and self.log.unusable is None:
                place.committed(wanted)
            else:
                self.rise()
                place.woken(wanted)

    def end(self) -> None:
        """The partition has other metadata, or the follower fetches in another session."""
        self._is_over = True
        place, wanted = self._place, self._wanted
        if place is not None and wanted is not None:
            self.rise()
            place.woken(wanted)
