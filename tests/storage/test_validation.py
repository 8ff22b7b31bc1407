"""What a Produce request may append, check by check (storage.md section 4)."""

import struct
from typing import Any

import pytest
from hostile_batches import many_blocks
from hypothesis import given
from hypothesis import strategies as st
from record_strategies import Drawn, built, codecs, mutated

from eosin.protocol.errors import ErrorCode
from eosin.protocol.records import compression
from eosin.protocol.records.batch import (
    LOG_APPEND_TIME,
    BatchHeader,
    NewRecord,
    build_batch,
    build_control_batch,
    iter_records,
    read_header,
    verify_crc,
)
from eosin.protocol.records.budget import Budget
from eosin.protocol.records.compression import Compression
from eosin.protocol.records.header import HEADER_FIELDS, seal, set_timestamps_in_place
from eosin.storage.log import validation
from eosin.storage.log.config import LogConfig
from eosin.storage.log.validation import QUICK_PARTS, QUICK_WORK, ValidBatch, validate_client_batch, validate_quickly
from eosin.storage.results.log_results import Refused

NOW = 1_700_000_000_000
HOUR_MS = 3_600_000
DEFAULTS = LogConfig()
COMPACTED = LogConfig(cleanup_policy=frozenset({"compact", "delete"}))
STAMPED = LogConfig(message_timestamp_type="LogAppendTime")
ANY_TIME = LogConfig(message_timestamp_after_max_ms=2**63 - 1)


def records(count: int = 3, size: int = 10) -> list[NewRecord]:
    return [NewRecord(b"key", bytes(size), NOW - 1000 + index) for index in range(count)]


def a_batch(count: int = 3, **arguments: Any) -> bytearray:
    return build_batch(records(count), timestamp=NOW, **arguments)


def with_field(batch: bytearray, form: str, offset: int, value: int) -> bytearray:
    """The batch with one header field changed and its checksum made right again."""
    struct.pack_into(form, batch, offset, value)
    seal(batch)
    return batch


def refused(batch: bytes | bytearray, config: LogConfig = DEFAULTS, now_ms: int = NOW) -> Refused:
    answer = validate_client_batch(batch, config, now_ms)
    assert isinstance(answer, Refused)
    assert answer.message
    return answer


def fields_of(header: BatchHeader) -> list[int]:
    return [header.size, *(getattr(header, name) for name in HEADER_FIELDS if name != "length")]


def accepted(batch: bytes | bytearray | memoryview, config: LogConfig = DEFAULTS, now_ms: int = NOW) -> ValidBatch:
    answer = validate_client_batch(batch, config, now_ms)
    assert isinstance(answer, ValidBatch), answer
    assert fields_of(answer.header) == fields_of(read_header(answer.data))
    assert answer.header.max_timestamp == answer.max_timestamp
    assert verify_crc(answer.data, 0, answer.header)
    return answer


# --- what is accepted


@given(built())
def test_a_batch_of_a_producer_is_accepted_uncopied(drawn: Drawn) -> None:
    arguments = drawn.arguments | {"base_offset": 0}
    view = memoryview(build_batch(drawn.records, **arguments))
    answer = accepted(view, ANY_TIME)
    assert answer.data is view
    assert answer.max_timestamp == max(record.timestamp or 0 for record in drawn.records)
    assert answer.log_append_time_ms == -1


@given(built(), st.data())
def test_a_mutated_batch_is_refused_or_can_be_read_to_its_end(drawn: Drawn, data: st.DataObject) -> None:
    damaged = bytearray(data.draw(mutated(bytes(drawn.batch))))
    if len(damaged) >= 61 and data.draw(st.booleans()):
        struct.pack_into(">qi", damaged, 0, 0, len(damaged) - 12)  # so that it passes the first checks
        seal(damaged)
    answer = validate_client_batch(damaged, data.draw(st.sampled_from((ANY_TIME, COMPACTED, STAMPED))), NOW)
    if isinstance(answer, ValidBatch):
        assert [record.offset for record in iter_records(answer.data)] == list(range(answer.header.records_count))


