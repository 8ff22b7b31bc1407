"""`RecordLags`: how many records the readers of committed records will still be given (console.md 5.4).

Always true: a number is never too small; it is exact where the log from the group's position to the last stable offset
takes at most `PIECE_BYTES`, and beyond that every offset counts as a record. A scrape reads at most `SCRAPE_BYTES`,
only for groups or logs that have moved; the others keep their number.
"""

from collections.abc import Iterable
from contextlib import suppress
from inspect import isawaitable
from typing import Final, NamedTuple

from eosin.client.errors import BadData
from eosin.client.read_committed import FetchedRecords
from eosin.protocol.names import TopicPartition
from eosin.storage.log.partition_log import PartitionLog
from eosin.storage.results.log_results import Isolation

PIECE_BYTES: Final = 64 * 1024
SCRAPE_BYTES: Final = 4 * 1024 * 1024

Pair = tuple[str, TopicPartition]
"""A group and a partition that it has a position in."""


class Known(NamedTuple):
    """A lag, and what it was counted for."""

    committed: int
    last_stable: int
    lag: int


class RecordLags:
    """The lags of one broker's groups."""

    def __init__(self) -> None:
        self._known: dict[Pair, Known] = {}
        self._left_bytes = 0

    def begin(self, pairs: Iterable[Pair]) -> None:
        """A scrape asks for `pairs` and for no others."""
        self._left_bytes = SCRAPE_BYTES
        self._known = {pair: self._known[pair] for pair in pairs if pair in self._known}

    async def lag(self, pair: Pair, log: PartitionLog, committed: int) -> int:
        """The number of records that are left for the group."""
        end, known = log.last_stable_offset, self._known.get(pair)
        first = max(committed, log.log_start_offset)
        if first >= end:
            return 0
        if known is not None and known[:2] == (committed, end):
            return known.lag
        if self._left_bytes < PIECE_BYTES:
            return end - first if known is None else known.lag
        reading = log.read(first, max_bytes=PIECE_BYTES, isolation=Isolation.READ_COMMITTED, min_one_batch=False)
        found = await reading if isawaitable(reading) else reading
        counted, reached = 0, first
        if isinstance(found.records, bytes | memoryview):
            self._left_bytes -= max(1024, len(found.records))
            fetched = FetchedRecords(found.records, from_offset=first, aborted=found.aborted or ())  # type: ignore[arg-type]
            with suppress(BadData):
                counted, reached = fetched.count(end), fetched.next_offset
        lag = counted + max(0, end - reached)
        self._known[pair] = Known(committed, end, lag)
        return lag
