"""`FollowedPartition`: a replica that copies its leader's log, from one answer of the leader to the next (cluster.md
4.5, 4.6, 4.7). Pure: what happened comes in, the next state and what must be done come out, in order.

Always true:
- An answer counts only while the partition is fetched at the same leader epoch, and from the present log end.
- Nothing is appended that the leader has not said is the continuation of this very log: an answer with a diverging
  epoch cuts the log and appends nothing.
- A new leader epoch begins a new state; nothing that an older one waited for reaches it.

Effects are carried out from left to right. If one fails, the rest is not carried out, and the failure comes back as an
event of its own.
"""

from enum import Enum
from typing import Final, NamedTuple, Protocol, assert_never

import msgspec

from eosin.cluster.replication.rules.truncation import Divergence, LogEpochs, truncation_for
from eosin.protocol.errors import ErrorCode
from eosin.protocol.records.compression import BytesLike
from eosin.storage.log.leader_epochs import LeaderEpochs

LATEST: Final = -1
EARLIEST: Final = -2
"""As in ListOffsets."""

CORRUPT_RESPONSES_PER_LOG_LINE: Final = 10


class Phase(Enum):
    """The phase of a followed partition: the event that it waits for."""

    FETCHING = "fetching"
    """It takes part in fetches, once what it has is durable."""
    BACKING_OFF = "backing off"
    """The leader could not serve it; it fetches again when `retry_at_ms` has come."""
    CUTTING = "cutting"
    """Its log is being truncated, or started anew at another offset."""
    ASKING_LATEST = "asking for the leader's log end"
    ASKING_EARLIEST = "asking for the leader's log start"
    FENCED = "fenced"
    """The leader is newer than our metadata: only a delta goes on (cluster.md 4.6)."""
    FAILED = "failed"
    """It cannot be followed, until a restart or a new leader epoch."""


class FetchPosition(msgspec.Struct, frozen=True, gc=False):
    """From where a partition is fetched: the part of a request that an answer must still fit."""

    leader_epoch: int
    fetch_offset: int
    last_fetched_epoch: int
    """The epoch of the last batch in the log, -1 for none. Read from the log each time, so that an answer without
    records changes nothing (KAFKA-15510)."""
    log_start_offset: int


class ReplicaLog(Protocol):
    """A replica's log, as far as following depends on it: a partition's log is one."""

    @property
    def epochs(self) -> LeaderEpochs:
        """The leader epochs of what is in it."""

    @property
    def log_start_offset(self) -> int:
        """The first offset that may be read."""

    @property
    def durable_end(self) -> int:
        """Everything below is as durable as configured."""

    @property
    def log_end_offset(self) -> int:
        """The offset of the next record."""

    @property
    def high_watermark(self) -> int:
        """Everything below is known to be committed."""


# What happens --------------------------------------------------------------------------------------------------------


class Answered(msgspec.Struct, frozen=True, gc=False):
    """The leader's answer to a fetch from `position`."""

    position: FetchPosition
    error: ErrorCode
    high_watermark: int = -1
    log_start_offset: int = -1
    divergence: Divergence | None = None
    records: BytesLike = b""


class OffsetListed(msgspec.Struct, frozen=True, gc=False):
    """The leader's answer to `ListOffset`."""

    leader_epoch: int
    """At which it was asked."""
    error: ErrorCode
    offset: int = -1


class Cut(msgspec.Struct, frozen=True, gc=False):
    """`Truncate` or `StartAt` has been carried out. A log is cut once at a time, whatever the leader epoch is by
    then."""


class LogRefused(msgspec.Struct, frozen=True, gc=False):
    """The log could not take what an effect asked of it: its error, as storage gives it."""

    error: ErrorCode
    reason: str
    is_offline: bool = False
    """True if the log takes nothing any more."""


class FetchRetryDue(msgspec.Struct, frozen=True, gc=False):
    """`retry_at_ms` has come."""


Event = Answered | OffsetListed | Cut | LogRefused | FetchRetryDue


# What must be done ---------------------------------------------------------------------------------------------------


class Append(msgspec.Struct, frozen=True, gc=False):
    """Append whole batches as the leader wrote them, up to the first of a later epoch than `max_epoch`: a leader that
    truncates while it sends may mix them (KAFKA-18723)."""

    records: BytesLike
    max_epoch: int


class AdvanceHighWatermark(msgspec.Struct, frozen=True, gc=False):
    """Move the high watermark up to the leader's, at most to the log end."""

    offset: int


class AdvanceLogStart(msgspec.Struct, frozen=True, gc=False):
    """Move the log start up to the leader's, if that is higher, and let go of the segments below it."""

    offset: int


class Truncate(msgspec.Struct, frozen=True, gc=False):
    """Cut the log at `offset`; then say `Cut`."""

    offset: int
    below_high_watermark: bool
    """True if committed records go: after an unclean election, or a lost disk."""


