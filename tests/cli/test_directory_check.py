"""`eosin check`: a sound directory passes, damage of each kind is found, what recovery settles is only warned of."""

import struct
from collections.abc import Callable
from pathlib import Path

import pytest
from batches import NOW_MS, ORDERS, TOPIC_ID, data, marker
from inspected import FOLDER, SMALL, Stopped, exported, write_history, written
from logs import DATA_DIR, Logs, appended

from eosin.cli.directory_check import CheckSummary, DirectoryCheck, TransactionsFound
from eosin.coordinator.transactions.rules.state import TransactionState
from eosin.lab.disk.lying_disk import LyingDisk
from eosin.protocol.names import METADATA_TOPIC, TopicPartition
from eosin.protocol.records.batch import NewRecord, build_batch, build_control_batch
from eosin.protocol.schemas.records.consumer_offsets import OffsetCommitKey, OffsetCommitValue
from eosin.protocol.schemas.records.share_group_state import ShareSnapshotKey, ShareSnapshotValue, StoredStateBatch
from eosin.protocol.schemas.records.transaction_state import TransactionLogKey, TransactionLogValue
from eosin.storage.checkpoints import checkpoint_saver
from eosin.storage.disk.data_directory import BOOT_ID, SYSTEM_BOOT_ID
from eosin.storage.inspection.directory import DirectoryFound, NoDataDirectory, lock
from eosin.storage.inspection.partition_check import PartitionFound
from eosin.storage.inspection.values import ERROR, WARNING, FileProblem, Value

FIRST = "00000000000000000000"
SECOND = "00000000000000000051"
THIRD = "00000000000000000101"
LAST_SNAPSHOT = f"{FOLDER}/00000000000000000111.snapshot"
OTHER = TopicPartition("orders", 1)
TABLE = TopicPartition("table", 0)


def checked(disk: LyingDisk) -> list[Value]:
    return list(DirectoryCheck(disk, DATA_DIR).run())


def found(disk: LyingDisk, severity: str | None = None) -> list[str]:
    """The problems as `file: reason`; the summary must count them."""
    values = checked(disk)
    problems = [value for value in values if isinstance(value, FileProblem)]
    summary = values[-1]
    assert isinstance(summary, CheckSummary)
    for each, count in ((ERROR, summary.errors), (WARNING, summary.warnings)):
        assert count == sum(problem.severity == each for problem in problems)
    return [f"{each.file}: {each.reason}" for each in problems if severity in (None, each.severity)]


def only(disk: LyingDisk, severity: str = ERROR) -> str:
    (sentence,) = found(disk)
    assert found(disk, severity) == [sentence]
    return sentence


@pytest.fixture
async def disk() -> LyingDisk:
    """orders-0 with three segments, stopped cleanly. Nothing tells what topics there are."""
    return await written()


async def killed(*, saved: bool) -> LyingDisk:
    """The same, killed."""
    logs = Logs(config=SMALL)
    write_history(logs, await logs.open())
    if saved:
        await logs.manager.checkpoint(force=True)
    return logs.fake.killed()


# Sound directories


def test_a_sound_directory_has_no_problem(disk: LyingDisk) -> None:
    values = checked(disk)
    assert found(disk) == []
    assert isinstance(values[0], DirectoryFound)
    assert values[0].is_clean
    (orders,) = [value for value in values if isinstance(value, PartitionFound)]
    assert (orders.file, orders.segments, orders.log_start_offset, orders.log_end_offset) == ("orders-0", 3, 0, 111)
    assert (orders.last_stable_offset, orders.producers, orders.open_transactions) == (91, 3, 1)
    assert orders.records == 12 * 8


def test_looking_changes_nothing(disk: LyingDisk) -> None:
    before = {path: disk.read_whole(path) for path in disk.paths()}
    calls = len(disk.calls)
    checked(disk)
    assert {path: disk.read_whole(path) for path in disk.paths()} == before
    assert len(disk.calls) == calls


@pytest.mark.parametrize("saved", [False, True])
async def test_a_directory_of_a_killed_broker_is_sound(saved: bool) -> None:
    assert found(await killed(saved=saved)) == []


