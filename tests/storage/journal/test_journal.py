"""Logs with a journal: what is durable when, and what a start makes of what a stop has left."""

import asyncio
import errno
import random
from contextlib import suppress

import pytest
from batches import ORDERS, TOPIC_ID, data
from manual_journal import DATA_DIR, JournalledLogs
from simulation.planted.journal_bugs import entry_of_a_deleted_topic_replayed

from eosin.lab.disk.lying_disk import Fault, LyingDisk, Stopped
from eosin.protocol.names import TopicPartition
from eosin.storage.disk.interfaces import UnusableDirectory
from eosin.storage.journal import flusher as journal_flusher
from eosin.storage.journal.gathering import LEAST_LOGS
from eosin.storage.journal.journal import FILE_PREFIX, NOTE
from eosin.storage.log.partition_log import PartitionLog

FIRST_FILE = f"{DATA_DIR}/{FILE_PREFIX}0"
LOG_FILE = f"{DATA_DIR}/orders-0/{0:020}.log"


def content(log: PartitionLog) -> list[bytes]:
    return [bytes(batch) for batch in log.batches()]


async def journalled(logs: JournalledLogs, count: int = 3) -> PartitionLog:
    """A log whose first batch was synced, with its names, and whose others are in the journal."""
    log = await logs.open()
    for number in range(1 + count):
        await logs.append(log, data(size=10 + number))
    assert log.high_watermark == 1 + count
    return log


async def test_one_sync_makes_the_appends_of_many_logs_durable() -> None:
    logs = JournalledLogs()
    await logs.open()
    many = [logs.log(TopicPartition("orders", index)) for index in range(20)]
    for log in many:
        await logs.append(log, data())
    before = logs.disk.count("sync")
    for log in many:
        log.append(data(), now_ms=1)
    assert {log.high_watermark for log in many} == {1}
    await logs.flusher.run()
    assert {log.high_watermark for log in many} == {2}
    assert logs.disk.count("sync") == before + 1


async def many_logs(logs: JournalledLogs, count: int) -> list[PartitionLog]:
    """So many logs whose names are on the disk, so that their next batches go into groups."""
    await logs.open()
    many = [logs.log(TopicPartition("orders", index)) for index in range(count)]
    for log in many:
        await logs.append(log, data())
    return many


async def test_batches_appended_because_a_group_is_durable_go_into_the_next_group() -> None:
    logs = JournalledLogs()
    first, meanwhile, after = await many_logs(logs, 3)
    first.append(data(), now_ms=1)
    first.durable(2).add_done_callback(lambda _: after.append(data(), now_ms=1))
    await logs.flusher.turns()
    meanwhile.append(data(), now_ms=1)
    syncs = logs.disk.count("sync")
    logs.flusher.step()
    await logs.flusher.turns()
    logs.flusher.step()
    await logs.flusher.turns()
    assert [log.high_watermark for log in (first, meanwhile, after)] == [2, 2, 2]
    assert logs.disk.count("sync") == syncs + 2


