"""Compaction of whole logs: what stays through several rounds, who may read meanwhile, what stops it."""

import asyncio
import logging
import random
from collections.abc import Awaitable
from dataclasses import replace
from pathlib import Path

import pytest
from batches import NOW_MS, marker
from compaction import (
    COMPACT,
    DELETE_RETENTION_MS,
    Consumer,
    compact,
    compacted_logs,
    headers,
    keyed,
    offsets,
    roll,
    stored,
    table,
)
from logs import DATA_DIR, Logs, appended, read_now
from manual_clock import TickingClock
from waiting import HANG_S, settled

from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import TRANSACTION_STATE_TOPIC, IsolationLevel, TopicPartition
from eosin.protocol.records.batch import batches, iter_records
from eosin.storage.compaction.choice import INTERNAL_UNCOMPACTED_BYTES
from eosin.storage.compaction.cleaner import CleanerConfig
from eosin.storage.compaction.key_map import ENTRY_BYTES
from eosin.storage.compaction.pace import (
    BATCH_WORK,
    CHUNK_WORK,
    LONGEST_LOG_REST_MS,
    RECORD_WORK,
    SLICE_WORK,
    Pace,
)
from eosin.storage.disk.flusher import Durability
from eosin.storage.disk.memory import MemoryDisk
from eosin.storage.disk.system import SystemDisk
from eosin.storage.log.partition_log import PartitionLog
from eosin.storage.log.retention import delete_old_segments
from eosin.storage.results.log_results import AbortedTransaction, ReadResult, Refused

HOME = f"{DATA_DIR}/orders-0"
STATE = TopicPartition(TRANSACTION_STATE_TOPIC, 0)
WIDE = replace(COMPACT, internal_segment_bytes=None)
"""Segments end when a test says so."""


async def rolled(logs: Logs, log: PartitionLog, *batch_list: bytes) -> None:
    """Append batches, end the segment behind them, and compact."""
    for batch in batch_list:
        appended(logs.append(log, batch))
    roll(logs, log)
    await compact(logs)


def markers(log: PartitionLog) -> list[tuple[int, bool, int]]:
    """(offset, whether it has a delete horizon, records) of each control batch."""
    return [
        (header.base_offset, header.has_delete_horizon, header.records_count)
        for batch in log.batches()
        for _, header in batches(batch)
        if header.is_control
    ]


def aborted(log: PartitionLog) -> tuple[AbortedTransaction, ...]:
    return read_now(log, isolation=IsolationLevel.READ_COMMITTED).aborted or ()


# Through several rounds


async def test_the_latest_record_of_each_key_stays_at_its_offset() -> None:
    logs = compacted_logs(WIDE)
    log = await logs.open()
    await rolled(logs, log, keyed(("a", "1"), ("b", "1")), keyed(("a", "2")), keyed(("c", "1"), ("a", "3")))
    assert headers(log) == [(0, 1, 1), (3, 4, 2)]
    assert [(seen.offset, seen.value) for seen in stored(log)] == [(1, b"1"), (3, b"1"), (4, b"3")]
    await rolled(logs, log, keyed(("b", "2")))
    assert offsets(log) == [3, 4, 5]
    log = await logs.reopen()
    assert offsets(log) == [3, 4, 5]
    assert log.log_end_offset == 6


async def test_a_tombstone_can_be_seen_for_delete_retention_ms_and_goes_with_the_next_compaction() -> None:
    logs = compacted_logs(WIDE)
    log = await logs.open()
    await rolled(logs, log, keyed(("a", "1"), ("b", "1")), keyed(("a", None)))
    assert offsets(log) == [1, 2], "the value is gone, the tombstone is not"
    logs.clock.advance(DELETE_RETENTION_MS - 1)
    await rolled(logs, log, keyed(("c", "1")))
    assert offsets(log) == [1, 2, 3]
    logs.clock.advance(1)
    await rolled(logs, log, keyed(("d", "1")))
    assert offsets(log) == [1, 3, 4]


