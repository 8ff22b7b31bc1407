"""Logs with replicas: one is led or followed, and its high watermark is set from outside (cluster.md 4.1 to 4.6)."""

import errno
import logging

import pytest
from batches import NOW_MS, ORDERS, TOPIC_ID, data, marker
from logs import Logs, appended, read_now
from manual_flusher import ManualFlusher

from eosin.cli.directory_check import DirectoryCheck
from eosin.coordinator.transactions.rules.state import TransactionState
from eosin.lab.disk.lying_disk import Fault
from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import IsolationLevel, TopicPartition
from eosin.protocol.records.batch import BatchHeader, NewRecord, batches, build_batch, read_header, stamp
from eosin.protocol.records.internal import encode_key, encode_value
from eosin.protocol.schemas.records.transaction_state import TransactionLogKey, TransactionLogValue
from eosin.storage.disk.flusher import Durability
from eosin.storage.inspection.values import FileProblem
from eosin.storage.log.config import LogConfig
from eosin.storage.log.partition_log import PartitionLog
from eosin.storage.results.log_results import AbortedTransaction, FollowerAppend, Refused

HOME = "/data/orders-0"
SMALL = LogConfig(internal_segment_bytes=500, index_interval_bytes=150)


def sent(batch: bytes, offset: int, *, epoch: int = 1) -> bytes:
    """`batch` as a leader sends it."""
    return stamp(base_offset=offset, size=len(batch), partition_leader_epoch=epoch) + batch[16:]


def copied(leader: PartitionLog, offset: int = 0) -> bytes:
    """What a follower gets from `leader`."""
    return bytes(read_now(leader, offset, isolation=None, max_bytes=1 << 20).records)


def followed(log: PartitionLog, records: bytes, *, max_epoch: int = 100) -> FollowerAppend:
    result = log.append_as_follower(records, max_epoch=max_epoch, now_ms=NOW_MS)
    assert isinstance(result, FollowerAppend), result
    return result


def refused(log: PartitionLog, records: bytes, *, max_epoch: int = 100) -> Refused:
    result = log.append_as_follower(records, max_epoch=max_epoch, now_ms=NOW_MS)
    assert isinstance(result, Refused), result
    return result


def headers(log: PartitionLog) -> list[BatchHeader]:
    return [header for _, header in batches(copied(log))]


async def leader(logs: Logs | None = None, epoch: int = 1) -> tuple[Logs, PartitionLog]:
    logs = logs or Logs(replicated=True)
    log = await logs.open()
    log.become_leader(epoch)
    return logs, log


async def follower() -> PartitionLog:
    log = await Logs(replicated=True).open()
    log.become_follower()
    return log


# The high watermark -----------------------------------------------------------------------------------------------


async def test_without_replicas_everything_durable_is_committed() -> None:
    logs = Logs(durability=Durability.FSYNC)
    log = await logs.open()
    appended(logs.append(log, data(3)))
    assert (log.durable_end, log.high_watermark) == (0, 0)
    assert isinstance(logs.flusher, ManualFlusher)
    logs.flusher.flush()
    assert (log.durable_end, log.high_watermark, log.last_stable_offset) == (3, 3, 3)


async def test_with_replicas_the_high_watermark_moves_only_when_it_is_set() -> None:
    logs, log = await leader()
    appended(logs.append(log, data(3)))
    assert (log.durable_end, log.high_watermark) == (3, 0)
    waiter = log.durable(2)
    log.advance_high_watermark(1)
    assert not waiter.done()
    log.advance_high_watermark(2)
    assert (log.high_watermark, log.last_stable_offset, waiter.result()) == (2, 2, ErrorCode.NONE)


async def test_the_high_watermark_never_passes_the_log_end_and_never_goes_back() -> None:
    logs, log = await leader()
    appended(logs.append(log, data(3)))
    log.advance_high_watermark(10)
    assert log.high_watermark == 3
    log.advance_high_watermark(1)
    assert log.high_watermark == 3


async def test_the_owner_of_the_high_watermark_is_told_of_every_sync_and_every_append() -> None:
    logs, log = await leader(Logs(replicated=True, durability=Durability.FSYNC))
    heard: list[tuple[str, int, int]] = []
    log.on_durable = lambda each: heard.append(("durable", each.durable_end, each.log_end_offset))
    log.on_append = lambda each: heard.append(("append", each.durable_end, each.log_end_offset))
    appended(logs.append(log, data(2)))
    appended(log.append_records(data()[61:], count=1, now_ms=NOW_MS))
    appended(log.append_marker(marker(1, 0, commit=True), now_ms=NOW_MS))
    assert isinstance(logs.flusher, ManualFlusher)
    logs.flusher.flush()
    assert heard == [("append", 0, 2), ("append", 0, 3), ("append", 0, 4), ("durable", 4, 4)]


