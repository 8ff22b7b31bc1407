"""Starts after a stop that was not clean, and clean starts that find damage (storage.md section 12)."""

import contextlib
import random
import shutil
from pathlib import Path

import pytest
from batches import NOW_MS, data, marker
from logs import Logs, appended, read_now

from eosin.lab.disk.lying_disk import LyingDisk, Stopped
from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import IsolationLevel
from eosin.protocol.records.batch import batches, read_header
from eosin.runtime.chance import SeededChance
from eosin.storage.disk.data_directory import SYSTEM_BOOT_ID, DataDirectory
from eosin.storage.disk.flusher import Durability
from eosin.storage.disk.space import DiskSpace
from eosin.storage.disk.system import SystemDisk
from eosin.storage.log.config import LogConfig
from eosin.storage.log.partition_log import PartitionLog
from eosin.storage.results.log_results import AbortedTransaction, Appended, Refused

HOME = "/data/orders-0"
FIRST = f"{HOME}/{0:020d}"
SMALL = LogConfig(internal_segment_bytes=500, index_interval_bytes=150)


async def filled(logs: Logs, count: int = 20) -> PartitionLog:
    log = await logs.open()
    for index in range(count):
        appended(logs.append(log, data(at=NOW_MS + index, pid=1, epoch=0, seq=index)))
    return log


def index_files(disk: LyingDisk) -> dict[str, bytes]:
    suffixes = (".index", ".timeindex", ".txnindex")
    return {name: disk.read_whole(f"{HOME}/{name}") for name in disk.list(HOME) if name.endswith(suffixes)}


async def test_a_torn_tail_is_cut_and_kept_aside(caplog: pytest.LogCaptureFixture) -> None:
    logs = Logs()
    log = await filled(logs)
    disk = logs.fake.killed()
    torn = data(3)[:-7]
    disk.add_bytes(FIRST + ".log", torn)
    log = await logs.start_again(disk)
    assert log.log_end_offset == 20
    assert "cut off" in caplog.text
    (aside,) = [name for name in disk.list(HOME) if ".truncated-" in name]
    assert disk.read_whole(f"{HOME}/{aside}") == torn
    assert appended(logs.append(log, data())).base_offset == 20


@pytest.mark.parametrize("durability", [Durability.FSYNC, Durability.OS])
async def test_a_cut_tail_does_not_come_back_after_a_power_loss(durability: Durability) -> None:
    """Nothing of the segment is written any more when the log goes on in the next one."""
    logs = Logs(durability=durability)
    await filled(logs)
    await logs.manager.checkpoint(force=True)
    disk = logs.fake.killed()
    disk.add_bytes(FIRST + ".log", data(3)[:-7])
    disk.sync_file(FIRST + ".log")
    log = await logs.start_again(disk)
    log.roll(NOW_MS)
    appended(logs.append(log, data()))
    await logs.manager.checkpoint(force=True)
    log = await logs.start_again(disk.power_loss())
    assert (log.failure, log.log_end_offset) == (None, 21)


@pytest.mark.parametrize("tail", [b"\0" * 100, b"\xff" * 100, b"\0" * 11])
async def test_a_tail_that_is_no_batch_is_cut(tail: bytes) -> None:
    logs = Logs()
    await filled(logs)
    disk = logs.fake.killed()
    disk.add_bytes(FIRST + ".log", tail)
    log = await logs.start_again(disk)
    assert log.log_end_offset == 20


async def test_a_batch_that_does_not_follow_is_cut_even_if_its_checksum_is_right() -> None:
    logs = Logs()
    await filled(logs)
    disk = logs.fake.killed()
    disk.add_bytes(FIRST + ".log", data(2))  # base offset 0: a stale block of a reused file
    log = await logs.start_again(disk)
    assert log.log_end_offset == 20


