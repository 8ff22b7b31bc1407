"""The last record of each transactional id in a segment of `__transaction_state`.

The audit decodes no other values. These distinguish an open transaction that its coordinator will end from an orphan.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

from eosin.pipeline.audit.columns import Columns, select
from eosin.pipeline.audit.headers import NOT_A_BATCH, HeaderProblem
from eosin.protocol.records.batch import CorruptRecords
from eosin.protocol.records.header import read_header
from eosin.protocol.records.internal import decode_key, decode_value
from eosin.protocol.records.scan import KeyValue, key_values
from eosin.protocol.schemas.records.transaction_state import KINDS, TransactionLogValue
from eosin.protocol.types import DecodeError

STATES: Final = (
    "Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort", "Dead", "PrepareEpochFence",
)  # fmt: skip
DELETED: Final = "Deleted"
ONGOING: Final = ("Ongoing", "PrepareCommit", "PrepareAbort", "PrepareEpochFence")
"""States in which the coordinator has markers to write."""


class TransactionStateRow(NamedTuple):
    """The state of a transactional id in one record."""

    transactional_id: str
    offset: int
    state: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    start_ms: int
    update_ms: int
    partitions: list[str]
    """Each as `topic-partition`."""


class SegmentStateReplay:
    """Reads the batches of one segment, chunk after chunk."""

    def __init__(self) -> None:
        self._last: dict[bytes, KeyValue] = {}
        self.problems: list[HeaderProblem] = []

    def apply(self, headers: Columns, chunk_at: int, data: bytes) -> None:
        """Read the records of the sound batches in `data`, which lies at `chunk_at` in the file."""
        view = memoryview(data)
        rows = select(headers, ~headers["control"])
        for position, size in zip(rows["position"].tolist(), rows["size"].tolist(), strict=True):
            batch = view[position - chunk_at : position - chunk_at + size]
            header = read_header(batch)
            try:
                for found in key_values(batch, header):
                    if found.key is not None:
                        self._last[found.key] = found
            except CorruptRecords as error:
                self.problems.append(HeaderProblem(NOT_A_BATCH, position, header.base_offset, f"its records: {error}"))

    def states(self) -> Iterator[TransactionStateRow]:
        """The last state of each id. A record that cannot be decoded becomes a problem."""
        for key, found in self._last.items():
            try:
                known = decode_key(KINDS, key)
                if known is None:
                    continue  # a kind of record that only newer brokers write
                name = known.transactional_id
                if found.value is None:
                    yield TransactionStateRow(name, found.offset, DELETED, -1, -1, -1, -1, -1, [])
                    continue
                yield _state(name, found.offset, decode_value(TransactionLogValue, found.value))
            except DecodeError as error:
                self.problems.append(HeaderProblem(NOT_A_BATCH, -1, found.offset, f"no transaction state: {error}"))


def _state(transactional_id: str, offset: int, value: TransactionLogValue) -> TransactionStateRow:
    status = value.transaction_status
    return TransactionStateRow(
        transactional_id=transactional_id,
        offset=offset,
        state=STATES[status] if 0 <= status < len(STATES) else str(status),
        producer_id=value.producer_id,
        producer_epoch=value.producer_epoch,
        timeout_ms=value.transaction_timeout_ms,
        start_ms=value.transaction_start_timestamp_ms,
        update_ms=value.transaction_last_update_timestamp_ms,
        partitions=[
            f"{each.topic}-{partition}"
            for each in value.transaction_partitions or ()
            for partition in each.partition_ids
        ],
    )