async def test_an_answer_at_acks_1_waits_for_the_disk_of_the_leader_alone() -> None:
    logs, log = await leader(Logs(replicated=True, durability=Durability.FSYNC))
    appended(logs.append(log, data()))
    here, everywhere = log.durable_here(1), log.durable(1)
    assert not here.done()
    assert isinstance(logs.flusher, ManualFlusher)
    logs.flusher.flush()
    assert here.result() is ErrorCode.NONE
    assert not everywhere.done()
    assert log.durable_here(1).result() is ErrorCode.NONE


async def test_the_last_stable_offset_waits_until_the_marker_is_below_the_high_watermark() -> None:
    logs, log = await leader()
    appended(logs.append(log, data()))
    appended(logs.append(log, data(pid=1, epoch=0, seq=0, txn=True)))
    log.advance_high_watermark(2)
    appended(log.append_marker(marker(1, 0, commit=True), now_ms=NOW_MS))
    assert (log.high_watermark, log.last_stable_offset) == (2, 1)
    log.advance_high_watermark(3)
    assert log.last_stable_offset == 3


async def test_readers_see_up_to_the_high_watermark_and_replicas_up_to_the_log_end() -> None:
    logs, log = await leader()
    for _ in range(3):
        appended(logs.append(log, data()))
    log.advance_high_watermark(2)
    seen = [header.base_offset for _, header in batches(read_now(log).records)]
    copies = [header.base_offset for _, header in batches(read_now(log, isolation=None).records)]
    assert (seen, copies) == ([0, 1], [0, 1, 2])


async def test_a_start_takes_the_high_watermark_from_its_checkpoint() -> None:
    logs, log = await leader()
    for _ in range(5):
        appended(logs.append(log, data()))
    log.advance_high_watermark(3)
    log = await logs.reopen()
    assert (log.high_watermark, log.last_stable_offset, log.durable_end, log.log_end_offset) == (3, 3, 5, 5)


async def test_a_start_keeps_the_high_watermark_within_the_log() -> None:
    logs, log = await leader()
    appended(logs.append(log, data(5)))
    log.advance_high_watermark(5)
    await logs.manager.close()
    logs.fake.write_atomic("/data/replication-offset-checkpoint", b"0\n1\norders 0 9\n")
    log = await logs.start_again()
    assert log.high_watermark == log.log_end_offset == 5
    await logs.manager.close()
    logs.fake.unlink("/data/replication-offset-checkpoint")
    log = await logs.start_again()
    assert (log.log_start_offset, log.high_watermark) == (0, 0)


# Leading ----------------------------------------------------------------------------------------------------------


async def test_before_an_election_a_log_with_replicas_takes_nothing_from_clients() -> None:
    logs = Logs(replicated=True)
    log = await logs.open()
    for result in (
        logs.append(log, data()),
        log.append_records(b"", count=1, now_ms=NOW_MS),
        log.append_marker(marker(1, 0, commit=True), now_ms=NOW_MS),
    ):
        assert isinstance(result, Refused)
        assert result.error is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert log.durable(1).result() is ErrorCode.NOT_LEADER_OR_FOLLOWER
    log.become_leader(4)
    assert appended(logs.append(log, data())).base_offset == 0


async def test_the_first_append_after_an_election_enters_its_epoch_and_where_it_begins() -> None:
    logs, log = await leader(epoch=3)
    appended(logs.append(log, data(2)))
    log.become_follower()
    log.become_leader(5)
    assert logs.fake.read_whole(f"{HOME}/leader-epoch-checkpoint") == b"0\n1\n3 0\n", "an election touches no file"
    assert log.end_of_epoch(3) == (3, 2)
    appended(logs.append(log, data()))
    assert log.epochs.entries == ((3, 0), (5, 2))
    assert logs.fake.read_whole(f"{HOME}/leader-epoch-checkpoint") == b"0\n2\n3 0\n5 2\n"
    assert [header.partition_leader_epoch for header in headers(log)] == [3, 5]
    assert log.end_of_epoch(3) == (3, 2)
    assert log.end_of_epoch(5) == (5, 3)


