"""Many logs of which nothing changes cost nothing, and upkeep of many lets others have their turn."""

import asyncio
import errno
import itertools
from unittest.mock import patch

import pytest
from batches import data
from call_counter import CallCounter
from logs import DATA_DIR, Logs, appended
from manual_clock import ManualClock

from eosin.lab.disk.lying_disk import Fault
from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import TopicPartition
from eosin.runtime.turns import TURN_MS, in_turns
from eosin.storage.checkpoints.checkpoint_saver import ONE_BY_ONE, SAVES_AT_ONCE, SMALL_AFTER_MS, saves_at_once
from eosin.storage.checkpoints.offset_table import OffsetTable
from eosin.storage.checkpoints.recovery_points import OffsetCheckpoints
from eosin.storage.disk.checkpoint_formats import decode_offsets, encode_offsets

RECOVERY_POINTS = f"{DATA_DIR}/recovery-point-offset-checkpoint"
HIGH_WATERMARKS = f"{DATA_DIR}/replication-offset-checkpoint"
MANY = [TopicPartition("many", index) for index in range(50)]


async def many_logs() -> Logs:
    logs = Logs()
    await logs.open()
    for partition in MANY:
        appended(logs.append(logs.log(partition), data()))
    await logs.manager.checkpoint(force=True)
    await logs.manager.checkpoint()
    return logs


async def test_a_round_looks_at_the_logs_that_have_changed_and_at_no_other() -> None:
    logs = await many_logs()
    looked: list[TopicPartition] = []
    tell = OffsetCheckpoints._put

    def noted(self: OffsetCheckpoints, log: object) -> None:
        looked.append(log.topic_partition)  # type: ignore[attr-defined]
        tell(self, log)  # type: ignore[arg-type]

    with patch.object(OffsetCheckpoints, "_put", noted):
        calls = len(logs.fake.calls)
        await logs.manager.checkpoint()
        assert (looked, logs.fake.calls[calls:]) == ([], [])
        appended(logs.append(logs.log(MANY[7]), data()))
        await logs.manager.checkpoint(force=True)
        await logs.manager.checkpoint()
        assert set(looked) == {MANY[7]}
    told = decode_offsets(logs.fake.read_whole(RECOVERY_POINTS))
    assert told == {partition: 2 if partition == MANY[7] else 1 for partition in MANY}
    assert decode_offsets(logs.fake.read_whole(HIGH_WATERMARKS)) == told


async def test_a_log_that_was_never_written_is_in_no_checkpoint_file() -> None:
    logs = Logs()
    await logs.open()
    logs.log(MANY[0])
    appended(logs.append(logs.log(MANY[1]), data()))
    await logs.manager.checkpoint(force=True)
    for name in ("recovery-point", "replication", "log-start"):
        assert list(decode_offsets(logs.fake.read_whole(f"{DATA_DIR}/{name}-offset-checkpoint"))) == [MANY[1]]


async def test_a_log_that_could_not_be_saved_is_saved_by_the_next_round() -> None:
    logs = await many_logs()
    log = logs.log(MANY[7])
    appended(logs.append(log, data()))
    logs.fake.faults.append(Fault("sync_file", errno.EIO, path="recovery-point"))
    with pytest.raises(OSError, match="injected"):
        await logs.manager.checkpoint(force=True)
    assert (log.checkpoint_state.recovery_point, log.checkpoint_state.saved_recovery_point) == (2, 1)
    await logs.manager.checkpoint()
    assert log.checkpoint_state.saved_recovery_point == 2
    assert decode_offsets(logs.fake.read_whole(RECOVERY_POINTS))[MANY[7]] == 2


async def test_callers_that_want_the_log_starts_saved_at_once_share_a_save() -> None:
    logs = await many_logs()
    looks = 0
    put = OffsetCheckpoints._put_changed

    async def counted(self: OffsetCheckpoints) -> None:
        nonlocal looks
        looks += 1
        await put(self)

    with patch.object(OffsetCheckpoints, "_put_changed", counted):
        codes = await asyncio.gather(*(logs.log(each).delete_records_before(1) for each in MANY))
    assert set(codes) == {ErrorCode.NONE}
    assert looks <= 2
    told = decode_offsets(logs.fake.read_whole(f"{DATA_DIR}/log-start-offset-checkpoint"))
    assert told == dict.fromkeys(MANY, 1)


