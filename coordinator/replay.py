"""Reads an internal log from its start in pieces: a load takes long, and requests come in meanwhile."""

import logging
from collections.abc import Callable, Iterable
from typing import Final

from eosin.coordinator.ports import CoordinatorLog
from eosin.protocol.errors import ErrorCode
from eosin.protocol.records.scan import Head, sound_batches
from eosin.runtime.clock import Clock
from eosin.runtime.turns import next_turn

_LOG: Final = logging.getLogger("eosin.coordinator")

BATCHES_PER_TURN: Final = 200
"""Steps between two turns of the event loop: a millisecond."""
RECORDS_PER_STEP: Final = 4
"""A batch of so many records counts as one step more: one takes some microseconds."""

COMMIT_PATIENCE_MS: Final = 10_000
"""A load that waits so long for its log to be committed says so."""


async def until_committed(log: CoordinatorLog, clock: Clock, *, name: str) -> ErrorCode:
    """Wait until everything in `log` is below its high watermark: a record above it may still be taken back by the
    next leader, so nothing may be carried out from it (cluster.md 6.4). NONE, or why that will not come."""
    committed = log.durable(log.log_end_offset)
    if committed.done():
        return committed.result()

    def complain() -> None:
        _LOG.warning(
            "%s is not served yet: its records up to %d are not committed, only those below %d are; too few of its"
            " replicas are in sync",
            name,
            log.log_end_offset,
            log.high_watermark,
        )

    timer = clock.call_later(COMMIT_PATIENCE_MS, complain)
    try:
        return await committed
    finally:
        timer.cancel()


async def replay(log: CoordinatorLog, apply: Callable[[memoryview, Head], None], *, from_offset: int = 0) -> int:
    """Show every batch of `log` that begins at `from_offset` or behind it to `apply`, which gets the bytes that it lies
    in; where the log ended in the end. Raises CorruptRecords, OSError, and what `apply` raises."""
    left = BATCHES_PER_TURN
    for run in log.runs(from_offset):
        for head in sound_batches(run):
            apply(run, head)
            left -= 1 + head[-1] // RECORDS_PER_STEP
            if left <= 0:
                left = BATCHES_PER_TURN
                await next_turn()
    return log.log_end_offset


async def exhaust(steps: Iterable[object]) -> None:
    """Take all of these steps."""
    for count, _ in enumerate(steps, start=1):
        if not count % BATCHES_PER_TURN:
            await next_turn()
