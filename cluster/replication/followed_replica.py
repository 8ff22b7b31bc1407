"""`FollowedReplica`: one partition that this broker follows: its log, its state, and the work that the state asks for.

Carries out the decisions of `followed_partition.py`. Always true: nothing but this object writes to the log while the
partition is followed; effects run in their order, in one step, except that cutting a log takes time: until that has
ended nothing else is done to it, whatever the cluster decides meanwhile, and one log is cut once at a time.
"""

import logging
from collections.abc import Callable, Coroutine
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from eosin.cluster.replication.fetch_session import PartitionKey
from eosin.cluster.replication.rules.followed_partition import (
    AdvanceHighWatermark,
    AdvanceLogStart,
    Append,
    Cut,
    Effect,
    Event,
    FetchPosition,
    FollowedPartition,
    ListOffset,
    LogRefused,
    Phase,
    ReportPartition,
    StartAt,
    Truncate,
    awaits,
    carried_out,
    decide,
    is_durable,
    position_of,
)
from eosin.protocol.errors import ErrorCode
from eosin.runtime.clock import Clock
from eosin.storage.results.log_results import Refused

if TYPE_CHECKING:
    from eosin.protocol.names import TopicPartition, Uuid
    from eosin.storage.log.partition_log import PartitionLog

_LOG: Final = logging.getLogger("eosin.cluster.replication")

Start = Callable[[Coroutine[Any, Any, None]], object]
"""Has a coroutine run in the background, to its end."""
Changed = Callable[["FollowedReplica"], None]


def nobody(replica: "FollowedReplica") -> None:
    """`Changed` of a replica that no fetcher has."""