async def test_an_epoch_that_begins_at_the_log_end_ends_all_before_it() -> None:
    """Else a follower whose only records are of an election in between, which left nothing here, is out of range for
    ever: it is told neither where the logs part nor that it has too much."""
    logs, log = await leader(epoch=3)
    appended(logs.append(log, data(2)))
    log.become_follower()
    log.become_leader(7)
    assert log.end_of_epoch(2) == (2, 0)
    assert log.end_of_epoch(3) == (3, 2)
    assert log.end_of_epoch(5) == (3, 2)
    assert log.end_of_epoch(7) == (7, 2)
    assert log.end_of_epoch(8) == (-1, -1)
    _, empty = await leader(epoch=7)
    assert empty.end_of_epoch(5) == (5, 0)
    assert empty.end_of_epoch(-1) == (-1, -1)


async def test_the_epoch_of_an_election_is_durable_before_its_first_batch() -> None:
    logs, log = await leader(Logs(replicated=True, durability=Durability.FSYNC), epoch=3)
    assert isinstance(logs.flusher, ManualFlusher)
    appended(logs.append(log, data(2)))
    logs.flusher.flush()
    log.become_follower()
    log.become_leader(5)
    appended(logs.append(log, data()))
    logs.flusher.flush()
    after = logs.fake.power_loss()
    assert after.read_whole(f"{HOME}/leader-epoch-checkpoint") == b"0\n2\n3 0\n5 2\n"


async def test_the_epoch_of_a_log_that_was_never_written_comes_with_its_first_batch() -> None:
    logs, log = await leader(epoch=3)
    assert not logs.fake.is_directory(HOME)
    appended(logs.append(log, data()))
    assert logs.fake.read_whole(f"{HOME}/leader-epoch-checkpoint") == b"0\n1\n3 0\n"


async def test_an_epoch_that_cannot_be_written_is_written_before_the_next_batch() -> None:
    logs, log = await leader(epoch=3)
    appended(logs.append(log, data()))
    log.become_follower()
    logs.fake.faults.append(Fault("rename", errno.ENOSPC, "leader-epoch-checkpoint"))
    log.become_leader(4)
    refused = logs.append(log, data())
    assert isinstance(refused, Refused)
    assert refused.error is ErrorCode.KAFKA_STORAGE_ERROR
    assert log.epochs.entries == ((3, 0),)
    appended(logs.append(log, data()))
    assert log.epochs.entries == ((3, 0), (4, 1))


async def test_an_election_older_than_the_log_takes_it_offline(caplog: pytest.LogCaptureFixture) -> None:
    logs, log = await leader(epoch=7)
    appended(logs.append(log, data()))
    log.become_follower()
    log.become_leader(6)
    assert log.failure is not None
    assert "elects leader epoch 6, and records of epoch 7 are here" in caplog.text


async def test_callers_that_wait_hear_that_leadership_was_lost() -> None:
    logs, log = await leader(Logs(replicated=True, durability=Durability.FSYNC))
    appended(logs.append(log, data()))
    waiters = [log.durable(1), log.durable_here(1)]
    log.become_follower()
    assert [each.result() for each in waiters] == [ErrorCode.NOT_LEADER_OR_FOLLOWER] * 2
    result = logs.append(log, data())
    assert isinstance(result, Refused)
    assert result.error is ErrorCode.NOT_LEADER_OR_FOLLOWER


async def test_a_log_keeps_the_epoch_of_its_election_when_its_partition_is_asked_for_again() -> None:
    logs, log = await leader(epoch=3)
    logs.epoch = 9
    assert logs.log() is log
    assert log.leader_epoch == 3


# Following --------------------------------------------------------------------------------------------------------


async def test_a_follower_keeps_batches_byte_for_byte() -> None:
    logs, log = await leader(epoch=3)
    for count in (1, 3, 2):
        appended(logs.append(log, data(count)))
    log.become_follower()
    log.become_leader(5)
    appended(logs.append(log, data(4)))
    copy = await follower()
    assert followed(copy, copied(log)) == FollowerAppend(10, len(copied(log)))
    assert copied(copy) == copied(log)
    assert copy.epochs.entries == log.epochs.entries
    assert (copy.durable_end, copy.high_watermark) == (10, 0)


