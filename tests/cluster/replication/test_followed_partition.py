"""What a follower makes of its leader's answers (cluster.md 4.5, 4.6, 4.7)."""

from dataclasses import dataclass, field

import msgspec
import pytest

from eosin.cluster.replication.rules.followed_partition import (
    EARLIEST,
    LATEST,
    AdvanceHighWatermark,
    AdvanceLogStart,
    Answered,
    Append,
    Cut,
    Event,
    FetchPosition,
    FetchRetryDue,
    FollowedPartition,
    FollowerDecision,
    ListOffset,
    LogRefused,
    OffsetListed,
    Phase,
    ReportPartition,
    StartAt,
    Truncate,
    carried_out,
    decide,
    position_of,
)
from eosin.cluster.replication.rules.truncation import Divergence
from eosin.protocol.errors import ErrorCode
from eosin.storage.log.leader_epochs import LeaderEpochs

NOW_MS = 5000
BACKOFF_MS = 1000


@dataclass
class Log:
    log_start_offset: int = 0
    high_watermark: int = 40
    durable_end: int = 50
    log_end_offset: int = 50
    epochs: LeaderEpochs = field(default_factory=lambda: LeaderEpochs([(1, 0), (3, 30)]))


FOLLOWED = FollowedPartition(leader_epoch=4)


def step(
    event: Event, *, followed: FollowedPartition = FOLLOWED, log: Log | None = None, now_ms: int = NOW_MS
) -> FollowerDecision:
    return decide(followed, event, log or Log(), now_ms=now_ms, backoff_ms=BACKOFF_MS)


def answer(
    error: ErrorCode = ErrorCode.NONE,
    *,
    epoch: int = 4,
    offset: int = 50,
    high_watermark: int = 45,
    log_start_offset: int = 0,
    divergence: Divergence | None = None,
    records: bytes = b"",
) -> Answered:
    position = FetchPosition(epoch, offset, 3, 0)
    return Answered(position, error, high_watermark, log_start_offset, divergence, records)


def batch_at(offset: int) -> bytes:
    return offset.to_bytes(8, "big") + bytes(80)


def asking(phase: Phase) -> FollowedPartition:
    return msgspec.structs.replace(FOLLOWED, phase=phase)


def test_it_asks_from_its_log_end_with_the_epoch_of_its_last_batch() -> None:
    assert position_of(FOLLOWED, Log()) == FetchPosition(4, 50, 3, 0)


def test_an_empty_log_has_no_last_epoch() -> None:
    empty = Log(epochs=LeaderEpochs(), high_watermark=0, durable_end=0, log_end_offset=0)
    assert position_of(FOLLOWED, empty) == FetchPosition(4, 0, -1, 0)


def test_a_log_that_is_not_durable_yet_has_no_position() -> None:
    with pytest.raises(AssertionError):
        position_of(FOLLOWED, Log(durable_end=49))


def test_records_are_appended_before_the_high_watermark_and_the_log_start_move() -> None:
    decision = step(answer(records=batch_at(50), log_start_offset=7))
    assert decision.followed == FOLLOWED
    assert decision.effects == (Append(batch_at(50), 4), AdvanceHighWatermark(45), AdvanceLogStart(7))


def test_an_answer_without_records_moves_the_high_watermark() -> None:
    assert step(answer()).effects == (AdvanceHighWatermark(45),)
    assert step(answer(log_start_offset=7)).effects == (AdvanceHighWatermark(45), AdvanceLogStart(7))


@pytest.mark.parametrize(
    "late",
    [
        answer(epoch=3, records=batch_at(50)),
        answer(offset=48, records=batch_at(48)),
        answer(offset=52, records=batch_at(52)),
        answer(ErrorCode.OFFSET_OUT_OF_RANGE, epoch=3),
        answer(offset=48, divergence=Divergence(1, 10)),
    ],
)
def test_an_answer_to_an_older_epoch_or_another_log_end_is_ignored(late: Answered) -> None:
    assert step(late) == (FOLLOWED, ())


@pytest.mark.parametrize("phase", [phase for phase in Phase if phase is not Phase.FETCHING])
def test_an_answer_is_ignored_while_something_else_is_waited_for(phase: Phase) -> None:
    assert step(answer(records=batch_at(50)), followed=asking(phase)) == (asking(phase), ())


def test_a_diverging_epoch_cuts_the_log_and_appends_nothing() -> None:
    decision = step(answer(divergence=Divergence(3, 44), records=batch_at(50)))
    assert decision.followed.phase is Phase.CUTTING
    assert decision.effects == (Truncate(44, below_high_watermark=False),)


def test_a_cut_below_the_high_watermark_is_marked_as_one() -> None:
    assert step(answer(divergence=Divergence(3, 39))).effects == (Truncate(39, below_high_watermark=True),)


def test_it_fetches_again_once_the_log_is_cut() -> None:
    decision = step(Cut(), followed=asking(Phase.CUTTING))
    assert decision == (FOLLOWED, ())


def test_the_end_of_a_cut_ends_nothing_else() -> None:
    assert step(Cut(), followed=asking(Phase.FENCED)).followed.phase is Phase.FENCED


def test_out_of_range_asks_for_the_log_end_of_the_leader() -> None:
    decision = step(answer(ErrorCode.OFFSET_OUT_OF_RANGE))
    assert decision.followed.phase is Phase.ASKING_LATEST
    assert decision.effects == (ListOffset(LATEST),)


