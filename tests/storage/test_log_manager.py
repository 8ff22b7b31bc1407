"""A data directory: its lock, its identity, starts and stops, topics that go."""

import asyncio
import errno
import gc
import json
import os
import shutil
from itertools import pairwise
from pathlib import Path

import pytest
from batches import ORDERS, TOPIC_ID, data, marker
from logs import DATA_DIR, Logs, appended, read_now
from manual_clock import ManualClock
from waiting import settled

from eosin.lab.disk.lying_disk import Fault, LyingDisk
from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import TopicPartition, uuid_from_text
from eosin.runtime.chance import SeededChance
from eosin.runtime.clock import SystemClock
from eosin.storage import deletions
from eosin.storage.checkpoints import checkpoint_saver
from eosin.storage.checkpoints.checkpoint_saver import CROWDED_AFTER_MS, LARGE_AFTER_MS
from eosin.storage.disk.data_directory import ForeignDirectory, UnknownName, parse_partition
from eosin.storage.disk.flusher import Durability
from eosin.storage.disk.meta_properties import DirectoryTooNew, MalformedProperties, MetaProperties
from eosin.storage.disk.system import MemoryDisk, SystemDisk
from eosin.storage.log.config import LogConfig
from eosin.storage.log.partition_log import PartitionLog
from eosin.storage.manager import DirectoryInUse, LogManager, UnusableDirectory
from eosin.storage.results.log_results import Refused

OTHER_ID = bytes(reversed(TOPIC_ID))


def system_manager(path: Path, durability: Durability = Durability.OS, **settings: object) -> LogManager:
    return LogManager(
        SystemDisk(),
        str(path),
        clock=SystemClock(),
        chance=SeededChance(2),
        durability=durability,
        **settings,  # type: ignore[arg-type]
    )


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


def directories(path: Path) -> list[str]:
    return sorted(entry.name for entry in os.scandir(path) if entry.is_dir())


def read_text(path: Path) -> str:
    return path.read_text()


async def test_a_second_process_on_the_same_directory_is_refused(tmp_path: Path) -> None:
    first = system_manager(tmp_path)
    await first.open()
    with pytest.raises(DirectoryInUse):
        await system_manager(tmp_path).open()
    await first.close()
    second = system_manager(tmp_path)
    await second.open()
    await second.close()


async def test_the_room_of_the_file_system_is_that_of_the_data_directory(tmp_path: Path) -> None:
    manager = system_manager(tmp_path)
    await manager.open()
    volume = await manager.volume()
    assert volume is not None
    assert volume.total == shutil.disk_usage(tmp_path).total
    assert 0 <= volume.free <= volume.total
    await manager.close()


async def test_the_directory_keeps_its_owner(tmp_path: Path) -> None:
    manager = system_manager(tmp_path, cluster_id="c-1", node_id=3)
    await manager.open()
    directory_id = manager.directory_id
    assert len(directory_id) == 16
    await manager.close()
    text = read_text(tmp_path / "meta.properties")
    assert "version=1\n" in text
    assert "cluster.id=c-1\n" in text
    assert "node.id=3\n" in text
    again = system_manager(tmp_path, node_id=3)
    await again.open()
    assert (again.cluster_id, again.directory_id) == ("c-1", directory_id)
    await again.close()
    with pytest.raises(ForeignDirectory, match="cluster"):
        await system_manager(tmp_path, cluster_id="c-2", node_id=3).open()
    with pytest.raises(ForeignDirectory, match="node"):
        await system_manager(tmp_path, node_id=4).open()
    await again.open()
    await again.close()


async def test_a_directory_of_apache_kafka_is_refused_before_anything_in_it_changes() -> None:
    logs = Logs()
    log = await logs.open()
    logs.append(log, data())
    await logs.manager.close()
    logs.fake.make_directory(f"{DATA_DIR}/__cluster_metadata-0")
    logs.fake.calls.clear()
    with pytest.raises(ForeignDirectory, match="it is Apache Kafka's"):
        await logs.start_again()
    assert not logs.fake.calls
    assert ".kafka_cleanshutdown" in logs.fake.list(DATA_DIR)


