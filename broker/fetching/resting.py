"""`RestingPartitions`: which partitions of a follower's fetch session its next fetch has to look at (cluster.md 4.9).

A broker follows thousands of partitions of another one, and each of its fetches asks for all of them. Most have nothing
to say. Always true: a partition rests only while its follower is in sync, has everything, and has been told everything
but a high watermark; whatever else changes wakes it, and the fetch that waits. A fetch costs what has changed, and not
the number of partitions.

A high watermark alone is told at most once in `TOLD_TOGETHER_MS`, of all partitions together: with the next records of
the partition the follower hears of it anyway.
"""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final, cast

if TYPE_CHECKING:
    from eosin.broker.fetching.sessions import WantedPartition
    from eosin.cluster.replication.known_follower import FetchingFollower, FollowerWants

TOLD_TOGETHER_MS: Final = 50
"""Longest time, beside that of one fetch, for which a follower that fetches is not told of a high watermark. Only
consumers that read from a follower wait for that: where there may be some it is told at once."""


class RestingPartitions:
    """The partitions of one session that rest, and those that do not (`RestingPlace`)."""

    __slots__ = (
        "_brokers",
        "_has_news",
        "_node_id",
        "_told_epoch",
        "_untold",
        "_untold_since_ms",
        "_wake",
        "awake",
        "fetched_ms",
        "tells",
    )

    def __init__(self, partitions: "Iterable[WantedPartition]") -> None:
        """All of them are to be looked at."""
        self.awake: dict[WantedPartition, None] = dict.fromkeys(partitions)
        """In the order in which they are read."""
        self.fetched_ms = 0
        """The time of the last fetch."""
        self.tells = True
        """True if the fetch that has begun is told of high watermarks, too."""
        self._untold: dict[WantedPartition, None] = {}
        """Resting partitions whose high watermark has moved."""
        self._untold_since_ms = 0
        self._node_id = -1
        self._told_epoch = -1
        self._brokers: object = None
        self._has_news = False
        self._wake: Callable[[], None] | None = None

    # What its fetches do --------------------------------------------------------------------------------------------

    def begin_pass(
        self, follower: "FetchingFollower", partitions: "Iterable[WantedPartition]", *, tells: bool
    ) -> "tuple[WantedPartition, ...]":
        """The partitions to look at, of all `partitions` of the session. `tells`: high watermarks do not wait."""
        self._has_news = False
        if not follower.has_waited:
            self.fetched_ms = follower.now_ms
            self.tells = tells
        if self._untold and follower.now_ms - self._untold_since_ms >= TOLD_TOGETHER_MS:
            self.tells = True
        if (
            follower.brokers is not self._brokers
            or follower.told_epoch != self._told_epoch
            or follower.node_id != self._node_id
        ):
            self._brokers, self._told_epoch, self._node_id = follower.brokers, follower.told_epoch, follower.node_id
            self.rise(partitions)
        if self.tells:
            self.rise(tuple(self._untold))
        return tuple(self.awake)

    def rise(self, partitions: "Iterable[WantedPartition]") -> None:
        """Look at these again."""
        for wanted in partitions:
            if wanted not in self.awake:
                if wanted.known is not None:
                    wanted.known.rise()
                self.check_next(wanted)

    def check_next(self, wanted: "WantedPartition") -> None:
        """The fetch names it, and nothing rests any more that was known of it."""
        self._untold.pop(wanted, None)
        self.awake[wanted] = None

    def forget(self, wanted: "WantedPartition") -> None:
        """The session holds it no more."""
        if wanted.known is not None:
            wanted.known.rise()
        self._untold.pop(wanted, None)
        self.awake.pop(wanted, None)

    def rest(self, wanted: "WantedPartition") -> None:
        """There is nothing to say of it but, perhaps, a high watermark."""
        known = wanted.known
        if known is None or wanted not in self.awake:
            return  # it was forgotten meanwhile
        del self.awake[wanted]
        known.rest(self, wanted)
        if known.is_committed_further(wanted):
            self.committed(wanted)

    def sent(self, wanted: "WantedPartition") -> None:
        """It was answered with records: it goes to the end."""
        if wanted in self.awake:
            del self.awake[wanted]
            self.awake[wanted] = None

    def wait(self, wake: Callable[[], None]) -> None:
        """A fetch waits: call `wake` as soon as there is something to answer. One that waits already, on another
        connection, ends."""
        if self._wake is not None:
            self._wake()
        self._wake = wake
        if self._has_news:
            wake()

    def close(self, partitions: "Iterable[WantedPartition]") -> None:
        """The session ends, and the fetch that waits."""
        for wanted in partitions:
            self.forget(wanted)
        self.end_wait()

    # What the leader's logs do --------------------------------------------------------------------------------------

    def woken(self, wanted: "FollowerWants") -> None:
        """See `RestingPlace`."""
        self.check_next(cast("WantedPartition", wanted))
        self.end_wait()

    def committed(self, wanted: "FollowerWants") -> None:
        """See `RestingPlace`."""
        if not self._untold:
            self._untold_since_ms = self.fetched_ms
        self._untold[cast("WantedPartition", wanted)] = None

    def end_wait(self) -> None:
        """Answer the fetch that waits, or is about to."""
        self._has_news = True
        if self._wake is not None:
            self._wake()
