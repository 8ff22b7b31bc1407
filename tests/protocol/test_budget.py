"""Whatever bytes a batch is made of, the work on them is counted, and ends with its budget."""

import zlib
from typing import Any

import pytest
from hostile_batches import T, many_blocks, many_headers, many_members, many_records, much_inflated

from eosin.protocol.records.batch import NewRecord, build_batch, iter_records, read_header, records_payload
from eosin.protocol.records.budget import BLOCK_WORK, HEADER_WORK, MEMBER_WORK, RECORD_WORK, Budget, BudgetSpent
from eosin.protocol.records.compression import (
    MAX_DECOMPRESSED_BYTES,
    Compression,
    TooLarge,
    compress,
    decompress,
    most_inflated,
)

MIB = 1 << 20


class CountedInflate:
    """As `zlib.decompressobj`; counts what it is given, and what it copies at the end of a member."""

    fed: list[int]
    copied: list[int]

    def __init__(self, *how: int) -> None:
        self._inflate = _DECOMPRESSOBJ(*how)

    def decompress(self, data: bytes | memoryview, most: int) -> bytes:
        self.fed.append(len(data))
        found = self._inflate.decompress(data, most)
        self.copied.append(len(self._inflate.unused_data))
        return found

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inflate, name)


_DECOMPRESSOBJ = zlib.decompressobj


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> type[CountedInflate]:
    CountedInflate.fed, CountedInflate.copied = [], []
    monkeypatch.setattr(zlib, "decompressobj", CountedInflate)
    return CountedInflate


def test_the_members_of_a_gzip_stream_are_copied_about_once(counted: type[CountedInflate]) -> None:
    empty = compress(Compression.GZIP, b"")
    stream = empty * 20_000 + compress(Compression.GZIP, b"end")
    assert decompress(Compression.GZIP, stream) == b"end"
    assert max(counted.fed) <= 64 * 1024
    assert sum(counted.copied) <= 30 * len(stream)  # 20 bytes are used of 512; all of the rest would be 10,000 times


@pytest.mark.parametrize(
    "sizes", [(0,), (10, 0, 10), (100_000,), (1, 100_000, 700, 100_000), (3,) * 2000, (3_000_000, 5)]
)
def test_members_of_any_size_are_read(sizes: tuple[int, ...]) -> None:
    parts = [bytes(index * index % 251 for index in range(size)) for size in sizes]
    stream = b"".join(compress(Compression.GZIP, part, 0) for part in parts)
    assert decompress(Compression.GZIP, stream) == b"".join(parts)
    with pytest.raises(TooLarge):
        decompress(Compression.GZIP, compress(Compression.GZIP, b"x") + stream, sum(sizes))


@pytest.mark.parametrize(
    ("hostile", "work_of_each", "work_per_byte"),
    [
        (many_members(5000), MEMBER_WORK, 120),
        (many_blocks(5000), BLOCK_WORK, 100),
        (many_headers(5000), HEADER_WORK, 100),
        (many_records(5000), RECORD_WORK, 100),
        (much_inflated(5000), 1, 100),
    ],
    ids=["members", "blocks", "headers", "records", "bytes"],
)
def test_everything_that_costs_time_counts(hostile: bytes, work_of_each: int, work_per_byte: int) -> None:
    bytes_work = work_per_byte * len(hostile)
    enough = Budget(5_100 * work_of_each + bytes_work + 1000)
    assert list(iter_records(hostile, budget=enough))
    assert enough.left < 200 * work_of_each + bytes_work + 1000
    with pytest.raises(BudgetSpent):
        list(iter_records(hostile, budget=Budget(4_900 * work_of_each)))


def test_a_size_beyond_the_budget_is_no_size_beyond_the_limit() -> None:
    batch = much_inflated(MIB)
    with pytest.raises(BudgetSpent):
        records_payload(batch, read_header(batch), 2 * MIB, Budget(MIB // 2))
    with pytest.raises(TooLarge):
        records_payload(batch, read_header(batch), MIB // 2, Budget(16 * MIB))


def test_a_thread_rests_while_it_reads_the_headers_of_one_record() -> None:
    rests = []
    list(iter_records(many_headers(100_000), budget=Budget(rest=lambda: rests.append(1))))
    assert len(rests) >= 100_000 * HEADER_WORK // 2_000_000


@pytest.mark.parametrize("size", [0, 1000, MIB])
def test_a_small_batch_may_hold_64_mib(size: int) -> None:
    assert most_inflated(size) == MAX_DECOMPRESSED_BYTES


def test_a_large_batch_may_hold_more() -> None:
    assert most_inflated(3 * MIB) == 192 * MIB
    assert most_inflated(2**31 - 1) == 2**31 - 1


def test_every_reader_takes_what_the_size_of_a_batch_allows() -> None:
    value = bytes(MAX_DECOMPRESSED_BYTES + 1)
    batch = bytes(build_batch([NewRecord(b"k", value)], timestamp=T, compression=Compression.SNAPPY))
    assert read_header(batch).size > 2 * MIB
    assert sum(len(record.value or b"") for record in iter_records(batch)) == len(value)
