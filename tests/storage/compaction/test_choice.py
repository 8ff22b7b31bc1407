"""Which log is compacted, and how far; which active segment ends (storage.md 14.1)."""

from dataclasses import replace

import pytest
from batches import NOW_MS, marker
from compaction import COMPACT, compact, compacted_logs, keyed, roll
from logs import Logs, appended

from eosin.protocol.names import TRANSACTION_STATE_TOPIC, TopicPartition
from eosin.storage.compaction.choice import (
    INTERNAL_UNCOMPACTED_BYTES,
    MAX_SPAN,
    Cleanable,
    cleanable,
    first_to_compact,
    grouped,
    should_roll,
)
from eosin.storage.log.config import LogConfig
from eosin.storage.log.partition_log import PartitionLog

LARGE = replace(COMPACT, internal_segment_bytes=None, min_cleanable_dirty_ratio=0.5)
STATE = TopicPartition(TRANSACTION_STATE_TOPIC, 3)


async def segments_of(logs: Logs, *counts: int, at: int = NOW_MS) -> PartitionLog:
    """A log with a segment for each count, of so many records, and an empty active one; all of it checkpointed."""
    log = await logs.open()
    for count in counts:
        for _ in range(count):
            appended(logs.append(log, keyed(("k", "v" * 30), at=at)))
        roll(logs, log)
    await logs.manager.checkpoint(force=True)
    return log


def found(log: PartitionLog, now_ms: int = NOW_MS) -> Cleanable:
    result = cleanable(log, now_ms)
    assert result is not None
    return result


async def test_the_active_segment_is_left_alone() -> None:
    logs = compacted_logs(LARGE)
    log = await segments_of(logs, 2, 3)
    appended(logs.append(log, keyed(("k", "v"))))
    await logs.manager.checkpoint(force=True)
    assert (found(log).first_uncompacted, found(log).end) == (0, 5)


async def test_a_log_of_one_segment_has_nothing_to_compact() -> None:
    logs = compacted_logs(LARGE)
    log = await logs.open()
    assert cleanable(log, NOW_MS) is None
    appended(logs.append(log, keyed(("k", "v"))))
    await logs.manager.checkpoint(force=True)
    assert cleanable(log, NOW_MS) is None


async def test_a_topic_that_is_not_compacted_is_left_alone() -> None:
    log = await segments_of(compacted_logs(LogConfig()), 2, 3)
    assert cleanable(log, NOW_MS) is None
    log.update_config(replace(LARGE, cleanup_policy=frozenset({"delete", "compact"})))
    assert cleanable(log, NOW_MS) is not None


async def test_a_log_that_is_offline_is_left_alone() -> None:
    log = await segments_of(compacted_logs(LARGE), 2, 3)
    log.fail(OSError(5, "broken"))
    assert cleanable(log, NOW_MS) is None
    assert not should_roll(log, NOW_MS)


async def test_nothing_behind_the_last_stable_offset_is_touched() -> None:
    logs = compacted_logs(LARGE)
    log = await logs.open()
    for _ in range(2):
        appended(logs.append(log, keyed(("k", "v"))))
    roll(logs, log)
    appended(logs.append(log, keyed(("k", "v"))))
    appended(logs.append(log, keyed(("k", "v"), pid=1, seq=0, txn=True)))
    roll(logs, log)
    await logs.manager.checkpoint(force=True)
    assert log.last_stable_offset == 3
    assert found(log).end == 2, "the segment in which it is stays whole"
    log.append_marker(marker(1, 0, commit=True), now_ms=NOW_MS)
    assert found(log).end == 4


async def test_nothing_behind_the_recovery_point_on_disk_is_touched() -> None:
    logs = compacted_logs(LARGE)
    log = await segments_of(logs, 2)
    appended(logs.append(log, keyed(("k", "v"))))
    roll(logs, log)
    assert found(log).end == 2
    await logs.manager.checkpoint()
    assert found(log).end == 3


async def test_young_records_wait_for_min_compaction_lag() -> None:
    config = replace(LARGE, min_compaction_lag_ms=1000)
    log = await segments_of(compacted_logs(config), 2, 3)
    assert cleanable(log, NOW_MS + 999) is None
    assert found(log, NOW_MS + 1001).end == 5


async def test_min_compaction_lag_lets_nothing_through_behind_the_first_young_segment() -> None:
    logs = compacted_logs(replace(LARGE, min_compaction_lag_ms=1000))
    log = await logs.open()
    for at in (NOW_MS, NOW_MS + 5000, NOW_MS):
        appended(logs.append(log, keyed(("k", "v"), at=at)))
        roll(logs, log)
    await logs.manager.checkpoint(force=True)
    assert found(log, NOW_MS + 3000).end == 1


async def test_a_log_is_worth_it_when_its_dirty_ratio_is_beyond_the_limit() -> None:
    logs = compacted_logs(LARGE)
    log = await segments_of(logs, 5)
    log.compaction_state.loaded(5, gaps_below=0)
    assert cleanable(log, NOW_MS) is None
    for count, expected in ((5, False), (1, True)):
        for _ in range(count):
            appended(logs.append(log, keyed(("k", "v" * 30))))
        roll(logs, log)
        await logs.manager.checkpoint()
        plan = found(log)
        assert plan.first_uncompacted == 5
        assert plan.is_worth_it is expected, plan.dirty_ratio
    assert plan.dirty_ratio == pytest.approx(6 / 11)


