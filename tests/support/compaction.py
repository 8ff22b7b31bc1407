"""Compacted logs for tests: keyed batches, a round of the cleaner, and a consumer as clients implement it."""

from collections.abc import Sequence
from typing import NamedTuple

from batches import NOW_MS
from logs import Logs, read_now

from eosin.protocol.names import IsolationLevel
from eosin.protocol.records.batch import Compression, NewRecord, batches, build_batch, iter_records, read_control_record
from eosin.storage.compaction.cleaner import CleanerConfig
from eosin.storage.disk.interfaces import Disk
from eosin.storage.log.config import LogConfig
from eosin.storage.log.partition_log import PartitionLog
from eosin.storage.results.log_results import ReadResult

COMPACT = LogConfig(
    cleanup_policy=frozenset({"compact"}),
    internal_segment_bytes=400,
    index_interval_bytes=150,
    min_cleanable_dirty_ratio=0.0,
)
"""Tiny segments, compacted whenever there is anything to compact."""
AT_ONCE = CleanerConfig(backoff_ms=0)
DELETE_RETENTION_MS = COMPACT.delete_retention_ms


class Seen(NamedTuple):
    """A record as a consumer gets it."""

    offset: int
    key: bytes | None
    value: bytes | None
    timestamp: int


def keyed(
    *records: tuple[str, str | None],
    pid: int = -1,
    epoch: int = 0,
    seq: int = -1,
    txn: bool = False,
    at: int = NOW_MS,
    compression: Compression = Compression.NONE,
) -> bytes:
    """A batch of (key, value) records with timestamps `at`, `at` + 1, ...; a value of None is a tombstone."""
    made = [
        NewRecord(key.encode(), None if value is None else value.encode(), timestamp=at + index)
        for index, (key, value) in enumerate(records)
    ]
    return bytes(
        build_batch(
            made,
            timestamp=at,
            producer_id=pid,
            producer_epoch=epoch if pid >= 0 else -1,
            base_sequence=seq,
            transactional=txn,
            compression=compression,
        )
    )


def compacted_logs(config: LogConfig = COMPACT, *, cleaner: CleanerConfig = AT_ONCE, disk: Disk | None = None) -> Logs:
    """Storage whose topics are compacted at every round."""
    return Logs(config=config, cleaner=cleaner, disk=disk)


async def compact(logs: Logs) -> None:
    """Make everything recoverable, then one round of the cleaner."""
    await logs.manager.checkpoint(force=True)
    await logs.manager.cleaner.round()


def roll(logs: Logs, log: PartitionLog) -> None:
    """End the active segment, so that what is in it may be compacted."""
    log.roll(logs.clock.now_ms())


def stored(log: PartitionLog) -> list[Seen]:
    """Every data record that is in the log, whoever may see it."""
    return [
        Seen(record.offset, record.key, record.value, record.timestamp)
        for batch in log.batches()
        for _, header in batches(batch)
        if not header.is_control
        for record in iter_records(batch)
    ]


def offsets(log: PartitionLog) -> list[int]:
    """The offsets of the data records that are in the log."""
    return [seen.offset for seen in stored(log)]


def headers(log: PartitionLog) -> list[tuple[int, int, int]]:
    """(base offset, last offset, number of records) of every batch."""
    return [
        (header.base_offset, header.last_offset, header.records_count)
        for batch in log.batches()
        for _, header in batches(batch)
    ]


class Consumer:
    """A read_committed consumer: drops aborted records with the list that comes with each answer, and markers."""

    def __init__(self, offset: int = 0) -> None:
        self.offset = offset
        self.seen: list[Seen] = []

    def take(self, result: ReadResult) -> None:
        """Go through one answer, as the Java client does."""
        assert result.error == 0, result
        assert result.aborted is not None
        waiting = sorted(result.aborted, key=lambda each: each.first_offset)
        aborted: set[int] = set()
        data = result.records
        for at, header in batches(data):
            while waiting and waiting[0].first_offset <= header.last_offset:
                aborted.add(waiting.pop(0).producer_id)
            batch = data[at : at + header.size]
            if header.is_control:
                control = read_control_record(batch)
                if control is not None and not control.is_commit:
                    aborted.discard(header.producer_id)
            elif not (header.is_transactional and header.producer_id in aborted):
                self.seen += [
                    Seen(record.offset, record.key, record.value, record.timestamp)
                    for record in iter_records(batch)
                    if record.offset >= self.offset
                ]
            self.offset = max(self.offset, header.next_offset)

    def read_all(self, log: PartitionLog, *, max_bytes: int = 1 << 20) -> "Consumer":
        """Read up to the last stable offset."""
        self.offset = max(self.offset, log.log_start_offset)
        while self.offset < log.last_stable_offset:
            before = self.offset
            self.take(read_now(log, self.offset, max_bytes=max_bytes, isolation=IsolationLevel.READ_COMMITTED))
            assert self.offset > before, f"no progress at {before}"
        return self


def table(records: Sequence[Seen]) -> dict[bytes | None, Seen]:
    """The latest record of each key, without those that are deleted."""
    latest = {seen.key: seen for seen in records}
    return {key: seen for key, seen in latest.items() if seen.value is not None}
