"""A stop with many logs to save, and the start after it: by few syncs, and as safe as if each were synced alone."""

import errno
import os
from pathlib import Path

import pytest
from batches import ORDERS, TOPIC_ID, data, marker
from logs import DATA_DIR, Logs, appended, read_now

from eosin.lab.disk.lying_disk import Fault, LyingDisk, Stopped
from eosin.protocol.names import IsolationLevel, TopicPartition
from eosin.storage.checkpoints import checkpoint, checkpoint_saver
from eosin.storage.disk.data_directory import CLEAN_MARK
from eosin.storage.disk.flusher import Durability
from eosin.storage.disk.system import SystemDisk
from eosin.storage.log.config import LogConfig
from eosin.storage.log.partition_log import PartitionLog
from eosin.storage.recovery import start_syncs
from eosin.storage.results.log_results import AbortedTransaction

PARTITIONS = 3


@pytest.fixture(autouse=True)
def three_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoint_saver, "TOGETHER_FROM", PARTITIONS)
    monkeypatch.setattr(start_syncs, "TOGETHER_FROM", PARTITIONS)


@pytest.fixture
def small() -> None:
    """The segments of the test are small ones."""


@pytest.fixture(autouse=True)
def others_stand_for_large_ones(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if "small" not in request.fixturenames:
        monkeypatch.setattr(checkpoint, "READ_AGAIN_BYTES", 0)


def every_log(logs: Logs) -> list[PartitionLog]:
    return [logs.log(TopicPartition(ORDERS.topic, index)) for index in range(PARTITIONS)]


async def written(*, together: bool = True, saved_before: bool = False, durability: Durability = Durability.OS) -> Logs:
    """Logs with something to save in each."""
    logs = Logs(config=LogConfig(segment_bytes=500), durability=durability)
    logs.fake.syncs_as_a_whole = together
    await logs.open()
    for sequence in range(6):
        for log in every_log(logs):
            appended(logs.append(log, data(pid=7, seq=sequence)))
        if saved_before and sequence == 2:
            await logs.manager.checkpoint(force=True)
    return logs


def producers(log: PartitionLog) -> list[tuple[int, int]]:
    return [(found.producer_id, found.last_sequence) for found in log.producers()]


@pytest.mark.usefixtures("small")
async def test_small_logs_share_one_sync_and_nothing_is_written_for_them() -> None:
    logs = await written()
    before = set(logs.fake.paths())
    await logs.manager.close()
    assert logs.fake.count("whole_sync") == 1
    new = {path.removeprefix(f"{DATA_DIR}/") for path in set(logs.fake.paths()) - before}
    assert not [path for path in new if "/" in path]
    after = logs.fake.power_loss()
    assert CLEAN_MARK in after.list(DATA_DIR)
    await logs.start_again(after)
    for log in every_log(logs):
        assert (log.log_end_offset, log.checkpoint_state.recovery_point, log.failure) == (6, 6, None)
        assert producers(log) == [(7, 5)]
    # Nothing that a checkpoint would have to save has come of reading them again.
    written_by_start = logs.fake.count("append", ORDERS.topic)
    await logs.manager.checkpoint(force=True)
    assert logs.fake.count("append", ORDERS.topic) == written_by_start


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("killed", [False, True])
async def test_a_small_log_of_a_clean_stop_survives_a_crash_after_the_next_start(killed: bool) -> None:
    logs = await written()
    await logs.manager.close()
    await logs.start_again(logs.fake.power_loss())
    appended(logs.append(every_log(logs)[0], data(pid=7, seq=6)))
    await logs.manager.checkpoint(force=True)
    await logs.start_again(logs.fake.killed() if killed else logs.fake.power_loss())
    assert [log.log_end_offset for log in every_log(logs)] == [7, 6, 6]
    assert [producers(log) for log in every_log(logs)] == [[(7, 6)], [(7, 5)], [(7, 5)]]


@pytest.mark.usefixtures("small")
async def test_a_start_after_a_clean_stop_syncs_no_log_that_it_reads_again() -> None:
    logs = await written(durability=Durability.FSYNC)
    await logs.manager.close()
    await logs.start_again(logs.fake.power_loss())
    assert logs.fake.count("sync") == logs.fake.count("sync_file", ORDERS.topic) == 0
    assert [producers(log) for log in every_log(logs)] == [[(7, 5)]] * PARTITIONS


async def killed(*, together: bool = True) -> Logs:
    """Logs with records that nobody has synced, in a process that was killed; not started again yet."""
    logs = await written(durability=Durability.FSYNC)
    logs.disk = logs.fake.killed()
    logs.fake.syncs_as_a_whole = together
    return logs


async def test_a_start_after_a_kill_makes_many_logs_durable_by_one_sync() -> None:
    logs = await killed()
    await logs.start_again(logs.fake)
    assert (logs.fake.count("whole_sync"), logs.fake.count("sync_file", ORDERS.topic)) == (1, 0)
    assert [log.has_new_names for log in every_log(logs)] == [False] * PARTITIONS
    await logs.start_again(logs.fake.power_loss())
    assert [(log.log_end_offset, producers(log)) for log in every_log(logs)] == [(6, [(7, 5)])] * PARTITIONS


@pytest.mark.parametrize("is_known", [True, False], ids=["it fails", "there is none"])
async def test_without_a_sync_of_the_file_system_a_start_syncs_each_log(is_known: bool) -> None:
    logs = await killed(together=is_known)
    if is_known:
        logs.fake.faults.append(Fault("whole_sync", errno.EIO))
    await logs.start_again(logs.fake)
    assert logs.fake.count("sync_file", ORDERS.topic) >= PARTITIONS
    await logs.start_again(logs.fake.power_loss())
    assert [(log.log_end_offset, producers(log)) for log in every_log(logs)] == [(6, [(7, 5)])] * PARTITIONS


async def test_a_log_that_a_start_cannot_sync_is_offline_alone() -> None:
    logs = await killed(together=False)
    logs.fake.faults.append(Fault("sync_file", errno.EIO, "/orders-1/"))
    await logs.start_again(logs.fake)
    assert [log.failure is None for log in every_log(logs)] == [True, False, True]
    await logs.start_again(logs.fake.killed())
    assert [log.log_end_offset for log in every_log(logs)] == [6] * PARTITIONS


@pytest.mark.usefixtures("small")
async def test_a_log_whose_index_has_a_file_is_saved_in_full() -> None:
    logs = await written(saved_before=True)
    await logs.manager.close()
    assert logs.fake.count("whole_sync") == 2
    await logs.start_again(logs.fake.power_loss())
    assert [producers(log) for log in every_log(logs)] == [[(7, 5)]] * PARTITIONS


@pytest.mark.usefixtures("small")
async def test_aborted_transactions_of_a_small_log_are_found_again_after_a_clean_stop() -> None:
    logs = Logs()
    logs.fake.syncs_as_a_whole = True
    await logs.open()
    for log in every_log(logs):
        appended(logs.append(log, data(pid=7, seq=0, txn=True)))
        appended(log.append_marker(marker(7, 0, commit=False), now_ms=logs.clock.now_ms()))
    await logs.manager.close()
    assert logs.fake.count("whole_sync") == 1
    await logs.start_again(logs.fake.power_loss())
    for log in every_log(logs):
        assert read_now(log, isolation=IsolationLevel.READ_COMMITTED).aborted == (AbortedTransaction(7, 0),)


@pytest.mark.usefixtures("small")
async def test_records_that_are_missing_from_a_small_log_after_a_clean_stop_take_it_offline() -> None:
    logs = await written()
    await logs.manager.close()
    disk = logs.fake.power_loss()
    file = disk.open(f"{DATA_DIR}/{ORDERS.topic}-1/00000000000000000000.log")
    file.truncate(file.size // 2)
    file.close()
    await logs.start_again(disk)
    assert [log.failure is not None for log in every_log(logs)] == [False, True, False]


@pytest.mark.parametrize("saved_before", [False, True])
async def test_many_logs_share_two_syncs_and_the_next_start_has_nothing_to_recover(saved_before: bool) -> None:
    logs = await written(saved_before=saved_before)
    before = logs.fake.count("sync", ORDERS.topic)
    await logs.manager.close()
    assert logs.fake.count("whole_sync") == 2
    assert logs.fake.count("sync", ORDERS.topic) == before
    after = logs.fake.power_loss()
    assert CLEAN_MARK in after.list(DATA_DIR)
    await logs.start_again(after)
    for log in every_log(logs):
        assert (log.log_end_offset, log.checkpoint_state.recovery_point, log.failure) == (6, 6, None)
        assert [(found.producer_id, found.last_sequence) for found in log.producers()] == [(7, 5)]


async def test_saving_together_leaves_the_same_files_as_saving_each_log_alone() -> None:
    directories = []
    for together in (False, True):
        logs = await written(together=together)
        await logs.manager.close()
        fake = logs.fake
        directories.append({path: fake.read_whole(path) for path in fake.paths() if "meta.properties" not in path})
    assert directories[0] == directories[1]


@pytest.mark.parametrize("killed", [False, True])
async def test_a_stop_that_is_interrupted_at_any_call_loses_nothing_that_was_saved(killed: bool) -> None:
    stops = 0
    for stop in range(300):
        logs = await written(saved_before=True)
        logs.fake.stop_at = len(logs.fake.calls) + stop
        try:
            await logs.manager.close()
        except Stopped:
            stops += 1
        else:
            break
        disk = logs.fake.killed() if killed else logs.fake.power_loss()
        await logs.start_again(disk)
        for log in every_log(logs):
            assert log.failure is None
            assert log.log_end_offset >= (6 if killed else 3)
            known = [(found.producer_id, found.last_sequence) for found in log.producers()]
            assert known == [(7, log.log_end_offset - 1)]
    assert stops > 20


async def test_a_file_system_that_cannot_be_synced_is_synced_file_by_file_which_shows_the_log_that_fails() -> None:
    logs = await written()
    logs.fake.faults.append(Fault("whole_sync", errno.EIO))
    logs.fake.faults.append(Fault("sync", errno.EIO, path=f"{ORDERS.topic}-1/"))
    await logs.manager.close()
    assert [log.failure is not None for log in every_log(logs)] == [False, True, False]
    assert CLEAN_MARK not in logs.fake.list(DATA_DIR)


async def test_each_log_is_saved_alone_where_others_have_much_to_write() -> None:
    logs = await written()
    logs.fake.waiting_bytes = 10**9
    await logs.manager.close()
    assert logs.fake.count("whole_sync") == 0
    assert CLEAN_MARK in logs.fake.list(DATA_DIR)


async def test_a_log_whose_files_cannot_be_written_is_tried_alone() -> None:
    logs = await written()
    logs.fake.faults.append(Fault("append", errno.EIO, path=f"{ORDERS.topic}-1/"))
    await logs.manager.close()
    assert not [log for log in every_log(logs) if log.failure is not None]
    assert CLEAN_MARK in logs.fake.list(DATA_DIR)


async def test_real_files_are_saved_together_too(tmp_path: Path) -> None:
    logs = Logs(disk=SystemDisk(), durability=Durability.OS, data_dir=str(tmp_path / "data"))
    await logs.open()
    for log in every_log(logs):
        appended(logs.append(log, data()))
    log = await logs.reopen()
    assert (log.log_end_offset, log.checkpoint_state.recovery_point) == (1, 1)
    assert not [name for name in os.listdir(tmp_path / "data" / str(ORDERS)) if name.endswith(".tmp")]
    assert logs.manager.logs[ORDERS].topic_id == TOPIC_ID
    await logs.manager.close()


def test_a_file_system_is_synced_as_a_whole_only_where_that_is_as_good(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sync = SystemDisk().whole_sync(str(tmp_path))
    if sync is not None:
        sync.run()
        sync.close()
    monkeypatch.setattr("eosin.storage.disk.system._file_system", lambda path: "fuse.sshfs")
    assert SystemDisk().whole_sync(str(tmp_path)) is None


def test_a_fake_disk_that_syncs_as_a_whole_keeps_everything() -> None:
    disk = LyingDisk()
    disk.make_directory("/d")
    disk.write_atomic("/d/file", b"content", durable=False)
    assert disk.power_loss().paths() == []
    disk.sync_everything()
    assert disk.power_loss().read_whole("/d/file") == b"content"