async def test_a_newer_format_is_refused_in_one_sentence() -> None:
    logs = Logs()
    await logs.open()
    await logs.manager.close()
    path = f"{DATA_DIR}/meta.properties"
    content = logs.fake.read_whole(path).replace(b"eosin.format=1", b"eosin.format=2")
    logs.fake.write_atomic(path, content)
    before = {name: logs.fake.size(f"{DATA_DIR}/{name}") for name in logs.fake.list(DATA_DIR)}
    with pytest.raises(DirectoryTooNew, match="format 2"):
        await logs.start_again()
    assert before == {name: logs.fake.size(f"{DATA_DIR}/{name}") for name in logs.fake.list(DATA_DIR)}


@pytest.mark.parametrize(
    "content", [b"", b"version=1\n", b"version=7\ncluster.id=a\nnode.id=1", b"version=1\ncluster.id=a\nnode.id=x"]
)
def test_bad_properties_are_refused(content: bytes) -> None:
    with pytest.raises(MalformedProperties):
        MetaProperties.decode(content)


def test_properties_of_apache_kafka_are_understood() -> None:
    content = b"#\n#Mon Oct 07\nversion=1\ncluster.id=abc\nnode.id=2\ndirectory.id=AAAAAAAAAAAAAAAAAAAAAQ\n"
    assert MetaProperties.decode(content) == MetaProperties("abc", 2, "AAAAAAAAAAAAAAAAAAAAAQ")


async def test_a_directory_that_is_no_partition_is_refused_and_left_alone() -> None:
    logs = Logs()
    await logs.open()
    await logs.manager.close()
    logs.fake.make_directory(f"{DATA_DIR}/holiday pictures")
    with pytest.raises(UnknownName, match="holiday pictures"):
        await logs.start_again()
    assert logs.fake.is_directory(f"{DATA_DIR}/holiday pictures")
    assert ".kafka_cleanshutdown" in logs.fake.list(DATA_DIR)


@pytest.mark.parametrize("name", ["orders", "-0", "orders-", "orders-x", "orders-01", "or ders-1", "..-1"])
def test_names_that_are_no_partition(name: str) -> None:
    with pytest.raises(UnusableDirectory):
        parse_partition(name)


def test_a_partition_name_is_split_at_its_last_dash() -> None:
    assert parse_partition("a-b-3") == TopicPartition("a-b", 3)


async def test_the_mark_of_a_clean_stop_is_written_last_and_removed_first() -> None:
    logs = Logs()
    log = await logs.open()
    logs.append(log, data())
    await logs.manager.close()
    changed = [path for call, path in logs.fake.calls if call in ("rename", "append", "sync")]
    assert changed[-1] == f"{DATA_DIR}/.kafka_cleanshutdown"
    mark = json.loads(logs.fake.read_whole(f"{DATA_DIR}/.kafka_cleanshutdown"))
    assert mark == {"version": 0, "brokerEpoch": 0}
    logs.fake.calls.clear()
    await logs.start_again()
    assert logs.fake.calls[:2] == [("unlink", f"{DATA_DIR}/.kafka_cleanshutdown"), ("sync_directory", DATA_DIR)]


async def test_a_stop_that_was_not_clean_leaves_no_mark() -> None:
    logs = Logs()
    log = await logs.open()
    logs.append(log, data())
    await logs.manager.close(clean=False)
    assert ".kafka_cleanshutdown" not in logs.fake.list(DATA_DIR)
    log = await logs.start_again()
    assert log.log_end_offset == 1


