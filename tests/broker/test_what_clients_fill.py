"""Whatever clients may fill is bounded: the table of docs/ARCHITECTURE.md, and rows of it without a better place."""

import re
from pathlib import Path

import pytest
from manual_clock import ManualClock

from eosin.coordinator.groups.log.records import (
    REMEMBERED_CHARS,
    known_key,
    offset_tombstone,
    read,
    remembered_key,
)
from eosin.coordinator.groups.shards import remembered_partition
from eosin.model.quota_table import Limit, QuotaKey
from eosin.network.sasl.failure_delays import MAX_ADDRESSES, FailureDelays
from eosin.protocol.names import TopicPartition
from eosin.protocol.records.scan import KeyValue
from eosin.runtime.chance import SeededChance
from eosin.security.quotas.buckets import KEPT_CHARS, QuotaBuckets

ROOT = Path(__file__).parents[2]


def rows() -> list[list[str]]:
    page = (ROOT / "docs" / "ARCHITECTURE.md").read_text(encoding="utf-8")
    section = page.partition("### What clients may fill")[2].partition("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[1:]]


@pytest.mark.parametrize("row", rows(), ids=lambda row: row[0])
def test_each_row_names_a_bound_and_a_test_that_is_there(row: list[str]) -> None:
    what, bound, _, cited = row
    assert what
    assert re.search(r"\d|`eosin\.|`queued\.|`max\.", bound), bound
    names = re.findall(r"`([^`]+)`", cited)
    assert names
    for name in names:
        path, _, function = name.partition("::")
        place = ROOT / "tests" / path
        assert place.exists(), path
        assert not function or f"def {function}(" in place.read_text(encoding="utf-8"), name


def test_long_group_ids_are_not_remembered() -> None:
    partition = TopicPartition("orders", 0)
    for each in (remembered_key, known_key):
        each.cache_clear()  # other tests may have filled them
    before = [cache.cache_info().currsize for cache in (remembered_key, known_key)]
    for index in range(100):
        tombstone = offset_tombstone(f"{index}" + "g" * 32_000, partition)
        assert read(KeyValue(0, tombstone.key, None)) is not None
    assert [cache.cache_info().currsize for cache in (remembered_key, known_key)] == before
    offset_tombstone("g" * REMEMBERED_CHARS, partition)
    assert remembered_key.cache_info().currsize == before[0] + 1
    assert remembered_partition.cache_info().maxsize is not None


def test_buckets_of_long_client_ids_keep_the_beginning() -> None:
    buckets = QuotaBuckets(window_num=11, sample_ms=1000)
    for index in range(100):
        limit = Limit(1000.0, ("alice", "c" * 30_000 + str(index)))
        buckets.use(QuotaKey.PRODUCER_BYTE_RATE, limit, 1, 0)
        buckets.tokens(limit, 0)
    assert len(buckets) == 2, "names that begin alike share a bucket"
    buckets.use(QuotaKey.PRODUCER_BYTE_RATE, Limit(1000.0, ("alice", "c" * (KEPT_CHARS - 1) + "d")), 1, 0)
    assert len(buckets) == 3


def test_addresses_of_failed_logins_are_bounded() -> None:
    delays = FailureDelays(ManualClock(), SeededChance(1), delay_ms=100)
    for index in range(MAX_ADDRESSES + 1000):
        delays.failed(f"10.{index >> 16}.{index >> 8 & 255}.{index & 255}")
    assert len(delays) == MAX_ADDRESSES
    for index in range(1000):
        delays.failed(f"2001:db8::{index:x}")
    assert len(delays) == MAX_ADDRESSES, "one /64 is one address"