class FollowedReplica:
    """One partition that this broker follows."""

    __slots__ = (
        "_backoff_ms",
        "_clock",
        "_is_cutting",
        "_start",
        "_when_cut",
        "changed",
        "followed",
        "key",
        "leader_high_watermark",
        "log",
    )

    def __init__(
        self, log: "PartitionLog", topic_id: "Uuid", leader_epoch: int, *, clock: Clock, start: Start, backoff_ms: int
    ) -> None:
        """Follow from `log`'s end in `leader_epoch`. `start` runs what takes time; `backoff_ms` is
        `replica.fetch.backoff.ms`. The log's owner has called `become_follower` on it."""
        self.key = PartitionKey(topic_id, log.topic_partition.partition)
        self.log = log
        self.followed = FollowedPartition(leader_epoch)
        self.changed: Changed = nobody
        """Called whenever the replica may want something else of its fetcher."""
        self.leader_high_watermark: int | None = None
        """The high watermark that the leader of this epoch told last, of a log that this one continues; None before."""
        self._clock = clock
        self._start = start
        self._backoff_ms = backoff_ms
        self._is_cutting = False
        self._when_cut: Callable[[], None] | None = None
        log.on_durable = self._durable

    @property
    def partition(self) -> "TopicPartition":
        """The partition that is followed."""
        return self.log.topic_partition

    @property
    def position(self) -> FetchPosition | None:
        """From where its leader should send; None while it should not."""
        return position_of(self.followed, self.log) if self.followed.may_fetch and is_durable(self.log) else None

    @property
    def waits_for_sync(self) -> bool:
        """True if it could be fetched, were its log durable."""
        return self.followed.may_fetch and not is_durable(self.log)

    def awaits(self, position: FetchPosition) -> bool:
        """True if it has a use for its leader's answer to a fetch from `position`."""
        return awaits(self.followed, position, self.log)

    @property
    def retry_at_ms(self) -> int | None:
        """The time when its back-off ends, on the monotonic clock; None without one."""
        return self.followed.retry_at_ms if self.followed.phase is Phase.BACKING_OFF else None

    @property
    def requested_timestamp(self) -> int | None:
        """The offset that its leader is to be asked for, as ListOffsets spells it; None for none."""
        return _ASKING.get(self.followed.phase)

    @property
    def is_cutting(self) -> bool:
        """True if its log is being cut."""
        return self._is_cutting

    def follow(self, leader_epoch: int) -> None:
        """A leader of a new epoch is followed, from the log's end; what the old one waited for is over."""
        self.followed = FollowedPartition(leader_epoch, Phase.CUTTING if self._is_cutting else Phase.FETCHING)
        self.leader_high_watermark = None
        self.changed(self)

    def release(self, then: Callable[[], None]) -> None:
        """Follow no more. `then` is called once nothing works on the log any more: now, unless it is being cut."""
        self.followed = FollowedPartition(self.followed.leader_epoch, Phase.FENCED)
        self.changed = nobody
        if self._is_cutting:
            self._when_cut = then
        else:
            then()

    def handle(self, event: Event) -> None:
        """Something has happened: decide, and carry out what follows."""
        while True:
            before = self.followed
            self.followed, effects = decide(
                before, event, self.log, now_ms=self._clock.elapsed_ms(), backoff_ms=self._backoff_ms
            )
            refused = self._carry_out(effects)
            if refused is None:
                if effects and isinstance(effects[0], Append):
                    self.followed = carried_out(self.followed)
                break
            event = refused
        self.changed(self)

    def _carry_out(self, effects: tuple[Effect, ...]) -> LogRefused | None:
        """Each effect in turn, up to the first that the log refuses."""
        for effect in effects:
            match effect:
                case Append():
                    refused = self._append(effect)
                    if refused is not None:
                        return refused
                case AdvanceHighWatermark():
                    self.leader_high_watermark = effect.offset
                    self.log.advance_high_watermark(effect.offset)
                case AdvanceLogStart():
                    self.log.follow_log_start(effect.offset)
                case Truncate():
                    self._report_truncation(effect)
                    self._cut(partial(self.log.truncate_to, effect.offset))
                case StartAt():
                    self._cut(partial(self.log.truncate_fully_and_start_at, effect.offset))
                case ListOffset():
                    pass  # the fetcher sees it in the state, and asks for many partitions at once
                case ReportPartition():
                    _LOG.log(logging.ERROR if effect.is_error else logging.INFO, "%s: %s", self.partition, effect.text)
        return None

    def _append(self, effect: Append) -> LogRefused | None:
        result = self.log.append_as_follower(effect.records, max_epoch=effect.max_epoch, now_ms=self._clock.now_ms())
        if isinstance(result, Refused):
            return LogRefused(
                result.error, result.message or result.error.name, is_offline=self.log.failure is not None
            )
        if result.appended_bytes == 0:
            # Its place in the leader's session has not moved either: the same answer would come again at once.
            return LogRefused(ErrorCode.CORRUPT_MESSAGE, "its leader sent no whole batch of its own leader epoch")
        return None

    def _report_truncation(self, cut: Truncate) -> None:
        log = self.log
        level, loss = _loss(log, cut)
        _LOG.log(
            level,
            "%s is cut from %d to %d, as its leader in epoch %d has another history%s",
            self.partition,
            log.log_end_offset,
            cut.offset,
            self.followed.leader_epoch,
            loss,
        )

    def _cut(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        assert not self._is_cutting
        self._is_cutting = True
        self._start(self._cut_to_its_end(work))

    async def _cut_to_its_end(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        try:
            await work()
        finally:
            self._is_cutting = False
        event: Event = Cut()
        if self.log.failure is not None:
            event = LogRefused(ErrorCode.KAFKA_STORAGE_ERROR, str(self.log.failure), is_offline=True)
        then, self._when_cut = self._when_cut, None
        if then is not None:
            then()
        else:
            self.handle(event)

    def _durable(self, log: "PartitionLog") -> None:
        """`on_durable` of the log: its high watermark is its leader's to decide."""
        if is_durable(log):
            self.changed(self)


def _loss(log: "PartitionLog", cut: Truncate) -> tuple[int, str]:
    """The possible loss by a cut, as the level and the end of its line. A leader that has crashed leaves a tail of its
    own that was never committed; whoever loses more has met a leader that lacks something."""
    if cut.below_high_watermark:
        return logging.ERROR, f": {log.high_watermark - cut.offset} COMMITTED offsets go"
    size = log.log_end_offset - cut.offset
    if size == 0 or log.high_watermark != log.loaded_high_watermark:
        return logging.INFO, ""
    epochs = log.epochs.entries
    is_tail = log.log_start_offset < cut.offset and (not epochs or epochs[-1][1] <= cut.offset)
    level = logging.WARNING if is_tail else logging.ERROR
    return level, f": {size} offsets go, and any of them MAY HAVE BEEN COMMITTED: nobody has told since this start"


_ASKING: Final = {Phase.ASKING_LATEST: -1, Phase.ASKING_EARLIEST: -2}