class StartAt(msgspec.Struct, frozen=True, gc=False):
    """Drop everything and begin an empty log at `offset`; then say `Cut`."""

    offset: int


class ListOffset(msgspec.Struct, frozen=True, gc=False):
    """Ask the leader, by ListOffsets, where its log ends (`LATEST`) or starts (`EARLIEST`)."""

    timestamp: int


class ReportPartition(msgspec.Struct, frozen=True, gc=False):
    """Log a line about the partition."""

    text: str
    is_error: bool = False


Effect = Append | AdvanceHighWatermark | AdvanceLogStart | Truncate | StartAt | ListOffset | ReportPartition


# The state -----------------------------------------------------------------------------------------------------------


class FollowedPartition(msgspec.Struct, frozen=True):
    """A partition that is followed in one leader epoch."""

    leader_epoch: int
    phase: Phase = Phase.FETCHING
    retry_at_ms: int = 0
    """On the monotonic clock; while BACKING_OFF."""
    corrupt_answers: int = 0
    """In a row."""

    @property
    def may_fetch(self) -> bool:
        """True if it takes part in fetches, as far as this state goes."""
        return self.phase is Phase.FETCHING


class FollowerDecision(NamedTuple):
    """The next state and the effects of an event."""

    followed: FollowedPartition
    effects: tuple[Effect, ...] = ()


def position_of(followed: FollowedPartition, log: ReplicaLog) -> FetchPosition:
    """From where the partition is fetched next: from its log end, which must be durable (cluster.md 4.10.2)."""
    assert is_durable(log)
    return FetchPosition(followed.leader_epoch, log.log_end_offset, log.epochs.latest, log.log_start_offset)


def is_durable(log: ReplicaLog) -> bool:
    """True if everything in the log is as durable as configured. Only then may it be fetched from its end, since its
    leader counts what lies below as safe (cluster.md 4.10.2)."""
    return log.durable_end >= log.log_end_offset


def decide(
    followed: FollowedPartition, event: Event, log: ReplicaLog, *, now_ms: int, backoff_ms: int
) -> FollowerDecision:
    """The next state and what must be done, in order. `now_ms` is of the monotonic clock; `backoff_ms` is
    `replica.fetch.backoff.ms`."""
    match event:
        case Answered():
            return _fetch_completed(followed, event, log, retry_at_ms=now_ms + backoff_ms)
        case OffsetListed():
            return _offset_listed(followed, event, log, retry_at_ms=now_ms + backoff_ms)
        case Cut():
            return FollowerDecision(_to(followed, Phase.FETCHING) if followed.phase is Phase.CUTTING else followed)
        case LogRefused():
            return _log_refused(followed, event, retry_at_ms=now_ms + backoff_ms)
        case FetchRetryDue():
            if followed.phase is not Phase.BACKING_OFF or now_ms < followed.retry_at_ms:
                return FollowerDecision(followed)
            return FollowerDecision(_to(followed, Phase.FETCHING))
        case _:
            assert_never(event)


def carried_out(followed: FollowedPartition) -> FollowedPartition:
    """All effects of an answer were carried out, an append among them: the next damaged answer is the first again."""
    return followed if followed.corrupt_answers == 0 else msgspec.structs.replace(followed, corrupt_answers=0)


def awaits(followed: FollowedPartition, position: FetchPosition, log: ReplicaLog) -> bool:
    """True if an answer to a fetch from `position` is of use; else it was asked in another state of things."""
    return (
        followed.phase is Phase.FETCHING
        and position.leader_epoch == followed.leader_epoch
        and position.fetch_offset == log.log_end_offset
    )


def _fetch_completed(
    followed: FollowedPartition, answer: Answered, log: ReplicaLog, *, retry_at_ms: int
) -> FollowerDecision:
    if not awaits(followed, answer.position, log):
        return FollowerDecision(followed)
    if answer.error is ErrorCode.OFFSET_OUT_OF_RANGE:
        return FollowerDecision(_to(followed, Phase.ASKING_LATEST), (ListOffset(LATEST),))
    if answer.error in _CORRUPT:
        return _corrupt(followed, f"its leader says {answer.error.name}", retry_at_ms=retry_at_ms)
    if answer.error is not ErrorCode.NONE:
        return _refused(followed, answer.error, retry_at_ms=retry_at_ms)
    if answer.divergence is not None:
        return _diverged(followed, answer.divergence, log)
    return _continued(followed, answer, log)


