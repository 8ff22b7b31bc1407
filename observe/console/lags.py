"""`LagCounts`: how many records a group's readers will still be given: no control records, no aborted ones, nothing
that compaction took (console.md 5.4).

Counted from the headers of the batches between what is committed and the last stable offset, where that is at most
`MOST_BYTES`. Always true: what has not moved is not counted again, a round reads at most `BYTES_PER_ROUND`, and a piece
that is counted in one turn has at most `PIECE` bytes.
"""

import inspect
from typing import Final

from eosin.broker.services import Services
from eosin.client.errors import BadData
from eosin.client.read_committed import FetchedRecords
from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import TopicPartition
from eosin.protocol.records.batch import batches
from eosin.runtime.turns import next_turn
from eosin.storage.log.partition_log import PartitionLog
from eosin.storage.results.file_range import FileRange
from eosin.storage.results.log_results import Isolation

MOST_BYTES: Final = 1024 * 1024
BYTES_PER_ROUND: Final = 2 * 1024 * 1024
PIECE: Final = 64 * 1024
MOST_KEPT: Final = 20_000
UNCOUNTED: Final = (-1, 0)


class LagCounts:
    """Counts, and remembers what it has counted."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._known: dict[tuple[str, TopicPartition], tuple[tuple[int, int, int], tuple[int, int]]] = {}
        self._left = BYTES_PER_ROUND

    def begin_round(self) -> None:
        """Allow another `BYTES_PER_ROUND`."""
        self._left = BYTES_PER_ROUND

    async def count(
        self, group_id: str, partition: TopicPartition, log: PartitionLog, committed: int
    ) -> tuple[int, int]:
        """Records and control records between `committed` and the last stable offset; `UNCOUNTED` where that is too
        much, or cannot be read."""
        end = log.last_stable_offset
        if committed < 0:
            return UNCOUNTED
        if committed >= end:
            return 0, 0
        key, place = (group_id, partition), (committed, end, id(log))
        before = self._known.get(key)
        if before is not None and before[0] == place:
            return before[1]
        size = log.bytes_available(committed, isolation=Isolation.READ_COMMITTED, limit=MOST_BYTES + 1)
        if not 0 < size <= min(MOST_BYTES, self._left):
            return UNCOUNTED
        self._left -= size
        found = await _between(log, committed, end)
        if len(self._known) >= MOST_KEPT:
            self._known.clear()
        self._known[key] = (place, found)
        return found


async def _between(log: PartitionLog, start: int, end: int) -> tuple[int, int]:
    records = controls = 0
    position = start
    while position < end:
        answer = log.read(position, max_bytes=PIECE, isolation=Isolation.READ_COMMITTED, min_one_batch=True)
        result = await answer if inspect.isawaitable(answer) else answer
        if result.error is not ErrorCode.NONE or isinstance(result.records, FileRange) or not result.records:
            return UNCOUNTED
        fetched = FetchedRecords(result.records, from_offset=position, aborted=result.aborted or ())  # type: ignore[arg-type]
        try:
            records += fetched.count(end)
        except BadData:
            return UNCOUNTED
        controls += sum(each.is_control for _, each in batches(result.records) if position <= each.base_offset < end)
        if fetched.next_offset <= position:
            return UNCOUNTED
        position = fetched.next_offset
        await next_turn()
    return records, controls