async def test_a_log_whose_beginning_was_deleted_is_sound() -> None:
    logs = Logs(config=SMALL)
    log = await logs.open()
    write_history(logs, log)
    await log.delete_records_before(60)
    await logs.manager.apply_retention(logs.clock.now_ms())
    await logs.manager.close()
    logs.clock.advance(100_000)
    values = checked(logs.fake)
    assert found(logs.fake) == []
    assert next(value.log_start_offset for value in values if isinstance(value, PartitionFound)) == 60


async def test_transactions_in_every_state_are_sound() -> None:
    made = await Stopped().begin()
    for pid, state in enumerate((TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT)):
        commit = state is TransactionState.PREPARE_COMMIT
        name = f"tx-{pid}"
        made.state(made.txn(TransactionState.EMPTY, pid=pid, name=name))
        made.state(made.txn(TransactionState.ONGOING, ORDERS, OTHER, pid=pid, name=name))
        made.write(ORDERS, pid)
        made.write(OTHER, pid)
        made.state(made.txn(state, ORDERS, OTHER, pid=pid, name=name))
        made.end(ORDERS, pid, commit=commit)
        made.end(OTHER, pid, commit=commit)
        complete = TransactionState.COMPLETE_COMMIT if commit else TransactionState.COMPLETE_ABORT
        made.state(made.txn(complete, pid=pid, name=name))
    made.state(made.txn(TransactionState.ONGOING, ORDERS, pid=5, name="still open"))
    made.write(ORDERS, 5)
    made.state(made.txn(TransactionState.PREPARE_COMMIT, ORDERS, OTHER, pid=6, name="rolled forward later"))
    made.write(ORDERS, 6)
    made.end(OTHER, 6, commit=True)
    disk = await made.stop()
    values = checked(disk)
    assert found(disk) == []
    (states,) = [value for value in values if isinstance(value, TransactionsFound)]
    assert states.states == {"Ongoing": 1, "PrepareCommit": 1, "CompleteCommit": 1, "CompleteAbort": 1}
    assert next(value.file for value in values if isinstance(value, PartitionFound)) == "__eosin_metadata-0"


# Segments


def test_a_flipped_byte_is_an_error_with_its_place(disk: LyingDisk) -> None:
    disk.damage(f"{FOLDER}/{FIRST}.log", 300)
    (problem,) = [value for value in checked(disk) if isinstance(value, FileProblem)]
    assert (problem.file, problem.position, problem.offset) == (f"orders-0/{FIRST}.log", 205, 3)
    assert problem.reason.startswith("wrong checksum")
    assert problem.severity == ERROR


async def test_a_torn_tail_is_a_warning_after_a_kill_and_an_error_after_a_clean_stop(disk: LyingDisk) -> None:
    torn = await killed(saved=False)
    torn.add_bytes(f"{FOLDER}/{THIRD}.log", data(3)[:80])
    assert "the last batch is torn" in only(torn, WARNING)
    disk.add_bytes(f"{FOLDER}/{THIRD}.log", data(3)[:80])
    assert "the last batch is torn" in only(disk, ERROR)


async def test_damage_below_the_recovery_point_is_an_error_even_at_the_end() -> None:
    disk = await killed(saved=True)
    disk.damage(f"{FOLDER}/{THIRD}.log", (disk.size(f"{FOLDER}/{THIRD}.log") or 0) - 1)
    assert "wrong checksum" in only(disk, ERROR)


async def test_damage_that_sound_batches_follow_is_an_error_after_a_kill() -> None:
    disk = await killed(saved=False)
    disk.damage(f"{FOLDER}/{SECOND}.log", 300)
    assert "wrong checksum" in only(disk, ERROR)


async def test_a_damaged_last_batch_is_a_warning_after_a_kill() -> None:
    disk = await killed(saved=False)
    disk.damage(f"{FOLDER}/{THIRD}.log", (disk.size(f"{FOLDER}/{THIRD}.log") or 0) - 1)
    assert "wrong checksum" in only(disk, WARNING)


async def test_a_damaged_last_batch_is_an_error_while_the_machine_has_not_stopped() -> None:
    """Then no write can have been lost, and the next start takes the partition offline."""
    disk = await killed(saved=False)
    disk.make_directory(SYSTEM_BOOT_ID.rpartition("/")[0])
    for path in (SYSTEM_BOOT_ID, f"{DATA_DIR}/{BOOT_ID}"):
        disk.write_atomic(path, b"this boot")
    disk.damage(f"{FOLDER}/{THIRD}.log", (disk.size(f"{FOLDER}/{THIRD}.log") or 0) - 1)
    assert "wrong checksum" in only(disk, ERROR)