def test_records_without_timestamps_are_accepted() -> None:
    answer = accepted(build_batch([NewRecord(b"k", b"v", -1)], timestamp=-1))
    assert answer.max_timestamp == -1
    narrow = LogConfig(message_timestamp_before_max_ms=HOUR_MS)
    assert accepted(build_batch([NewRecord(b"k", b"v", -1)] * 2, timestamp=-1), narrow).max_timestamp == -1


# --- step 3 and 7: one whole batch


def test_no_batch_and_older_formats_are_invalid() -> None:
    assert refused(b"").error is ErrorCode.INVALID_RECORD
    for magic in (0, 1, 3):
        legacy = bytes(16) + bytes((magic,)) + bytes(20)
        assert refused(legacy).error is ErrorCode.INVALID_RECORD


def test_more_than_one_batch_is_invalid() -> None:
    assert refused(a_batch() + a_batch()).error is ErrorCode.INVALID_RECORD


def test_fragments_and_wrong_checksums_are_corrupt() -> None:
    batch = a_batch()
    wrong_checksum = batch[:-1] + b"\xff"
    impossible_length = batch[:8] + bytes(4) + batch[12:]
    for damaged in (batch[:16], batch[:60], batch[:-1], batch + b"tail", wrong_checksum, impossible_length):
        assert refused(damaged).error is ErrorCode.CORRUPT_MESSAGE


def test_a_base_offset_other_than_0_is_invalid() -> None:
    assert refused(a_batch(base_offset=1)).error is ErrorCode.INVALID_RECORD


def test_a_batch_beyond_max_message_bytes_is_too_large_even_when_damaged() -> None:
    batch = a_batch()
    accepted(batch, LogConfig(max_message_bytes=len(batch)))
    for each in (batch, batch[:-1] + b"\xff"):
        assert refused(each, LogConfig(max_message_bytes=len(batch) - 1)).error is ErrorCode.MESSAGE_TOO_LARGE


def test_a_batch_beyond_the_segment_size_is_a_record_list_too_large() -> None:
    batch = a_batch()
    accepted(batch, LogConfig(segment_bytes=len(batch)))
    assert refused(batch, LogConfig(segment_bytes=len(batch) - 1)).error is ErrorCode.RECORD_LIST_TOO_LARGE


# --- step 8: shape


@pytest.mark.parametrize(
    ("form", "offset", "value"),
    [
        (">i", 23, -1),  # last offset before the first
        (">i", 23, 3),  # more offsets than records
        (">i", 57, 0),
        (">i", 57, -5),
        (">i", 57, 2),
        (">h", 21, 0x20),  # control
        (">h", 21, 0x40),  # delete horizon
        (">h", 21, 0x10),  # transactional without a producer
        (">h", 21, 0x05),  # no such codec
        (">q", 43, 7),  # a producer without sequence and epoch
    ],
)
def test_a_shape_that_no_producer_makes_is_invalid(form: str, offset: int, value: int) -> None:
    assert refused(with_field(a_batch(), form, offset, value)).error is ErrorCode.INVALID_RECORD


def test_a_producer_needs_both_sequence_and_epoch() -> None:
    producer = {"producer_id": 1, "producer_epoch": 0, "base_sequence": 0}
    accepted(a_batch(**producer))
    accepted(a_batch(**producer, transactional=True))
    for missing in ("producer_epoch", "base_sequence"):
        assert refused(a_batch(**producer | {missing: -1})).error is ErrorCode.INVALID_RECORD


def test_clients_may_not_write_markers() -> None:
    marker = build_control_batch(producer_id=1, producer_epoch=0, commit=True, coordinator_epoch=0, timestamp=NOW)
    assert refused(marker).error is ErrorCode.INVALID_RECORD


# --- step 9: records


