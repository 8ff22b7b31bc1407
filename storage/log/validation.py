"""The check that a batch may be appended, and in which bytes: storage.md section 4, steps 7 to 15.

Owns the checks that look at nothing but the batch, the topic's configuration and the time; what other batches have to
do with it (step 16) is the producer state's. Always true: a batch that comes back valid can be read by every consumer
and by every reader here, to its last record, and its header tells the truth about its records; any bytes lead to a
result, never to an exception; and a `Budget` ends the work on them, whatever they are.
"""

from collections.abc import Callable
from typing import Final

from eosin.protocol.errors import ErrorCode
from eosin.protocol.records.batch import recompress, records_payload
from eosin.protocol.records.budget import HEADER_WORK, RECORD_WORK, UNBOUNDED, Budget, BudgetSpent
from eosin.protocol.records.compression import (
    COMPRESSION_BY_CONFIG_NAME,
    MAX_DECOMPRESSED_BYTES,
    BytesLike,
    Compression,
    CorruptRecords,
    TooLarge,
    is_fast_lz4,
    most_inflated,
)
from eosin.protocol.records.fields import decode_record
from eosin.protocol.records.header import (
    COMPRESSION_MASK,
    CONTROL,
    DELETE_HORIZON,
    HEADER_BYTES,
    LOG_APPEND_TIME,
    MAGIC,
    NO_TIMESTAMP,
    TRANSACTIONAL,
    BatchHeader,
    peek_magic,
    read_header,
    set_timestamps_in_place,
    verify_crc,
)
from eosin.runtime.clock import as_stamped
from eosin.storage.log.config import LogConfig
from eosin.storage.log.record_walk import first_fault, walk_records
from eosin.storage.results.log_results import Refused

MAX_RECORDS_IN_BATCH: Final = 1 << 20
"""More are refused as too large, so that no batch can hold up the event loop for seconds."""
MAX_HEADERS_IN_BATCH: Final = 1 << 20
"""Beside as many records; a batch with fewer records may have more headers."""
_CHECK_WORK: Final = MAX_RECORDS_IN_BATCH * RECORD_WORK + MAX_HEADERS_IN_BATCH * HEADER_WORK
"""Limit of the work on records, headers, members and blocks of a batch, in all."""
_CHECK_WORK_PER_BYTE_IN: Final = 50
_CHECK_WORK_PER_BYTE_OUT: Final = 3

QUICK_WORK: Final = 8_000_000
"""Limit of the work that one request's batches may cost the event loop: some milliseconds."""
_QUICK_WORK_AT_LEAST: Final = 1_000_000
_QUICK_WORK_PER_BYTE: Final = 100
"""So that who sends little costs the event loop little, whatever it inflates to."""
QUICK_PARTS: Final = 500
"""Compressed members or blocks of one batch that the event loop reads, in a millisecond or two. Producers write blocks
of 32 KiB; a batch of many small ones is for a thread, and what was read of it before that is known is done twice."""
_QUICK_COMPRESSED_BYTES: Final = (0, 64 * 1024, 256 * 1024, 256 * 1024, 256 * 1024)
"""Bytes that are compressed anew in some milliseconds, by codec, at a quick level."""
_QUICK_GZIP_LEVEL: Final = 6
_QUICK_ZSTD_LEVEL: Final = 3
MAX_RECORD_ERRORS: Final = 100
"""Faulty records that a refusal lists one by one."""

_SMALL_BYTES: Final = 64 * 1024
"""Of a batch whose bytes are not worth counting."""
_BYTES_PER_WORK: Final = 2
"""Bytes whose checksum is one unit of work, with a copy of them."""
_FAULT_WORK: Final = 4 * RECORD_WORK
"""To find a record's fault, and to put it into words."""
_TOO_MUCH_WORK: Final = (
    f"the records, headers and compressed blocks are too many: {MAX_RECORDS_IN_BATCH} records and as many headers fit"
)

_INT64_MIN: Final = -(2**63)
_INT64_MAX: Final = 2**63 - 1
_PRODUCER: Final = "producer"


class ValidBatch:
    """A batch that may be appended once the producer state agrees."""

    __slots__ = ("data", "header", "log_append_time_ms", "max_timestamp")

    def __init__(self, header: BatchHeader, data: BytesLike, max_timestamp: int, log_append_time_ms: int) -> None:
        self.header = header
        """Of `data`."""
        self.data = data
        """The bytes to append, but for base offset and leader epoch: the batch as it came, uncopied, or its rewritten
        form."""
        self.max_timestamp = max_timestamp
        """ms; the largest timestamp of a record, or the append time: what `header` says, by now checked."""
        self.log_append_time_ms = log_append_time_ms
        """The append time for a topic that stamps its records, else -1."""