async def test_the_files_of_a_stopped_log_are_complete() -> None:
    logs = Logs(config=LogConfig(internal_segment_bytes=500, index_interval_bytes=150))
    log = await logs.open()
    for seq in range(9):
        logs.append(log, data(pid=1, epoch=0, seq=seq, txn=True))
    log.append_marker(marker(1, 0, commit=False), now_ms=logs.clock.now_ms())
    await logs.manager.close()
    names = logs.fake.list(f"{DATA_DIR}/orders-0")
    for base in log.segments.bases:
        for suffix in (".log", ".index", ".timeindex"):
            assert f"{base:020d}{suffix}" in names
        assert not base or f"{base:020d}.snapshot" in names
    assert f"{log.segments.bases[-1]:020d}.txnindex" in names
    assert f"{10:020d}.snapshot" in names
    assert logs.fake.read_whole(f"{DATA_DIR}/recovery-point-offset-checkpoint") == b"0\n1\norders 0 10\n"
    assert logs.fake.read_whole(f"{DATA_DIR}/replication-offset-checkpoint") == b"0\n1\norders 0 10\n"


async def test_create_log_gives_the_loaded_log_and_the_new_configuration() -> None:
    logs = Logs()
    log = await logs.open()
    logs.append(log, data())
    await logs.reopen()
    config = LogConfig(segment_ms=5)
    again = logs.manager.create_log(ORDERS, TOPIC_ID, config, 9)
    assert again is logs.manager.logs[ORDERS]
    assert (again.config, again.leader_epoch, again.topic_id, again.log_end_offset) == (config, 9, TOPIC_ID, 1)


async def test_leader_epochs_never_go_back() -> None:
    logs = Logs()
    log = await logs.open()
    logs.manager.set_leader_epoch(5)
    logs.manager.set_leader_epoch(3)
    assert log.leader_epoch == 5
    assert logs.manager.create_log(ORDERS, TOPIC_ID, LogConfig(), 2).leader_epoch == 5
    assert logs.log(TopicPartition("new", 0)).leader_epoch == 5


async def test_a_loaded_log_goes_on_in_no_lower_epoch_than_it_has() -> None:
    logs = Logs()
    log = await logs.open()
    log.leader_epoch = 9
    logs.append(log, data())
    log = await logs.reopen()
    assert log.leader_epoch == 9
    logs.append(log, data())
    assert log.epochs.entries == ((9, 0),)


async def test_a_log_of_an_older_topic_of_the_same_name_is_set_aside() -> None:
    logs = Logs()
    log = await logs.open()
    logs.append(log, data())
    fresh = logs.manager.create_log(ORDERS, OTHER_ID, LogConfig(), 0)
    assert fresh.log_end_offset == 0
    assert appended(logs.append(fresh, data())).base_offset == 0
    assert any(name.startswith("orders-0.") and name.endswith("-stray") for name in logs.fake.list(DATA_DIR))
    again = await logs.reopen_without_log()
    assert list(again.logs) == [ORDERS]


async def test_a_deleted_topic_answers_that_it_is_gone_and_its_files_go_later() -> None:
    logs = Logs()
    log = await logs.open()
    kept = logs.log(TopicPartition("orders2", 0))
    for each in (log, kept):
        logs.append(each, data())
    waiter = log.durable(5)
    seen: list[object] = []
    log.on_progress = seen.append
    logs.manager.delete_logs("orders")
    assert await waiter == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert seen == [log]
    assert list(logs.manager.logs) == [kept.topic_partition]
    refused = logs.append(log, data())
    assert isinstance(refused, Refused)
    assert refused.error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert read_now(log).error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    (renamed,) = [name for name in logs.fake.list(DATA_DIR) if name.endswith("-delete")]
    assert renamed.startswith("orders-0.")
    logs.clock.advance(60_000)
    await logs.manager.checkpoint()
    assert not logs.fake.is_directory(f"{DATA_DIR}/{renamed}")


async def many_logs(count: int, monkeypatch: pytest.MonkeyPatch) -> Logs:
    """Logs of the topic `orders`, each written once, of which two are deleted per turn of the event loop."""
    monkeypatch.setattr(deletions, "LOGS_PER_TURN", 2)
    logs = Logs()
    await logs.open()
    for index in range(count):
        logs.append(logs.log(TopicPartition("orders", index)), data())
    return logs


