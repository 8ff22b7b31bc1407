"""Appends to a partition log: offsets, files, rolls, configuration, errors of the disk."""

import errno

import pytest
from batches import NOW_MS, ORDERS, TOPIC_ID, data, marker
from logs import Logs, appended, read_now

from eosin.lab.disk.lying_disk import Fault
from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import IsolationLevel, TopicPartition, uuid_text
from eosin.protocol.records.batch import batches, read_header, verify_crc
from eosin.storage.log.config import LogConfig
from eosin.storage.results.log_results import Appended, AppendOrigin, Refused

HOME = "/data/orders-0"
SMALL = LogConfig(internal_segment_bytes=300)


async def test_offsets_are_assigned_in_order_and_the_leader_epoch_is_stamped() -> None:
    logs = Logs()
    log = await logs.open()
    log.leader_epoch = 7
    assert appended(logs.append(log, data(3))) == Appended(0, 2)
    assert appended(logs.append(log, data(2))) == Appended(3, 4)
    assert log.log_end_offset == log.high_watermark == log.last_stable_offset == 5
    headers = [header for _, header in batches(read_now(log).records)]
    assert [(header.base_offset, header.last_offset, header.partition_leader_epoch) for header in headers] == [
        (0, 2, 7),
        (3, 4, 7),
    ]


async def test_appended_bytes_are_the_sent_bytes_but_for_the_stamp() -> None:
    logs = Logs()
    log = await logs.open()
    logs.append(log, data(1))
    sent = data(4, size=100)
    logs.append(log, sent)
    stored = bytes(read_now(log, 1).records)
    assert stored[16:] == sent[16:]
    assert verify_crc(stored, 0, read_header(stored))


async def test_a_batch_may_come_as_a_view_into_a_frame() -> None:
    logs = Logs()
    log = await logs.open()
    sent = data(2)
    frame = bytearray(b"head" + sent + b"tail")
    result = log.append(memoryview(frame)[4:-4], now_ms=NOW_MS, header=read_header(sent))
    assert appended(result).last_offset == 1
    assert bytes(read_now(log).records)[16:] == sent[16:]


async def test_nothing_is_on_disk_before_the_first_append() -> None:
    logs = Logs()
    log = await logs.open()
    assert not logs.fake.is_directory(HOME)
    logs.append(log, data())
    assert "partition.metadata" in logs.fake.list(HOME)
    metadata = logs.fake.read_whole(f"{HOME}/partition.metadata")
    assert metadata == f"version: 0\ntopic_id: {uuid_text(TOPIC_ID)}".encode()
    assert logs.fake.read_whole(f"{HOME}/leader-epoch-checkpoint") == b"0\n1\n0 0\n"


async def test_a_full_segment_rolls_before_the_batch_that_does_not_fit() -> None:
    logs = Logs(config=SMALL)
    log = await logs.open()
    size = len(data(size=40))
    for _ in range(7):
        logs.append(log, data(size=40))
    per_segment = 300 // size
    assert log.segments.bases == list(range(0, 7, per_segment))
    assert all(segment.size <= 300 for segment in log.segments)
    assert log.size_bytes == 7 * size


async def test_a_segment_rolls_by_record_time() -> None:
    logs = Logs(config=LogConfig(segment_ms=1000))
    log = await logs.open()
    logs.append(log, data(at=NOW_MS))
    logs.append(log, data(at=NOW_MS + 1000))
    assert len(log.segments) == 1
    logs.append(log, data(at=NOW_MS + 1001))
    assert log.segments.bases == [0, 2]
    logs.append(log, data(at=NOW_MS))
    assert len(log.segments) == 2


async def test_a_segment_rolls_when_an_index_is_full() -> None:
    logs = Logs(config=LogConfig(segment_index_bytes=40, index_interval_bytes=0))
    log = await logs.open()
    for index in range(20):
        logs.append(log, data(at=NOW_MS + index))
    assert len(log.segments) > 4
    for segment in log.segments:
        assert segment.offset_index.count <= 5
        assert segment.time_index.count <= 3


async def test_a_batch_larger_than_a_segment_is_refused() -> None:
    logs = Logs(config=SMALL)
    log = await logs.open()
    result = logs.append(log, data(size=400))
    assert isinstance(result, Refused)
    assert result.error == ErrorCode.RECORD_LIST_TOO_LARGE
    assert result.message is not None
    assert result.message.endswith(f"fits no segment: a segment holds at most {SMALL.segment_limit_bytes}")
    assert log.log_end_offset == 0


async def test_a_coordinator_batch_is_held_to_the_message_size_only() -> None:
    logs = Logs(config=LogConfig(max_message_bytes=200), verification_enabled=True)
    log = await logs.open()
    batch = data(pid=4, epoch=0, seq=-1, txn=True)
    assert isinstance(log.append(batch, now_ms=NOW_MS, origin=AppendOrigin.COORDINATOR), Appended)
    result = log.append(data(size=300), now_ms=NOW_MS, origin=AppendOrigin.COORDINATOR)
    assert isinstance(result, Refused)
    assert result.error == ErrorCode.MESSAGE_TOO_LARGE
    assert result.message is not None
    assert result.message.endswith("is too large: max.message.bytes allows 200")