def validate_client_batch(
    batch: BytesLike,
    config: LogConfig,
    now_ms: int,
    header: BatchHeader | None = None,
    rest: Callable[[], None] | None = None,
    moment_of: Callable[[int], int] = as_stamped,
) -> ValidBatch | Refused:
    """Check the bytes that a Produce request appends to one partition: exactly one batch, in Kafka's order of checks.
    `header` is that of a batch of magic 2 when the caller has read it already; a thread has a `rest`, as `Budget`.
    `moment_of` as `Clock` has it."""
    limit = min(most_inflated(len(batch)), max(MAX_DECOMPRESSED_BYTES, config.max_message_bytes))
    work = _CHECK_WORK + _CHECK_WORK_PER_BYTE_IN * len(batch) + _CHECK_WORK_PER_BYTE_OUT * limit
    try:
        return _checked(batch, config, now_ms, header, limit, Budget(work, rest), UNBOUNDED, moment_of)
    except TooLarge as error:
        return Refused(ErrorCode.MESSAGE_TOO_LARGE, str(error))
    except BudgetSpent:
        return Refused(ErrorCode.MESSAGE_TOO_LARGE, _TOO_MUCH_WORK)


def validate_quickly(
    batch: BytesLike,
    config: LogConfig,
    now_ms: int,
    header: BatchHeader,
    budget: Budget,
    moment_of: Callable[[int], int] = as_stamped,
) -> ValidBatch | Refused | None:
    """As `validate_client_batch`; None when that would take more work than `budget` has, which is taken down in any
    case by no more than the batch's size allows."""
    size, given = len(batch), budget.left
    allowed = _QUICK_WORK_AT_LEAST + _QUICK_WORK_PER_BYTE * size
    if allowed > given:
        allowed = given
    if header.records_count * RECORD_WORK > allowed:
        return None
    budget.left, budget.parts = allowed, QUICK_PARTS
    limit = MAX_DECOMPRESSED_BYTES if size <= _SMALL_BYTES else most_inflated(size)
    recompressed = UNBOUNDED if config.compression_type == _PRODUCER else _quick_recompression(config, header)
    try:
        return _checked(batch, config, now_ms, header, limit, budget, recompressed, moment_of)
    except (BudgetSpent, TooLarge):
        return None
    finally:
        left = budget.left
        budget.left = given - allowed + (left if left > 0 else 0)


def _quick_recompression(config: LogConfig, header: BatchHeader) -> int:
    """Number of bytes that are quickly compressed into the codec that the topic wants."""
    codec = COMPRESSION_BY_CONFIG_NAME[config.compression_type]
    if codec == header.attributes & COMPRESSION_MASK:
        return UNBOUNDED
    match codec:
        case Compression.NONE:
            return UNBOUNDED
        case Compression.GZIP:
            is_quick = config.compression_gzip_level <= _QUICK_GZIP_LEVEL
        case Compression.LZ4:
            is_quick = is_fast_lz4(config.compression_lz4_level)
        case Compression.ZSTD:
            is_quick = config.compression_zstd_level <= _QUICK_ZSTD_LEVEL
        case _:
            is_quick = True
    return _QUICK_COMPRESSED_BYTES[codec] if is_quick else 0