def test_a_table_encodes_to_the_same_file_as_one_made_anew() -> None:
    table = OffsetTable()
    for offset, partition in enumerate(MANY):
        table.put(partition, offset)
    table.put(MANY[3], 1000)
    table.drop(MANY[4])
    table.drop(MANY[4])
    expected = {partition: offset for offset, partition in enumerate(MANY) if offset != 4} | {MANY[3]: 1000}
    assert decode_offsets(table.encode()) == expected
    assert sorted(table.encode().splitlines()[2:]) == sorted(encode_offsets(expected).splitlines()[2:])


def test_a_table_of_100_000_lines_of_which_one_has_changed_is_encoded_without_a_look_at_each() -> None:
    table = OffsetTable()
    for index in range(100_000):
        table.put(TopicPartition("topic-of-many-partitions", index), index)
    table.put(TopicPartition("topic-of-many-partitions", 5), 7)
    with CallCounter() as encoding:
        table.encode()
    assert encoding.calls < 100


async def most_at_once(logs: Logs, *, force: bool) -> int:
    """The largest number of saves side by side in a round."""
    most = 0
    saver = logs.manager._saver
    save = saver._save

    async def counted(*arguments: object) -> None:
        nonlocal most
        most = max(most, len(saver._saving))
        await save(*arguments)  # type: ignore[arg-type]

    with patch.object(saver, "_save", counted):
        await logs.manager.checkpoint(force=force)
    return most


@pytest.mark.parametrize(("force", "least", "limit"), [(False, 1, 1), (True, 2, SAVES_AT_ONCE)])
async def test_logs_that_are_due_together_are_saved_one_after_the_other(force: bool, least: int, limit: int) -> None:
    logs = await many_logs()
    for partition in MANY:
        appended(logs.append(logs.log(partition), data()))
    logs.clock.advance(SMALL_AFTER_MS)
    assert least <= await most_at_once(logs, force=force) <= limit
    assert {log.checkpoint_state.recovery_point for log in logs.manager.logs_of("many")} == {2}


def test_of_very_many_logs_some_are_saved_side_by_side() -> None:
    at_once = [saves_at_once(count) for count in (0, 1, ONE_BY_ONE - 1, ONE_BY_ONE, 10 * ONE_BY_ONE, 100_000)]
    assert at_once == [1, 1, 1, 2, 11, SAVES_AT_ONCE]


@pytest.mark.parametrize("clean", [False, True])
async def test_a_stop_waits_for_the_save_under_way_and_for_no_other_of_its_round(clean: bool) -> None:
    logs = await many_logs()
    for partition in MANY:
        appended(logs.append(logs.log(partition), data()))
    logs.clock.advance(SMALL_AFTER_MS)
    (checkpoints,) = (each for each in logs.manager.periodic_work() if each.name == "checkpoints")
    begun = asyncio.Event()
    saver = logs.manager._saver
    save = saver._save
    saved: list[object] = []

    async def noted(log: object, checkpoint: object) -> None:
        begun.set()
        await asyncio.sleep(0)
        saved.append(log)
        await save(log, checkpoint)  # type: ignore[arg-type]

    with patch.object(saver, "_save", noted):
        result = checkpoints.run()
        assert result is not None
        work = asyncio.ensure_future(result)
        await begun.wait()
        work.cancel()  # as a stop does first
        await logs.manager.close(clean=clean)
    assert len(saved) == (len(MANY) if clean else 1)
    assert len(set(saved)) == len(saved)
    await logs.start_again(None if clean else logs.fake.killed())
    assert {each.log_end_offset for each in logs.manager.logs_of("many")} == {2}


