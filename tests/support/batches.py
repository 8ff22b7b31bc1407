"""Batches for tests of storage, in one line each."""

from eosin.protocol.names import TopicPartition
from eosin.protocol.records.batch import NewRecord, build_batch
from eosin.storage.results.log_results import Marker

NOW_MS = 1_700_000_000_000
ORDERS = TopicPartition("orders", 0)
TOPIC_ID = bytes(range(1, 17))


def data(
    count: int = 1,
    *,
    pid: int = -1,
    epoch: int = -1,
    seq: int = -1,
    txn: bool = False,
    at: int = NOW_MS,
    size: int = 10,
    key: bytes = b"k",
) -> bytes:
    """A batch of `count` records with `size` bytes of value each, timestamps `at`, `at` + 1, ..."""
    records = [NewRecord(key, b"v" * size, timestamp=at + index) for index in range(count)]
    return bytes(
        build_batch(
            records,
            timestamp=at,
            producer_id=pid,
            producer_epoch=epoch if pid < 0 or epoch >= 0 else 0,
            base_sequence=seq,
            transactional=txn,
        )
    )


def marker(pid: int, epoch: int, *, commit: bool, version: int = 0, coordinator_epoch: int = 1) -> Marker:
    """A marker."""
    return Marker(
        producer_id=pid,
        producer_epoch=epoch,
        commit=commit,
        coordinator_epoch=coordinator_epoch,
        transaction_version=version,
    )
