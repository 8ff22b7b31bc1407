"""Codecs: framing, bounds, and that damage is always reported as damage."""

import contextlib
import gzip
import struct
import tracemalloc
import zlib

import cramjam
import lz4.frame
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st
from record_strategies import codecs, mutated

from eosin.protocol.records.compression import (
    COMPRESSION_BY_CONFIG_NAME,
    Compression,
    CorruptRecords,
    TooLarge,
    compress,
    decompress,
)

TEXT = b"exactly once, " * 10_000
CODECS = [codec for codec in Compression if codec is not Compression.NONE]


def streamed_zstd(data: bytes) -> bytes:
    """A frame without a content size, as a stream writer such as Java's makes it."""
    writer = zstandard.ZstdCompressor(write_content_size=False).compressobj()
    return writer.compress(data) + writer.flush()


@given(codecs, st.binary(max_size=2000), st.integers(1, 50))
def test_compressed_bytes_come_back(codec: Compression, data: bytes, times: int) -> None:
    plain = data * times
    assert bytes(decompress(codec, memoryview(compress(codec, plain)), len(plain))) == plain


@given(codecs, st.data())
def test_damaged_blocks_raise_corrupt_records_or_stay_within_the_limit(codec: Compression, data: st.DataObject) -> None:
    damaged = data.draw(mutated(compress(codec, data.draw(st.binary(max_size=300)) * 3)))
    with contextlib.suppress(CorruptRecords):
        assert len(decompress(codec, damaged, 1000)) <= 1000


@given(codecs, st.binary(max_size=200))
def test_bytes_that_were_never_compressed_raise_nothing_but_corrupt_records(codec: Compression, data: bytes) -> None:
    with contextlib.suppress(CorruptRecords):
        decompress(codec, data, 1000)


@pytest.mark.parametrize("codec", Compression)
def test_the_limit_is_exact(codec: Compression) -> None:
    block = compress(codec, TEXT)
    assert bytes(decompress(codec, block, len(TEXT))) == TEXT
    with pytest.raises(TooLarge):
        decompress(codec, block, len(TEXT) - 1)


@pytest.mark.parametrize("codec", CODECS)
def test_a_truncated_block_is_corrupt(codec: Compression) -> None:
    block = compress(codec, TEXT)
    for kept in (0, 1, 4, 9, len(block) // 2, len(block) - 1):
        with pytest.raises(CorruptRecords):
            decompress(codec, block[:kept])


@pytest.mark.parametrize("codec", CODECS)
def test_bytes_after_a_block_are_corrupt(codec: Compression) -> None:
    with pytest.raises(CorruptRecords):
        decompress(codec, compress(codec, TEXT) + b"junk")


def test_gzip_reads_several_members_and_bounds_their_sum() -> None:
    block = gzip.compress(b"one ") + gzip.compress(b"two")
    assert decompress(Compression.GZIP, block) == b"one two"
    with pytest.raises(TooLarge):
        decompress(Compression.GZIP, block, 6)


def test_gzip_output_is_a_plain_gzip_stream_at_the_level_asked_for() -> None:
    assert zlib.decompress(compress(Compression.GZIP, TEXT, 1), 31) == TEXT
    assert len(compress(Compression.GZIP, TEXT, 9)) < len(compress(Compression.GZIP, TEXT, 1))


def test_snappy_is_written_as_snappy_java_streams_of_32_kib_blocks() -> None:
    block = compress(Compression.SNAPPY, TEXT)
    assert block[:16] == b"\x82SNAPPY\0\0\0\0\x01\0\0\0\x01"
    (size,) = struct.unpack_from(">i", block, 16)
    assert bytes(cramjam.snappy.decompress_raw(block[20 : 20 + size])) == TEXT[: 32 * 1024]


def test_snappy_reads_a_raw_block_and_little_endian_stream_versions() -> None:
    raw = bytes(cramjam.snappy.compress_raw(TEXT))
    assert decompress(Compression.SNAPPY, raw) == TEXT
    stream = b"\x82SNAPPY\0" + struct.pack("<ii", 1, 1) + struct.pack(">i", len(raw)) + raw
    assert decompress(Compression.SNAPPY, stream) == TEXT


def test_many_snappy_blocks_take_no_more_memory_than_their_bytes() -> None:
    """An attacker's have one byte each. bytes.join keeps 80 for each of its parts meanwhile."""
    blocks = compress(Compression.SNAPPY, b"")[:16] + b"\0\0\0\x03\x01\0x" * 100_000
    tracemalloc.start()
    try:
        assert decompress(Compression.SNAPPY, blocks) == b"x" * 100_000
        assert tracemalloc.get_traced_memory()[1] < 4 << 20
    finally:
        tracemalloc.stop()


def test_a_snappy_block_that_claims_gigabytes_is_refused_before_it_is_tried() -> None:
    with pytest.raises(TooLarge):
        decompress(Compression.SNAPPY, b"\xff\xff\xff\xff\x0f" + b"x" * 10)


def test_lz4_is_written_with_independent_blocks_of_64_kib_and_no_content_size() -> None:
    block = compress(Compression.LZ4, TEXT)
    info = lz4.frame.get_frame_info(block)
    assert not info["block_linked"]
    assert info["block_size"] == 64 * 1024
    assert info["content_size"] == 0


def test_lz4_reads_frames_with_a_content_size_and_a_content_checksum() -> None:
    frame = lz4.frame.compress(TEXT, block_linked=False, store_size=True, content_checksum=True)
    assert decompress(Compression.LZ4, frame) == TEXT


def test_lz4_frames_of_linked_blocks_are_refused_as_java_could_not_read_them() -> None:
    with pytest.raises(CorruptRecords, match="depend"):
        decompress(Compression.LZ4, lz4.frame.compress(TEXT, block_linked=True))


def test_kafkas_default_lz4_level_is_the_fast_compressor_and_others_compress_more() -> None:
    varied = b"".join(b"%d,%d;" % (n, n * n % 97) for n in range(5000))
    fast, default, high = (compress(Compression.LZ4, varied, level) for level in (None, 9, 12))
    assert fast == default
    assert len(high) < len(fast)


@pytest.mark.parametrize("size", [0, 10, 300_000, 3_000_000])
def test_zstd_frames_without_a_content_size_are_read_whole(size: int) -> None:
    assert decompress(Compression.ZSTD, streamed_zstd(bytes(size))) == bytes(size)


def test_zstd_frames_without_a_content_size_are_bounded_and_damage_is_not_taken_for_size() -> None:
    frame = streamed_zstd(TEXT)
    with pytest.raises(TooLarge):
        decompress(Compression.ZSTD, frame, len(TEXT) - 1)
    with pytest.raises(CorruptRecords) as caught:
        decompress(Compression.ZSTD, frame[:-3], len(TEXT))
    assert not isinstance(caught.value, TooLarge)


def test_zstd_that_claims_gigabytes_is_refused_before_it_is_tried() -> None:
    claim = b"\x28\xb5\x2f\xfd" + b"\xe0" + struct.pack("<Q", 2**40) + b"\x01\x00\x00"
    with pytest.raises(TooLarge):
        decompress(Compression.ZSTD, claim)


def test_topic_configs_name_the_codecs() -> None:
    assert sorted(COMPRESSION_BY_CONFIG_NAME) == ["gzip", "lz4", "snappy", "uncompressed", "zstd"]
    assert COMPRESSION_BY_CONFIG_NAME["uncompressed"] is Compression.NONE