async def test_a_damaged_batch_with_whole_ones_behind_it_takes_the_partition_offline(
    caplog: pytest.LogCaptureFixture,
) -> None:
    logs = Logs(config=SMALL)
    log = await filled(logs)
    bases = log.segments.bases[:]
    disk = logs.fake.killed()
    disk.damage(f"{HOME}/{bases[1]:020d}.log", 70)
    before = {path: disk.read_whole(path) for path in disk.paths() if path.endswith(".log")}
    log = await logs.start_again(disk)
    assert log.failure is not None
    assert f"{bases[1]:020d}.log is damaged: no valid batch at byte 0 (offset {bases[1]})" in caplog.text
    refused = logs.append(log, data())
    assert isinstance(refused, Refused)
    assert refused.error == ErrorCode.KAFKA_STORAGE_ERROR
    assert {path: disk.read_whole(path) for path in disk.paths() if path.endswith(".log")} == before


async def test_batches_after_a_lost_write_go_and_are_kept_aside() -> None:
    """The power went: a sector that was never synced is all zeros, though later ones made it to the disk."""
    logs = Logs(config=LogConfig(internal_segment_bytes=3000))
    log = await filled(logs, 80)
    bases = log.segments.bases[:]
    disk = logs.fake.killed()
    path = f"{HOME}/{bases[1]:020d}.log"
    disk.replace(path, 1024, bytes(512))
    end = 1024 // len(data(pid=1, epoch=0, seq=0)) + bases[1]
    log = await logs.start_again(disk)
    assert log.failure is None
    assert log.log_end_offset == end
    assert log.segments.bases == bases[:2]
    aside = [name for name in disk.list(HOME) if ".truncated-" in name]
    assert len(aside) == len(bases) - 1
    assert appended(logs.append(log, data())).base_offset == end


def batch_across_sectors(logs: Logs, log: PartitionLog, *, inside: int) -> int:
    """Append batches, of which one begins `inside` bytes before the end of a sector; its position."""

    def size() -> int:
        return log.segments.active.size if log.segments.active else 0

    appended(logs.append(log, data(300)))  # so that the next offset has more than zeros in its last two bytes
    appended(logs.append(log, data(size=1000 + (-inside - size() - len(data(size=1000))) % 512)))
    begin = size()
    assert -begin % 512 == inside
    for _ in range(9):
        appended(logs.append(log, data()))
    return begin


@pytest.mark.parametrize("inside", [9, 12, 16, 17])
async def test_a_lost_sector_may_have_held_no_more_than_the_first_bytes_of_a_batch(inside: int) -> None:
    logs = Logs()
    log = await logs.open()
    begin = batch_across_sectors(logs, log, inside=inside)
    disk = logs.fake.killed()
    disk.replace(FIRST + ".log", begin, bytes(inside))
    log = await logs.start_again(disk)
    assert log.failure is None
    assert log.log_end_offset == 301


async def test_zeros_that_a_batch_begins_with_are_no_lost_sector() -> None:
    logs = Logs()
    log = await logs.open()
    begin = batch_across_sectors(logs, log, inside=6)
    disk = logs.fake.killed()
    disk.damage(FIRST + ".log", begin + 70)
    log = await logs.start_again(disk)
    assert log.failure is not None


def stays_up(disk: LyingDisk) -> LyingDisk:
    """The machine says that it has not stopped since: what was written is there."""
    disk.make_directory("/proc/sys/kernel/random")
    disk.write_atomic("/proc/sys/kernel/random/boot_id", b"one boot")
    return disk


@pytest.mark.parametrize("spoil", ["sector", "last batch", "segment", "batch"])
async def test_no_write_is_lost_while_the_machine_stays_up_so_it_was_damage(
    spoil: str, caplog: pytest.LogCaptureFixture
) -> None:
    logs = Logs(config=LogConfig(internal_segment_bytes=3000))
    stays_up(logs.fake)
    log = await filled(logs, 80)
    bases = log.segments.bases[:]
    size = len(data(pid=1, epoch=0, seq=0))
    disk = logs.fake.killed()
    middle = f"{HOME}/{bases[1]:020d}.log"
    match spoil:
        case "sector":
            disk.replace(middle, 1024, bytes(512))
        case "last batch":
            disk.damage(f"{HOME}/{bases[-1]:020d}.log", (80 - bases[-1]) * size - 1)
        case "segment":
            disk.unlink(middle)
        case "batch":
            disk.open(middle).truncate((bases[2] - bases[1] - 1) * size)
    log = await logs.start_again(disk)
    assert log.failure is not None
    assert "is offline" in caplog.text
    assert f"{bases[-1] if spoil == 'last batch' else bases[0 if spoil == 'segment' else 1]:020d}.log" in caplog.text


