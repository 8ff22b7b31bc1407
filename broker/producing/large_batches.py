"""`LargeBatches`: batches whose records take long to check are checked in a thread, and appended in their turn.

A megabyte on the wire may hold 64 MiB, or some hundred thousand records; in the event loop their check would hold up
every other client for up to a second. So would the first batches of a thousand partitions in one request: each creates
a directory and files. They go the same way, which lets others have their turn after each. Always true: a log's batches
are appended in the order in which their requests came, since whatever comes for a log while one of its batches is being
checked waits behind it; and one request is checked at a time, so what is decompressed in memory is one batch's.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from eosin.storage.log.validation import validate_client_batch

if TYPE_CHECKING:
    from eosin.broker.producing.produce_request import ProducedBatch
    from eosin.storage.log.log_results import Refused
    from eosin.storage.log.partition_log import PartitionLog
    from eosin.storage.log.validation import ValidBatch

    Append = Callable[[ProducedBatch, ValidBatch | Refused], None]
    """Append a batch that was checked, or keep its refusal; without a wait."""


class LargeBatches:
    """The requests whose batches are being checked or wait for such, by log."""

    __slots__ = ("_checking", "waiting")

    def __init__(self) -> None:
        self.waiting: dict[PartitionLog, asyncio.Future[None]] = {}
        """The last request that each log has waiting. For readers: almost always empty."""
        self._checking: asyncio.Lock | None = None

    async def append(self, batches: "Sequence[ProducedBatch]", append: "Append", *, now_ms: int) -> None:
        """Check and append `batches` of one request, behind what their logs have waiting already."""
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        logs = {batch.log for batch in batches}
        earlier = {self.waiting[log] for log in logs if log in self.waiting}
        self.waiting.update(dict.fromkeys(logs, turn))
        try:
            if earlier:
                await asyncio.wait(earlier)
            if self._checking is None:
                self._checking = asyncio.Lock()
            for batch in batches:
                assert batch.records is not None
                async with self._checking:
                    checked = await batch.log.context.disk.off_loop(
                        validate_client_batch, batch.records, batch.log.config, now_ms, batch.header
                    )
                append(batch, checked)
        finally:
            turn.set_result(None)
            for log in logs:
                if self.waiting[log] is turn:
                    del self.waiting[log]