def _checked(
    batch: BytesLike,
    config: LogConfig,
    now_ms: int,
    header: BatchHeader | None,
    limit: int,
    budget: Budget,
    recompressed_limit: int,
    moment_of: Callable[[int], int],
) -> ValidBatch | Refused:
    """`validate_client_batch`. Raises TooLarge for records that decompress to more than `limit` bytes, and BudgetSpent
    for too much work and for more than `recompressed_limit` bytes that are to be compressed anew."""
    if len(batch) > _SMALL_BYTES:
        budget.spend(len(batch) // _BYTES_PER_WORK)
    whole = _whole_batch(batch, config, header)
    if not isinstance(whole, BatchHeader):
        return whole
    if fault := _shape_fault(whole):
        return Refused(ErrorCode.INVALID_RECORD, fault)
    try:
        return _checked_records(batch, whole, config, now_ms, limit, budget, recompressed_limit, moment_of)
    except TooLarge:
        raise
    except CorruptRecords as corrupt:
        # Not CORRUPT_MESSAGE: clients would send the same bytes again until they give up (step 13).
        return Refused(ErrorCode.INVALID_RECORD, f"the records cannot be decompressed: {corrupt}")


def _whole_batch(batch: BytesLike, config: LogConfig, header: BatchHeader | None) -> BatchHeader | Refused:
    """Steps 3 and 7: one whole batch, of a size that fits, with the right checksum."""
    size = len(batch)
    if not size:
        return Refused(ErrorCode.INVALID_RECORD, "no batch was sent for the partition")
    if header is None:
        magic = peek_magic(batch)
        if magic not in (MAGIC, -1):
            return Refused(ErrorCode.INVALID_RECORD, f"record format {magic} is not supported, only 2 is")
        try:
            header = read_header(batch)
        except CorruptRecords as error:
            return Refused(ErrorCode.CORRUPT_MESSAGE, str(error))
    if size > header.size + HEADER_BYTES:
        return Refused(ErrorCode.INVALID_RECORD, "more than one batch was sent for the partition")
    if header.base_offset != 0:
        return Refused(ErrorCode.INVALID_RECORD, f"the batch has base offset {header.base_offset}, not 0")
    if header.size > config.max_message_bytes:
        return _too_large(header.size, config)
    if size != header.size:
        return Refused(ErrorCode.CORRUPT_MESSAGE, f"a batch of {header.size} bytes in {size} bytes")
    if not verify_crc(batch, 0, header):
        return Refused(ErrorCode.CORRUPT_MESSAGE, "the checksum of the batch is wrong")
    return header


def _shape_fault(header: BatchHeader) -> str | None:
    """The fault of a header that no producer may send (step 8), beyond Kafka also where it would do harm."""
    count, attributes = header.records_count, header.attributes
    if header.last_offset_delta < 0:
        return f"the last offset delta is {header.last_offset_delta}"
    if count <= 0:
        return f"the batch claims {count} records"
    if header.last_offset_delta + 1 != count:
        return f"the batch claims {count} records, but its last offset delta is {header.last_offset_delta}"
    if attributes & CONTROL:
        return "clients may not write control batches"
    if header.producer_id >= 0:
        if header.base_sequence < 0 or header.producer_epoch < 0:
            return f"a producer id with sequence {header.base_sequence} and epoch {header.producer_epoch}"
    elif attributes & TRANSACTIONAL:
        return "a transactional batch without a producer id"
    if attributes & DELETE_HORIZON:
        return "clients may not set a delete horizon"
    return None


def _checked_records(
    batch: BytesLike,
    header: BatchHeader,
    config: LogConfig,
    now_ms: int,
    limit: int,
    budget: Budget,
    recompressed_limit: int,
    moment_of: Callable[[int], int],
) -> ValidBatch | Refused:
    """Steps 9 to 15."""
    count = header.records_count
    if count > MAX_RECORDS_IN_BATCH:
        return Refused(ErrorCode.MESSAGE_TOO_LARGE, f"{count} records, more than {MAX_RECORDS_IN_BATCH} in one batch")
    data = bytes(records_payload(batch, header, limit, budget))
    walked = walk_records(data, count, budget)
    if walked is None:
        fault = first_fault(data, count, budget)
        assert fault is not None, "the fast walk refuses what the slow one accepts"
        return Refused(ErrorCode.INVALID_RECORD, f"record {fault[0]} is malformed: {fault[1]}", (fault,))
    lowest_delta, highest_delta, keyless = walked
    base = header.base_timestamp
    is_timely, is_stamped_here = True, config.is_log_append_time
    if not is_stamped_here:
        earliest, latest = _timestamp_bounds(config, now_ms)
        is_timely = earliest <= base + lowest_delta and base + highest_delta <= latest
    if not is_timely or (keyless and config.is_compacted):
        bounds = None if is_stamped_here else _timestamp_bounds(config, now_ms)
        refused = _refused_records(data, header, bounds, budget, moment_of, keys_required=config.is_compacted)
        if refused is not None:
            return refused
    if header.attributes & LOG_APPEND_TIME:
        return Refused(ErrorCode.INVALID_TIMESTAMP, "clients may not send log append times")
    if len(data) > recompressed_limit:
        raise BudgetSpent
    return _in_final_form(batch, data, header, config, now_ms, max(NO_TIMESTAMP, base + highest_delta))


def _timestamp_bounds(config: LogConfig, now_ms: int) -> tuple[int, int]:
    """The lowest and the highest timestamp (ms) that records may have, unless the broker's clock stamps them."""
    return (
        max(_INT64_MIN, now_ms - config.message_timestamp_before_max_ms),
        min(_INT64_MAX, now_ms + config.message_timestamp_after_max_ms),
    )


def _refused_records(
    data: bytes,
    header: BatchHeader,
    bounds: tuple[int, int] | None,
    budget: Budget,
    moment_of: Callable[[int], int],
    *,
    keys_required: bool,
) -> Refused | None:
    """Find the faulty records after the walk has found some (steps 10 to 12). None if nothing is after
    all, since a record may lack a timestamp, and a clock that was moved may know better than the walk."""
    faults: list[tuple[int, str]] = []
    keyless = mistimed = position = 0
    for index in range(header.records_count):
        budget.spend(_FAULT_WORK)
        record, position = decode_record(
            data, position, base_offset=0, base_timestamp=header.base_timestamp, budget=budget
        )
        if keys_required and record.key is None:
            keyless += 1
            fault = "a compacted topic takes no record without a key"
        elif (
            bounds
            and record.timestamp != NO_TIMESTAMP
            and not bounds[0] <= record.timestamp <= bounds[1]
            and not bounds[0] <= moment_of(record.timestamp) <= bounds[1]
        ):
            mistimed += 1
            fault = f"timestamp {record.timestamp} is not within [{bounds[0]}, {bounds[1]}]"
        else:
            continue
        if len(faults) < MAX_RECORD_ERRORS:
            faults.append((index, fault))
    if not faults:
        return None
    error = ErrorCode.INVALID_TIMESTAMP if mistimed else ErrorCode.INVALID_RECORD
    shown = "; ".join(f"record {index}: {fault}" for index, fault in faults[:3])
    return Refused(error, f"{keyless + mistimed} records refused: {shown}", tuple(faults))


def _in_final_form(
    batch: BytesLike, data: bytes, header: BatchHeader, config: LogConfig, now_ms: int, max_timestamp: int
) -> ValidBatch | Refused:
    """Give the batch the codec and the timestamps that the topic wants, copying it only when they differ. `data` is its
    records, decompressed."""
    final = batch
    codec = header.attributes & COMPRESSION_MASK
    if config.compression_type != _PRODUCER and codec != COMPRESSION_BY_CONFIG_NAME[config.compression_type]:
        wanted = COMPRESSION_BY_CONFIG_NAME[config.compression_type]
        final, codec = recompress(batch, wanted, level=_level(config, wanted), payload=data), int(wanted)
        if len(final) > config.max_message_bytes:
            return _too_large(len(final), config)
        if len(data) > most_inflated(len(final)):
            raise TooLarge(most_inflated(len(final)))
    if len(final) > config.segment_limit_bytes:
        return _no_segment_holds(len(final), config)
    log_append_time_ms = NO_TIMESTAMP
    attributes = header.attributes & ~COMPRESSION_MASK | codec
    if config.is_log_append_time:
        attributes |= LOG_APPEND_TIME
        max_timestamp = log_append_time_ms = now_ms
    if attributes != header.attributes or max_timestamp != header.max_timestamp:
        if final is batch:
            final = bytearray(batch)
        assert isinstance(final, bytearray)
        set_timestamps_in_place(final, attributes=attributes, max_timestamp=max_timestamp)
    if final is not batch:
        header = read_header(final)
    return ValidBatch(header, final, max_timestamp, log_append_time_ms)


def _level(config: LogConfig, codec: Compression) -> int | None:
    match codec:
        case Compression.GZIP:
            return config.compression_gzip_level
        case Compression.LZ4:
            return config.compression_lz4_level
        case Compression.ZSTD:
            return config.compression_zstd_level
        case _:
            return None


def _too_large(size: int, config: LogConfig) -> Refused:
    message = f"the batch has {size} bytes, max.message.bytes allows {config.max_message_bytes}"
    return Refused(ErrorCode.MESSAGE_TOO_LARGE, message)


def _no_segment_holds(size: int, config: LogConfig) -> Refused:
    message = f"the batch has {size} bytes, segment.bytes is {config.segment_limit_bytes}"
    return Refused(ErrorCode.RECORD_LIST_TOO_LARGE, message)