def test_a_leader_that_ends_earlier_cuts_the_log_there() -> None:
    decision = step(OffsetListed(4, ErrorCode.NONE, 45), followed=asking(Phase.ASKING_LATEST))
    assert decision.followed.phase is Phase.CUTTING
    assert decision.effects == (Truncate(45, below_high_watermark=False),)


def test_a_leader_that_ends_later_is_asked_where_it_starts() -> None:
    decision = step(OffsetListed(4, ErrorCode.NONE, 50), followed=asking(Phase.ASKING_LATEST))
    assert decision.followed.phase is Phase.ASKING_EARLIEST
    assert decision.effects == (ListOffset(EARLIEST),)


def test_a_leader_that_starts_behind_the_log_end_makes_it_begin_again() -> None:
    decision = step(OffsetListed(4, ErrorCode.NONE, 70), followed=asking(Phase.ASKING_EARLIEST))
    assert decision.followed.phase is Phase.CUTTING
    assert decision.effects[-1] == StartAt(70)
    assert isinstance(decision.effects[0], ReportPartition)


def test_a_log_that_is_in_range_again_goes_on_after_a_pause() -> None:
    decision = step(OffsetListed(4, ErrorCode.NONE, 20), followed=asking(Phase.ASKING_EARLIEST))
    assert decision.followed.phase is Phase.BACKING_OFF
    assert decision.effects == ()


def test_an_offset_of_an_older_leader_epoch_is_ignored() -> None:
    asked = asking(Phase.ASKING_LATEST)
    assert step(OffsetListed(3, ErrorCode.NONE, 10), followed=asked) == (asked, ())


def test_a_leader_that_cannot_tell_its_offsets_is_asked_again_later() -> None:
    told = OffsetListed(4, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert step(told, followed=asking(Phase.ASKING_LATEST)).followed.phase is Phase.BACKING_OFF


def test_a_fenced_epoch_waits_for_newer_metadata() -> None:
    fenced = step(answer(ErrorCode.FENCED_LEADER_EPOCH)).followed
    assert fenced.phase is Phase.FENCED
    assert step(FetchRetryDue(), followed=fenced, now_ms=10**9).followed.phase is Phase.FENCED


@pytest.mark.parametrize(
    "error",
    [
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.REQUEST_TIMED_OUT,
    ],
)
def test_a_passing_error_backs_off_in_silence(error: ErrorCode) -> None:
    decision = step(answer(error, records=batch_at(50)))
    assert decision.followed.phase is Phase.BACKING_OFF
    assert decision.followed.retry_at_ms == NOW_MS + BACKOFF_MS
    assert decision.effects == ()


def test_an_unforeseen_error_backs_off_and_is_logged() -> None:
    decision = step(answer(ErrorCode.UNKNOWN_SERVER_ERROR))
    assert decision.followed.phase is Phase.BACKING_OFF
    assert [type(effect) for effect in decision.effects] == [ReportPartition]


def test_a_back_off_ends_when_its_time_has_come() -> None:
    backing_off = step(answer(ErrorCode.KAFKA_STORAGE_ERROR)).followed
    early = step(FetchRetryDue(), followed=backing_off, now_ms=NOW_MS + BACKOFF_MS - 1)
    assert early.followed.phase is Phase.BACKING_OFF
    assert step(FetchRetryDue(), followed=backing_off, now_ms=NOW_MS + BACKOFF_MS).followed.phase is Phase.FETCHING


def test_damaged_records_are_logged_at_the_first_and_at_each_tenth_answer() -> None:
    followed, lines = FOLLOWED, []
    for count in range(1, 21):
        event = answer(ErrorCode.CORRUPT_MESSAGE) if count % 2 else LogRefused(ErrorCode.CORRUPT_MESSAGE, "damaged")
        followed, effects = step(event, followed=followed)
        assert followed.phase is Phase.BACKING_OFF
        lines += [count] if effects else []
        followed = step(FetchRetryDue(), followed=followed, now_ms=NOW_MS + BACKOFF_MS).followed
    assert lines == [1, 10, 20]


def test_an_answer_that_was_kept_begins_the_count_of_damaged_ones_anew() -> None:
    damaged = msgspec.structs.replace(FOLLOWED, corrupt_answers=3)
    assert step(answer(), followed=damaged).followed.corrupt_answers == 3
    assert carried_out(damaged) == FOLLOWED


def test_records_of_an_old_format_end_the_following() -> None:
    decision = step(LogRefused(ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, "records of magic 1"))
    assert decision.followed.phase is Phase.FAILED
    assert isinstance(decision.effects[0], ReportPartition)


def test_a_leader_with_tiered_storage_cannot_be_followed() -> None:
    assert step(answer(ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE)).followed.phase is Phase.FAILED
    told = OffsetListed(4, ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE)
    assert step(told, followed=asking(Phase.ASKING_LATEST)).followed.phase is Phase.FAILED


def test_a_log_that_cannot_be_written_now_is_tried_again_and_one_that_is_offline_is_not() -> None:
    error = ErrorCode.KAFKA_STORAGE_ERROR
    assert step(LogRefused(error, "no space")).followed.phase is Phase.BACKING_OFF
    assert step(LogRefused(error, "a failed sync", is_offline=True)).followed.phase is Phase.FAILED
