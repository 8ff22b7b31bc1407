"""Batches of few bytes that cost whoever reads them much: each with a valid checksum and a true header."""

import struct

from eosin.protocol.records.batch import (
    NewRecord,
    build_batch,
    build_batch_of_encoded,
    read_header,
    records_payload,
)
from eosin.protocol.records.compression import Compression, compress
from eosin.protocol.records.fields import encode_record, varint
from eosin.protocol.records.header import assemble

T = 1_700_000_000_000
_XERIAL = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)


def with_payload(codec: Compression, payload: bytes, count: int = 1) -> bytes:
    """A batch that claims `count` records, whose compressed records are `payload`, which need not be any."""
    fields = read_header(build_batch([NewRecord(None, b"")], timestamp=T))
    return bytes(
        assemble(
            payload,
            base_offset=0,
            partition_leader_epoch=-1,
            attributes=codec,
            last_offset_delta=count - 1,
            base_timestamp=T,
            max_timestamp=T,
            producer_id=fields.producer_id,
            producer_epoch=fields.producer_epoch,
            base_sequence=fields.base_sequence,
            records_count=count,
        )
    )


def many_members(count: int) -> bytes:
    """One record in gzip, behind `count` members with nothing in them."""
    plain = bytes(records_payload(batch := build_batch([NewRecord(None, b"v")], timestamp=T), read_header(batch)))
    return with_payload(
        Compression.GZIP, compress(Compression.GZIP, b"", 9) * count + compress(Compression.GZIP, plain)
    )


def many_blocks(count: int) -> bytes:
    """One record in snappy-java's framing, behind `count` blocks with nothing in them."""
    plain = bytes(records_payload(batch := build_batch([NewRecord(None, b"v")], timestamp=T), read_header(batch)))
    framed = compress(Compression.SNAPPY, plain)[len(_XERIAL) :]
    return with_payload(Compression.SNAPPY, _XERIAL + b"\0\0\0\x01\0" * count + framed)


def many_headers(count: int, codec: Compression = Compression.ZSTD) -> bytes:
    """One record of `count` headers without a name."""
    fields = encode_record(offset_delta=0, timestamp_delta=0, key=None, value=None)[1:-1]
    body = fields + varint(count) + b"\0\x01" * count
    return bytes(build_batch_of_encoded(varint(len(body)) + body, count=1, timestamp=T, compression=codec))


def many_records(count: int, codec: Compression = Compression.ZSTD) -> bytes:
    """`count` records without anything in them."""
    return bytes(build_batch([NewRecord(None, None)] * count, timestamp=T, compression=codec))


def much_inflated(size: int, codec: Compression = Compression.ZSTD) -> bytes:
    """One record with `size` zeros."""
    return bytes(build_batch([NewRecord(None, bytes(size))], timestamp=T, compression=codec))


def empty_tables(count: int) -> bytes:
    """A gzip stream of `count` blocks of nothing but a table of codes: the dearest bytes there are."""
    bits: list[int] = []

    def put(value: int, width: int) -> None:
        bits.extend(value >> place & 1 for place in range(width))

    # Lengths of code lengths, in deflate's own order: symbol 18 (zeros) and symbol 1 have codes of one bit each.
    order = (16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1)
    put(0b100, 3)
    put(0, 10)
    put(len(order) - 4, 4)
    for symbol in order:
        put(int(symbol in (1, 18)), 3)
    for zeros in (138, 118):
        put(1, 1)
        put(zeros - 11, 7)
    put(0, 3)  # the code of the end of a block, one distance, and that end
    bits *= count
    put(0b011, 3)
    put(0, 7)
    raw = bytes(sum(bit << place for place, bit in enumerate(bits[at : at + 8])) for at in range(0, len(bits), 8))
    stream = b"\x1f\x8b\x08\0\0\0\0\0\0\xff" + raw + struct.pack("<II", 0, 0)
    return with_payload(Compression.GZIP, stream)
