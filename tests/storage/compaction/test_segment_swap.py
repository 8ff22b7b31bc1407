"""A stop, a power loss or a failing disk at every single call of a compaction: the log still says the same."""

import asyncio
import contextlib
import errno
import random
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

import pytest
from batches import NOW_MS, data, marker
from compaction import COMPACT, Consumer, Seen, compact, compacted_logs, headers, keyed, roll, table
from logs import Logs, appended

from eosin.lab.disk.lying_disk import Fault, LyingDisk, Stopped
from eosin.storage.compaction.cleaner import CleanerConfig
from eosin.storage.log.partition_log import PartitionLog
from eosin.storage.results.log_results import Appended

HOME = "/data/orders-0"


async def eventful(logs: Logs) -> PartitionLog:
    """A log with values, tombstones, a committed and an aborted transaction, all in more than one segment."""
    log = await logs.open()
    for index in range(12):
        appended(logs.append(log, keyed((f"k{index % 4}", f"v{index}"), (f"only{index}", "v"))))
    for pid, commit in ((1, True), (2, False)):
        for seq in range(6):
            batch = keyed((f"k{seq % 3}", f"{pid}-{seq}"), pid=pid, seq=seq, txn=True)
            appended(logs.append(log, batch))
        log.append_marker(marker(pid, 0, commit=commit), now_ms=NOW_MS)
    for index in range(6):
        appended(logs.append(log, keyed((f"only{index}", None), at=NOW_MS + 50)))
    roll(logs, log)
    appended(logs.append(log, keyed(("last", "v"))))
    await logs.manager.checkpoint(force=True)
    return log


def view(log: PartitionLog) -> dict[bytes | None, Seen]:
    return table(Consumer().read_all(log).seen)


def leftovers(disk: LyingDisk) -> list[str]:
    return [name for name in disk.list(HOME) if name.endswith((".cleaned", ".swap"))]


async def until_copying(logs: Logs) -> None:
    """Let time pass until a throttled compaction writes, and nothing has been put in its place yet."""
    for _ in range(1000):
        if {name.rpartition(".")[2] for name in leftovers(logs.fake)} == {"cleaned"}:
            assert not logs.log().files_busy
            return
        await logs.clock.run(5)
    raise AssertionError("nothing is being copied")


async def check(log: PartitionLog, expected: dict[bytes | None, Seen], end: int) -> None:
    assert log.failure is None
    assert (log.log_end_offset, log.last_stable_offset) == (end, end)
    assert view(log) == expected
    read = headers(log)
    assert all(last < base for (_, last, _), (base, _, _) in pairwise(read)), "no batch twice"
    for index in range(max(0, end - 30), end):  # every offset can be found through the indexes
        assert Consumer(index).read_all(log).offset == end
    assert isinstance(log.append(keyed(("k0", "2-5"), pid=2, seq=5, txn=True), now_ms=NOW_MS), Appended)


async def calls_of_a_compaction() -> tuple[int, int]:
    """How many calls to the disk are made before a compaction, and by it."""
    logs = compacted_logs()
    await eventful(logs)
    before = len(logs.fake.calls)
    await logs.manager.cleaner.round()
    done = logs.manager.cleaner.compacted
    assert done.times >= 1
    assert done.bytes_before > done.bytes_after > 0
    return before, len(logs.fake.calls) - before


async def stopped_compaction(stop_at: int) -> tuple[Logs, dict[bytes | None, Seen], int]:
    """A machine that stops at this call, a compaction under way; what could be read before that, and the log's end."""
    logs = compacted_logs()
    log = await eventful(logs)
    expected, end = view(log), log.log_end_offset
    logs.fake.stop_at = stop_at
    with contextlib.suppress(Stopped):
        await logs.manager.cleaner.round()
    return logs, expected, end