async def test_a_directory_that_was_copied_back_within_one_boot_is_judged_as_after_a_power_loss() -> None:
    """A copy of a running broker's files lacks what was not written to them at that moment."""
    logs = Logs(config=LogConfig(internal_segment_bytes=3000))
    stays_up(logs.fake)
    await filled(logs, 80)
    disk = logs.fake.killed()
    disk.replace(f"{HOME}/{logs.log().segments.bases[1]:020d}.log", 1024, bytes(512))
    disk.copied = "again"
    log = await logs.start_again(disk)
    assert log.failure is None
    assert log.log_end_offset < 80


def test_a_directory_knows_that_it_was_copied_and_that_it_was_not(tmp_path: Path) -> None:
    disk, home, copy = SystemDisk(), tmp_path / "data", tmp_path / "copy"
    if not Path(SYSTEM_BOOT_ID).exists():
        pytest.skip("this system does not tell one boot from another")

    def same_boot() -> bool:
        space = DiskSpace(disk, str(home), reserve_bytes=0, elapsed_ms=lambda: 0)
        directory = DataDirectory(disk, str(home), space)
        contents = directory.open(node_id=0, cluster_id=None, chance=SeededChance(1))
        directory.close()
        return contents.same_boot

    assert not same_boot()
    assert same_boot()
    shutil.copytree(home, copy)
    shutil.rmtree(home)
    shutil.copytree(copy, home)
    assert not same_boot()
    assert same_boot()


async def test_the_beginning_of_a_batch_is_cut_while_the_machine_stays_up() -> None:
    logs = Logs()
    stays_up(logs.fake)
    await filled(logs)
    disk = logs.fake.killed()
    disk.add_bytes(FIRST + ".log", data(3)[:70])
    log = await logs.start_again(disk)
    assert (log.failure, log.log_end_offset) == (None, 20)


async def test_indexes_are_rebuilt_as_they_were() -> None:
    logs = Logs(config=SMALL)
    log = await filled(logs)
    logs.append(log, data(pid=2, epoch=0, seq=0, txn=True))
    log.append_marker(marker(2, 0, commit=False), now_ms=NOW_MS)
    crashed = logs.fake.killed()
    await logs.manager.close()
    expected = index_files(logs.fake)
    assert len(expected) > 8
    assert any(content for name, content in expected.items() if name.endswith(".txnindex"))
    log = await logs.start_again(crashed)
    assert read_now(log, 20, isolation=IsolationLevel.READ_COMMITTED).aborted == (AbortedTransaction(2, 20),)
    await logs.manager.close()
    assert index_files(crashed) == expected


async def test_recovery_starts_at_the_recovery_point() -> None:
    logs = Logs(config=LogConfig(index_interval_bytes=150))
    log = await filled(logs)
    await logs.manager.checkpoint(force=True)
    point = log.checkpoint_state.recovery_point
    for index in range(5):
        logs.append(log, data(pid=1, epoch=0, seq=20 + index))
    disk = logs.fake.killed()
    # Damage before the recovery point is not looked for: those bytes were synced and the indexes vouch for them.
    disk.damage(FIRST + ".log", 70)
    log = await logs.start_again(disk)
    assert log.checkpoint_state.recovery_point == point == 20
    assert log.log_end_offset == 25
    assert await log.offset_for_timestamp(NOW_MS + 19, isolation=None) == (NOW_MS + 19, 19, 0)


async def test_a_log_that_ends_below_its_recovery_point_is_offline_and_left_as_it_is(
    caplog: pytest.LogCaptureFixture,
) -> None:
    logs = Logs()
    await filled(logs)
    disk = logs.fake.killed()
    disk.write_atomic("/data/recovery-point-offset-checkpoint", b"0\n1\norders 0 500\n")
    disk.add_bytes(FIRST + ".log", b"\0" * 30)
    before = disk.read_whole(FIRST + ".log")
    log = await logs.start_again(disk)
    assert log.failure is not None
    assert "offset 20), though everything below offset 500 was saved" in caplog.text
    assert disk.read_whole(FIRST + ".log") == before
    disk.unlink("/data/recovery-point-offset-checkpoint")  # whoever prefers the loss
    log = await logs.start_again(disk)
    assert (log.failure, log.log_end_offset, log.checkpoint_state.recovery_point) == (None, 20, 0)