def test_a_malformed_record_is_named() -> None:
    batch = a_batch(2)
    batch[61 + 3] = 2  # the first record's offset delta
    seal(batch)
    answer = refused(batch)
    assert answer.error is ErrorCode.INVALID_RECORD
    assert answer.record_errors == ((0, "its offset delta is 1, not 0"),)


def test_bytes_after_the_last_record_are_invalid() -> None:
    batch = a_batch() + b"\0"
    struct.pack_into(">i", batch, 8, len(batch) - 12)
    seal(batch)
    assert refused(batch).error is ErrorCode.INVALID_RECORD


def test_a_count_beyond_the_limit_is_refused_without_a_walk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(validation, "MAX_RECORDS_IN_BATCH", 2)
    assert refused(a_batch()).error is ErrorCode.MESSAGE_TOO_LARGE


# --- step 10 to 12: keys and timestamps


@pytest.mark.parametrize("codec", Compression)
def test_compacted_topics_list_the_records_without_a_key(codec: Compression) -> None:
    batch = build_batch(
        [NewRecord(b"k", b"v"), NewRecord(None, b"v"), NewRecord(b"", b"v"), NewRecord(None, None)],
        timestamp=NOW,
        compression=codec,
    )
    answer = refused(batch, COMPACTED)
    assert answer.error is ErrorCode.INVALID_RECORD
    assert [index for index, _ in answer.record_errors] == [1, 3]
    accepted(batch)


def test_timestamps_out_of_range_are_listed_and_decide_the_error() -> None:
    config = LogConfig(message_timestamp_before_max_ms=HOUR_MS, cleanup_policy=frozenset({"compact"}))
    stamps = [NOW, NOW + HOUR_MS + 1, NOW - HOUR_MS - 1, NOW + HOUR_MS, NOW - HOUR_MS]
    batch = build_batch([NewRecord(b"k", b"v", stamp) for stamp in stamps] + [NewRecord(None, b"v")], timestamp=NOW)
    answer = refused(batch, config)
    assert answer.error is ErrorCode.INVALID_TIMESTAMP
    assert [index for index, _ in answer.record_errors] == [1, 2, 5]
    assert answer.message is not None
    assert answer.message.startswith("3 records refused: record 1: timestamp 1700003600001 is not within")


def test_a_single_record_without_timestamp_among_others_is_accepted() -> None:
    config = LogConfig(message_timestamp_before_max_ms=HOUR_MS)
    batch = build_batch([NewRecord(b"k", b"v", -1), NewRecord(b"k", b"v", NOW)], timestamp=NOW)
    assert accepted(batch, config).max_timestamp == NOW


def test_a_timestamp_beyond_64_bits_is_out_of_range() -> None:
    batch = build_batch([NewRecord(b"k", b"v", 5), NewRecord(b"k", b"v", 100)], timestamp=0)
    with_field(batch, ">q", 27, 2**63 - 1)
    assert refused(batch, ANY_TIME).error is ErrorCode.INVALID_TIMESTAMP


def test_the_errors_listed_are_limited() -> None:
    batch = build_batch([NewRecord(None, b"v")] * 500, timestamp=NOW)
    answer = refused(batch, COMPACTED)
    assert len(answer.record_errors) == validation.MAX_RECORD_ERRORS
    assert answer.message is not None
    assert answer.message.startswith("500 records refused")


def test_clients_may_not_send_log_append_times() -> None:
    for config in (DEFAULTS, STAMPED):
        batch = a_batch()
        set_timestamps_in_place(batch, attributes=LOG_APPEND_TIME, max_timestamp=NOW)
        assert refused(batch, config).error is ErrorCode.INVALID_TIMESTAMP


def test_an_untrue_max_timestamp_is_put_right_in_a_copy() -> None:
    batch = bytes(with_field(a_batch(), ">q", 35, NOW + 5))
    answer = accepted(batch)
    assert answer.max_timestamp == NOW - 1000 + 2
    assert read_header(batch).max_timestamp == NOW + 5
    assert list(iter_records(answer.data)) == list(iter_records(batch))


