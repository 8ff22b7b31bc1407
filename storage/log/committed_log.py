"""`CommittedLog`: how far a log is durable, committed and decided, who waits for that, and when it is offline.

The third layer of a log: `ReadableLog` below it reads, `PartitionLog` above it decides what may be written.

Always true:
- log start <= last stable offset <= high watermark <= log end; durable end <= log end. All of them only grow, except
  that a follower may be truncated.
- The durable end covers what is as durable on this broker as configured, and nothing else moves it. Whenever it moves,
  `on_durable` decides about the high watermark: without replicas that is the same offset. The last stable offset is
  the first offset of the oldest transaction that is open or whose marker is not below the high watermark, or else the
  high watermark itself.
- A failed sync takes the log offline for good.
"""

import asyncio
import heapq
from collections.abc import Callable
from typing import Any, Final

from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import TopicPartition, Uuid
from eosin.storage.disk.interfaces import Buffer
from eosin.storage.log.config import LogConfig
from eosin.storage.log.context import LogContext
from eosin.storage.log.readable_log import ReadableLog
from eosin.storage.log.segmented_log import LOG
from eosin.storage.producers.state import ProducerState
from eosin.storage.results.log_results import Refused

Waiter = asyncio.Future[ErrorCode]


class Waiters:
    """Futures by the end offset that each waits for."""

    __slots__ = ("_heap", "_made")

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Waiter]] = []
        self._made = 0

    def __bool__(self) -> bool:
        return bool(self._heap)

    def add(self, end_offset: int) -> Waiter:
        """A future that is done once the high watermark is at or beyond `end_offset`."""
        waiter: Waiter = asyncio.get_running_loop().create_future()
        self._made += 1
        heapq.heappush(self._heap, (end_offset, self._made, waiter))
        return waiter

    def reached(self, high_watermark: int) -> bool:
        """Complete every future up to `high_watermark`; returns whether any is left."""
        heap = self._heap
        while heap and heap[0][0] <= high_watermark:
            waiter = heapq.heappop(heap)[2]
            if not waiter.done():
                waiter.set_result(ErrorCode.NONE)
        return bool(heap)

    def give_up(self, error: ErrorCode) -> None:
        """Complete every future with `error`."""
        waiting, self._heap = sorted(self._heap), []
        for _, _, waiter in waiting:
            if not waiter.done():
                waiter.set_result(error)


NOT_LEADER: Final = Refused(ErrorCode.NOT_LEADER_OR_FOLLOWER, "this broker does not lead the partition")


def commit_what_is_durable(log: "CommittedLog") -> None:
    """`on_durable` of a log without replicas elsewhere."""
    log.advance_high_watermark(log.durable_end)


def wait_for_replicas(log: "CommittedLog") -> None:
    """`on_durable` of a log whose high watermark is set from outside."""