@pytest.mark.parametrize(("saved", "severity"), [(False, WARNING), (True, ERROR)])
async def test_a_segment_that_a_power_loss_took_is_a_warning_unless_it_was_saved(saved: bool, severity: str) -> None:
    disk = await killed(saved=saved)
    for path in [path for path in disk.paths() if SECOND in path]:
        disk.unlink(path)
    assert f"orders-0/{THIRD}.log: offsets 51..100 are missing" in found(disk, severity)


def test_a_missing_segment_is_an_error(disk: LyingDisk) -> None:
    for suffix in (".log", ".index", ".timeindex", ".txnindex"):
        disk.unlink(f"{FOLDER}/{SECOND}{suffix}")
    assert f"orders-0/{THIRD}.log: offsets 51..100 are missing" in found(disk, ERROR)


def test_segments_that_overlap_are_an_error(disk: LyingDisk) -> None:
    disk.open(f"{FOLDER}/00000000000000000100.log", create=True)
    assert any("it begins at offset 100, and the one before ends at 101" in each for each in found(disk, ERROR))


def test_a_log_that_ends_below_its_checkpoints_is_an_error(disk: LyingDisk) -> None:
    disk.write_atomic(f"{DATA_DIR}/recovery-point-offset-checkpoint", b"0\n1\norders 0 500\n")
    disk.write_atomic(f"{DATA_DIR}/replication-offset-checkpoint", b"0\n1\norders 0 400\n")
    disk.write_atomic(f"{DATA_DIR}/log-start-offset-checkpoint", b"0\n1\norders 0 300\n")
    assert found(disk, ERROR) == [
        "orders-0: the log ends at 111, below its recovery point 500",
        "orders-0: the log ends at 111, below its log start 300",
        "orders-0: the log ends at 111, below its high watermark 400",
    ]


# Indexes and snapshots


def test_a_wrong_index_row_is_an_error(disk: LyingDisk) -> None:
    disk.replace(f"{FOLDER}/{FIRST}.index", 0, struct.pack(">ii", 3, 17))
    assert "is wrong: no batch starts at byte 17" in found(disk, ERROR)[0]


async def test_a_wrong_index_row_that_recovery_rebuilds_is_a_warning() -> None:
    disk = await killed(saved=False)
    disk.open(f"{FOLDER}/{THIRD}.index", create=True)
    disk.add_bytes(f"{FOLDER}/{THIRD}.index", struct.pack(">ii", 8, 17))
    disk.open(f"{FOLDER}/{THIRD}.timeindex", create=True)
    disk.add_bytes(f"{FOLDER}/{THIRD}.timeindex", b"\1\2\3")
    assert found(disk, ERROR) == []
    assert len(found(disk, WARNING)) == 2


def test_a_missing_index_is_a_warning(disk: LyingDisk) -> None:
    disk.unlink(f"{FOLDER}/{FIRST}.timeindex")
    assert only(disk, WARNING) == f"orders-0/{FIRST}.log: it lacks an index, which the next start rebuilds"


async def test_small_logs_of_a_stop_with_many_need_no_index(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoint_saver, "TOGETHER_FROM", 1)
    logs = Logs()
    logs.fake.syncs_as_a_whole = True
    log = await logs.open()
    appended(logs.append(log, data(pid=7, seq=0, txn=True)))
    appended(log.append_marker(marker(7, 0, commit=False), now_ms=logs.clock.now_ms()))
    await logs.manager.close()
    disk = logs.fake.power_loss()
    assert f"{FOLDER}/{FIRST}.index" not in disk.paths()
    assert found(disk) == []


def test_an_aborted_transaction_that_is_in_no_index_is_an_error(disk: LyingDisk) -> None:
    disk.unlink(f"{FOLDER}/{FIRST}.txnindex")
    assert found(disk, ERROR)[0] == (
        f"orders-0/{FIRST}.log: the aborted transaction of producer 2 from 14 to 17 is in no transaction index"
    )