async def test_records_that_wait_longer_than_max_compaction_lag_are_worth_it_at_any_share() -> None:
    logs = compacted_logs(replace(LARGE, max_compaction_lag_ms=1000))
    log = await segments_of(logs, 9, 1)
    log.compaction_state.loaded(9, gaps_below=0)
    assert not found(log, NOW_MS + 1000).is_worth_it
    assert found(log, NOW_MS + 1001).is_worth_it


async def test_an_active_segment_ends_when_its_records_wait_longer_than_max_compaction_lag() -> None:
    logs = compacted_logs(replace(LARGE, max_compaction_lag_ms=1000))
    log = await logs.open()
    assert not should_roll(log, NOW_MS)
    appended(logs.append(log, keyed(("k", "v"))))
    assert not should_roll(log, NOW_MS + 1000)
    assert should_roll(log, NOW_MS + 1001)
    log.update_config(LARGE)
    assert not should_roll(log, NOW_MS + 1001)


async def test_a_compacted_offset_that_makes_no_sense_counts_as_the_log_start() -> None:
    logs = compacted_logs(replace(LARGE, cleanup_policy=frozenset({"compact", "delete"})))
    log = await segments_of(logs, 5, 5)
    log.compaction_state.loaded(99, gaps_below=0)
    assert found(log).first_uncompacted == 0
    log.compaction_state.loaded(2, gaps_below=0)
    await log.delete_records_before(4)
    assert found(log).first_uncompacted == 4


async def test_an_internal_log_ends_its_segment_when_it_is_large_and_four_times_the_kept_bytes() -> None:
    logs = compacted_logs(LARGE)
    await logs.open()
    log = logs.log(STATE)
    batch = keyed(("k", "v" * 1000))
    while log.size_bytes <= INTERNAL_UNCOMPACTED_BYTES:
        assert not should_roll(log, NOW_MS)
        appended(logs.append(log, batch))
    assert should_roll(log, NOW_MS)
    roll(logs, log)
    log.compaction_state.loaded(log.log_end_offset, gaps_below=0)
    while log.size_bytes <= 5 * INTERNAL_UNCOMPACTED_BYTES:
        assert not should_roll(log, NOW_MS)
        appended(logs.append(log, batch))
    for _ in range(8):
        appended(logs.append(log, batch))
    assert should_roll(log, NOW_MS)


async def test_markers_that_need_not_wait_any_longer_count_as_bytes_that_may_go() -> None:
    logs = compacted_logs(LARGE)
    await logs.open()
    log = logs.log(STATE)
    batch = keyed(("k", "v" * 1000))
    for _ in range(300):
        appended(logs.append(log, batch))
    roll(logs, log)
    log.compaction_state.loaded(log.log_end_offset, gaps_below=0)
    log.compaction_state.compacted(log.log_end_offset, {NOW_MS + 1000: log.size_bytes - 1000})
    appended(logs.append(log, batch))
    assert not should_roll(log, NOW_MS + 999)
    assert should_roll(log, NOW_MS + 1000)
    roll(logs, log)
    await logs.manager.checkpoint(force=True)
    assert not found(log, NOW_MS + 999).is_worth_it
    assert found(log, NOW_MS + 1000).is_worth_it


async def test_a_users_segment_does_not_end_early() -> None:
    logs = compacted_logs(LARGE)
    log = await logs.open()
    while log.size_bytes <= 2 * INTERNAL_UNCOMPACTED_BYTES:
        appended(logs.append(log, keyed(("k", "v" * 10_000))))
    assert not should_roll(log, NOW_MS)


async def test_the_log_with_the_largest_dirty_ratio_comes_first_but_after_an_overdue_one() -> None:
    log = await segments_of(compacted_logs(replace(LARGE, min_cleanable_dirty_ratio=0.1)), 2, 3)
    plan = found(log)
    some, more = (
        replace(plan, compacted_bytes=60, uncompacted_bytes=40),
        replace(plan, compacted_bytes=20, uncompacted_bytes=80),
    )
    late, none = (
        replace(plan, compacted_bytes=99, uncompacted_bytes=1, is_overdue=True),
        replace(plan, uncompacted_bytes=0),
    )
    assert first_to_compact([some, more, none]) is more
    assert first_to_compact([some, late, more]) is late
    assert first_to_compact([none]) is None


async def test_neighbours_share_a_segment_while_they_fit_it() -> None:
    log = await segments_of(compacted_logs(LARGE), 2, 3, 4, 20, 1)
    segments = list(log.segments)[:5]
    size = segments[0].size // 2

    def bases(segment_bytes: int = 1 << 30, index_bytes: int = 1 << 20) -> list[list[int]]:
        groups = grouped(segments, segment_bytes=segment_bytes, index_bytes=index_bytes)
        return [[segment.base_offset for segment in group] for group in groups]

    assert bases() == [[0, 2, 5, 9, 29]]
    assert bases(9 * size) == [[0, 2, 5], [9], [29]]
    assert bases(1) == [[0], [2], [5], [9], [29]], "one that is too large alone stays alone"
    assert bases(index_bytes=8)[-1] == [29]
    segments[4].end_offset = MAX_SPAN + 1
    assert bases() == [[0, 2, 5, 9], [29]]


async def test_the_recovery_point_is_where_compaction_ends_after_a_restart_too() -> None:
    logs = compacted_logs(LARGE)
    log = await segments_of(logs, 2, 3)
    log = await logs.start_again(logs.fake.killed())
    assert found(log).end == 5
    await compact(logs)
    assert log.compaction_state.compacted_below == 5