async def test_a_log_that_ends_below_its_promised_start_begins_anew_there() -> None:
    logs = Logs()
    await filled(logs)
    disk = logs.fake.killed()
    disk.write_atomic("/data/log-start-offset-checkpoint", b"0\n1\norders 0 500\n")
    log = await logs.start_again(disk)
    assert (log.log_start_offset, log.log_end_offset) == (500, 500)
    assert appended(logs.append(log, data())).base_offset == 500
    log = await logs.reopen()
    assert (log.log_start_offset, log.log_end_offset) == (500, 501)


async def test_duplicates_and_transactions_survive_kill() -> None:
    logs = Logs(config=SMALL)
    log = await filled(logs)
    logs.append(log, data(pid=2, epoch=0, seq=0, txn=True))
    await logs.manager.checkpoint(force=True)
    logs.append(log, data(pid=3, epoch=0, seq=0, txn=True))
    log = await logs.start_again(logs.fake.killed())
    assert log.last_stable_offset == 20
    for seq in range(15, 20):
        result = logs.append(log, data(pid=1, epoch=0, seq=seq))
        assert result == Appended(seq, seq, duplicate=True)
    log.append_marker(marker(2, 0, commit=False), now_ms=NOW_MS)
    assert log.last_stable_offset == 21


async def test_a_corrupt_snapshot_is_replaced_by_an_older_one(caplog: pytest.LogCaptureFixture) -> None:
    logs = Logs(config=SMALL)
    log = await filled(logs)
    await logs.manager.close()
    newest = f"{HOME}/{20:020d}.snapshot"
    logs.fake.damage(newest, 12)
    log = await logs.start_again()
    assert "unusable" in caplog.text
    assert [producer.last_sequence for producer in log.producers()] == [19]


async def test_lost_leader_epochs_are_found_again_in_the_batches() -> None:
    logs = Logs()
    log = await logs.open()
    for epoch in (1, 4):
        log.leader_epoch = epoch
        logs.append(log, data())
    disk = logs.fake.killed()
    disk.write_atomic(f"{HOME}/leader-epoch-checkpoint", b"0\nsomething")
    log = await logs.start_again(disk)
    assert log.epochs.entries == ((1, 0), (4, 1))
    await logs.manager.checkpoint(force=True)
    assert disk.read_whole(f"{HOME}/leader-epoch-checkpoint") == b"0\n2\n1 0\n4 1\n"


@pytest.mark.parametrize("left", [b"", b"0\n2\n0 0\n1", None])
async def test_leader_epochs_below_the_recovery_point_are_found_again_when_the_power_has_torn_their_file(
    left: bytes | None,
) -> None:
    """A new epoch is written over a file that was durable, and is durable itself only with the next flush."""
    logs = Logs(config=SMALL)
    log = await filled(logs, 6)
    log.raise_leader_epoch(1)
    for index in range(6, 12):
        appended(logs.append(log, data(pid=1, epoch=0, seq=index)))
    await logs.manager.checkpoint(force=True)
    log.raise_leader_epoch(3)
    appended(logs.append(log, data(pid=1, epoch=0, seq=12)))
    before = log.epochs.entries
    assert before == ((0, 0), (1, 6), (3, 12))
    disk = logs.fake.killed()
    disk.unlink(f"{HOME}/leader-epoch-checkpoint")
    if left is not None:
        disk.write_atomic(f"{HOME}/leader-epoch-checkpoint", left)
    log = await logs.start_again(disk)
    assert log.epochs.entries[:3] == before


async def test_a_clean_start_reads_only_the_last_stretch() -> None:
    logs = Logs(config=SMALL)
    await filled(logs, 100)
    await logs.manager.close()
    logs.fake.damage(FIRST + ".log", 70)
    log = await logs.start_again()
    assert log.log_end_offset == 100
    assert log.checkpoint_state.recovery_point == 100