def test_a_last_stable_offset_that_hides_aborted_transactions_is_an_error(disk: LyingDisk) -> None:
    disk.replace(f"{FOLDER}/{FIRST}.txnindex", 26, (40).to_bytes(8, "big"))
    assert only(disk) == (
        f"orders-0/{FIRST}.txnindex: the aborted transaction of producer 2 from 14 is there as 14..17"
        " with last stable offset 40"
    )


def test_a_snapshot_with_a_wrong_checksum_is_an_error(disk: LyingDisk) -> None:
    disk.damage(f"{FOLDER}/{SECOND}.snapshot", 30)
    assert only(disk) == f"orders-0/{SECOND}.snapshot: wrong checksum"


@pytest.mark.parametrize(
    ("field", "content", "reason"),
    [
        (8, struct.pack(">h", 4), "producer 1: it says epoch 4, the log says 0"),
        (10, struct.pack(">i", 9), "producer 1: it says last sequence 9, the log says 23"),
        (14, struct.pack(">q", 5), "producer 1: it says last offset 5, the log says 106"),
        (38, struct.pack(">q", 7), "producer 1: it says open transaction 7, the log says -1"),
        (0, struct.pack(">q", 99), "it knows producer 99, of which the log has nothing"),
    ],
)
def test_a_snapshot_that_the_log_contradicts_is_an_error(
    disk: LyingDisk, field: int, content: bytes, reason: str
) -> None:
    rewrite_snapshot(disk, lambda body: body[: 10 + field] + content + body[10 + field + len(content) :])
    assert f"orders-0/00000000000000000111.snapshot: {reason}" in found(disk, ERROR)


def test_a_snapshot_without_an_open_transaction_is_an_error(disk: LyingDisk) -> None:
    def without_third(body: bytes) -> bytes:
        return body[:6] + (2).to_bytes(4, "big") + body[10:-46]

    rewrite_snapshot(disk, without_third)
    assert only(disk).endswith("it lacks producer 3 and its open transaction from 91 on")


def test_an_earlier_batch_of_a_producer_that_the_snapshot_does_not_know_is_an_error(disk: LyingDisk) -> None:
    def of_another(content: bytes) -> bytes:
        at = end_of_kafkas(content) + 4
        return content[:at] + struct.pack(">q", 77) + content[at + 8 :]

    rewrite_snapshot(disk, of_another, as_kafka=False)
    assert only(disk).endswith("an earlier batch of producer 77 does not belong to what it says of it")


def end_of_kafkas(snapshot: bytes) -> int:
    """Where what Apache Kafka would have written ends."""
    return 10 + 46 * int.from_bytes(snapshot[6:10], "big")


def rewrite_snapshot(disk: LyingDisk, change: Callable[[bytes], bytes], *, as_kafka: bool = True) -> None:
    """Change the newest snapshot, and give it the right checksum."""
    import crc32c

    content = disk.read_whole(LAST_SNAPSHOT)
    content = change(content[: end_of_kafkas(content)] if as_kafka else content)
    disk.write_atomic(LAST_SNAPSHOT, content[:2] + crc32c.crc32c(content[6:]).to_bytes(4, "big") + content[6:])


async def test_removed_indexes_and_snapshots_are_rebuilt_by_the_next_start() -> None:
    """As docs/operations.md advises."""
    logs = Logs(config=SMALL)
    disk = await written(logs)
    before = {path: disk.read_whole(path) for path in disk.paths() if SECOND in path or path == LAST_SNAPSHOT}
    for path in before:
        if not path.endswith(".log"):
            disk.unlink(path)
    await logs.reopen_without_log()
    await logs.manager.close()
    assert found(disk) == []
    after = {path: disk.read_whole(path) for path in before if path.endswith("index")}
    assert after == {path: content for path, content in before.items() if path.endswith("index")}


def test_a_snapshot_beyond_the_log_is_an_error(disk: LyingDisk) -> None:
    disk.rename(LAST_SNAPSHOT, f"{FOLDER}/00000000000000000400.snapshot")
    assert only(disk).endswith("it is beyond the log, which ends at 111")