async def test_logs_that_are_saved_for_the_first_time_share_one_sync_of_the_folder_they_are_in() -> None:
    logs = Logs()
    await logs.open()
    for partition in MANY:
        appended(logs.append(logs.log(partition), data()))
    calls = len(logs.fake.calls)
    await logs.manager._saver.save_due(force=True)
    assert logs.fake.calls[calls:].count(("sync_directory", DATA_DIR)) == 1
    assert {log.checkpoint_state.recovery_point for log in logs.manager.logs_of("many")} == {1}


async def test_a_save_syncs_each_file_once_and_then_all_their_names_at_once() -> None:
    logs = await many_logs()
    log, place = logs.log(MANY[7]), f"{DATA_DIR}/many-7"
    for _ in range(20):
        appended(logs.append(log, data(size=1000)))
    calls = len(logs.fake.calls)
    await logs.manager._saver.save_due(force=True)
    syncs = [each for each in logs.fake.calls[calls:] if each[0].startswith("sync")]
    files = [f"{0:020d}.log", f"{0:020d}.timeindex", f"{0:020d}.index", f"{log.log_end_offset:020d}.snapshot.tmp"]
    assert syncs == [*(("sync", f"{place}/{name}") for name in files), ("sync_directory", place)]
    assert f"{1:020d}.snapshot" in logs.fake.list(place), "the one that a start goes by stays until the next"


async def test_a_log_whose_folder_cannot_be_synced_is_offline_and_those_that_were_saved_before_are_not() -> None:
    logs = await many_logs()
    new = logs.log(TopicPartition("new", 0))
    for log in (new, logs.log(MANY[7])):
        appended(logs.append(log, data()))
    logs.fake.faults.append(Fault("sync_directory", errno.EIO, path="/dat[a]"))
    await logs.manager._saver.save_due(force=True)
    assert new.failure is not None
    assert logs.log(MANY[7]).checkpoint_state.recovery_point == 2


async def test_a_log_whose_folder_cannot_be_opened_for_want_of_descriptors_is_saved_by_the_next_round() -> None:
    logs = await many_logs()
    new = logs.log(TopicPartition("new", 0))
    appended(logs.append(new, data()))
    logs.fake.faults.append(Fault("sync_directory", errno.EMFILE, path="/dat[a]"))
    await logs.manager._saver.save_due(force=True)
    assert (new.failure, new.checkpoint_state.recovery_point) == (None, 0)
    await logs.manager._saver.save_due(force=True)
    assert new.checkpoint_state.recovery_point == 1


@pytest.mark.parametrize(("name", "looks"), [("checkpoints", 0), ("idle files", 0), ("compaction", 2)])
async def test_upkeep_of_logs_at_rest_is_as_much_work_for_ten_times_as_many(name: str, looks: int) -> None:
    """What comes every few seconds, but for `looks` at each log: one in 15 s for how far it is compacted. Retention and
    the expiry of producers come every few minutes."""
    taken = []
    for count in (30, 300):
        logs = Logs()
        await logs.open()
        for index in range(count):
            appended(logs.append(logs.log(TopicPartition("many", index)), data()))
        (work,) = (each for each in logs.manager.periodic_work() if each.name == name)
        for _ in range(3):  # until everything is saved, and no file is open
            await logs.manager.checkpoint(force=True)
            await logs.manager.release_idle_files()
        with CallCounter() as counter:
            for _ in range(20):
                logs.clock.advance(1000)
                done = work.run()
                if done is not None:
                    await done
        taken.append(counter.calls)
    assert taken[1] - taken[0] == looks * 270


async def test_work_on_many_things_lets_others_have_their_turn() -> None:
    clock, done, turns = ManualClock(), [], []

    def work(item: int) -> None:
        clock.advance(1)
        done.append(item)

    async def another() -> None:
        while len(done) < 100:
            turns.append(len(done))
            await asyncio.sleep(0)

    beside = asyncio.ensure_future(another())
    await in_turns(range(100), work, clock)
    await beside
    assert done == list(range(100))
    assert {later - earlier for earlier, later in itertools.pairwise(turns)} == {0, TURN_MS}
