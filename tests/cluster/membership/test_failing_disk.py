"""When a failing or full disk is more than the trouble of one log (cluster.md 4.19)."""

from eosin.cluster.membership.failing_disk import DiskFullFence, LogFailures, Room

GIB = 1 << 30


def test_as_many_failures_within_a_minute_as_are_allowed_are_a_failed_directory() -> None:
    failures = LogFailures(3)
    assert [failures.one_more(at_ms) for at_ms in (0, 30_000, 60_000)] == [False, False, True]


def test_failures_that_are_more_than_a_minute_apart_are_those_of_single_logs() -> None:
    failures = LogFailures(2)
    assert [failures.one_more(at_ms) for at_ms in (0, 60_001, 120_002)] == [False, False, False]


def test_a_disk_that_is_full_for_a_moment_fences_nobody() -> None:
    fence = DiskFullFence(10_000)
    assert not fence.update(is_full=True, room=Room(0, GIB), now_ms=0)
    assert not fence.update(is_full=False, room=Room(GIB, GIB), now_ms=9_999)
    assert not fence.update(is_full=True, room=Room(0, GIB), now_ms=10_001)
    assert not fence.is_wanted


def test_a_disk_that_stays_full_fences_once_and_lets_go_only_with_enough_room() -> None:
    fence = DiskFullFence(10_000)
    fence.update(is_full=True, room=Room(0, GIB), now_ms=0)
    assert fence.update(is_full=True, room=Room(0, GIB), now_ms=10_000)
    assert fence.is_wanted
    assert not fence.update(is_full=False, room=Room(GIB // 21, GIB), now_ms=11_000)
    assert fence.is_wanted
    assert fence.update(is_full=False, room=Room(GIB // 20, GIB), now_ms=12_000)
    assert not fence.is_wanted


def test_one_gibibyte_is_enough_room_on_a_large_disk() -> None:
    assert Room(GIB, 1000 * GIB).is_enough
    assert not Room(GIB - 1, 1000 * GIB).is_enough
