"""The simulated disk does what disks do to those who trust them too much."""

import random
from collections.abc import Callable

import pytest

from eosin.lab.disk.lying_disk import LyingDisk, Stopped
from eosin.storage.disk.interfaces import TornWrite
from simulation.tuning import SECTOR_BYTES

MANY = 200
"""So many chances are enough for each thing that may happen to happen."""


def disk(seed: int = 0) -> LyingDisk:
    made = LyingDisk(chance=random.Random(seed), sector_bytes=SECTOR_BYTES)
    made.make_directory("data")
    return made


def with_files(seed: int) -> LyingDisk:
    """Files `one` and `two`, whose names are durable; one byte of each is synced, and eight sectors more are not."""
    made = disk(seed)
    for name in ("one", "two"):
        file = made.open(f"data/{name}", create=True)
        file.append([b"S"])
        file.sync()
    made.sync_directory("data")
    for name in ("one", "two"):
        made.open(f"data/{name}").append([b"u" * 8 * SECTOR_BYTES])
    return made


def after_power_losses(make: Callable[[int], LyingDisk]) -> list[LyingDisk]:
    return [make(seed).power_loss() for seed in range(MANY)]


def test_synced_bytes_survive_and_some_beginning_of_the_rest() -> None:
    sizes = set()
    for after in after_power_losses(with_files):
        content = after.read_whole("data/one")
        assert content[:1] == b"S"
        sizes.add(len(content))
    assert {1, 1 + 8 * SECTOR_BYTES} < sizes


def test_writes_are_torn_by_whole_sectors() -> None:
    holes = 0
    for after in after_power_losses(with_files):
        content = after.read_whole("data/one")
        for start in range(0, len(content), SECTOR_BYTES):
            sector = content[max(1, start) : start + SECTOR_BYTES]
            assert set(sector) <= {ord("u")} or set(sector) == {0}
            holes += set(sector) == {0}
    assert holes


def test_the_later_write_may_survive_in_one_file_and_the_earlier_be_lost_in_another() -> None:
    sizes = {(after.size("data/one"), after.size("data/two")) for after in after_power_losses(with_files)}
    everything = 1 + 8 * SECTOR_BYTES
    assert {(1, everything), (everything, 1)} <= sizes


def with_names(seed: int) -> LyingDisk:
    """`old` became `new`, `gone` was removed and `made` was created, none of it durable."""
    made = disk(seed)
    for name in ("old", "gone"):
        made.open(f"data/{name}", create=True).append([b"x"])
        made.sync_file(f"data/{name}")
    made.sync_directory("data")
    made.rename("data/old", "data/new")
    made.unlink("data/gone")
    made.open("data/made", create=True)
    return made


def test_names_that_were_not_synced_may_be_lost_in_the_order_of_their_changes() -> None:
    assert {tuple(after.list("data")) for after in after_power_losses(with_names)} == {
        ("gone", "old"),
        ("gone", "new"),
        ("new",),
        ("made", "new"),
    }


def test_names_that_were_synced_stay() -> None:
    def synced(seed: int) -> LyingDisk:
        made = with_names(seed)
        made.sync_directory("data")
        return made

    assert {tuple(after.list("data")) for after in after_power_losses(synced)} == {("made", "new")}


def test_after_a_kill_everything_that_was_written_is_there_but_still_not_durable() -> None:
    sizes = set()
    for seed in range(MANY):
        killed = with_files(seed).killed()
        assert killed.size("data/one") == 1 + 8 * SECTOR_BYTES
        sizes.add(killed.power_loss().size("data/one"))
    assert 1 in sizes


def test_after_a_failed_sync_a_kill_may_lose_what_was_written() -> None:
    sizes = set()
    for seed in range(MANY):
        made = with_files(seed)
        made.break_calls("sync", "one")
        with pytest.raises(OSError, match="injected"):
            made.open("data/one").sync()
        sizes.add(made.killed().size("data/one"))
    assert 1 in sizes


def test_a_failing_write_leaves_nothing_or_torn() -> None:
    outcomes = set()
    for seed in range(MANY):
        made = with_files(seed)
        before = made.size("data/one")
        made.break_calls("append", "one")
        with pytest.raises(OSError, match="injected") as raised:
            made.open("data/one").append([b"more"])
        is_torn = isinstance(raised.value, TornWrite)
        assert is_torn or made.size("data/one") == before
        outcomes.add(is_torn)
    assert outcomes == {True, False}


def test_calls_fail_only_where_they_are_to_fail() -> None:
    made = with_files(0)
    made.break_calls("read", "one")
    with pytest.raises(OSError, match="injected"):
        made.open("data/one").read(0, 1)
    assert made.open("data/two").read(0, 1) == b"S"
    made.open("data/one").append([b"more"])


def test_a_full_disk_takes_what_fits_and_refuses_the_rest_whole() -> None:
    made = with_files(0)
    made.space, made.counts_room = 10, False
    file = made.open("data/one")
    size = file.size
    file.append([b"12345"])
    with pytest.raises(OSError, match="no space left"):
        file.append([b"1234567"])
    assert file.size == size + 5
    with pytest.raises(OSError, match="no space left"):
        made.open("data/three", create=True)


def test_a_process_stops_in_the_middle_of_its_last_call_and_does_nothing_more() -> None:
    sizes = set()
    for seed in range(MANY):
        made = with_files(seed)
        file = made.open("data/one")
        size = file.size
        ended: list[bool] = []
        made.on_stop = lambda ended=ended: ended.append(True)  # type: ignore[misc]
        made.stop_after(1)
        file.append([b"12345"])
        with pytest.raises(Stopped):
            file.append([b"67890"])
        assert ended
        sizes.add(file.size - size)
        with pytest.raises(Stopped):
            file.append([b"later"])
        with pytest.raises(Stopped):
            made.rename("data/one", "data/other")
    assert sizes == set(range(5, 11))