# Leader epochs and producers


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"0\n1\n3 0\n", f"{FIRST}.log: leader epoch 0, where leader-epoch-checkpoint says 3"),
        (b"", f"{FIRST}.log: leader epoch 0, where leader-epoch-checkpoint says nothing"),
        (
            b"0\n2\n0 0\n1 200\n",
            "leader-epoch-checkpoint: leader epoch 1 starts at 200, beyond the log, which ends at 111",
        ),
        (b"9\n", "leader-epoch-checkpoint: version '9', only 0 is known"),
    ],
)
def test_leader_epochs_that_the_log_contradicts_are_an_error(disk: LyingDisk, content: bytes, reason: str) -> None:
    disk.write_atomic(f"{FOLDER}/leader-epoch-checkpoint", content)
    assert only(disk) == f"orders-0/{reason}"


def add(disk: LyingDisk, batch: bytes | bytearray, *, offset: int = 111, epoch: int = 0) -> None:
    """Put a batch behind the last one."""
    batch = bytearray(batch)
    batch[0:8] = offset.to_bytes(8, "big")
    batch[12:16] = epoch.to_bytes(4, "big")
    disk.add_bytes(f"{FOLDER}/{THIRD}.log", bytes(batch))


@pytest.mark.parametrize(
    ("batch", "severity", "reason"),
    [
        (data(2, pid=1, seq=22), ERROR, "producer 1 has written sequence 22 before: the last is 23"),
        (data(2, pid=1, seq=30), WARNING, "producer 1 goes from sequence 23 to 30"),
        (data(2, pid=1, seq=24), WARNING, None),
        (data(2, pid=3, seq=12), ERROR, "producer 3 writes outside its transaction, which is open from 91 on"),
        (data(2, pid=2, epoch=1, seq=0, txn=True), WARNING, None),
        (
            build_control_batch(producer_id=2, producer_epoch=0, commit=True, coordinator_epoch=0, timestamp=1),
            ERROR,
            "producer 2 gets a marker of coordinator epoch 0 after 1",
        ),
    ],
)
def test_a_batch_that_a_broker_should_have_refused_is_found(
    disk: LyingDisk, batch: bytes, severity: str, reason: str | None
) -> None:
    add(disk, batch)
    assert found(disk) == ([] if reason is None else [f"orders-0/{THIRD}.log: {reason}"])
    assert found(disk, severity) == found(disk)


def test_epochs_that_go_back_are_found(disk: LyingDisk) -> None:
    add(disk, data(2, pid=1, epoch=3, seq=0))
    add(disk, data(2, pid=1, epoch=2, seq=0), offset=113)
    assert only(disk) == f"orders-0/{THIRD}.log: producer 1 writes in epoch 2 after 3"


def test_missing_offsets_are_an_error_where_nothing_was_compacted(disk: LyingDisk) -> None:
    add(disk, data(1), offset=115)
    assert only(disk) == f"orders-0/{THIRD}.log: offsets 111..114 are missing"


async def test_missing_offsets_are_what_compaction_leaves() -> None:
    made = await Stopped().begin()
    made.batch(TABLE, data(3))
    disk = await made.stop()
    disk.add_bytes(
        f"{DATA_DIR}/table-0/{FIRST}.log",
        bytes(build_batch([NewRecord(b"k", b"v")], timestamp=NOW_MS, base_offset=9, partition_leader_epoch=0)),
    )
    assert found(disk) == []


# The directory


def test_a_name_that_is_no_partition_is_an_error(disk: LyingDisk) -> None:
    disk.make_directory(f"{DATA_DIR}/holiday pictures")
    assert only(disk) == "holiday pictures: it is no partition, so a broker refuses to start"


def test_directories_that_wait_to_be_removed_are_left_alone(disk: LyingDisk) -> None:
    disk.make_directory(f"{DATA_DIR}/orders-0.{'0' * 32}-delete")
    assert found(disk) == []


def test_a_malformed_checkpoint_is_an_error(disk: LyingDisk) -> None:
    disk.write_atomic(f"{DATA_DIR}/recovery-point-offset-checkpoint", b"0\n7\n")
    assert only(disk).startswith("recovery-point-offset-checkpoint: 0 entries")


def test_a_malformed_topic_id_is_an_error(disk: LyingDisk) -> None:
    disk.write_atomic(f"{FOLDER}/partition.metadata", b"nonsense")
    assert only(disk).startswith("orders-0/partition.metadata: partition.metadata: b'nonsense'")


