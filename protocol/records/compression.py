"""The codecs of a record batch: none, gzip, snappy, lz4, zstd (wire.md section 4).

Owns the framing that Kafka's clients expect around each codec and the bound on the decompressed size of a block. Always
true: whatever the input, `decompress` returns at most `limit` bytes or raises `CorruptRecords`, and it never allocates
for a size that a block merely claims; its time is linear in the bytes of a batch, and the caller's `Budget` ends it.
The codecs themselves are libraries, each imported when it is first used: a
broker that sees no compressed batch does without their 2 MiB.
"""

import struct
import zlib
from enum import IntEnum
from typing import TYPE_CHECKING, Final

from eosin.protocol.records.budget import BLOCK_WORK, MEMBER_WORK, Budget, BudgetSpent

if TYPE_CHECKING:
    import zstandard

BytesLike = bytes | bytearray | memoryview

MAX_DECOMPRESSED_BYTES: Final = 64 * 1024 * 1024
"""Limit of the decompressed size of any batch: 64 times Kafka's default `max.message.bytes`."""
_MAX_RATIO: Final = 64
_MAX_INT32: Final = 2**31 - 1

_XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
_XERIAL_HEADER: Final = _XERIAL_MAGIC + struct.pack(">ii", 1, 1)
_XERIAL_BLOCK_BYTES: Final = 32 * 1024
"""snappy-java's block size."""

_MOST_PARTS: Final = 4096
"""Joined at once, since that takes 80 bytes for each; a good batch has a tenth of them."""
_GZIP_WINDOW_BITS: Final = zlib.MAX_WBITS | 16
_LZ4_MAGIC: Final = 0x184D2204
_LZ4_INDEPENDENT_BLOCKS: Final = 0x20
_LZ4_MIN_HC_LEVEL: Final = 3
KAFKA_LZ4_DEFAULT_LEVEL: Final = 9
"""Kafka's number for "the fast compressor" (KIP-390), although 9 is a high-compression level elsewhere."""
_PROBE_BYTES: Final = 256 * 1024
_PART_BYTES: Final = 1024 * 1024
"""Of what comes out, made at once: libraries hold the interpreter while they copy what they have made."""
_GZIP_PIECE_BYTES: Final = 64 * 1024
_GZIP_SMALL_PIECE_BYTES: Final = 512
"""The first piece of each further member: what is left of a piece is copied at the end of a member."""


class CorruptRecords(Exception):
    """Bytes that should be record batches are not: bad framing, checksum, varints or compressed data."""


class TooLarge(CorruptRecords):
    """A compressed block holds more than the caller is willing to decompress."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"the records decompress to more than {limit} bytes")


class Compression(IntEnum):
    """A batch's codec: bits 0 to 2 of its attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4

    @property
    def config_name(self) -> str:
        """As `compression.type` spells it."""
        return "uncompressed" if self is Compression.NONE else self.name.lower()


_WORK_PER_BYTE_IN: Final = (0, 110, 2, 2, 25)
"""By codec, for the worst that can be sent: blocks that hold nothing but a table of their own."""
_WORK_PER_BYTE_OUT: Final = (0, 2, 1, 1, 1)

COMPRESSION_BY_CONFIG_NAME: Final = {codec.config_name: codec for codec in Compression}
"""`compression.type` to codec, without `producer`, which is none of them."""


def most_inflated(size: int) -> int:
    """The most bytes that a batch of `size` bytes may decompress to. One rule for who writes a batch and for all who
    read it, and of the batch alone: settings change, and a reader may not know them."""
    return max(MAX_DECOMPRESSED_BYTES, min(_MAX_RATIO * size, _MAX_INT32))


def compress(codec: Compression, data: BytesLike, level: int | None = None) -> bytes:
    """`data` as one block of `codec`. `level` as in `compression.<codec>.level` of a topic; None is the default."""
    match codec:
        case Compression.NONE:
            return bytes(data)
        case Compression.GZIP:
            deflate = zlib.compressobj(-1 if level is None else level, zlib.DEFLATED, _GZIP_WINDOW_BITS)
            return deflate.compress(data) + deflate.flush()
        case Compression.SNAPPY:
            return _compress_xerial(memoryview(data))
        case Compression.LZ4:
            return _compress_lz4(data, level)
        case Compression.ZSTD:
            import zstandard

            return zstandard.ZstdCompressor(level=3 if level is None else level).compress(data)


