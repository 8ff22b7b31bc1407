"""The 61 bytes before the records of a batch, magic 2 (wire.md section 4).

Owns reading them, walking from batch to batch, and the few fields a broker changes. Always true: nothing here looks at
the records, and offsets and leader epochs lie outside the checksum, so setting them never needs a new one.
"""

import struct
from collections.abc import Iterator
from typing import Final

from eosin.protocol.records.checksum import crc32c
from eosin.protocol.records.compression import BytesLike, Compression, CorruptRecords

HEADER_BYTES: Final = 61
MAGIC: Final = 2
SIZE_PREFIX_BYTES: Final = 12
"""Base offset and batch length: a batch is this much longer than its length field says."""
STAMP_BYTES: Final = 16
"""Base offset, batch length and leader epoch: the only bytes of a valid batch that an append changes."""
CRC_OFFSET: Final = 17
CHECKED_FROM: Final = 21
"""The checksum covers everything from the attributes on."""

COMPRESSION_MASK: Final = 0x07
LOG_APPEND_TIME: Final = 0x08
TRANSACTIONAL: Final = 0x10
CONTROL: Final = 0x20
DELETE_HORIZON: Final = 0x40

NO_PRODUCER_ID: Final = -1
NO_PRODUCER_EPOCH: Final = -1
NO_SEQUENCE: Final = -1
NO_TIMESTAMP: Final = -1
NO_LEADER_EPOCH: Final = -1
MAX_SEQUENCE: Final = 2**31 - 1

HEADER: Final = struct.Struct(">qiibIhiqqqhii")
HEADER_FIELDS: Final = (
    "base_offset", "length", "partition_leader_epoch", "magic", "crc", "attributes", "last_offset_delta",
    "base_timestamp", "max_timestamp", "producer_id", "producer_epoch", "base_sequence", "records_count",
)  # fmt: skip
"""The fields of `HEADER`, in order, for code that reads many headers at once."""
_UNCHECKED: Final = struct.Struct(">qiibI")
_CHECKED: Final = struct.Struct(">hiqqqhii")
_STAMP: Final = struct.Struct(">qii")
_MAGIC_OFFSET: Final = 16
_BATCH_LENGTH: Final = struct.Struct(">i")
_CRC: Final = struct.Struct(">I")
_ATTRIBUTES: Final = struct.Struct(">h")
_ATTRIBUTES_OFFSET: Final = 21
_MAX_TIMESTAMP: Final = struct.Struct(">q")
_MAX_TIMESTAMP_OFFSET: Final = 35
_CODECS: Final = tuple(Compression)

assert HEADER.size == HEADER_BYTES
assert _UNCHECKED.size == CHECKED_FROM


class BatchHeader:
    """The header of one batch. Nothing changes it.

    One is made for every batch that passes, and asked some fifty times on its way to the log: a class of our own, whose
    attributes compiled code reads in their places, where those of a msgspec struct are looked up (docs/adr/0060).
    """

    __slots__ = (
        "attributes",
        "base_offset",
        "base_sequence",
        "base_timestamp",
        "crc",
        "is_transactional",
        "last_offset_delta",
        "magic",
        "max_timestamp",
        "partition_leader_epoch",
        "producer_epoch",
        "producer_id",
        "records_count",
        "size",
    )

    def __init__(
        self,
        base_offset: int,
        size: int,
        partition_leader_epoch: int,
        magic: int,
        crc: int,
        attributes: int,
        last_offset_delta: int,
        base_timestamp: int,
        max_timestamp: int,
        producer_id: int,
        producer_epoch: int,
        base_sequence: int,
        records_count: int,
    ) -> None:
        self.base_offset = base_offset
        self.size = size
        """Bytes of the whole batch, header included."""
        self.partition_leader_epoch = partition_leader_epoch
        self.magic = magic
        self.crc = crc
        self.attributes = attributes
        self.last_offset_delta = last_offset_delta
        self.base_timestamp = base_timestamp
        """ms; record deltas add to it. With a delete horizon, the horizon."""
        self.max_timestamp = max_timestamp
        """ms; as the writer claims it until a broker has checked it."""
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.base_sequence = base_sequence
        self.records_count = records_count
        self.is_transactional = attributes & TRANSACTIONAL != 0
        """True if the batch belongs to a transaction. No property: each check of a producer asks."""

    @property
    def last_offset(self) -> int:
        """The offset of the last record, also when compaction has removed that record."""
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        """The offset after the batch."""
        return self.base_offset + self.last_offset_delta + 1

    @property
    def last_sequence(self) -> int:
        """The sequence of the last record; -1 without sequences."""
        if self.base_sequence < 0:
            return NO_SEQUENCE
        return next_sequence(self.base_sequence, self.last_offset_delta)

    @property
    def compression(self) -> Compression:
        """The codec of the records. Raises CorruptRecords for an id that no codec has."""
        codec = self.attributes & COMPRESSION_MASK
        if codec >= len(_CODECS):
            raise CorruptRecords(f"unknown compression id {codec}")
        return _CODECS[codec]

    @property
    def is_log_append_time(self) -> bool:
        """True if `max_timestamp` is the timestamp of every record."""
        return self.attributes & LOG_APPEND_TIME != 0

    @property
    def is_control(self) -> bool:
        """True if the batch holds a marker instead of data."""
        return self.attributes & CONTROL != 0

    @property
    def has_delete_horizon(self) -> bool:
        """True if `base_timestamp` is the time from which the cleaner may drop tombstones (KIP-534)."""
        return self.attributes & DELETE_HORIZON != 0