async def test_a_committed_marker_outlives_its_data_by_a_compaction_and_delete_retention_ms() -> None:
    logs = compacted_logs(WIDE)
    log = await logs.open()
    appended(logs.append(log, keyed(("a", "1"), pid=1, seq=0, txn=True)))
    log.append_marker(marker(1, 0, commit=True), now_ms=NOW_MS)
    await rolled(logs, log, keyed(("a", "2")))
    assert (offsets(log), markers(log)) == ([2], [(1, False, 1)])
    # The producer is still known, so the header of its last batch stays, and the marker with it.
    assert headers(log)[0] == (0, 0, 0)
    log.expire_producers(logs.clock.now_ms(), after_ms=0)
    await rolled(logs, log, keyed(("b", "1")))
    assert headers(log)[0] == (1, 1, 1), "now the header has gone"
    assert markers(log) == [(1, True, 1)]
    logs.clock.advance(DELETE_RETENTION_MS - 1)
    await rolled(logs, log, keyed(("d", "1")))
    assert markers(log) == [(1, True, 1)]
    logs.clock.advance(1)
    await rolled(logs, log, keyed(("e", "1")))
    assert markers(log) == []
    assert table(Consumer().read_all(log).seen).keys() == {b"a", b"b", b"d", b"e"}


async def test_an_aborted_transactions_records_go_at_once_and_its_index_row_when_they_are_gone() -> None:
    logs = compacted_logs(WIDE)
    log = await logs.open()
    appended(logs.append(log, keyed(("a", "1"))))
    appended(logs.append(log, keyed(("a", "2"), pid=1, seq=0, txn=True)))
    log.append_marker(marker(1, 1, commit=False, version=2), now_ms=NOW_MS)
    await rolled(logs, log, keyed(("b", "1")))
    assert offsets(log) == [0, 3], "what was aborted does not take an older value away"
    assert (markers(log), aborted(log)) == ([(2, True, 1)], ())
    assert f"{0:020d}.txnindex" not in logs.fake.list(HOME)
    logs.clock.advance(DELETE_RETENTION_MS)
    await rolled(logs, log, keyed(("d", "1")))
    assert markers(log) == [(2, False, 0)], "the producer's epoch is in it"
    log.expire_producers(logs.clock.now_ms(), after_ms=0)
    await rolled(logs, log, keyed(("e", "1")))
    assert markers(log) == []


async def test_a_transaction_whose_marker_may_not_be_compacted_yet_is_aborted_all_the_same() -> None:
    logs = compacted_logs(WIDE)
    log = await logs.open()
    appended(logs.append(log, keyed(("a", "1"))))
    appended(logs.append(log, keyed(("a", "2"), pid=1, seq=0, txn=True)))
    roll(logs, log)
    log.append_marker(marker(1, 0, commit=False), now_ms=NOW_MS)
    await compact(logs)
    assert headers(log) == [(0, 0, 1), (1, 1, 0), (2, 2, 1)]
    assert aborted(log) == (AbortedTransaction(1, 1),)
    assert table(Consumer().read_all(log).seen).keys() == {b"a"}


async def without_snapshots(logs: Logs) -> PartitionLog:
    """Start after a stop that left nothing but the log itself."""
    disk = logs.fake.killed()
    disk.unlink(f"{DATA_DIR}/recovery-point-offset-checkpoint")
    for name in disk.list(HOME):
        if name.endswith(".snapshot"):
            disk.unlink(f"{HOME}/{name}")
    return await logs.start_again(disk)


async def test_a_transaction_whose_records_stay_keeps_its_marker_for_ever() -> None:
    logs = compacted_logs(WIDE)
    log = await logs.open()
    appended(logs.append(log, keyed(("a", "1"), pid=1, seq=0, txn=True)))
    log.append_marker(marker(1, 0, commit=True), now_ms=NOW_MS)
    for index in range(5):
        await rolled(logs, log, keyed((f"b{index}", "1")))
        logs.clock.advance(DELETE_RETENTION_MS)
    assert markers(log) == [(1, False, 1)]
    log = await without_snapshots(logs)
    assert log.last_stable_offset == log.log_end_offset