def decompress(
    codec: Compression, data: BytesLike, limit: int = MAX_DECOMPRESSED_BYTES, budget: Budget | None = None
) -> BytesLike:
    """The bytes inside a block of `codec`: all of it, at most `limit` bytes.

    Raises `TooLarge` beyond the limit, `CorruptRecords` for anything that is not exactly one whole block, and
    `BudgetSpent`. Without compression, `data` itself.
    """
    if codec is Compression.NONE:
        if len(data) > limit:
            raise TooLarge(limit)
        return data
    if budget is None:
        budget = Budget()
    budget.spend(_WORK_PER_BYTE_IN[codec] * len(data))
    per_byte = _WORK_PER_BYTE_OUT[codec]
    room = min(limit, budget.left // per_byte)
    try:
        plain = _decompress(codec, data, room, budget)
    except TooLarge:
        if room < limit:
            raise BudgetSpent from None
        raise
    budget.spend(per_byte * len(plain))
    return plain


def _decompress(codec: Compression, data: BytesLike, limit: int, budget: Budget) -> bytes:
    match codec:
        case Compression.GZIP:
            return _decompress_gzip(memoryview(data), limit, budget)
        case Compression.SNAPPY:
            return _decompress_snappy(memoryview(data), limit, budget)
        case Compression.LZ4:
            return _decompress_lz4(data, limit)
        case _:
            return _decompress_zstd(data, limit)


def _decompress_gzip(data: memoryview, limit: int, budget: Budget) -> bytes:
    """All members of a stream, fed in pieces: a library that was given the whole rest would copy it at the end of each
    member."""
    parts: list[bytes] = []
    position, end, room = 0, len(data), limit
    piece_bytes = _GZIP_PIECE_BYTES
    while True:
        budget.begin_part(MEMBER_WORK)
        inflate = zlib.decompressobj(_GZIP_WINDOW_BITS)
        while not inflate.eof:
            if position == end:
                raise CorruptRecords("gzip: the stream ends early")
            after = min(end, position + piece_bytes)
            piece: BytesLike = data[position:after]
            position = after
            while piece:
                try:
                    part = inflate.decompress(piece, min(room + 1, _PART_BYTES))
                except zlib.error as error:
                    raise CorruptRecords(f"gzip: {error}") from error
                room -= len(part)
                if room < 0:
                    raise TooLarge(limit)
                if part:
                    parts.append(part)
                piece = inflate.unconsumed_tail
            piece_bytes = min(2 * piece_bytes, _GZIP_PIECE_BYTES)
        position -= len(inflate.unused_data)
        if position == end:
            return parts[0] if len(parts) == 1 else b"".join(parts)
        piece_bytes = _GZIP_SMALL_PIECE_BYTES


def _compress_xerial(data: memoryview) -> bytes:
    import cramjam

    parts = [_XERIAL_HEADER]
    for start in range(0, len(data), _XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(data[start : start + _XERIAL_BLOCK_BYTES]))
        parts += (len(block).to_bytes(4, "big"), block)
    return b"".join(parts)


def _decompress_snappy(data: memoryview, limit: int, budget: Budget) -> bytes:
    """Both forms that clients send: snappy-java's stream, and a single raw block."""
    if bytes(data[:8]) != _XERIAL_MAGIC:
        return _decompress_raw_snappy(data, limit, limit)
    if len(data) < len(_XERIAL_HEADER):
        raise CorruptRecords("snappy: the stream header ends early")
    # Its two version numbers are not looked at: some producers write them little-endian.
    parts: list[bytes] = []
    joined: list[bytes] = []
    position, end, room = len(_XERIAL_HEADER), len(data), limit
    while position < end:
        budget.begin_part(BLOCK_WORK)
        start = position + 4
        position = start + int.from_bytes(data[position:start], "big")
        if start > end or position > end:
            raise CorruptRecords("snappy: a block runs past the end")
        part = _decompress_raw_snappy(data[start:position], room, limit)
        room -= len(part)
        parts.append(part)
        if len(parts) == _MOST_PARTS:
            joined.append(b"".join(parts))
            parts.clear()
    return b"".join((*joined, *parts))


def _decompress_raw_snappy(block: memoryview, room: int, limit: int) -> bytes:
    import cramjam

    try:
        if cramjam.snappy.decompress_raw_len(block) > room:
            raise TooLarge(limit)
        return bytes(cramjam.snappy.decompress_raw(block))
    except cramjam.DecompressionError as error:
        raise CorruptRecords(str(error)) from error


def is_fast_lz4(level: int) -> bool:
    """True if `compression.lz4.level` stands for the fast compressor."""
    return level == KAFKA_LZ4_DEFAULT_LEVEL or level < _LZ4_MIN_HC_LEVEL


def _compress_lz4(data: BytesLike, level: int | None) -> bytes:
    import lz4.frame  # type: ignore[import-untyped]

    # Independent blocks, and no content size: older Kafka clients know neither of the alternatives.
    fast = level is None or is_fast_lz4(level)
    return lz4.frame.compress(  # type: ignore[no-any-return]
        data,
        compression_level=0 if fast else level,
        block_size=lz4.frame.BLOCKSIZE_MAX64KB,
        block_linked=False,
        store_size=False,
    )


def _decompress_lz4(data: BytesLike, limit: int) -> bytes:
    import lz4.frame

    if len(data) < 7 or int.from_bytes(data[:4], "little") != _LZ4_MAGIC:
        raise CorruptRecords("lz4: not a frame")
    if not data[4] & _LZ4_INDEPENDENT_BLOCKS:
        raise CorruptRecords("lz4: blocks depend on each other, which Kafka's Java clients cannot read")
    frame = lz4.frame.LZ4FrameDecompressor()
    parts: list[bytes] = []
    room = limit
    while not frame.eof:
        try:
            part = frame.decompress(data, max_length=min(room + 1, _PART_BYTES))
        except RuntimeError as error:
            raise CorruptRecords(f"lz4: {error}") from error
        room -= len(part)
        if room < 0:
            raise TooLarge(limit)
        parts.append(part)
        if not frame.eof and frame.needs_input:
            raise CorruptRecords("lz4: the frame ends early")
        data = b""  # the decompressor keeps what it has not used
    if frame.unused_data:
        raise CorruptRecords("lz4: bytes after the frame")
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _decompress_zstd(data: BytesLike, limit: int) -> bytes:
    import zstandard

    try:
        claimed = zstandard.get_frame_parameters(data).content_size
        if claimed == zstandard.CONTENTSIZE_UNKNOWN:
            return _decompress_unsized_zstd(data, limit)
        if claimed > limit:
            raise TooLarge(limit)
        return zstandard.ZstdDecompressor().decompress(data, allow_extra_data=False)
    except zstandard.ZstdError as error:
        raise CorruptRecords(f"zstd: {error}") from error


def _decompress_unsized_zstd(data: BytesLike, limit: int) -> bytes:
    """A frame written as a stream, as Java does it. The one-shot call needs a size, so it is tried first
    with a likely one and then with the limit; only if that fails too is the stream read to tell damage from size."""
    import zstandard

    decompressor = zstandard.ZstdDecompressor()
    likely = min(max(_PROBE_BYTES, 8 * len(data)), limit)
    try:
        return decompressor.decompress(data, max_output_size=likely, allow_extra_data=False)
    except zstandard.ZstdError:
        if likely < limit:
            try:
                return decompressor.decompress(data, max_output_size=limit, allow_extra_data=False)
            except zstandard.ZstdError:
                pass
        if _zstd_runs_past(decompressor, data, limit):
            raise TooLarge(limit) from None
        raise


def _zstd_runs_past(decompressor: "zstandard.ZstdDecompressor", data: BytesLike, limit: int) -> bool:
    with decompressor.stream_reader(data) as reader:
        total = 0
        while total <= limit:
            piece = reader.read(_PROBE_BYTES)
            if not piece:
                return False
            total += len(piece)
    return True