def next_sequence(sequence: int, count: int = 1) -> int:
    """The sequence `count` records later: 0 follows 2^31-1, and 0 follows -1 (no sequence)."""
    following = sequence + count
    return following if following <= MAX_SEQUENCE else following - MAX_SEQUENCE - 1


def previous_sequence(sequence: int, count: int = 1) -> int:
    """The sequence `count` records earlier: 2^31-1 comes before 0."""
    preceding = sequence - count
    return preceding if preceding >= 0 else preceding + MAX_SEQUENCE + 1


def peek_magic(buffer: BytesLike, position: int = 0) -> int:
    """The format version of the batch or legacy message at `position`; -1 when too few bytes remain to tell."""
    at = position + _MAGIC_OFFSET
    return buffer[at] if at < len(buffer) else -1


def read_header(buffer: BytesLike, position: int = 0) -> BatchHeader:
    """The header at `position`. Raises CorruptRecords when 61 bytes do not remain or its length is impossible.

    Trusts nothing else: the batch may run past the end of the buffer, and magic and checksum are the caller's to check.
    """
    try:
        # Spelled out: twice as fast as with a starred rest.
        (base_offset, length, leader_epoch, magic, crc, attributes, last_offset_delta, base_timestamp, max_timestamp,
         producer_id, producer_epoch, base_sequence, count) = HEADER.unpack_from(buffer, position)  # fmt: skip
    except struct.error as error:
        raise CorruptRecords(f"{len(buffer) - position} bytes are no batch header") from error
    if length < HEADER_BYTES - SIZE_PREFIX_BYTES:
        raise CorruptRecords(f"impossible batch length {length}")
    return BatchHeader(
        base_offset, length + SIZE_PREFIX_BYTES, leader_epoch, magic, crc, attributes, last_offset_delta,
        base_timestamp, max_timestamp, producer_id, producer_epoch, base_sequence, count,
    )  # fmt: skip


def batches(buffer: BytesLike, position: int = 0) -> Iterator[tuple[int, BatchHeader]]:
    """Each whole batch from `position` on, as (position, header). A partial batch at the end is left out.

    Raises CorruptRecords for an impossible length or a magic other than 2.
    """
    end = len(buffer)
    while end - position >= HEADER_BYTES:
        header = read_header(buffer, position)
        if position + header.size > end:
            return
        if header.magic != MAGIC:
            raise CorruptRecords(f"magic {header.magic} at byte {position}, only 2 is supported")
        yield position, header
        position += header.size


def verify_crc(buffer: BytesLike, position: int, header: BatchHeader) -> bool:
    """True if the CRC-32C of the batch at `position`, which must lie in `buffer` whole, is the one in its header."""
    return checksum(buffer, position, header.size) == header.crc


def checksum(buffer: BytesLike, position: int, size: int) -> int:
    """CRC-32C of the protected part of a batch of `size` bytes at `position`."""
    return crc32c(view_of(buffer)[position + CHECKED_FROM : position + size])


def view_of(buffer: BytesLike) -> memoryview:
    """A view of `buffer`, to cut from it without a copy: itself if it is one, since a view of a view takes longer to
    make than the cut."""
    return buffer if type(buffer) is memoryview else memoryview(buffer)