async def test_a_follower_takes_whole_batches_only() -> None:
    logs, log = await leader()
    appended(logs.append(log, data(2)))
    appended(logs.append(log, data(2)))
    copy = await follower()
    records = copied(log)
    assert followed(copy, records[:-1]).end_offset == 2
    assert followed(copy, records[len(records) // 2 :][:20]) == FollowerAppend(2, 0)
    assert followed(copy, records[len(records) // 2 :]).end_offset == 4


async def test_a_batch_with_a_wrong_checksum_is_refused_with_all_that_came_with_it() -> None:
    copy = await follower()
    good, bad = sent(data(2), 0), bytearray(sent(data(2), 2))
    bad[-1] ^= 1
    result = refused(copy, good + bytes(bad))
    assert (result.error, result.message) == (
        ErrorCode.CORRUPT_MESSAGE,
        "the batch at offset 2 has a wrong checksum",
    )
    assert copy.log_end_offset == 0
    assert not len(copy.segments)


@pytest.mark.parametrize("magic", [0, 1])
async def test_old_record_formats_are_refused_with_one_sentence(magic: int) -> None:
    copy = await follower()
    old = bytearray(sent(data(), 0))
    old[16] = magic
    result = refused(copy, bytes(old[:34]))
    assert result.error is ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT
    assert result.message is not None
    assert f"record format {magic} and Eosin keeps format 2 only" in result.message


async def test_bytes_that_are_no_batch_are_refused() -> None:
    copy = await follower()
    impossible = bytearray(sent(data(), 0))
    impossible[8:12] = (5).to_bytes(4, "big")
    assert refused(copy, bytes(impossible)).error is ErrorCode.CORRUPT_MESSAGE
    unknown = bytearray(sent(data(), 0))
    unknown[16] = 3
    assert refused(copy, bytes(unknown)).error is ErrorCode.CORRUPT_MESSAGE


async def test_a_batch_below_the_log_end_is_refused() -> None:
    copy = await follower()
    followed(copy, sent(data(5), 0))
    result = refused(copy, sent(data(5), 4))
    assert result.error is ErrorCode.INVALID_RECORD
    assert copy.log_end_offset == 5


async def test_a_gap_that_the_leaders_cleaner_left_is_legal() -> None:
    copy = await follower()
    followed(copy, sent(data(2), 0) + sent(data(1), 10))
    followed(copy, sent(data(3), 20))
    assert copy.log_end_offset == 23
    assert [header.base_offset for header in headers(copy)] == [0, 10, 20]
    assert read_header(copied(copy, 12)).base_offset == 20


async def test_a_segment_after_a_gap_is_named_by_the_log_end() -> None:
    logs = Logs(config=SMALL, replicated=True)
    copy = await logs.open()
    copy.become_follower()
    followed(copy, sent(data(1, size=400), 0))
    followed(copy, sent(data(1, size=400), 10))
    assert copy.segments.bases == [0, 1]


async def test_a_follower_stops_before_a_batch_of_a_later_epoch() -> None:
    copy = await follower()
    records = sent(data(2), 0, epoch=3) + sent(data(2), 2, epoch=4)
    assert followed(copy, records, max_epoch=3) == FollowerAppend(2, len(records) // 2, stopped_at_epoch=4)
    assert copy.epochs.entries == ((3, 0),)


async def test_sizes_are_not_checked_again() -> None:
    copy = await follower()
    copy.update_config(LogConfig(max_message_bytes=100, internal_segment_bytes=200))
    followed(copy, sent(data(1, size=1000), 0) + sent(data(1, size=1000), 1))
    assert copy.segments.bases == [0, 1]


async def test_an_empty_log_begins_with_the_batch_that_the_leader_sends() -> None:
    copy = await follower()
    copy.log_start_offset = copy.log_end_offset = copy.high_watermark = copy.durable_end = 100
    followed(copy, sent(data(10), 95))
    assert (copy.log_start_offset, copy.log_end_offset) == (95, 105)
    copy.advance_high_watermark(105)
    copy.follow_log_start(100)
    assert copy.log_start_offset == 100


async def test_an_epoch_in_which_nothing_was_written_gives_way_to_what_the_leader_has() -> None:
    _, log = await leader(epoch=1)
    appended(log.append(data(), now_ms=NOW_MS))
    log.become_follower()
    log.become_leader(5)
    log.become_follower()
    followed(log, sent(data(), 1, epoch=3))
    assert log.epochs.entries == ((1, 0), (3, 1))
    followed(log, sent(data(), 2, epoch=3))
    assert log.epochs.entries == ((1, 0), (3, 1))


async def test_a_follower_knows_producers_and_transactions_as_its_leader_does() -> None:
    logs, log = await leader()
    for sequence in range(6):
        appended(logs.append(log, data(pid=1, epoch=0, seq=sequence)))
    appended(logs.append(log, data(pid=2, epoch=0, seq=0, txn=True)))
    appended(logs.append(log, data(pid=3, epoch=0, seq=0, txn=True)))
    appended(log.append_marker(marker(2, 0, commit=False), now_ms=NOW_MS))
    copy = await follower()
    followed(copy, copied(log))
    assert copy.producers() == log.producers()
    copy.advance_high_watermark(9)
    assert (copy.high_watermark, copy.last_stable_offset) == (9, 7)
    copy.become_leader(2)
    assert appended(copy.append(data(pid=1, epoch=0, seq=1), now_ms=NOW_MS)).duplicate
    result = read_now(copy, 6, isolation=IsolationLevel.READ_COMMITTED)
    assert result.aborted == (AbortedTransaction(2, 6),)


async def test_a_follower_refuses_no_producer(caplog: pytest.LogCaptureFixture) -> None:
    copy = await follower()
    followed(copy, sent(data(pid=1, epoch=5, seq=7), 0))
    with caplog.at_level(logging.WARNING):
        followed(copy, sent(data(pid=1, epoch=4, seq=3), 1))
    assert "has epoch 4 of producer 1, after epoch 5" in caplog.text
    (producer,) = copy.producers()
    assert (producer.producer_epoch, producer.last_sequence) == (4, 3)


async def test_a_follower_without_space_keeps_what_it_wrote() -> None:
    logs = Logs(replicated=True)
    copy = await logs.open()
    copy.become_follower()
    followed(copy, sent(data(), 0))
    logs.fake.faults.append(Fault("append", errno.ENOSPC, f"{0:020d}.log", times=1))
    result = refused(copy, sent(data(), 1) + sent(data(), 2))
    assert result.error is ErrorCode.KAFKA_STORAGE_ERROR
    assert copy.failure is None
    followed(copy, sent(data(), copy.log_end_offset))


async def test_a_followers_log_start_follows_its_leaders_up_to_the_high_watermark() -> None:
    copy = await follower()
    followed(copy, sent(data(10), 0))
    copy.advance_high_watermark(6)
    copy.follow_log_start(8)
    assert copy.log_start_offset == 6
    copy.follow_log_start(2)
    assert copy.log_start_offset == 6


async def test_a_follower_that_is_killed_starts_with_what_it_has() -> None:
    logs = Logs(replicated=True)
    copy = await logs.open()
    copy.become_follower()
    followed(copy, sent(data(2), 0, epoch=1) + sent(data(2), 7, epoch=2))
    copy = await logs.start_again(logs.fake.killed())
    assert (copy.failure, copy.log_end_offset) == (None, 9)
    assert copy.epochs.entries == ((1, 0), (2, 7))
    assert copy.topic_id == TOPIC_ID
    assert copy.topic_partition == ORDERS


# The directory ----------------------------------------------------------------------------------------------------


async def test_high_watermarks_are_saved_at_their_interval_and_at_the_stop() -> None:
    logs = Logs(replicated=True, high_watermark_interval_ms=5000)
    _, log = await leader(logs)

    def saved() -> bytes:
        return logs.fake.read_whole("/data/replication-offset-checkpoint")

    await logs.manager.checkpoint()
    appended(logs.append(log, data(5)))
    log.advance_high_watermark(2)
    logs.clock.advance(4999)
    await logs.manager.checkpoint()
    assert saved() == b"0\n0\n"
    logs.clock.advance(1)
    await logs.manager.checkpoint()
    assert saved() == b"0\n1\norders 0 2\n"
    log.advance_high_watermark(4)
    await logs.manager.checkpoint()
    assert saved() == b"0\n1\norders 0 2\n"
    await logs.manager.close()
    assert saved() == b"0\n1\norders 0 4\n"


async def test_logs_that_the_cluster_does_not_place_here_are_set_aside() -> None:
    logs = Logs(replicated=True)
    for partition in (ORDERS, TopicPartition("orders", 1), TopicPartition("orders", 2), TopicPartition("gone", 0)):
        log = logs.log(partition) if logs.manager.logs else await logs.open()
        log.become_follower()
        followed(log, sent(data(), 0))
    await logs.manager.close()
    manager = await logs.start_again_without_log(logs.fake)
    placed = {ORDERS: TOPIC_ID, TopicPartition("orders", 1): bytes(16), TopicPartition("orders", 2): b"n" * 16}
    strays = manager.set_aside_unplaced(placed)
    assert sorted(map(str, strays)) == ["gone-0", "orders-1", "orders-2"]
    names = [name for name in logs.fake.list("/data") if logs.fake.is_directory(f"/data/{name}")]
    assert sorted(name.partition(".")[0] for name in names) == ["gone-0", "orders-0", "orders-1", "orders-2"]
    assert sum(name.endswith("-stray") for name in names) == 3


async def test_records_of_an_unknown_topic_id_are_offline_where_the_cluster_places_them() -> None:
    """Setting them aside would put an empty log in their place, which leads as if it were whole."""
    logs = Logs(replicated=True)
    log = await logs.open()
    log.become_follower()
    followed(log, sent(data(), 0))
    await logs.manager.close()
    logs.fake.unlink(f"{HOME}/partition.metadata")
    manager = await logs.start_again_without_log(logs.fake)
    assert manager.set_aside_unplaced({ORDERS: TOPIC_ID}) == []
    assert manager.create_log(ORDERS, TOPIC_ID, LogConfig(), 3).failure is not None


async def test_a_damaged_log_is_offline_where_the_cluster_places_it() -> None:
    logs = Logs(replicated=True)
    log = await logs.open()
    log.become_follower()
    followed(log, sent(data(5), 0))
    await logs.manager.close()
    segment = logs.fake.open(f"{HOME}/{0:020}.log")
    segment.truncate(segment.size // 2)
    manager = await logs.start_again_without_log(logs.fake)
    assert manager.set_aside_unplaced({ORDERS: TOPIC_ID}) == []
    assert manager.create_log(ORDERS, TOPIC_ID, LogConfig(), 3).failure is not None


async def test_a_log_that_is_missing_where_the_cluster_places_it_is_offline() -> None:
    """An empty one that leads would lose in silence what it had (cluster.md 4.18)."""
    logs = Logs(replicated=True)
    log = await logs.open()
    log.become_follower()
    followed(log, sent(data(5), 0))
    await logs.manager.checkpoint(force=True)
    disk = logs.fake.killed()
    disk.remove_tree(HOME)
    manager = await logs.start_again_without_log(disk)
    assert manager.set_aside_unplaced({ORDERS: TOPIC_ID}) == []
    log = manager.create_log(ORDERS, TOPIC_ID, LogConfig(), 3)
    assert log.failure is not None
    log.become_leader(3)
    result = log.append(data(), now_ms=NOW_MS)
    assert isinstance(result, Refused)
    assert result.error is ErrorCode.KAFKA_STORAGE_ERROR


async def test_one_partition_may_be_deleted_alone() -> None:
    logs = Logs(replicated=True)
    log = await logs.open()
    other = logs.log(TopicPartition("orders", 1))
    for each in (log, other):
        each.become_follower()
        followed(each, sent(data(), 0))
    logs.manager.deletions.delete([log])
    assert not logs.fake.is_directory(HOME)
    assert logs.fake.is_directory("/data/orders-1")
    assert log.unusable is not None
    assert log.unusable.error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert other.unusable is None


async def test_a_replica_is_checked_as_one() -> None:
    """Gaps, records above the high watermark and undecided transactions are normal there (cluster.md 14)."""
    logs = Logs(replicated=True)
    log = await logs.open()
    log.become_follower()
    followed(log, sent(data(2), 0) + sent(data(2), 10) + sent(data(pid=1, epoch=0, seq=0, txn=True), 20))
    state = logs.log(TopicPartition("__transaction_state", 3))
    state.become_follower()
    value = TransactionLogValue(producer_id=1, transaction_status=TransactionState.PREPARE_COMMIT)
    record = NewRecord(encode_key(TransactionLogKey("tx")), encode_value(value, 1))
    followed(state, sent(bytes(build_batch([record], timestamp=NOW_MS)), 0))
    log.advance_high_watermark(2)
    await logs.manager.close()
    problems = [each for each in DirectoryCheck(logs.fake, "/data").run() if isinstance(each, FileProblem)]
    assert any("offsets 2..9 are missing" in each.reason for each in problems)
    content = logs.fake.read_whole("/data/meta.properties")
    logs.fake.write_atomic("/data/meta.properties", content + b"eosin.cluster=kraft\n")
    problems = [each for each in DirectoryCheck(logs.fake, "/data").run() if isinstance(each, FileProblem)]
    assert not problems