@pytest.mark.parametrize("lost", ["an index", "the newer snapshots"])
async def test_a_transaction_of_which_nothing_is_left_is_not_opened_again_by_an_old_snapshot(lost: str) -> None:
    logs = compacted_logs(replace(COMPACT, internal_segment_bytes=1000))
    log = await logs.open()
    appended(logs.append(log, keyed(("a", "1"), pid=1, seq=0, txn=True)))
    appended(logs.append(log, keyed(("b", "v" * 500))))
    roll(logs, log)  # a snapshot that knows it as open
    second = log.log_end_offset
    log.append_marker(marker(1, 0, commit=True), now_ms=NOW_MS)
    appended(logs.append(log, keyed(("a", "v" * 850))))
    log.expire_producers(logs.clock.now_ms(), after_ms=0)
    for index in range(3):
        await rolled(logs, log, keyed((f"c{index}", "1")))
        logs.clock.advance(DELETE_RETENTION_MS)
    assert (markers(log), second in log.segments.bases) == ([], True)
    await logs.manager.close()
    for name in logs.fake.list(HOME):
        offset, _, kind = name.partition(".")
        if lost == "an index" and name == f"{second:020d}.index":
            logs.fake.unlink(f"{HOME}/{name}")
        if lost != "an index" and kind == "snapshot" and int(offset) > second:
            logs.fake.unlink(f"{HOME}/{name}")
    log = await logs.start_again()
    assert log.last_stable_offset == log.log_end_offset


async def test_a_producer_that_was_fenced_stays_fenced_although_nothing_of_it_is_left() -> None:
    logs = compacted_logs(WIDE)
    log = await logs.open()
    appended(logs.append(log, keyed(("a", "1"), pid=1, epoch=4, seq=0, txn=True)))
    log.append_marker(marker(1, 5, commit=False, version=2), now_ms=NOW_MS)
    for index in range(4):
        await rolled(logs, log, keyed(("b", f"{index}")))
        logs.clock.advance(DELETE_RETENTION_MS)
    assert headers(log)[0] == (1, 1, 0)
    for life in (log, await logs.start_again(logs.fake.killed()), await without_snapshots(logs)):
        late = logs.append(life, keyed(("a", "2"), pid=1, epoch=4, seq=1, txn=True))
        assert isinstance(late, Refused)
        assert late.error == ErrorCode.INVALID_PRODUCER_EPOCH


async def test_small_segments_become_one_and_their_snapshots_go() -> None:
    logs = compacted_logs()
    log = await logs.open()
    for index in range(40):
        appended(logs.append(log, keyed((f"k{index % 3}", "v" * 20))))
    await compact(logs)
    count = len(log.segments)
    appended(logs.append(log, keyed(("k0", "v" * 300))))
    appended(logs.append(log, keyed(("k0", "v" * 300))))
    await compact(logs)
    assert len(log.segments) < count
    names = logs.fake.list(HOME)
    snapshots = {int(name[:20]) for name in names if name.endswith(".snapshot")}
    assert snapshots <= {*log.segments.bases, log.checkpoint_state.recovery_point}
    assert len([name for name in names if name.endswith(".log")]) == len(log.segments)


async def test_a_log_with_more_keys_than_fit_in_memory_takes_several_rounds() -> None:
    logs = compacted_logs(cleaner=CleanerConfig(backoff_ms=0, dedupe_buffer_bytes=10 * (ENTRY_BYTES + 3)))
    log = await logs.open()
    for index in range(100):
        appended(logs.append(log, keyed((f"k{index % 40}", f"{index}"))))
    before = table(Consumer().read_all(log).seen)
    await compact(logs)
    assert log.compaction_state.compacted_below == log.segments.bases[-1]
    assert table(Consumer().read_all(log).seen) == before
    assert len(stored(log)) <= 40 + 2 * log.log_end_offset - 2 * log.compaction_state.compacted_below


async def test_how_far_logs_are_clean_is_remembered() -> None:
    logs = compacted_logs(WIDE)
    log = await logs.open()
    await rolled(logs, log, keyed(("a", "1"), ("a", "2")))
    assert logs.fake.read_whole(f"{DATA_DIR}/cleaner-offset-checkpoint") == b"0\n1\norders 0 2\n"
    log = await logs.start_again(logs.fake.killed())
    assert log.compaction_state.compacted_below == 2
    logs.manager.delete_logs("orders")
    await logs.manager.cleaner.round()
    assert logs.fake.read_whole(f"{DATA_DIR}/cleaner-offset-checkpoint") == b"0\n0\n"