def put_away(logs: Logs) -> int:
    return sum(name.endswith("-delete") for name in logs.fake.list(DATA_DIR))


async def test_a_topic_of_many_partitions_is_deleted_a_few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    logs = await many_logs(7, monkeypatch)
    logs.manager.deletions.begin("orders")
    counts = [put_away(logs)]
    while logs.manager.logs_of("orders"):
        assert logs.manager.may_inherit_deleted("orders")
        await asyncio.sleep(0)
        counts.append(put_away(logs))
    assert counts[0] == 2
    assert max(later - earlier for earlier, later in pairwise(counts)) == 2
    await logs.manager.checkpoint()
    assert not logs.manager.may_inherit_deleted("orders")


async def test_a_name_is_free_again_when_all_its_logs_are_put_away_and_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    logs = await many_logs(7, monkeypatch)
    logs.manager.deletions.begin("orders")
    await logs.manager.forget_deleted("orders")
    assert put_away(logs) == 7
    assert not logs.manager.may_inherit_deleted("orders")


async def test_a_stop_finishes_the_deletions(monkeypatch: pytest.MonkeyPatch) -> None:
    logs = await many_logs(7, monkeypatch)
    logs.manager.deletions.begin("orders")
    await logs.manager.close()
    assert put_away(logs) == 7