def test_an_interrupted_compaction_is_judged_as_the_next_start_will_see_it(disk: LyingDisk) -> None:
    for suffix in (".log", ".index", ".timeindex", ".txnindex"):
        path = f"{FOLDER}/{FIRST}{suffix}"
        disk.open(path + ".swap", create=True)
        disk.add_bytes(path + ".swap", disk.read_whole(path))
        disk.unlink(path)
    assert only(disk, WARNING) == "orders-0: a compaction was interrupted"


def test_a_compaction_that_had_not_replaced_anything_does_not_count(disk: LyingDisk) -> None:
    for name in (f"{FIRST}.log.swap", f"{FIRST}.log.cleaned"):
        disk.open(f"{FOLDER}/{name}", create=True)
    assert only(disk, WARNING) == "orders-0: a compaction was interrupted"


async def test_partitions_of_no_topic_are_a_warning() -> None:
    made = await Stopped().begin()
    made.batch(TopicPartition("orders", 5), data(1))
    made.batch(TopicPartition("ghost", 0), data(1))
    made.batch(ORDERS, data(1))
    made.topic("orders", partitions=2, topic_id=bytes(15) + b"\7")
    disk = await made.stop()
    assert found(disk, WARNING) == [
        "ghost-0: it belongs to no topic, so the next start sets it aside",
        "orders-0: it belongs to an older topic of this name, so the next start sets it aside",
        "orders-5: it belongs to no topic, so the next start sets it aside",
    ]
    assert found(disk, ERROR) == []


async def test_a_partition_that_has_vanished_is_an_error() -> None:
    made = await Stopped().begin()
    made.batch(ORDERS, data(3))
    disk = await made.stop()
    disk.remove_tree(FOLDER)
    assert only(disk) == "orders-0: recovery-point-offset-checkpoint says offset 3, but there is no log"


async def test_without_the_log_that_tells_the_topics_no_broker_starts() -> None:
    made = await Stopped().begin()
    disk = await made.stop()
    disk.remove_tree(f"{DATA_DIR}/{METADATA_TOPIC}-0")
    (said,) = found(disk, ERROR)
    assert said == f"{METADATA_TOPIC}-0: recovery-point-offset-checkpoint says offset 4, but there is no log"


# Transactions


async def complete(*, marked: bool, commit: bool = True, marker: bool | None = None) -> Stopped:
    """A transaction on orders-0 and orders-1 that the coordinator holds for complete."""
    made = await Stopped().begin()
    made.state(made.txn(TransactionState.ONGOING, ORDERS, OTHER))
    made.write(ORDERS, 7)
    made.write(OTHER, 7)
    made.state(made.txn(TransactionState.PREPARE_COMMIT if commit else TransactionState.PREPARE_ABORT, ORDERS, OTHER))
    made.end(ORDERS, 7, commit=commit)
    if marked:
        made.end(OTHER, 7, commit=commit if marker is None else marker)
    made.state(made.txn(TransactionState.COMPLETE_COMMIT if commit else TransactionState.COMPLETE_ABORT))
    return made


async def test_a_complete_transaction_without_its_marker_is_an_error() -> None:
    disk = await (await complete(marked=False)).stop()
    assert found(disk, ERROR) == [
        "orders-1: it has 0 of 1 markers COMMIT of producer 7/0 of complete transactions",
        "orders-1: the open transaction of producer 7/0 hangs: 'tx' is in CompleteCommit",
    ]


async def test_a_marker_of_the_opposite_outcome_is_an_error() -> None:
    disk = await (await complete(marked=True, marker=False)).stop()
    assert found(disk, ERROR) == [
        "orders-1: it has 0 of 1 markers COMMIT of producer 7/0 of complete transactions",
        "orders-1: it has the marker ABORT of producer 7/0, but the opposite was decided",
    ]


async def test_a_commit_that_the_coordinator_never_heard_of_is_a_warning() -> None:
    made = await Stopped().begin()
    made.write(ORDERS, 9)
    made.end(ORDERS, 9, commit=True)
    made.state(made.txn(TransactionState.EMPTY))
    disk = await made.stop()
    assert only(disk, WARNING).endswith("marker COMMIT of producer 9/0, of which the coordinator knows nothing")