async def test_a_torn_tail_after_a_clean_stop_was_not_left_by_that_stop(caplog: pytest.LogCaptureFixture) -> None:
    logs = Logs(config=SMALL)
    log = await filled(logs)
    await logs.manager.close()
    last = f"{HOME}/{log.segments.bases[-1]:020d}.log"
    file = logs.fake.open(last)
    file.truncate(file.size - 5)
    log = await logs.start_again()
    assert log.failure is not None
    assert f"{last} is damaged: no valid batch at byte" in caplog.text
    assert logs.fake.size(last) == file.size


async def test_a_torn_tail_is_cut_on_a_clean_start_too_when_no_checkpoint_vouches_for_it() -> None:
    logs = Logs(config=SMALL)
    log = await filled(logs)
    logs.append(log, data(pid=5, epoch=0, seq=0, txn=True))
    log.append_marker(marker(5, 0, commit=False), now_ms=NOW_MS)
    await logs.manager.close()
    last = f"{HOME}/{log.segments.bases[-1]:020d}.log"
    file = logs.fake.open(last)
    file.truncate(file.size - 5)
    logs.fake.unlink("/data/recovery-point-offset-checkpoint")
    log = await logs.start_again()
    assert log.log_end_offset == 21
    assert log.last_stable_offset == 20
    assert read_now(log, isolation=IsolationLevel.READ_COMMITTED).aborted == ()
    log.append_marker(marker(5, 0, commit=False), now_ms=NOW_MS)
    assert read_now(log, 20, isolation=IsolationLevel.READ_COMMITTED).aborted == (AbortedTransaction(5, 20),)


@pytest.mark.parametrize("spoil", ["missing", "garbage", "beyond"])
@pytest.mark.parametrize("which", [0, -1])
async def test_a_bad_offset_index_is_rebuilt(spoil: str, which: int) -> None:
    logs = Logs(config=LogConfig(internal_segment_bytes=800, index_interval_bytes=100))
    log = await filled(logs, 18)
    base = log.segments.bases[which]
    await logs.manager.close()
    path = f"{HOME}/{base:020d}.index"
    good = logs.fake.read_whole(path)
    assert good
    match spoil:
        case "missing":
            logs.fake.unlink(path)
        case "garbage":
            logs.fake.write_atomic(path, bytes(len(good)))
        case "beyond":
            logs.fake.write_atomic(path, good + (1000).to_bytes(4, "big") + (10**6).to_bytes(4, "big"))
    if spoil != "missing" and which == 0:
        return  # an inactive segment's index is trusted after a clean stop
    log = await logs.start_again()
    assert log.log_end_offset == 18
    for offset in range(18):
        log.places.clear()
        assert read_header(read_now(log, offset).records).base_offset == offset
    await logs.manager.close()
    assert logs.fake.read_whole(path) == good


async def test_a_missing_time_index_is_rebuilt() -> None:
    logs = Logs(config=SMALL)
    await filled(logs)
    await logs.manager.close()
    good = logs.fake.read_whole(FIRST + ".timeindex")
    logs.fake.unlink(FIRST + ".timeindex")
    log = await logs.start_again()
    assert await log.offset_for_timestamp(NOW_MS + 3, isolation=None) == (NOW_MS + 3, 3, 0)
    await logs.manager.close()
    assert logs.fake.read_whole(FIRST + ".timeindex") == good


async def test_interrupted_compaction_is_finished_or_undone() -> None:
    logs = Logs(config=SMALL)
    log = await filled(logs)
    bases = log.segments.bases[:]
    await logs.manager.close()
    disk = logs.fake
    # Complete: the first two segments became one, which had begun to replace them.
    merged = disk.read_whole(f"{HOME}/{bases[0]:020d}.log") + disk.read_whole(f"{HOME}/{bases[1]:020d}.log")
    disk.write_atomic(FIRST + ".log.swap", merged)
    disk.write_atomic(FIRST + ".index.swap", b"")
    disk.write_atomic(FIRST + ".timeindex.swap", b"")
    # Incomplete: the third was still being copied.
    disk.write_atomic(f"{HOME}/{bases[2]:020d}.log.cleaned", b"half")
    disk.write_atomic(f"{HOME}/{7:020d}.index", b"an index whose log is gone")
    log = await logs.start_again()
    assert log.segments.bases == [0, *bases[2:]]
    assert log.log_end_offset == 20
    assert [header.base_offset for batch in log.batches() for _, header in batches(batch)] == list(range(20))
    assert not any(name.endswith((".swap", ".cleaned")) for name in disk.list(HOME))
    assert f"{7:020d}.index" not in disk.list(HOME)