async def test_a_log_that_cannot_be_deleted_stays_for_the_next_start(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    logs = await many_logs(7, monkeypatch)
    logs.fake.faults.append(Fault("rename", errno.EIO, path="orders-3"))
    logs.manager.deletions.begin("orders")
    await settled()
    assert put_away(logs) == 3
    assert [each.partition for each in logs.manager.logs_of("orders")] == [4, 5, 6]
    assert [each.getMessage().partition(",")[0] for each in caplog.records] == [
        "topic orders could not be deleted in full"
    ]
    await logs.manager.forget_deleted("orders")


async def test_nothing_is_written_beside_what_a_log_has_left_that_could_not_be_put_away() -> None:
    """The next start would take both for one log, of the new topic: an old segment may go on where the new one ends."""
    logs = Logs()
    log = await logs.open()
    logs.append(log, data())
    log.roll(logs.clock.now_ms())
    logs.append(log, data())
    logs.fake.faults.append(Fault("rename", errno.EIO, path="orders-0", times=2))
    logs.manager.deletions.begin("orders")
    await settled()
    with pytest.raises(OSError):
        logs.manager.create_log(ORDERS, OTHER_ID, LogConfig(), 0)
    fresh = logs.manager.create_log(ORDERS, OTHER_ID, LogConfig(), 0)
    logs.append(fresh, data(3))
    assert put_away(logs) == 1
    assert sorted(name for name in logs.fake.list(f"{DATA_DIR}/orders-0") if name.endswith(".log")) == [f"{0:020}.log"]
    again = (await logs.reopen_without_log()).logs[ORDERS]
    assert (again.topic_id, again.log_end_offset, again.failure) == (OTHER_ID, 3, None)


async def test_a_deleted_log_is_in_no_cycle_of_references() -> None:
    logs = Logs()
    logs.append(await logs.open(), data())
    gc.collect()
    gc.disable()  # what the collector is told to leave alone goes all the same
    try:
        logs.manager.delete_logs("orders")
        await logs.manager.checkpoint()
        left = [each for each in gc.get_objects() if isinstance(each, PartitionLog) and each.topic == "orders"]
        assert left == []
    finally:
        gc.enable()


async def test_directories_of_deleted_topics_are_removed_after_a_start() -> None:
    logs = Logs()
    log = await logs.open()
    logs.append(log, data())
    logs.manager.delete_logs("orders")
    await logs.reopen_without_log()
    await logs.manager.checkpoint()
    assert not [name for name in logs.fake.list(DATA_DIR) if name.endswith("-delete")]


async def test_a_topic_that_comes_back_inherits_nothing() -> None:
    logs = Logs()
    log = await logs.open()
    for seq in range(9):
        logs.append(log, data(pid=1, epoch=0, seq=seq))
    await log.delete_records_before(7)
    await logs.manager.checkpoint(force=True)
    logs.manager.delete_logs("orders")
    fresh = logs.log()
    assert fresh is not log
    logs.append(fresh, data())
    for disk in (logs.fake.killed(), logs.fake.power_loss()):
        again = await Logs(disk=disk).open()
        assert (again.log_start_offset, again.producers()) == (0, ())
        assert again.log_end_offset <= 1


async def test_a_very_long_name_is_cut_when_it_is_deleted() -> None:
    logs = Logs()
    await logs.open()
    partition = TopicPartition("x" * 249, 0)
    logs.append(logs.log(partition), data())
    logs.manager.delete_logs(partition.topic)
    (name,) = [name for name in logs.fake.list(DATA_DIR) if name.endswith("-delete")]
    assert len(name) == 255


async def test_unknown_partitions_are_set_aside() -> None:
    logs = Logs()
    log = await logs.open()
    logs.append(log, data())
    logs.log(TopicPartition("known", 1))
    assert logs.manager.set_aside_strays({TopicPartition("known", 1)}) == [ORDERS]
    assert any(name.endswith("-stray") for name in logs.fake.list(DATA_DIR))
    await logs.reopen_without_log()
    assert not logs.manager.logs


async def test_a_partition_that_cannot_be_loaded_is_offline_and_the_others_are_not(
    caplog: pytest.LogCaptureFixture,
) -> None:
    logs = Logs()
    log = await logs.open()
    other = logs.log(TopicPartition("payments", 0))
    for each in (log, other):
        logs.append(each, data())
    await log.delete_records_before(1)
    await logs.manager.close()
    logs.fake.write_atomic(f"{DATA_DIR}/orders-0/partition.metadata", b"version: 0\ntopic_id: ?")
    log = await logs.start_again()
    assert log.failure is not None
    assert "offline" in caplog.text
    assert logs.manager.logs[TopicPartition("payments", 0)].failure is None
    await logs.manager.checkpoint(force=True)
    assert logs.fake.read_whole(f"{DATA_DIR}/log-start-offset-checkpoint") == b"0\n2\norders 0 1\npayments 0 0\n"
    await logs.manager.close()
    assert ".kafka_cleanshutdown" not in logs.fake.list(DATA_DIR)


async def test_checkpoints_come_by_size_by_roll_and_by_time() -> None:
    logs = Logs(config=LogConfig(internal_segment_bytes=1_500_000))
    log = await logs.open()
    logs.append(log, data())
    logs.clock.advance(59_999)
    await logs.manager.checkpoint()
    assert log.checkpoint_state.recovery_point == 0
    logs.clock.advance(1)
    await logs.manager.checkpoint()
    assert log.checkpoint_state.recovery_point == 1
    logs.append(log, data(size=1_048_500))
    logs.append(log, data(size=1_000))
    await logs.manager.checkpoint()
    assert log.checkpoint_state.recovery_point == 1
    logs.clock.advance(LARGE_AFTER_MS)
    await logs.manager.checkpoint()
    assert log.checkpoint_state.recovery_point == 3
    logs.append(log, data(size=1_048_500))
    await logs.manager.checkpoint()
    assert log.checkpoint_state.recovery_point == 4
    logs.fake.calls.clear()
    await logs.manager.checkpoint(force=True)
    assert not [path for _, path in logs.fake.calls if "orders-0" in path]


@pytest.mark.parametrize(
    ("config", "durability", "expected"),
    [
        (LogConfig(flush_ms=2000), Durability.OS, [1, 1, 3]),
        (LogConfig(flush_messages=2), Durability.OS, [0, 2, 2]),
        (LogConfig(flush_ms=2000, flush_messages=2), Durability.FSYNC, [0, 0, 0]),
    ],
)
async def test_a_topic_may_ask_for_syncs_now_and_then(
    config: LogConfig, durability: Durability, expected: list[int]
) -> None:
    logs = Logs(config=config, durability=durability)
    log = await logs.open()
    points = []
    for wait_ms in (2000, 0, 2000):
        logs.append(log, data())
        logs.clock.advance(wait_ms)
        await logs.manager.checkpoint()
        points.append(log.checkpoint_state.recovery_point)
    assert points == expected


async def test_many_small_logs_together_leave_only_so_much_to_recover() -> None:
    logs = Logs()
    await logs.open()
    for index in range(20):
        log = logs.manager.create_log(TopicPartition("small", index), TOPIC_ID, LogConfig(), 0)
        while log.checkpoint_state.unsaved_bytes < 600_000:
            appended(logs.append(log, data(1, size=100_000)))
    await logs.manager.checkpoint()
    assert {log.checkpoint_state.recovery_point for log in logs.manager.logs.values()} == {0}, "they may wait a moment"
    logs.clock.advance(LARGE_AFTER_MS)
    await logs.manager.checkpoint()
    left = sum(log.checkpoint_state.unsaved_bytes for log in logs.manager.logs.values())
    assert 1_000_000 < left < 8 << 20
    await logs.manager.checkpoint()
    assert sum(log.checkpoint_state.unsaved_bytes for log in logs.manager.logs.values()) == left
    await logs.manager.close()


async def test_large_logs_wait_half_as_long_while_all_together_leave_much_to_recover(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(checkpoint_saver, "CROWDED_BYTES", 3_000_000)
    logs = Logs()
    await logs.open()
    many = [logs.log(TopicPartition("large", index)) for index in range(3)]
    for log in [*many[:2], *many[:2]]:
        appended(logs.append(log, data(1, size=600_000)))
    logs.clock.advance(CROWDED_AFTER_MS)
    await logs.manager.checkpoint()
    assert [log.checkpoint_state.recovery_point for log in many] == [0, 0, 0]
    for _ in range(2):
        appended(logs.append(many[2], data(1, size=600_000)))
    await logs.manager.checkpoint()
    assert [log.checkpoint_state.recovery_point for log in many] == [2, 2, 0]
    logs.clock.advance(LARGE_AFTER_MS - 1)
    await logs.manager.checkpoint()
    assert many[2].checkpoint_state.recovery_point == 0
    logs.clock.advance(1)
    await logs.manager.checkpoint()
    assert many[2].checkpoint_state.recovery_point == 2
    await logs.manager.close()


async def test_logs_together_leave_only_so_many_batches_to_recover(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoint_saver, "TOTAL_BATCHES", 100)
    logs = Logs()
    await logs.open()
    for index in range(10):
        log = logs.manager.create_log(TopicPartition("small", index), TOPIC_ID, LogConfig(), 0)
        for _ in range(11 + index):
            appended(logs.append(log, data()))
    await logs.manager.checkpoint()
    batches = [log.checkpoint_state.unsaved_batches for log in logs.manager.logs.values()]
    assert batches == [0, 11, 12, 13, 14, *[0] * 6], "the largest were saved"
    await logs.manager.close()


@pytest.mark.parametrize("hours", [-1, 1])
async def test_a_clock_that_is_set_moves_no_checkpoint_and_no_removal(hours: int) -> None:
    logs = Logs(config=LogConfig(file_delete_delay_ms=60_000))
    log = await logs.open()
    other = logs.log(TopicPartition("other", 0))
    for each in (log, other):
        appended(logs.append(each, data()))
    logs.manager.delete_logs("other")
    logs.clock.ahead_ms = hours * 3_600_000
    logs.clock.advance(59_000)
    await logs.manager.checkpoint()
    assert log.checkpoint_state.recovery_point == 0
    assert [name for name in logs.fake.list("/data") if name.startswith("other-0")]
    logs.clock.advance(1000)
    await logs.manager.checkpoint()
    assert log.checkpoint_state.recovery_point == 1
    assert not [name for name in logs.fake.list("/data") if name.startswith("other-0")]


async def test_a_checkpoint_that_fails_for_want_of_space_is_tried_again() -> None:
    logs = Logs()
    log = await logs.open()
    logs.append(log, data())
    logs.fake.space = 3
    with pytest.raises(OSError, match="no space"):
        await logs.manager.checkpoint(force=True)
    assert (log.checkpoint_state.recovery_point, log.failure) == (0, None)
    logs.fake.space = None
    await logs.manager.checkpoint(force=True)
    assert log.checkpoint_state.recovery_point == 1


async def test_memory_durability_works_the_same() -> None:
    clock = ManualClock()
    logs = Logs(disk=MemoryDisk(clock.now_ms), durability=Durability.MEMORY, clock=clock)
    log = await logs.open()
    for seq in range(4):
        logs.append(log, data(pid=1, epoch=0, seq=seq))
    assert log.high_watermark == 4
    log = await logs.reopen()
    assert len(read_now(log).records) == 4 * len(data())
    logs.manager.delete_logs("orders")
    logs.clock.advance(60_000)
    await logs.manager.checkpoint()
    assert not [name for name in logs.disk.list(DATA_DIR) if name.startswith("orders")]


async def test_idle_logs_hold_no_files(tmp_path: Path) -> None:
    manager = system_manager(tmp_path)
    await manager.open()
    before = open_files()
    for index in range(20):
        log = manager.create_log(TopicPartition("t", index), TOPIC_ID, LogConfig(), 0)
        log.append(data(), now_ms=1)
    assert open_files() == before + 20
    await manager.checkpoint(force=True)
    for _ in range(2):
        await manager.release_idle_files()
    assert open_files() == before
    assert len(read_now(manager.logs[TopicPartition("t", 3)]).records) == len(data())
    await manager.close()
    assert open_files() <= before


async def test_a_partition_costs_nothing_on_disk_before_its_first_record(tmp_path: Path) -> None:
    manager = system_manager(tmp_path)
    await manager.open()
    logs = [manager.create_log(TopicPartition("t", index), TOPIC_ID, LogConfig(), 0) for index in range(100)]
    assert directories(tmp_path) == []
    for log in logs:
        log.append(data(pid=1, epoch=0, seq=0), now_ms=1)
    await manager.close()
    again = system_manager(tmp_path)
    await again.open()
    assert len(again.logs) == 100
    await again.close()


async def test_the_ids_in_the_files_are_the_ones_given(tmp_path: Path) -> None:
    manager = system_manager(tmp_path, Durability.FSYNC)
    await manager.open()
    log = manager.create_log(ORDERS, TOPIC_ID, LogConfig(), 0)
    result = log.append(data(), now_ms=1)
    assert not isinstance(result, Refused)
    assert await log.durable(1) == ErrorCode.NONE
    text = read_text(tmp_path / "orders-0" / "partition.metadata")
    assert uuid_from_text(text.rpartition(" ")[2]) == TOPIC_ID
    await manager.close()


async def test_every_periodic_work_can_be_done_at_any_time() -> None:
    logs = Logs()
    log = await logs.open()
    logs.append(log, data(pid=1, epoch=0, seq=0))
    for work in logs.manager.periodic_work():
        assert work.interval_ms > 0
        waiting = work.run()
        if waiting is not None:
            await waiting
    assert log.log_end_offset == 1


def test_a_fake_disk_is_a_disk() -> None:
    from eosin.storage.disk.interfaces import Disk

    disks: list[Disk] = [LyingDisk(), MemoryDisk(), SystemDisk()]
    assert [disk.volatile for disk in disks] == [False, True, False]