@pytest.mark.parametrize("state", [TransactionState.ONGOING, TransactionState.EMPTY, TransactionState.PREPARE_ABORT])
async def test_a_state_after_a_decision_means_that_its_markers_are_written(state: TransactionState) -> None:
    made = await Stopped().begin()
    made.state(made.txn(TransactionState.ONGOING, OTHER))
    made.write(OTHER, 7)
    made.end(OTHER, 7, commit=True)
    made.state(made.txn(TransactionState.PREPARE_COMMIT, OTHER, ORDERS))
    made.write(ORDERS, 8)
    made.end(ORDERS, 8, commit=False)
    made.state(made.txn(TransactionState.PREPARE_ABORT, ORDERS, pid=8, name="other"))
    made.state(made.txn(state, epoch=1))
    assert only(await made.stop()) == (
        "orders-0: it has 0 of 1 markers COMMIT of producer 7/0 of complete transactions"
    )


async def test_a_marker_that_is_missing_from_the_second_of_two_transactions_is_an_error() -> None:
    """Both have the same epoch, as with the older protocol."""
    made = await complete(marked=True)
    made.state(made.txn(TransactionState.ONGOING, OTHER))
    made.state(made.txn(TransactionState.PREPARE_COMMIT, OTHER))
    made.state(made.txn(TransactionState.PREPARE_COMMIT, OTHER))  # written twice in doubt: still one transaction
    made.state(made.txn(TransactionState.COMPLETE_COMMIT))
    assert only(await made.stop()) == (
        "orders-1: it has 1 of 2 markers COMMIT of producer 7/0 of complete transactions"
    )


@pytest.mark.parametrize(
    ("state", "partitions", "epoch", "reason"),
    [
        (TransactionState.EMPTY, (), 0, "'tx' is in Empty"),
        (TransactionState.ONGOING, (OTHER,), 0, "'tx' is in Ongoing without this partition"),
        (TransactionState.PREPARE_ABORT, (OTHER,), 1, "'tx' is in PrepareAbort without this partition"),
        (TransactionState.ONGOING, (ORDERS,), 1, "'tx' is in Ongoing of epoch 1"),
        (None, (), 0, "no transactional id has this producer"),
    ],
)
async def test_a_transaction_that_nobody_will_end_hangs(
    state: TransactionState | None, partitions: tuple[TopicPartition, ...], epoch: int, reason: str
) -> None:
    made = await Stopped().begin()
    if state is not None:
        made.state(made.txn(state, *partitions, epoch=epoch))
    made.write(ORDERS, 7)
    disk = await made.stop()
    assert only(disk) == f"orders-0: the open transaction of producer 7/0 hangs: {reason}"
    (problem,) = [value for value in checked(disk) if isinstance(value, FileProblem)]
    assert problem.offset == 0


async def test_a_transaction_of_a_topic_that_was_made_anew_is_not_judged() -> None:
    made = await complete(marked=False)
    made.logs.manager.delete_logs("orders")
    made.no_topic("orders")
    made.logs.clock.advance(1000)
    made.topic("orders", partitions=2, topic_id=bytes(15) + b"\7")
    assert found(await made.stop()) == []


async def test_markers_on_a_partition_without_a_log_are_missing() -> None:
    made = await Stopped().begin()
    made.state(made.txn(TransactionState.PREPARE_COMMIT, OTHER))
    made.state(made.txn(TransactionState.COMPLETE_COMMIT))
    assert only(await made.stop()) == "orders-1: it has no log, but should have 1 markers"


async def test_a_transactional_id_in_the_wrong_partition_is_an_error() -> None:
    made = await Stopped().begin()
    txn = made.txn(TransactionState.EMPTY)
    made.state(txn, partition=1)
    made.state(txn, partition=2)
    homes = found(await made.stop(), ERROR)
    assert homes
    assert all("'tx' belongs to partition" in home for home in homes)


async def test_a_group_in_the_wrong_partition_is_an_error() -> None:
    made = await Stopped().begin()
    for partition in range(5):
        key, value = OffsetCommitKey("g", "orders", 0), OffsetCommitValue(offset=1)
        made.record(TopicPartition("__consumer_offsets", partition), key, value, version=3)
    sentences = found(await made.stop(), ERROR)
    assert len(sentences) == 4
    assert all("group 'g' belongs to partition" in sentence for sentence in sentences)