async def test_a_copy_that_would_change_nothing_is_thrown_away() -> None:
    logs = compacted_logs(WIDE)
    log = await logs.open()
    await rolled(logs, log, keyed(("a", "1")))
    appended(logs.append(log, keyed(("b", "1"))))
    before = log.segments[0]
    log.update_config(replace(WIDE, internal_segment_bytes=90))
    await rolled(logs, log, keyed(("c", "1")))
    assert log.compaction_state.compacted_below == 3
    assert log.segments[0] is before
    assert not [name for name in logs.fake.list(HOME) if name.endswith(".cleaned")]


async def test_memory_durability_is_compacted_likewise() -> None:
    logs = Logs(config=WIDE, cleaner=CleanerConfig(backoff_ms=0), disk=MemoryDisk(), durability=Durability.MEMORY)
    log = await logs.open()
    await rolled(logs, log, keyed(("a", "1"), ("b", "1")), keyed(("a", "2")))
    assert offsets(log) == [1, 2]
    assert table(Consumer().read_all(log).seen).keys() == {b"a", b"b"}
    await logs.manager.close()


async def test_an_internal_log_stays_small_under_every_load() -> None:
    logs = compacted_logs(WIDE)
    await logs.open()
    log = logs.log(STATE)
    largest = 0
    for index in range(3000):
        appended(logs.append(log, keyed((f"id-{index % 20}", "v" * 200))))
        if index % 100 == 0:
            await logs.manager.cleaner.round()
            await logs.manager.checkpoint()
            await logs.manager.cleaner.round()
            largest = max(largest, log.size_bytes)
    assert log.log_end_offset == 3000
    assert largest < INTERNAL_UNCOMPACTED_BYTES + 40_000
    assert {seen.offset for seen in table(stored(log)).values()} == set(range(2980, 3000))


# With others at work


async def test_a_read_that_waits_for_the_disk_while_segments_are_replaced_gets_its_records() -> None:
    logs = compacted_logs(WIDE)
    log = await logs.open()
    appended(logs.append(log, keyed(("a", "1"), pid=1, seq=0, txn=True)))
    log.append_marker(marker(1, 1, commit=False, version=2), now_ms=NOW_MS)
    appended(logs.append(log, keyed(("b", "1"))))
    roll(logs, log)
    await logs.manager.checkpoint(force=True)
    logs.fake.cold = True
    read = log.read(0, max_bytes=1 << 20, isolation=IsolationLevel.READ_COMMITTED, min_one_batch=True)
    assert isinstance(read, Awaitable)
    off_loop = logs.fake.off_loop

    async def slow(function, *args):  # type: ignore[no-untyped-def]
        logs.fake.off_loop = off_loop  # type: ignore[method-assign]
        data = function(*args)
        for _ in range(2):  # so that the rows of the aborted transaction are gone by now
            roll(logs, log) if log.segments[-1].size else None
            await compact(logs)
            appended(logs.append(log, keyed(("c", "1"))))
        return data

    logs.fake.off_loop = slow  # type: ignore[method-assign,assignment]
    result = await read
    logs.fake.cold = False
    assert aborted(log) == ()
    consumer = Consumer()
    consumer.take(result)
    assert [seen.key for seen in consumer.seen] == [b"b"]


async def test_a_loader_that_pauses_while_segments_are_replaced_reads_on(tmp_path: Path) -> None:
    logs = Logs(config=WIDE, cleaner=CleanerConfig(backoff_ms=0), disk=SystemDisk(), data_dir=str(tmp_path))
    log = await logs.open()
    for index in range(40):  # more than is read at a time
        appended(logs.append(log, keyed((f"k{index % 5}", f"{index}" * 60_000))))
    roll(logs, log)
    expected = {seen.key: seen.value for seen in stored(log)}
    found: dict[bytes | None, bytes | None] = {}
    for number, batch in enumerate(log.batches()):
        if number % 7 == 3:
            await compact(logs)
            log.release_files()
        found |= {record.key: record.value for record in iter_records(batch)}
    assert found == expected
    await logs.manager.close()


