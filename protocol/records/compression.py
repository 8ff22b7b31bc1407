"""The codecs of a record batch: none, gzip, snappy, lz4, zstd (wire.md section 4).

Owns the framing that Kafka's clients expect around each codec and the bound on the decompressed size of a block. Always
true: whatever the input, `decompress` returns at most `limit` bytes or raises `CorruptRecords`, and it never allocates
for a size that a block merely claims. The codecs themselves are libraries, each imported when it is first used: a
broker that sees no compressed batch does without their 2 MiB.
"""

import struct
import zlib
from enum import IntEnum
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import zstandard

BytesLike = bytes | bytearray | memoryview

MAX_DECOMPRESSED_BYTES: Final = 64 * 1024 * 1024
"""The most that one batch may decompress to by default: 64 times Kafka's default `max.message.bytes`."""

_XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
_XERIAL_HEADER: Final = _XERIAL_MAGIC + struct.pack(">ii", 1, 1)
_XERIAL_BLOCK_BYTES: Final = 32 * 1024
"""snappy-java's block size."""

_GZIP_WINDOW_BITS: Final = zlib.MAX_WBITS | 16
_LZ4_MAGIC: Final = 0x184D2204
_LZ4_INDEPENDENT_BLOCKS: Final = 0x20
_LZ4_MIN_HC_LEVEL: Final = 3
KAFKA_LZ4_DEFAULT_LEVEL: Final = 9
"""Kafka's number for "the fast compressor" (KIP-390), although 9 is a high-compression level elsewhere."""
_PROBE_BYTES: Final = 256 * 1024


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


COMPRESSION_BY_CONFIG_NAME: Final = {codec.config_name: codec for codec in Compression}
"""`compression.type` to codec, without `producer`, which is none of them."""


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


def decompress(codec: Compression, data: BytesLike, limit: int = MAX_DECOMPRESSED_BYTES) -> BytesLike:
    """The bytes inside a block of `codec`: all of it, at most `limit` bytes.

    Raises `TooLarge` beyond the limit and `CorruptRecords` for anything that is not exactly one whole block. Without
    compression, `data` itself.
    """
    match codec:
        case Compression.NONE:
            if len(data) > limit:
                raise TooLarge(limit)
            return data
        case Compression.GZIP:
            return _decompress_gzip(data, limit)
        case Compression.SNAPPY:
            return _decompress_snappy(memoryview(data), limit)
        case Compression.LZ4:
            return _decompress_lz4(data, limit)
        case Compression.ZSTD:
            return _decompress_zstd(data, limit)


def _decompress_gzip(data: BytesLike, limit: int) -> bytes:
    members = []
    room = limit
    while True:  # a gzip stream may hold several members
        inflate = zlib.decompressobj(_GZIP_WINDOW_BITS)
        try:
            member = inflate.decompress(data, room + 1)
        except zlib.error as error:
            raise CorruptRecords(f"gzip: {error}") from error
        room -= len(member)
        if room < 0:
            raise TooLarge(limit)
        if not inflate.eof:
            raise CorruptRecords("gzip: the stream ends early")
        members.append(member)
        data = inflate.unused_data
        if not data:
            return members[0] if len(members) == 1 else b"".join(members)


def _compress_xerial(data: memoryview) -> bytes:
    import cramjam

    parts = [_XERIAL_HEADER]
    for start in range(0, len(data), _XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(data[start : start + _XERIAL_BLOCK_BYTES]))
        parts += (len(block).to_bytes(4, "big"), block)
    return b"".join(parts)


def _decompress_snappy(data: memoryview, limit: int) -> bytes:
    """Both forms that clients send: snappy-java's stream, and a single raw block."""
    if bytes(data[:8]) != _XERIAL_MAGIC:
        return _decompress_raw_snappy(data, limit, limit)
    if len(data) < len(_XERIAL_HEADER):
        raise CorruptRecords("snappy: the stream header ends early")
    # Its two version numbers are not looked at: some producers write them little-endian.
    parts = []
    position, end, room = len(_XERIAL_HEADER), len(data), limit
    while position < end:
        start = position + 4
        position = start + int.from_bytes(data[position:start], "big")
        if start > end or position > end:
            raise CorruptRecords("snappy: a block runs past the end")
        part = _decompress_raw_snappy(data[start:position], room, limit)
        room -= len(part)
        parts.append(part)
    return b"".join(parts)


def _decompress_raw_snappy(block: memoryview, room: int, limit: int) -> bytes:
    import cramjam

    try:
        if cramjam.snappy.decompress_raw_len(block) > room:
            raise TooLarge(limit)
        return bytes(cramjam.snappy.decompress_raw(block))
    except cramjam.DecompressionError as error:
        raise CorruptRecords(str(error)) from error


def _compress_lz4(data: BytesLike, level: int | None) -> bytes:
    import lz4.frame  # type: ignore[import-untyped]

    # Independent blocks, and no content size: older Kafka clients know neither of the alternatives.
    fast = level is None or level == KAFKA_LZ4_DEFAULT_LEVEL or level < _LZ4_MIN_HC_LEVEL
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
    try:
        plain: bytes = frame.decompress(data, max_length=limit + 1)
    except RuntimeError as error:
        raise CorruptRecords(f"lz4: {error}") from error
    if len(plain) > limit:
        raise TooLarge(limit)
    if not frame.eof:
        raise CorruptRecords("lz4: the frame ends early")
    if frame.unused_data:
        raise CorruptRecords("lz4: bytes after the frame")
    return plain


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