class CommittedLog(ReadableLog):
    """A log that knows what of it is committed."""

    __slots__ = (
        "_local_waiters",
        "_no_appends",
        "_truncation",
        "_waiters",
        "failure",
        "loaded_high_watermark",
        "on_durable",
        "on_progress",
        "producer_state",
    )

    def __init__(
        self,
        context: LogContext,
        topic_partition: TopicPartition,
        *,
        directory: str,
        topic_id: Uuid,
        config: LogConfig,
        leader_epoch: int,
        log_start_offset: int,
    ) -> None:
        super().__init__(
            context,
            topic_partition,
            directory=directory,
            topic_id=topic_id,
            config=config,
            leader_epoch=leader_epoch,
            log_start_offset=log_start_offset,
        )
        self.failure: OSError | None = None
        """The reason why the log is offline, if it is."""
        self.loaded_high_watermark: int | None = None
        """High watermark of a replica's checkpoint at the start: while it is the same, nobody has told more since."""
        self.on_progress: Callable[[Any], None] | None = None
        """Called with the log, in the event loop, whenever the high watermark, the last stable offset, the log start or
        `failure` has changed. It may run inside an append, so it must not write to this log."""
        self.on_durable: Callable[[Any], None] = wait_for_replicas if context.is_replicated else commit_what_is_durable
        """Called with the log, in the event loop, when the durable end has moved; as restricted as `on_progress`."""
        self.producer_state = ProducerState()
        self._no_appends: Refused | None = NOT_LEADER if context.is_replicated else None
        """The refusal of appends by clients and coordinators; None if they may append."""
        self._waiters: Waiters | None = None
        self._local_waiters: Waiters | None = None
        self._truncation: asyncio.Future[None] | None = None

    def durable(self, end_offset: int) -> Waiter:
        """Done with NONE once the high watermark is at or beyond `end_offset`; with KAFKA_STORAGE_ERROR when the log
        has failed, UNKNOWN_TOPIC_OR_PARTITION when it is deleted, NOT_LEADER_OR_FOLLOWER when this broker leads the
        partition no more. Cancelling it undoes nothing."""
        if self._waiters is None:
            self._waiters = Waiters()
        return self._waiter(self._waiters, end_offset, self.high_watermark)

    def durable_here(self, end_offset: int) -> Waiter:
        """As `durable`, for the durable end: an answer at acks=1 waits for no replica (cluster.md 4.10.4)."""
        if self._local_waiters is None:
            self._local_waiters = Waiters()
        return self._waiter(self._local_waiters, end_offset, self.durable_end)

    def _waiter(self, waiters: Waiters, end_offset: int, reached: int) -> Waiter:
        waiter = waiters.add(end_offset)
        if end_offset <= reached:
            waiters.reached(reached)
        elif self._no_appends is not None:
            waiters.give_up(self._no_appends.error)
        return waiter

    def fail_waiters(self, error: ErrorCode) -> None:
        """Complete every future of `durable` and `durable_here` with `error`."""
        for waiters in (self._waiters, self._local_waiters):
            if waiters is not None:
                waiters.give_up(error)

    def report_write(
        self, size: int, buffers: tuple[Buffer, ...], *, awaited: bool = True, base_offset: int | None = None
    ) -> None:
        """`size` bytes were written, those of `buffers`. They are durable at once, unless the flusher defers that and
        is told (`Flusher.appended`)."""
        if self._defers:
            self.context.flusher.appended(self, size, buffers, awaited=awaited, base_offset=base_offset)
        else:
            self.advance(self.log_end_offset)

    def end_flush(self, end_offset: int, error: OSError | None) -> None:
        """Everything below `end_offset` is durable, or a sync failed (`Flushable`)."""
        if error is not None:
            self.fail(error)
        elif self._unusable is None:
            self.advance(end_offset)

    def advance(self, end_offset: int) -> None:
        """Move the durable end up to `end_offset`; `on_durable` moves the rest."""
        if end_offset <= self.durable_end:
            return
        self.durable_end = end_offset
        if self._local_waiters is not None and not self._local_waiters.reached(end_offset):
            self._local_waiters = None
        if self.on_durable is commit_what_is_durable:
            self._commit(end_offset)  # the same, without two calls for each append
        else:
            self.on_durable(self)

    def advance_high_watermark(self, offset: int) -> None:
        """Move the high watermark up to `offset`, or the log end if that is lower, and the last stable offset with it.
        It does not move back."""
        end_offset = min(offset, self.log_end_offset)
        if end_offset > self.high_watermark:
            self._commit(end_offset)

    def _commit(self, end_offset: int) -> None:
        self.high_watermark = end_offset
        transactions = self.producer_state.transactions
        if transactions.is_any:
            self._settle(transactions.high_watermark_moved(end_offset))
        else:
            self.last_stable_offset = end_offset
        if self._waiters is not None and not self._waiters.reached(end_offset):
            self._waiters = None
        if self.on_progress is not None:
            self.on_progress(self)

    def settle_last_stable(self) -> None:
        """Compute the last stable offset again."""
        self._settle(self.producer_state.transactions.first_unstable)

    def _settle(self, unstable: int | None) -> None:
        if unstable is None or unstable >= self.high_watermark:
            self.last_stable_offset = self.high_watermark
        else:
            self.last_stable_offset = max(unstable, self.log_start_offset)

    def fail(self, error: OSError) -> None:
        """Take the log offline, for good: the page cache can no longer be trusted (storage.md section 11)."""
        if self._unusable is not None:
            return
        LOG.critical("%s-%d is offline: %s", self.topic, self.partition, error)
        self.failure = error
        self.context.owner.failed(self)
        self._stop(Refused(ErrorCode.KAFKA_STORAGE_ERROR, f"the log is offline: {error}"))

    def retire(self) -> None:
        """The partition is deleted: refuse everything from now on."""
        self.forget_unsynced()
        if self._unusable is None or self.failure is not None:
            self._stop(Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "the partition has been deleted"))

    def _stop(self, refused: Refused) -> None:
        self._unusable = self._no_appends = refused
        self.fail_waiters(refused.error)
        if self.on_progress is not None:
            self.on_progress(self)

    @property
    def is_lost(self) -> bool:
        """True if it is offline (`Flushable`)."""
        return self.failure is not None

    # Truncation -----------------------------------------------------------------------------------------------------

    def begin_truncation(self) -> None:
        """Begin to cut off the records that this follower has and its leader has not (cluster.md 4.8)."""
        assert self._no_appends is not None, "a leader's log is the authority"
        self.is_truncating = True
        self.truncations += 1
        self._truncation = asyncio.get_running_loop().create_future()
        self.fail_waiters(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def lower_to(self, offset: int) -> None:
        """Nothing at or behind `offset` counts as durable, committed or saved any more."""
        self.durable_end = min(self.durable_end, offset)
        self.high_watermark = min(self.high_watermark, offset)
        self.last_stable_offset = min(self.last_stable_offset, offset)
        self.checkpoint_state.lower(offset)

    def restart_at(self, offset: int) -> None:
        """Nothing counts any more: the log is about to start at `offset`, without records."""
        self.log_start_offset = self.durable_end = offset
        self.high_watermark = self.last_stable_offset = offset
        self.checkpoint_state.lower(0)

    def truncated(self, producers: ProducerState) -> None:
        """Everything behind the log end is gone; `producers` are those at the log end."""
        end_offset = self.log_end_offset
        self.lower_to(end_offset)
        self.checkpoint_state.truncated(end_offset, self.size_bytes)
        self.producer_state = producers
        producers.transactions.high_watermark_moved(self.high_watermark)
        self.settle_last_stable()
        self.mark_unsaved()
        if self.on_progress is not None:
            self.on_progress(self)

    def end_truncation(self) -> None:
        """It is done, or has failed."""
        self.is_truncating = False
        assert self._truncation is not None
        self._truncation.set_result(None)
        self._truncation = None

    async def settled(self) -> None:
        """Wait until no truncation is under way."""
        while self._truncation is not None:
            await asyncio.shield(self._truncation)