@given(codecs)
def test_a_log_append_time_topic_stamps_the_batch_in_a_copy(codec: Compression) -> None:
    batch = bytes(build_batch([NewRecord(b"k", b"v", 2**60)], timestamp=0, compression=codec))
    answer = accepted(batch, STAMPED)
    assert answer.header.is_log_append_time
    assert answer.max_timestamp == answer.log_append_time_ms == NOW
    assert next(iter_records(answer.data)).timestamp == NOW
    assert not read_header(batch).is_log_append_time


# --- step 13 and 14: compression


@pytest.mark.parametrize("codec", [codec for codec in Compression if codec is not Compression.NONE])
def test_a_batch_that_cannot_be_decompressed_is_invalid(codec: Compression) -> None:
    batch = a_batch(compression=codec)
    batch[61:] = b"\x7f" * (len(batch) - 61)
    seal(batch)
    assert refused(batch).error is ErrorCode.INVALID_RECORD


def test_a_decompression_bomb_is_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(validation, "MAX_DECOMPRESSED_BYTES", 100_000)
    config = LogConfig(max_message_bytes=50_000)
    for codec in Compression:
        bomb = build_batch(records(2, 60_000), timestamp=NOW, compression=codec)
        assert refused(bomb, config).error is ErrorCode.MESSAGE_TOO_LARGE


@given(codecs, codecs)
def test_a_topic_with_a_codec_of_its_own_gets_every_batch_in_it(sent: Compression, wanted: Compression) -> None:
    batch = a_batch(20, compression=sent, producer_id=3, producer_epoch=1, base_sequence=9)
    answer = accepted(batch, LogConfig(compression_type=wanted.config_name))
    assert answer.header.compression is wanted
    assert (answer.data is batch) == (sent is wanted)
    assert list(iter_records(answer.data)) == list(iter_records(batch))
    assert (answer.header.producer_id, answer.header.producer_epoch, answer.header.base_sequence) == (3, 1, 9)


def test_recompressing_and_stamping_happen_together() -> None:
    config = LogConfig(compression_type="zstd", message_timestamp_type="LogAppendTime", compression_zstd_level=1)
    answer = accepted(a_batch(compression=Compression.LZ4), config)
    assert answer.header.compression is Compression.ZSTD
    assert answer.header.is_log_append_time
    assert [record.timestamp for record in iter_records(answer.data)] == [NOW] * 3


def test_the_size_is_checked_again_after_another_codec() -> None:
    batch = build_batch(records(1, 5000), timestamp=NOW, compression=Compression.ZSTD)
    config = LogConfig(compression_type="uncompressed", max_message_bytes=1000)
    assert refused(batch, config).error is ErrorCode.MESSAGE_TOO_LARGE
    config = LogConfig(compression_type="uncompressed", segment_bytes=1000)
    assert refused(batch, config).error is ErrorCode.RECORD_LIST_TOO_LARGE


# --- what the event loop checks itself


def quickly(batch: bytes | bytearray) -> object:
    """The result in the event loop; None if a thread has to check the batch."""
    return validate_quickly(batch, LogConfig(max_message_bytes=16 << 20), NOW, read_header(batch), Budget(QUICK_WORK))


def test_of_a_batch_of_many_small_blocks_few_are_read_before_a_thread_gets_it(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[memoryview] = []
    decompress = compression._decompress_raw_snappy

    def noted(block: memoryview, room: int, limit: int) -> bytes:
        read.append(block)
        return decompress(block, room, limit)

    monkeypatch.setattr(compression, "_decompress_raw_snappy", noted)
    assert quickly(many_blocks(100_000)) is None
    assert len(read) == QUICK_PARTS
    assert isinstance(quickly(many_blocks(QUICK_PARTS - 1)), ValidBatch)


def test_the_event_loop_checks_a_large_batch_of_blocks_as_producers_write_them() -> None:
    batch = build_batch(records(100, size=20_000), timestamp=NOW, compression=Compression.SNAPPY)
    assert isinstance(quickly(batch), ValidBatch)