@pytest.mark.parametrize("is_cold", [False, True])
async def test_a_consumer_that_reads_while_compaction_runs_misses_nothing_and_sees_nothing_aborted(
    is_cold: bool,
) -> None:
    logs = compacted_logs(cleaner=CleanerConfig(backoff_ms=0, io_max_bytes_per_second=200_000))
    log = await logs.open()
    logs.fake.cold = is_cold
    committed: list[tuple[int, bytes]] = []
    consumers = [(Consumer(), max_bytes) for max_bytes in (1, 300, 1000)]

    async def consume(consumer: Consumer, max_bytes: int) -> None:
        while True:
            await asyncio.sleep(0)
            if consumer.offset >= log.last_stable_offset:
                await logs.clock.sleep(1)
                continue
            result = log.read(
                consumer.offset, max_bytes=max_bytes, isolation=IsolationLevel.READ_COMMITTED, min_one_batch=True
            )
            consumer.take(result if isinstance(result, ReadResult) else await result)

    async def clean() -> None:
        while True:
            await compact(logs)
            await logs.clock.sleep(1)

    tasks = [asyncio.create_task(consume(*each)) for each in consumers]
    tasks.append(asyncio.create_task(clean()))
    for number in range(120):
        pid, commit = number % 3 + 1, number % 4 != 0
        epoch = number // 3
        for seq in range(2):
            key = f"k{number % 7}-{seq}"
            base = appended(logs.append(log, keyed((key, f"{number}"), pid=pid, epoch=epoch, seq=seq, txn=True)))
            if commit:
                committed.append((base.base_offset, key.encode()))
        log.append_marker(marker(pid, epoch + 1, commit=commit, version=2), now_ms=logs.clock.now_ms())
        await logs.clock.run(5)
    await logs.clock.run(5000)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert log.compaction_state.compacted_below > 200
    for consumer, _ in consumers:
        assert consumer.offset == log.last_stable_offset
        seen = [(each.offset, each.key) for each in consumer.seen]
        assert set(seen) <= set(committed)
        assert seen == sorted(seen)
        latest = {key: offset for offset, key in committed}
        assert {key: offset for offset, key in seen} == latest
    await logs.manager.close()


async def test_others_get_their_turn_while_a_large_log_is_compacted(monkeypatch: pytest.MonkeyPatch) -> None:
    logs = compacted_logs(replace(WIDE, internal_segment_bytes=1 << 20))
    log = await logs.open()
    batch = keyed(*[(f"key-{index}", "v" * 20) for index in range(200)])
    for _ in range(100):
        appended(logs.append(log, batch))
    roll(logs, log)
    await logs.manager.checkpoint(force=True)
    work_between_turns = [0]
    count = Pace.spent

    def counted(self: Pace, work: int) -> bool:
        work_between_turns[-1] += work
        return count(self, work)

    async def others() -> None:
        while True:
            if work_between_turns[-1]:
                work_between_turns.append(0)
            await asyncio.sleep(0)

    monkeypatch.setattr(Pace, "spent", counted)
    task = asyncio.create_task(others())
    await logs.manager.cleaner.round()
    task.cancel()
    assert len(stored(log)) == 200
    assert sum(work_between_turns) > 20 * SLICE_WORK, "20 000 records are many slices"
    one_step = max(CHUNK_WORK, RECORD_WORK * 200) + BATCH_WORK
    assert max(work_between_turns) <= SLICE_WORK + one_step


async def test_others_get_their_turn_while_segments_of_many_logs_end() -> None:
    logs = Logs(config=WIDE, cleaner=CleanerConfig(), clock=TickingClock())
    await logs.open()
    own = [logs.log(TopicPartition(TRANSACTION_STATE_TOPIC, index)) for index in range(8)]
    for log in own:
        appended(logs.append(log, keyed(("id", "v" * INTERNAL_UNCOMPACTED_BYTES))))
    ended: set[int] = set()

    async def others() -> None:
        while True:
            ended.add(sum(len(log.segments) > 1 for log in own))
            await asyncio.sleep(0)

    task = asyncio.create_task(others())
    await logs.manager.cleaner.round()
    task.cancel()
    assert all(len(log.segments) == 2 for log in own)
    assert len(ended & set(range(1, len(own)))) > 1, "some had ended their segment, and others not"


