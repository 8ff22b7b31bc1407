"""Long polls: fetches that wait until there is enough to read (storage.md 15.3).

`LongPolls` owns who waits for which log. Always true: a poll is woken by what its readers may see (the high watermark
for read_uncommitted, the last stable offset for read_committed, hence also by markers), never by bytes that are only
written; and a poll that ended, however it ended, is no longer known to any log.

A log tells of its progress on every append, but only while somebody waits for it; and a waiting poll counts only the
log that moved, never its other partitions again.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from eosin.protocol.names import IsolationLevel
from eosin.runtime.clock import Clock
from eosin.runtime.turns import next_turn

if TYPE_CHECKING:
    from eosin.storage.log.partition_log import PartitionLog

WATCHES_PER_TURN: Final = 1000
"""Logs that one poll begins to watch in one turn of the event loop: each takes a microsecond or two."""


class PolledPartition:
    """One partition that a poll waits for: the bytes from `offset` on, of which at most `limit` count."""

    __slots__ = ("counted", "limit", "log", "offset")

    def __init__(self, log: "PartitionLog", *, offset: int, limit: int) -> None:
        self.log = log
        self.offset = offset
        self.limit = limit
        self.counted = 0
        """Bytes of this partition that already count towards the poll's minimum."""


class _Poll:
    """One waiting fetch. `woken` is done when there is enough, or when waiting longer makes no sense."""

    __slots__ = ("isolation", "missing", "watches", "woken")

    def __init__(self, watches: Sequence[PolledPartition], *, isolation: IsolationLevel | None, min_bytes: int) -> None:
        self.watches = {watch.log: watch for watch in watches}
        self.isolation = isolation
        self.missing = min_bytes
        self.woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def wake(self) -> None:
        if not self.woken.done():
            self.woken.set_result(None)

    def count(self, log: "PartitionLog") -> None:
        if log.unusable is not None:
            self.wake()
            return
        watch = self.watches[log]
        available = log.bytes_available(watch.offset, isolation=self.isolation, limit=watch.limit)
        self.missing -= available - watch.counted
        watch.counted = available
        if self.missing <= 0:
            self.wake()


class LongPolls:
    """Every fetch that waits, by the logs that it waits for."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        # Dictionaries as ordered sets: polls are woken in the order in which they came.
        self._by_log: dict[PartitionLog, dict[_Poll, None]] = {}
        self.count = 0
        """Number of polls that wait."""
        self._watchers: dict[PartitionLog, dict[Callable[[], None], None]] = {}
        self.followers: Callable[[PartitionLog], None] | None = None
        """Hears of each log that is led and has moved: what a follower has whole rests, and is in no poll. Where there
        are followers, no log stops to tell."""

    def watch(self, log: "PartitionLog", grown: Callable[[], None]) -> None:
        """Call `grown` whenever readers may see more of `log`, until `unwatch`."""
        self._watchers.setdefault(log, {})[grown] = None
        log.on_progress = self.progress

    def unwatch(self, log: "PartitionLog", grown: Callable[[], None]) -> None:
        """Harmless without a watch."""
        some = self._watchers.get(log, {})
        some.pop(grown, None)
        if not some:
            self._watchers.pop(log, None)
            self._leave(log)

    def progress(self, log: "PartitionLog") -> None:
        """Count what `log` has gained and wake whoever has enough. The `on_progress` of a log that is waited for."""
        polls = self._by_log.get(log)
        if polls is not None:
            for poll in polls:
                poll.count(log)
        if self.followers is not None:
            self.followers(log)
        if self._watchers:
            for grown in tuple(self._watchers.get(log, ())):
                grown()

    def interrupt(self, log: "PartitionLog") -> None:
        """Wake whoever waits for `log`: it is led by somebody else now, or the broker stops."""
        for poll in self._by_log.get(log, ()):
            poll.wake()

    def waiting(self, log: "PartitionLog") -> int:
        """Number of polls that wait for `log`."""
        return len(self._by_log.get(log, ()))

    async def wait(
        self,
        watches: Sequence[PolledPartition],
        *,
        isolation: IsolationLevel | None,
        min_bytes: int,
        max_wait_ms: int,
        waits: Callable[[Callable[[], None]], None] | None = None,
    ) -> None:
        """Wait until the watched partitions hold `min_bytes` together that a reader may see, until one of them failed
        or changed hands, or until `max_wait_ms` passed. `waits` is given what ends the wait before. The caller looks
        for itself what there is then."""
        poll = _Poll(watches, isolation=isolation, min_bytes=min_bytes)
        if waits is not None:
            waits(poll.wake)
        timer = self._clock.call_later(max_wait_ms, poll.wake)
        self.count += 1
        try:
            left = WATCHES_PER_TURN
            for log, watch in poll.watches.items():
                self._by_log.setdefault(log, {})[poll] = None
                log.on_progress = self.progress
                if watch.offset < log.log_end_offset or log.unusable is not None:
                    poll.count(log)  # what does not suffice alone, or came since the caller's own look
                left -= 1
                if not left:
                    await next_turn()
                    left = WATCHES_PER_TURN
            await poll.woken
        finally:
            self.count -= 1
            timer.cancel()
            self._forget(poll)

    def _forget(self, poll: _Poll) -> None:
        for log in poll.watches:
            polls = self._by_log.get(log)
            if polls is None or poll not in polls:
                return  # the wait was given up before it watched this one and those after it
            del polls[poll]
            if not polls:
                del self._by_log[log]
                self._leave(log)

    def _leave(self, log: "PartitionLog") -> None:
        """One poll or watcher less: a log that nobody waits for is written without a call."""
        if self.followers is None and log not in self._by_log and log not in self._watchers:
            log.on_progress = None