def empty_batch(*, base_offset: int, last_offset: int, partition_leader_epoch: int) -> bytearray:
    """A batch without producer and records, which stands for offsets whose records are gone (storage.md 14.6)."""
    return assemble(
        b"",
        base_offset=base_offset,
        partition_leader_epoch=partition_leader_epoch,
        attributes=0,
        last_offset_delta=last_offset - base_offset,
        base_timestamp=NO_TIMESTAMP,
        max_timestamp=NO_TIMESTAMP,
        producer_id=NO_PRODUCER_ID,
        producer_epoch=NO_PRODUCER_EPOCH,
        base_sequence=NO_SEQUENCE,
        records_count=0,
    )


def stamp(*, base_offset: int, size: int, partition_leader_epoch: int) -> bytes:
    """The first 16 bytes of an appended batch of `size` bytes, to be written before the batch's own `[16:]`: the way to
    assign offsets without changing or copying a client's bytes."""
    return _STAMP.pack(base_offset, size - SIZE_PREFIX_BYTES, partition_leader_epoch)


def stamp_in_place(
    batch: bytearray | memoryview, *, base_offset: int, partition_leader_epoch: int, position: int = 0
) -> None:
    """Set the two fields that an append assigns in a batch that may be written to. The checksum stays valid."""
    (length,) = _BATCH_LENGTH.unpack_from(batch, position + 8)
    _STAMP.pack_into(batch, position, base_offset, length, partition_leader_epoch)


def set_timestamps_in_place(
    batch: bytearray | memoryview, *, attributes: int, max_timestamp: int, position: int = 0
) -> None:
    """Set attributes and the largest timestamp (ms) of a batch that may be written to, and its checksum with them."""
    _ATTRIBUTES.pack_into(batch, position + _ATTRIBUTES_OFFSET, attributes)
    _MAX_TIMESTAMP.pack_into(batch, position + _MAX_TIMESTAMP_OFFSET, max_timestamp)
    seal(batch, position)


def assemble(
    payload: BytesLike,
    *,
    base_offset: int,
    partition_leader_epoch: int,
    attributes: int,
    last_offset_delta: int,
    base_timestamp: int,
    max_timestamp: int,
    producer_id: int,
    producer_epoch: int,
    base_sequence: int,
    records_count: int,
) -> bytearray:
    """A whole batch: these fields, the size, the checksum, the payload. Raises CorruptRecords for a number that does
    not fit."""
    try:
        checked = _CHECKED.pack(
            attributes, last_offset_delta, base_timestamp, max_timestamp, producer_id, producer_epoch, base_sequence,
            records_count,
        )  # fmt: skip
        length = HEADER_BYTES - SIZE_PREFIX_BYTES + len(payload)
        crc = crc32c(payload, crc32c(checked))
        unchecked = _UNCHECKED.pack(base_offset, length, partition_leader_epoch, MAGIC, crc)
    except struct.error as error:  # timestamps of a corrupt batch may add up to more than 64 bits
        raise CorruptRecords(str(error)) from error
    return bytearray().join((unchecked, checked, payload))


def seal(batch: bytearray | memoryview, position: int = 0) -> None:
    """Compute and set the checksum of the batch at `position`, from its length field on finished but for it."""
    (length,) = _BATCH_LENGTH.unpack_from(batch, position + 8)
    with memoryview(batch) as view:  # released at once: a bytearray that is viewed cannot grow
        crc = crc32c(view[position + CHECKED_FROM : position + length + SIZE_PREFIX_BYTES])
    _CRC.pack_into(batch, position + CRC_OFFSET, crc)


def plain_batch(
    payload: BytesLike,
    *,
    count: int,
    timestamp: int,
    base_offset: int = 0,
    partition_leader_epoch: int = NO_LEADER_EPOCH,
) -> bytearray:
    """A batch without producer, with `count` uncompressed records that all have the same `timestamp` (ms)."""
    return assemble(
        payload,
        base_offset=base_offset,
        partition_leader_epoch=partition_leader_epoch,
        attributes=0,
        last_offset_delta=count - 1,
        base_timestamp=timestamp,
        max_timestamp=timestamp,
        producer_id=NO_PRODUCER_ID,
        producer_epoch=NO_PRODUCER_EPOCH,
        base_sequence=NO_SEQUENCE,
        records_count=count,
    )