async def test_a_state_of_a_share_partition_in_the_wrong_partition_is_an_error() -> None:
    made = await Stopped().begin()
    made.topic("__share_group_state", partitions=5)
    for partition in range(5):
        key, value = ShareSnapshotKey("g", b"x" * 16, 0), ShareSnapshotValue()
        made.record(TopicPartition("__share_group_state", partition), key, value, version=0)
    sentences = found(await made.stop(), ERROR)
    assert len(sentences) == 4
    assert all("the state of 'g:eHh4eHh4eHh4eHh4eHh4eA:0' belongs to partition" in each for each in sentences)


@pytest.mark.parametrize("batch", [StoredStateBatch(5, 4, 2, 1), StoredStateBatch(5, 6, 9, 1)])
async def test_a_state_that_cannot_be_served_is_an_error(batch: StoredStateBatch) -> None:
    made = await Stopped().begin()
    made.topic("__share_group_state")
    key, value = ShareSnapshotKey("g", b"x" * 16, 0), ShareSnapshotValue(state_batches=(batch,))
    made.record(TopicPartition("__share_group_state", 0), key, value, version=0)
    assert "has a batch that makes no sense" in only(await made.stop())


async def test_an_epoch_that_goes_back_in_the_coordinators_log_is_an_error() -> None:
    made = await Stopped().begin()
    made.state(made.txn(TransactionState.EMPTY, epoch=4))
    made.state(made.txn(TransactionState.EMPTY, epoch=3))
    sentences = found(await made.stop())
    assert sentences[0].endswith("'tx' goes from epoch 4 of producer 7 back to 3")
    assert sentences[1].startswith("__transaction_state: transactions were not compared with the partitions")


@pytest.mark.parametrize("status", [6, 7, 9])
async def test_a_state_that_is_never_stored_is_an_error(status: int) -> None:
    made = await Stopped().begin()
    key, value = TransactionLogKey("tx"), TransactionLogValue(producer_id=1, transaction_status=status)
    made.record(TopicPartition("__transaction_state", 3), key, value, version=1)
    assert found(await made.stop(), ERROR) == [f"__transaction_state-3: 'tx' is in state {status}"]


async def test_records_of_internal_topics_that_cannot_be_read_are_an_error() -> None:
    made = await Stopped().begin()
    for topic in ("__transaction_state", "__consumer_offsets", "__eosin_metadata"):
        made.batch(TopicPartition(topic, 0), build_batch([NewRecord(b"\0\0\0\1", b"")], timestamp=NOW_MS))
    sentences = found(await made.stop(), ERROR)
    assert [sentence.partition(":")[0] for sentence in sentences] == [
        "__eosin_metadata-0",
        "__transaction_state-0",
        "__consumer_offsets-0",
    ]


async def test_transactions_are_not_judged_by_a_damaged_log() -> None:
    made = await complete(marked=True)
    made.write(ORDERS, 8)  # it would hang
    disk = await made.stop()
    path = next(path for path in disk.paths() if "__transaction_state" in path and path.endswith(".log"))
    disk.damage(path, (disk.size(path) or 0) - 1)
    assert [sentence.partition(":")[0] for sentence in found(disk)][-1] == "__transaction_state"
    assert not any("hangs" in sentence for sentence in found(disk))


async def test_nothing_is_said_about_producers_behind_damage() -> None:
    made = await complete(marked=True, commit=False)
    disk = await made.stop()
    disk.damage(f"{FOLDER}/{FIRST}.log", 70)
    assert "wrong checksum" in only(disk)


# What can be checked at all


def test_only_a_data_directory_can_be_checked(tmp_path: Path, disk: LyingDisk) -> None:
    with pytest.raises(NoDataDirectory, match="there is no directory /nowhere"):
        lock(disk, "/nowhere")
    with pytest.raises(NoDataDirectory, match=r"it has no meta\.properties"):
        lock(disk, FOLDER)
    assert exported(disk, tmp_path).name == "data"
    assert TOPIC_ID


async def test_the_end_of_a_topics_offsets_may_be_in_any_partition() -> None:
    made = await Stopped().begin()
    for partition in range(5):
        made.record(TopicPartition("__consumer_offsets", partition), OffsetCommitKey("", "orders", -1), None, version=3)
    assert found(await made.stop(), ERROR) == []
