"""Partitions by key, as Kafka's Java client chooses them."""

import pytest

from eosin.client.partitioning import murmur2
from eosin.pipeline.common.partitioning import partition_of, partitions_of


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


def test_a_row_without_a_key_goes_where_its_value_would_go_as_a_key() -> None:
    keys, values = [b"abc", None, None, b""], [b"x", b"abc", None, b"abc"]
    assert partitions_of(keys, values, 11) == [partition_of(key, None, 11) for key in (b"abc", b"abc", b"", b"")]
