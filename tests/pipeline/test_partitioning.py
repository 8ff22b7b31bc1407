"""Partitions by key, as Kafka's Java client chooses them."""

import pytest

from eosin.pipeline.partitioning import murmur2, partition_of, partitions_of


@pytest.mark.parametrize(
    ("data", "signed"),
    [
        # What org.apache.kafka.common.utils.Utils.murmur2 answers.
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_the_hash_is_that_of_the_java_client(data: bytes, signed: int) -> None:
    assert murmur2(data) == signed % 2**32


def test_many_rows_go_where_each_alone_would_go() -> None:
    pytest.importorskip("numpy")
    keys = [None if length % 7 == 3 else bytes(range(length, 2 * length)) for length in range(60)]
    values = [None if length % 5 == 2 else b"v" * length for length in range(60)]
    alone = [partition_of(key, value, 11) for key, value in zip(keys, values, strict=True)]
    assert partitions_of(keys, values, 11) == alone
    assert len(set(alone)) > 5