async def test_log_append_time_is_answered() -> None:
    from eosin.protocol.records.batch import LOG_APPEND_TIME, set_timestamps_in_place

    logs = Logs()
    log = await logs.open()
    batch = bytearray(data())
    set_timestamps_in_place(batch, attributes=LOG_APPEND_TIME, max_timestamp=NOW_MS + 5)
    assert appended(logs.append(log, bytes(batch))).log_append_time_ms == NOW_MS + 5


async def test_a_changed_configuration_holds_from_the_next_append() -> None:
    logs = Logs()
    log = await logs.open()
    logs.append(log, data())
    log.update_config(SMALL)
    result = logs.append(log, data(size=400))
    assert isinstance(result, Refused)
    assert log.config is SMALL


async def test_a_full_disk_takes_the_batch_back_and_recovers() -> None:
    logs = Logs()
    log = await logs.open()
    logs.append(log, data())
    logs.fake.space = 30
    result = logs.append(log, data())
    assert isinstance(result, Refused)
    assert result.error == ErrorCode.KAFKA_STORAGE_ERROR
    assert log.failure is None
    assert log.log_end_offset == 1
    logs.fake.space = None
    assert appended(logs.append(log, data())).base_offset == 1
    assert len(list(batches(read_now(log).records))) == 2


async def test_a_full_disk_at_a_roll_changes_nothing() -> None:
    logs = Logs(config=SMALL)
    log = await logs.open()
    while len(log.segments) < 2:
        logs.append(log, data(size=40))
    while log.segments.active is not None and log.segments.active.size < 200:
        logs.append(log, data(size=40))
    end = log.log_end_offset
    logs.fake.space = 0
    assert isinstance(logs.append(log, data(size=40)), Refused)
    assert log.log_end_offset == end
    assert len(log.segments) == 2
    logs.fake.space = None
    assert appended(logs.append(log, data(size=40))).base_offset == end


async def test_a_full_disk_at_the_first_append_changes_nothing() -> None:
    logs = Logs()
    log = await logs.open()
    logs.fake.space = 10
    assert isinstance(logs.append(log, data()), Refused)
    logs.fake.space = None
    assert appended(logs.append(log, data())).base_offset == 0
    assert log.epochs.entries == ((0, 0),)


@pytest.mark.parametrize(
    "fault", [Fault("append", errno.EIO, ".log"), Fault("append", errno.ENOSPC, ".log", torn=True, written=9)]
)
async def test_any_other_write_error_takes_the_log_offline(fault: Fault) -> None:
    logs = Logs()
    log = await logs.open()
    seen: list[object] = []
    log.on_progress = seen.append
    logs.append(log, data())
    logs.fake.faults.append(fault)
    result = logs.append(log, data())
    assert isinstance(result, Refused)
    assert result.error == ErrorCode.KAFKA_STORAGE_ERROR
    assert log.failure is not None
    assert seen == [log, log]
    again = logs.append(log, data())
    assert isinstance(again, Refused)
    assert again.error == ErrorCode.KAFKA_STORAGE_ERROR
    read = read_now(log)
    assert (read.error, read.high_watermark, len(read.records)) == (ErrorCode.KAFKA_STORAGE_ERROR, -1, 0)
    assert isinstance(log.append_marker(marker(1, 0, commit=True), now_ms=NOW_MS), Refused)


async def test_progress_is_reported_for_every_append_when_nothing_has_to_be_synced() -> None:
    logs = Logs()
    log = await logs.open()
    seen: list[int] = []
    log.on_progress = lambda told: seen.append(told.high_watermark)
    logs.append(log, data(3))
    logs.append(log, data())
    assert seen == [3, 4]
    assert await log.durable(4) == ErrorCode.NONE


async def test_batches_gives_the_whole_log_across_segments() -> None:
    logs = Logs(config=SMALL)
    log = await logs.open()
    for index in range(10):
        logs.append(log, data(1 + index % 3))
    offsets = [read_header(batch).base_offset for batch in log.batches()]
    assert offsets == sorted(offsets)
    assert sum(read_header(batch).records_count for batch in log.batches()) == log.log_end_offset
    await log.delete_records_before(offsets[4])
    assert [read_header(batch).base_offset for batch in log.batches()] == offsets[4:]


async def test_the_view_of_an_empty_log_is_empty() -> None:
    logs = Logs()
    log = await logs.open()
    assert list(log.batches()) == []
    for isolation in (None, IsolationLevel.READ_UNCOMMITTED, IsolationLevel.READ_COMMITTED):
        result = read_now(log, isolation=isolation)
        assert (result.error, len(result.records), result.high_watermark) == (ErrorCode.NONE, 0, 0)
    assert await log.offset_for_timestamp(0, isolation=None) is None
    assert await log.offset_of_max_timestamp(None) is None
    assert log.bytes_available(0, isolation=None, limit=10) == 0
    assert log.size_bytes == 0
    assert log.topic_partition == ORDERS


async def test_the_leader_epoch_of_a_log_is_raised_alone_and_never_lowered() -> None:
    logs = Logs()
    log = await logs.open()
    other = logs.log(TopicPartition("orders", 1))
    for epoch in (5, 3):
        log.raise_leader_epoch(epoch)
        appended(logs.append(log, data()))
    appended(logs.append(other, data()))
    assert [read_header(batch).partition_leader_epoch for batch in log.batches()] == [5, 5]
    assert [read_header(batch).partition_leader_epoch for batch in other.batches()] == [0]