@pytest.mark.parametrize("loses_power", [False, True])
async def test_a_stop_at_any_call_of_a_compaction_changes_nothing_that_can_be_read(loses_power: bool) -> None:
    before, total = await calls_of_a_compaction()
    assert total > 60
    chance = random.Random(7)
    for stop_at in range(total + 1):
        logs, expected, end = await stopped_compaction(before + stop_at)
        disk = logs.fake.power_loss(chance) if loses_power else logs.fake.killed()
        log = await logs.start_again(disk)
        assert not leftovers(disk), stop_at
        await check(log, expected, end)
        await compact(logs)
        await check(log, expected, end)


async def test_a_stop_while_a_stopped_compaction_is_settled_is_no_worse() -> None:
    before, total = await calls_of_a_compaction()
    chance = random.Random(11)
    for stop_at in range(0, total, 3):
        logs, expected, end = await stopped_compaction(before + stop_at)
        crashed = logs.fake.power_loss(chance)
        for second in range(0, 12, 2):
            disk = crashed.killed()
            disk.stop_at = second
            with contextlib.suppress(Stopped):
                await logs.start_again(disk)
            log = await logs.start_again(disk.power_loss(chance) if second % 4 else disk.killed())
            await check(log, expected, end)


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO])
async def test_a_disk_that_fails_before_the_old_files_go_costs_nothing_but_the_work(error: int) -> None:
    for call in ("create", "append", "sync", "rename", "sync_directory"):
        logs = compacted_logs()
        log = await eventful(logs)
        expected, end = view(log), log.log_end_offset
        path = "" if call in ("sync_directory",) else ".log.cleaned" if call != "rename" else ".swap"
        logs.fake.faults.append(Fault(call, error, path))
        await logs.manager.cleaner.round()
        assert not logs.fake.faults, call
        assert not leftovers(logs.fake), call
        await check(log, expected, end)
        await compact(logs)
        assert log.compaction_state.compacted_below == log.segments.bases[-1], "it is done at the next round"
        await check(log, expected, end)


async def test_a_disk_that_is_full_for_long_keeps_the_log_as_it_is() -> None:
    logs = compacted_logs()
    log = await eventful(logs)
    expected, end = view(log), log.log_end_offset
    logs.fake.space = 0
    for _ in range(3):
        await logs.manager.cleaner.round()
        assert not leftovers(logs.fake)
        assert view(log) == expected
    logs.fake.space = None
    await logs.manager.cleaner.round()
    await check(log, expected, end)


@pytest.mark.parametrize("call", ["unlink", "rename"])
async def test_a_disk_that_fails_after_the_old_files_began_to_go_takes_the_log_offline_until_a_restart(
    call: str,
) -> None:
    logs = compacted_logs()
    log = await eventful(logs)
    expected, end = view(log), log.log_end_offset
    _on_rename(logs.fake, ".swap", lambda: logs.fake.faults.append(Fault(call, errno.EIO, f"{0:020d}.log")), last=True)
    await logs.manager.cleaner.round()
    assert log.failure is not None
    log = await logs.start_again(logs.fake.killed())
    await check(log, expected, end)


async def test_a_compaction_that_finds_no_descriptor_for_its_last_steps_waits_for_one() -> None:
    logs = compacted_logs()
    log = await eventful(logs)
    expected, end = view(log), log.log_end_offset
    lacking = Fault("sync_directory", errno.EMFILE, "orders-0", times=3)
    _on_rename(logs.fake, ".log.swap", lambda: logs.fake.faults.append(lacking), last=True)
    await logs.manager.cleaner.round()
    assert not lacking.times
    await check(log, expected, end)
    assert not leftovers(logs.fake)


async def test_a_topic_that_is_deleted_in_the_middle_of_a_swap_is_gone() -> None:
    logs = compacted_logs()
    log = await eventful(logs)
    _on_rename(logs.fake, ".log.swap", lambda: logs.manager.delete_logs("orders"))
    await logs.manager.cleaner.round()
    assert not log.compaction_state.is_swapping
    assert not logs.fake.is_directory(HOME)
    log = logs.log()
    assert appended(logs.append(log, data())).base_offset == 0
    await compact(logs)
    assert headers(log) == [(0, 0, 1)]