SCRIPT_LENGTH = 30


async def script(logs: Logs, acknowledged: list[int]) -> None:
    """A short life of a log; `acknowledged` gets the end offset after each write that succeeded."""
    log = await logs.open()
    for step in range(SCRIPT_LENGTH):
        if step % 5 == 4:
            result = log.append_marker(marker(1, step // 5 + 1, commit=step % 2 == 0, version=2), now_ms=NOW_MS)
        else:
            result = logs.append(log, data(pid=1, epoch=step // 5, seq=step % 5, txn=True))
        assert not isinstance(result, Refused), result
        acknowledged.append(log.log_end_offset)
        if step % 8 == 7:
            await logs.manager.checkpoint(force=True)
        if step == 20:
            assert await log.delete_records_before(9) == ErrorCode.NONE
            await logs.manager.apply_retention(NOW_MS)
    await logs.manager.close()


async def test_a_stop_at_any_call_to_the_disk_loses_nothing_that_was_acknowledged() -> None:
    whole = Logs(config=SMALL, durability=Durability.OS)
    await script(whole, [])
    total = len(whole.fake.calls)
    assert total > 100
    for stop_at in range(total + 1):
        logs = Logs(config=SMALL, durability=Durability.OS)
        logs.fake.stop_at = stop_at
        acknowledged = [0]
        with contextlib.suppress(Stopped):
            await script(logs, acknowledged)
        log = await logs.start_again(logs.fake.killed())
        assert log.failure is None, stop_at
        assert acknowledged[-1] <= log.log_end_offset <= acknowledged[-1] + 1, stop_at
        assert log.high_watermark == log.log_end_offset
        read = [header.next_offset for batch in log.batches() for _, header in batches(batch)]
        assert not read or read[-1] == log.log_end_offset
        (producer,) = log.producers() or ((1, 0, -1, 0, -1, -1),)
        assert (producer[5] >= 0) == (log.last_stable_offset < log.log_end_offset), stop_at
        appended(logs.append(log, data()))


async def test_a_stop_in_the_middle_of_recovery_is_no_worse() -> None:
    logs = Logs(config=SMALL)
    await filled(logs)
    crashed = logs.fake.killed()
    crashed.add_bytes(f"{HOME}/{sorted(logs.log().segments.bases)[-1]:020d}.log", b"\0" * 40)
    chance = random.Random(3)
    for stop_at in range(12):
        disk = crashed.killed()
        disk.stop_at = stop_at
        with contextlib.suppress(Stopped):
            await logs.start_again(disk)
            await logs.manager.checkpoint(force=True)
        disk = disk.killed() if chance.random() < 0.5 else disk.killed().killed()
        log = await logs.start_again(disk)
        assert log.log_end_offset == 20


async def test_a_stop_while_indexes_are_made_anew_leaves_no_aborted_transaction_behind() -> None:
    """They lie below the recovery point, where a start believes the index files that it finds."""
    logs = Logs(config=SMALL)
    log = await logs.open()
    appended(logs.append(log, data(pid=1, epoch=0, seq=0, txn=True)))
    log.append_marker(marker(1, 0, commit=False), now_ms=NOW_MS)
    aborted = read_now(log, isolation=IsolationLevel.READ_COMMITTED).aborted
    assert aborted == (AbortedTransaction(1, 0),)
    await logs.manager.close()
    stopped = logs.fake.killed()
    for suffix in (".index", ".timeindex", ".txnindex"):
        stopped.unlink(FIRST + suffix)
    for stop_at in range(40):
        disk = stopped.killed()
        disk.stop_at = stop_at
        with contextlib.suppress(Stopped):
            log = await logs.start_again(disk)
            appended(logs.append(log, data()))
            await logs.manager.checkpoint(force=True)
        log = await logs.start_again(disk.killed())
        assert read_now(log, isolation=IsolationLevel.READ_COMMITTED).aborted == aborted, stop_at