async def test_behind_a_group_of_many_logs_the_next_one_waits_a_moment_for_company(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(journal_flusher, "GATHER_S", 60)  # the moment ends below
    logs = JournalledLogs()
    many = await many_logs(logs, LEAST_LOGS + 1)
    for log in many[1:]:
        log.append(data(), now_ms=1)
    await logs.flusher.turns()
    many[0].append(data(), now_ms=1)
    logs.flusher.step()
    await logs.flusher.turns()
    assert logs.flusher.gathers
    assert not logs.flusher.jobs
    for log in many[1:]:
        log.append(data(), now_ms=1)
    await logs.flusher.turns()
    assert not logs.flusher.jobs
    syncs = logs.disk.count("sync")
    logs.flusher.end_gathering()
    logs.flusher.step()
    assert [log.high_watermark for log in many] == [2] + [3] * LEAST_LOGS
    assert logs.disk.count("sync") == syncs + 1


async def test_the_wait_for_company_ends_by_itself() -> None:
    logs = JournalledLogs()
    many = await many_logs(logs, LEAST_LOGS)
    for log in many:
        log.append(data(), now_ms=1)
    await logs.flusher.turns()
    many[0].append(data(), now_ms=1)
    logs.flusher.step()
    assert logs.flusher.gathers
    await logs.flusher.gathered.wait()
    assert logs.flusher.jobs
    await logs.close()
    assert many[0].high_watermark == 3


async def test_the_high_watermark_waits_for_the_sync_of_the_group() -> None:
    logs = JournalledLogs()
    log = await journalled(logs)
    logs.disk.calls.clear()
    waiter = log.append(data(), now_ms=1) and log.durable(log.log_end_offset)
    seen = []
    changes = logs.disk.changes
    logs.disk.changes = lambda call, path: (seen.append((call, log.high_watermark)), changes(call, path))[1]  # type: ignore[method-assign]
    await logs.flusher.run()
    assert ("sync", 4) in seen
    assert (log.high_watermark, waiter.done()) == (5, True)


async def test_records_that_a_power_loss_takes_from_the_logs_come_back_from_the_journal() -> None:
    logs = JournalledLogs()
    expected = content(await journalled(logs))
    after = logs.disk.power_loss()
    assert (after.size(LOG_FILE) or 0) < sum(map(len, expected))
    again = JournalledLogs(after)
    log = await again.open()
    assert content(log) == expected
    assert log.high_watermark == 4
    assert not [path for path in after.paths() if ".eosin_journal" in path or NOTE in path], "it is not needed any more"


@pytest.mark.parametrize("seed", range(30))
async def test_acknowledged_batches_survive_every_power_loss(seed: int) -> None:
    logs = JournalledLogs()
    log = await journalled(logs, count=20)
    expected = content(log)
    log.append(data(), now_ms=1)
    logs.disk.stop_at = len(logs.disk.calls) + seed % 2
    with suppress(Stopped):
        await logs.flusher.run()
    log = await JournalledLogs(logs.disk.power_loss(random.Random(seed))).open()
    assert content(log)[: len(expected)] == expected


async def test_replay_that_is_broken_off_is_done_again() -> None:
    logs = JournalledLogs()
    expected = content(await journalled(logs))
    left = logs.disk.power_loss()
    stops = 0
    while True:
        disk = left.killed()
        disk.stop_at = stops
        try:
            await JournalledLogs(disk).open()
            break
        except Stopped:
            stops += 1
        for after in (disk.killed(), disk.power_loss(random.Random(stops))):
            assert content(await JournalledLogs(after).open()) == expected
    assert stops > 5


async def test_after_a_kill_the_logs_have_it_all_and_are_compared() -> None:
    logs = JournalledLogs()
    log = await journalled(logs)
    disk = logs.disk.killed()
    assert content(await JournalledLogs(disk.killed()).open()) == content(log)
    batch = data(size=11)
    disk.replace(LOG_FILE, len(data(size=10)), b"\0" * 7 + b"\1" + batch[8:-3] + b"???")
    damaged = await JournalledLogs(disk).open()
    assert damaged.failure is not None


async def test_a_log_that_differs_from_the_journal_is_offline_and_the_journal_is_kept() -> None:
    logs = JournalledLogs()
    log = await journalled(logs)
    other = JournalledLogs()
    twin = await other.open()
    for _ in range(4):
        await other.append(twin, data(size=30))
    disk = logs.disk.killed()
    disk.put(LOG_FILE, other.disk.content(LOG_FILE))
    again = JournalledLogs(disk)
    log = await again.open()
    assert log.failure is not None
    assert "differ at offset 1" in str(log.failure)
    assert disk.size(FIRST_FILE) is not None
    healthy = again.log(TopicPartition("orders", 1))
    await again.append(healthy, data())
    await again.append(healthy, data())
    assert healthy.high_watermark == 2
    again.manager.delete_logs("orders")
    await again.close()
    assert disk.size(FIRST_FILE) is None


async def test_a_large_batch_is_synced_in_its_own_log() -> None:
    logs = JournalledLogs(direct_bytes=500)
    log = await journalled(logs)
    before = logs.disk.count("write")
    await logs.append(log, data(size=600))
    assert log.high_watermark == 5
    assert (logs.disk.count("write"), logs.disk.calls[-1]) == (before, ("sync", LOG_FILE))
    await logs.append(log, data())
    assert logs.disk.count("write") == before + 1
    assert content(await JournalledLogs(logs.disk.power_loss()).open()) == content(log)


async def test_an_append_without_a_waiting_caller_goes_into_the_next_group() -> None:
    logs = JournalledLogs()
    log = await journalled(logs)
    other = logs.log(TopicPartition("orders", 1))
    await logs.append(other, data())
    other.append(data(), now_ms=1, awaited=False)
    await logs.append(log, data())
    assert (log.high_watermark, other.high_watermark) == (5, 2)


async def test_a_failed_sync_of_the_journal_takes_every_log_offline() -> None:
    logs = JournalledLogs()
    log = await journalled(logs)
    other = logs.log(TopicPartition("orders", 1))
    logs.disk.faults.append(Fault("sync", errno.EIO, path=FILE_PREFIX))
    await logs.append(log, data())
    assert log.failure is not None
    assert other.failure is not None
    assert log.high_watermark == 4
    late = logs.log(TopicPartition("orders", 2))
    late.append(data(), now_ms=1)
    await logs.flusher.run()
    assert late.failure is not None


async def test_where_writing_over_takes_room_too_logs_are_synced_by_themselves() -> None:
    logs = JournalledLogs()
    log = await journalled(logs)
    logs.disk.faults.append(Fault("write", errno.ENOSPC, path=FILE_PREFIX, written=100))
    await logs.append(log, data())
    assert (log.failure, log.high_watermark) == (None, 5)
    await logs.append(log, data())
    assert log.high_watermark == 6
    assert content(await JournalledLogs(logs.disk.power_loss()).open()) == content(log)


async def test_a_disk_with_little_room_gets_no_journal() -> None:
    logs = JournalledLogs()
    logs.disk.space = 100_000
    log = await journalled(logs)
    assert log.high_watermark == 4
    assert logs.disk.size(FIRST_FILE) is None


async def test_the_ring_goes_round_and_its_files_are_never_missed() -> None:
    logs = JournalledLogs(journal_bytes=4 * 8192)
    log = await logs.open()
    quiet = logs.log(TopicPartition("orders", 1))
    for number in range(150):
        if number % 40 == 0:
            await logs.append(quiet, data(size=number))
        await logs.append(log, data(size=number))
    assert log.failure is None
    after = logs.disk.power_loss()
    again = JournalledLogs(after)
    assert content(await again.open()) == content(log)
    assert content(again.log(TopicPartition("orders", 1))) == content(quiet)


async def test_a_deleted_topics_entries_are_not_given_to_one_of_the_same_name() -> None:
    logs = JournalledLogs()
    await journalled(logs)
    logs.manager.delete_logs("orders")
    log = logs.log(topic_id=bytes([9] * 16))
    await logs.append(log, data(size=77))
    for disk in (logs.disk.killed(), logs.disk.power_loss()):
        again = JournalledLogs(disk)
        await again.manager.open()
        assert content(again.log(topic_id=bytes([9] * 16))) == content(log)


async def test_a_planted_bug_that_gives_them_to_it_is_caught() -> None:
    with entry_of_a_deleted_topic_replayed(), pytest.raises(AssertionError):
        await test_a_deleted_topics_entries_are_not_given_to_one_of_the_same_name()


async def test_a_log_with_entries_whose_directory_is_gone_is_missed() -> None:
    logs = JournalledLogs()
    await journalled(logs)
    disk = logs.disk.killed()
    disk.remove_tree(f"{DATA_DIR}/orders-0")
    again = JournalledLogs(disk)
    log = await again.open()
    assert log.failure is not None
    assert "there is no such directory" in str(log.failure)


async def test_retention_is_not_undone() -> None:
    logs = JournalledLogs()
    log = await journalled(logs, count=8)
    assert await log.delete_records_before(6) == 0
    log = await JournalledLogs(logs.disk.power_loss()).open()
    assert (log.log_start_offset, log.log_end_offset) == (6, 9)


# Stops and starts --------------------------------------------------------------------------------------------------


async def test_after_a_clean_stop_nothing_is_left_of_it() -> None:
    logs = JournalledLogs()
    expected = content(await journalled(logs))
    await logs.close()
    assert not [path for path in logs.disk.paths() if "journal" in path or NOTE in path]
    after = logs.disk.power_loss()
    assert content(await JournalledLogs(after).open()) == expected


@pytest.mark.parametrize("spoil", ["missing", "short", "note"])
async def test_a_journal_that_is_not_there_after_an_unclean_stop_is_refused_with_a_sentence(spoil: str) -> None:
    logs = JournalledLogs()
    await journalled(logs)
    disk = logs.disk.killed()
    if spoil == "missing":
        disk.unlink(FIRST_FILE)
    elif spoil == "short":
        disk.put(FIRST_FILE, disk.content(FIRST_FILE)[:100])
    else:
        disk.write_atomic(f"{DATA_DIR}/{NOTE}", b"?")
    with pytest.raises(UnusableDirectory, match="the last stop was not clean: put it back, or remove") as refused:
        await JournalledLogs(disk).open()
    assert "\n" not in str(refused.value)
    disk.unlink(f"{DATA_DIR}/{NOTE}")
    assert (await JournalledLogs(disk).open()).log_end_offset == 4, "whoever prefers the loss has said so"


async def test_a_broker_that_lost_its_journal_claims_nothing_though_it_starts() -> None:
    logs = JournalledLogs()
    await journalled(logs)
    await logs.manager.save_broker_epoch(40)
    disk = logs.disk.killed()
    kept = JournalledLogs(disk.killed())
    await kept.open()
    assert kept.manager.previous_broker_epoch == 40
    disk.unlink(f"{DATA_DIR}/{NOTE}")
    lost = JournalledLogs(disk)
    await lost.open()
    assert lost.manager.previous_broker_epoch == -1


async def test_a_directory_of_a_version_without_a_journal_opens_as_before() -> None:
    logs = JournalledLogs(journal_bytes=0)
    expected = content(await journalled(logs))
    assert content(await JournalledLogs(logs.disk.killed()).open()) == expected


async def test_a_torn_last_group_ends_the_journal() -> None:
    logs = JournalledLogs()
    log = await journalled(logs)
    expected = content(log)
    log.append(data(size=400), now_ms=1)
    logs.disk.stop_at = len(logs.disk.calls)
    with pytest.raises(Stopped):
        await logs.flusher.run()
    disk = logs.disk.power_loss()
    disk.put(FIRST_FILE, logs.disk.content(FIRST_FILE))
    assert content(await JournalledLogs(disk).open()) == expected


@pytest.mark.parametrize("block", range(3))
async def test_a_damaged_group_is_reported_unless_it_is_the_last_one(block: int) -> None:
    logs = JournalledLogs()
    await journalled(logs, count=3)
    disk = logs.disk.killed()
    disk.damage(FIRST_FILE, block * 512 + 80)
    if block == 2:
        log = await JournalledLogs(disk).open()
        assert log.log_end_offset == 4
        return
    with pytest.raises(UnusableDirectory, match=f"damaged at byte {block * 512}"):
        await JournalledLogs(disk).open()


async def test_the_rest_of_earlier_rounds_never_counts_as_a_group() -> None:
    logs = JournalledLogs(journal_bytes=4 * 8192)
    log = await logs.open()
    for _ in range(100):
        await logs.append(log, data(size=100))
    disk: LyingDisk = logs.disk.killed()
    assert content(await JournalledLogs(disk).open()) == content(log)
    assert disk.size(FIRST_FILE) is None
    assert ORDERS in logs.manager.logs
    assert log.topic_id == TOPIC_ID


@pytest.mark.parametrize("saved", [False, True])
async def test_a_log_whose_topic_id_was_lost_is_offline_only_if_the_journal_has_more_than_is_saved(saved: bool) -> None:
    logs = JournalledLogs()
    log = await logs.open()
    for sequence in range(3):
        await logs.append(log, data(pid=7, seq=sequence))
    if saved:
        saving = asyncio.ensure_future(logs.manager.checkpoint(force=True))
        while not saving.done():
            await logs.flusher.run()
        await saving
    disk = logs.disk.killed()
    disk.unlink(f"{DATA_DIR}/{ORDERS}/partition.metadata")
    again = JournalledLogs(disk)
    log = await again.open()
    assert (log.failure is None) is saved
    assert log.topic_id == TOPIC_ID
    third = JournalledLogs(disk.killed())
    log = await third.open()
    assert (log.failure, log.log_end_offset) == (None, 3)