def _continued(followed: FollowedPartition, answer: Answered, log: ReplicaLog) -> FollowerDecision:
    """The answer goes on where the log ends. An answer with records may move the log start though the leader's is not
    higher than ours: an empty log begins with the whole first batch (cluster.md 4.6)."""
    has_records = len(answer.records) > 0
    effects: list[Effect] = []
    if has_records:
        effects.append(Append(answer.records, followed.leader_epoch))
    effects.append(AdvanceHighWatermark(answer.high_watermark))
    if has_records or answer.log_start_offset > log.log_start_offset:
        effects.append(AdvanceLogStart(answer.log_start_offset))
    return FollowerDecision(followed, tuple(effects))


def _diverged(followed: FollowedPartition, divergence: Divergence, log: ReplicaLog) -> FollowerDecision:
    epochs = LogEpochs(log.epochs.entries, log.log_end_offset, log.high_watermark)
    return _truncate(followed, truncation_for(divergence, epochs).offset, log)


def _truncate(followed: FollowedPartition, offset: int, log: ReplicaLog) -> FollowerDecision:
    effects = (Truncate(offset, below_high_watermark=offset < log.high_watermark),)
    return FollowerDecision(_to(followed, Phase.CUTTING), effects)


def _offset_listed(
    followed: FollowedPartition, told: OffsetListed, log: ReplicaLog, *, retry_at_ms: int
) -> FollowerDecision:
    """Apply the end, or the start, of the leader's log, for a log that it calls out of its range (cluster.md 4.7)."""
    is_asking = followed.phase in (Phase.ASKING_LATEST, Phase.ASKING_EARLIEST)
    if not is_asking or told.leader_epoch != followed.leader_epoch:
        return FollowerDecision(followed)
    if told.error is not ErrorCode.NONE:
        return _refused(followed, told.error, retry_at_ms=retry_at_ms)
    if followed.phase is Phase.ASKING_LATEST:
        if told.offset < log.log_end_offset:
            return _truncate(followed, told.offset, log)
        return FollowerDecision(_to(followed, Phase.ASKING_EARLIEST), (ListOffset(EARLIEST),))
    if told.offset > log.log_end_offset:
        text = f"its leader starts at {told.offset}, behind its end {log.log_end_offset}: it begins again there"
        return FollowerDecision(_to(followed, Phase.CUTTING), (ReportPartition(text), StartAt(told.offset)))
    # It is in range again. Not at once: a leader that goes on refusing it must not be asked without a pause.
    return FollowerDecision(_back_off(followed, retry_at_ms))


def _refused(followed: FollowedPartition, error: ErrorCode, *, retry_at_ms: int) -> FollowerDecision:
    """The leader cannot or will not serve it (the table of cluster.md 4.6)."""
    if error is ErrorCode.FENCED_LEADER_EPOCH:
        return FollowerDecision(_to(followed, Phase.FENCED))
    if error is ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE:
        return _failed(
            followed, "its leader keeps it in tiered storage (remote.storage.enable), which Eosin cannot follow"
        )
    backing_off = _back_off(followed, retry_at_ms)
    if error in _PASSING:
        return FollowerDecision(backing_off)
    return FollowerDecision(backing_off, (ReportPartition(f"its leader answers {error.name}", is_error=True),))


def _log_refused(followed: FollowedPartition, refused: LogRefused, *, retry_at_ms: int) -> FollowerDecision:
    if refused.is_offline or refused.error is ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT:
        return _failed(followed, refused.reason)
    if refused.error in _CORRUPT:
        return _corrupt(followed, refused.reason, retry_at_ms=retry_at_ms)
    return FollowerDecision(_back_off(followed, retry_at_ms))  # the log itself has said why


def _corrupt(followed: FollowedPartition, reason: str, *, retry_at_ms: int) -> FollowerDecision:
    """Says so at the first answer, and at each tenth."""
    count = followed.corrupt_answers + 1
    backing_off = msgspec.structs.replace(_back_off(followed, retry_at_ms), corrupt_answers=count)
    if count != 1 and count % CORRUPT_RESPONSES_PER_LOG_LINE != 0:
        return FollowerDecision(backing_off)
    return FollowerDecision(backing_off, (ReportPartition(f"{reason} ({count} in a row)", is_error=True),))


def _failed(followed: FollowedPartition, reason: str) -> FollowerDecision:
    return FollowerDecision(
        _to(followed, Phase.FAILED), (ReportPartition(f"it is not followed any more: {reason}", is_error=True),)
    )


def _to(followed: FollowedPartition, phase: Phase) -> FollowedPartition:
    return msgspec.structs.replace(followed, phase=phase)


def _back_off(followed: FollowedPartition, retry_at_ms: int) -> FollowedPartition:
    return msgspec.structs.replace(followed, phase=Phase.BACKING_OFF, retry_at_ms=retry_at_ms)


_CORRUPT: Final = frozenset({ErrorCode.CORRUPT_MESSAGE, ErrorCode.INVALID_RECORD})
_PASSING: Final = frozenset(
    {
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.REQUEST_TIMED_OUT,
    }
)
"""Errors that every election and every restart brings along: nobody needs a line about them."""