async def test_logs_of_the_brokers_own_that_are_due_together_are_compacted_with_rests_between() -> None:
    logs = compacted_logs(WIDE, cleaner=CleanerConfig())
    await logs.open()
    own = [logs.log(TopicPartition(TRANSACTION_STATE_TOPIC, index)) for index in range(3)]
    for log in own:
        for index in range(1 + INTERNAL_UNCOMPACTED_BYTES // 1000):
            appended(logs.append(log, keyed(("id", f"{index}" + "v" * 1000))))
    await logs.manager.cleaner.round()
    await logs.manager.checkpoint(force=True)
    off_loop = logs.fake.off_loop

    async def slow(function, *args, **kwargs):  # type: ignore[no-untyped-def]
        logs.clock.pause(5)
        return await off_loop(function, *args, **kwargs)

    logs.fake.off_loop = slow  # type: ignore[method-assign,assignment]
    work = asyncio.create_task(logs.manager.cleaner.round())
    compacted = []
    for _ in own:
        await settled()
        compacted.append(sum(log.compaction_state.compacted_below > 0 for log in own))
        logs.clock.advance(LONGEST_LOG_REST_MS)
    await settled()
    assert work.done()
    assert compacted == [1, 2, 3]


@pytest.mark.parametrize("seed", range(6))
async def test_checkpoints_and_retention_do_not_meet_a_swap(seed: int) -> None:
    chance = random.Random(seed)
    config = replace(COMPACT, cleanup_policy=frozenset({"compact", "delete"}))
    logs = compacted_logs(config)
    log = await logs.open()

    async def slow(function, *args, **kwargs):  # type: ignore[no-untyped-def]
        for _ in range(chance.randrange(4)):
            await asyncio.sleep(0)
        result = function(*args, **kwargs)
        for _ in range(chance.randrange(4)):
            await asyncio.sleep(0)
        return result

    logs.fake.off_loop = slow  # type: ignore[method-assign]

    async def checkpoints() -> None:
        while True:
            await log.delete_records_before(max(log.log_start_offset, log.log_end_offset - 60))
            await logs.manager.checkpoint(force=True)
            await logs.manager.apply_retention(logs.clock.now_ms())
            await logs.manager.release_idle_files()
            await asyncio.sleep(0)

    async def rounds() -> None:
        while True:
            await logs.manager.cleaner.round()
            await asyncio.sleep(0)

    tasks = [asyncio.create_task(checkpoints()), asyncio.create_task(rounds())]
    for index in range(150):
        appended(logs.append(log, keyed((f"k{index % 9}", f"{index}"), at=NOW_MS + index)))
        for _ in range(chance.randrange(20)):
            await asyncio.sleep(0)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert log.compaction_state.compacted_below > 50
    await logs.manager.close()
    assert log.failure is None
    assert not [name for name in logs.fake.list(HOME) if name.endswith((".cleaned", ".swap"))]
    log = await logs.start_again()
    assert table(Consumer().read_all(log).seen).keys() == {b"k%d" % index for index in range(9)}
    for offset in range(log.log_start_offset, log.log_end_offset):
        log.places.clear()
        seen = Consumer(offset).read_all(log).seen
        assert all(each.offset >= offset for each in seen)
    for index in range(100, 150):  # the time indexes still agree with the records
        found = await log.offset_for_timestamp(NOW_MS + index, isolation=None)
        assert found is not None
        assert found.offset >= index


async def test_a_checkpoint_does_not_meet_a_swap() -> None:
    logs = compacted_logs(WIDE)
    log = await logs.open()
    for index in range(3):
        appended(logs.append(log, keyed(("a", f"{index}"))))
        roll(logs, log)
    await logs.manager.checkpoint(force=True)
    appended(logs.append(log, keyed(("a", "last"))))
    sync = logs.fake.sync_directory
    tried: list[str] = []

    def synced(path: str) -> None:
        sync(path)
        if log.compaction_state.is_swapping and path == HOME:
            tried.append(path)
            asyncio.get_running_loop().create_task(logs.manager.checkpoint(force=True))
            delete_old_segments(log, logs.clock.now_ms())

    logs.fake.sync_directory = synced  # type: ignore[method-assign]
    await logs.manager.cleaner.round()
    logs.fake.sync_directory = sync  # type: ignore[method-assign]
    assert tried
    await logs.manager.checkpoint(force=True)
    log = await logs.start_again(logs.fake.killed())
    assert offsets(log) == [2, 3]


# What stops it


async def test_a_damaged_batch_is_never_copied_and_the_log_is_left_alone(caplog: pytest.LogCaptureFixture) -> None:
    logs = compacted_logs(WIDE)
    log = await logs.open()
    for index in range(5):
        appended(logs.append(log, keyed(("a", f"{index}"))))
    roll(logs, log)
    await logs.manager.checkpoint(force=True)
    content = logs.fake.read_whole(f"{HOME}/{0:020d}.log")
    logs.fake.damage(f"{HOME}/{0:020d}.log", len(content) - 3)
    await logs.manager.cleaner.round()
    await logs.manager.cleaner.round()
    assert caplog.text.count("will not be compacted") == 1
    assert "offset 4" in caplog.text
    assert len(logs.fake.read_whole(f"{HOME}/{0:020d}.log")) == len(content)
    assert log.failure is None


async def test_a_topic_that_stops_being_compacted_is_left_as_it_is() -> None:
    logs = compacted_logs(WIDE, cleaner=CleanerConfig(backoff_ms=0, io_max_bytes_per_second=1000))
    log = await logs.open()
    for index in range(5):
        appended(logs.append(log, keyed(("a", f"{index}"))))
    roll(logs, log)
    await logs.manager.checkpoint(force=True)
    work = asyncio.create_task(logs.manager.cleaner.round())
    await asyncio.sleep(0)
    log.update_config(replace(WIDE, cleanup_policy=frozenset({"delete"})))
    await logs.clock.run(60_000)
    await work
    assert len(stored(log)) == 5


async def test_without_the_cleaner_nothing_is_compacted() -> None:
    logs = compacted_logs(WIDE, cleaner=CleanerConfig(enable=False))
    log = await logs.open()
    await rolled(logs, log, keyed(("a", "1"), ("a", "2")))
    assert len(stored(log)) == 2


async def test_a_broker_that_stops_waits_for_the_file_work_of_a_compaction_only() -> None:
    logs = compacted_logs(WIDE, cleaner=CleanerConfig(backoff_ms=0, io_max_bytes_per_second=1000))
    log = await logs.open()
    for index in range(9):
        appended(logs.append(log, keyed(("a", f"{index}" * 50))))
    roll(logs, log)
    await logs.manager.checkpoint(force=True)
    work = asyncio.create_task(logs.manager.cleaner.round())
    await settled()
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work
    await asyncio.wait_for(logs.manager.close(), HANG_S)
    assert not [name for name in logs.fake.list(HOME) if name.endswith((".cleaned", ".swap"))]
    log = await logs.start_again()
    assert len(stored(log)) == 9


async def test_users_topics_are_looked_at_every_backoff() -> None:
    logs = compacted_logs(WIDE, cleaner=CleanerConfig(backoff_ms=15_000))
    log = await logs.open()
    await compact(logs)
    await rolled(logs, log, keyed(("a", "1"), ("a", "2")))
    assert len(stored(log)) == 2
    logs.clock.advance(15_000)
    await compact(logs)
    assert len(stored(log)) == 1


async def test_an_error_in_one_log_does_not_keep_others_waiting(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    logs = compacted_logs(WIDE)
    bad = await logs.open()
    good = logs.log(TopicPartition("orders", 1))
    for log in (bad, good):
        for _ in range(2):
            appended(logs.append(log, keyed(("a", "1"))))
        roll(logs, log)
    await logs.manager.checkpoint(force=True)
    logs.fake.damage(f"{HOME}/{0:020d}.log", 70)
    await logs.manager.cleaner.round()
    assert len(stored(good)) == 1