async def test_a_topic_that_is_deleted_in_the_middle_of_a_copy_is_gone() -> None:
    logs = compacted_logs(cleaner=CleanerConfig(backoff_ms=0, io_max_bytes_per_second=10_000))
    await eventful(logs)
    work = asyncio.create_task(logs.manager.cleaner.round())
    await until_copying(logs)
    logs.manager.delete_logs("orders")
    await logs.clock.run(100_000)
    await work
    assert not logs.fake.is_directory(HOME)


async def test_retention_in_the_middle_of_a_copy_wins() -> None:
    config = replace(COMPACT, cleanup_policy=frozenset({"compact", "delete"}))
    logs = compacted_logs(config, cleaner=CleanerConfig(backoff_ms=0, io_max_bytes_per_second=10_000))
    log = await eventful(logs)
    end = log.log_end_offset
    work = asyncio.create_task(logs.manager.cleaner.round())
    await until_copying(logs)
    start = log.segments.bases[3]
    await log.delete_records_before(start)
    await logs.manager.apply_retention(logs.clock.now_ms())
    expected = view(log)
    assert log.segments.bases[0] == start
    await logs.clock.run(100_000)
    await work
    assert not leftovers(logs.fake)
    assert view(log) == expected
    again = asyncio.create_task(compact(logs))
    await logs.clock.run(100_000)
    await again
    assert log.compaction_state.compacted_below == log.segments.bases[-1]
    log = await logs.reopen()
    assert (log.log_start_offset, log.log_end_offset) == (start, end)
    assert view(log) == expected


async def test_an_index_left_over_from_a_compaction_that_was_given_up_is_thrown_away() -> None:
    logs = compacted_logs()
    log = await eventful(logs)
    expected, end = view(log), log.log_end_offset
    disk = logs.fake.killed()
    for suffix in (".index", ".timeindex", ".txnindex"):
        disk.write_atomic(f"{HOME}/{0:020d}{suffix}.swap", b"of a log that is not there")
    log = await logs.start_again(disk)
    assert not leftovers(disk)
    assert disk.size(f"{HOME}/{0:020d}.txnindex") is None
    await check(log, expected, end)


@pytest.mark.parametrize("renamed", [1, 2])
async def test_an_index_whose_log_is_in_place_already_follows_it(renamed: int) -> None:
    logs = compacted_logs()
    log = await eventful(logs)
    expected, end = view(log), log.log_end_offset
    disk = logs.fake.killed()
    order = [f"{HOME}/{0:020d}{suffix}" for suffix in (".log", ".timeindex", ".index")]
    content = {path: disk.read_whole(path) for path in order}
    for path in order[renamed:]:
        disk.rename(path, path + ".swap")
    log = await logs.start_again(disk)
    assert {path: disk.read_whole(path) for path in order} == content
    await check(log, expected, end)


def _on_rename(disk: LyingDisk, ending: str, act: Callable[[], None], *, last: bool = False) -> None:
    """Call `act` once, after the first rename to a name with this ending; `last`: when the directory is synced then."""
    rename, sync = disk.rename, disk.sync_directory
    done: list[str] = []

    def renamed(old: str, new: str) -> None:
        rename(old, new)
        if new.endswith(ending) and not done:
            done.append(new)
            if not last:
                act()

    def synced(path: str) -> None:
        sync(path)
        if last and len(done) == 1:
            done.append("")
            act()

    disk.rename = renamed  # type: ignore[method-assign]
    disk.sync_directory = synced  # type: ignore[method-assign]


async def test_a_settled_directory_stays_the_same_at_a_second_start() -> None:
    logs = compacted_logs()
    log = await eventful(logs)
    expected, end = view(log), log.log_end_offset
    await compact(logs)
    files = {name: logs.fake.read_whole(f"{HOME}/{name}") for name in logs.fake.list(HOME) if "snapshot" not in name}
    log = await logs.reopen()
    assert {name: logs.fake.read_whole(f"{HOME}/{name}") for name in files} == files
    await check(log, expected, end)
