"""Reads an internal log from its start in pieces: a load takes long, and requests come in meanwhile."""

import asyncio
from collections.abc import Callable, Iterable
from typing import Final

from eosin.coordinator.ports import CoordinatorLog
from eosin.protocol.records.scan import Head, sound_batches

BATCHES_PER_TURN: Final = 200
"""Steps between two turns of the event loop: well below a millisecond."""


async def replay(log: CoordinatorLog, take: Callable[[memoryview, Head], None], *, from_offset: int = 0) -> int:
    """Show every batch of `log` that begins at `from_offset` or behind it to `take`, which gets the bytes that it lies
    in; where the log ended in the end. Raises CorruptRecords, OSError, and what `take` raises."""
    left = BATCHES_PER_TURN
    for run in log.runs(from_offset):
        for head in sound_batches(run):
            take(run, head)
            left -= 1
            if not left:
                left = BATCHES_PER_TURN
                await asyncio.sleep(0)
    return log.log_end_offset


async def exhaust(steps: Iterable[object]) -> None:
    """Take all of these steps."""
    for count, _ in enumerate(steps, start=1):
        if not count % BATCHES_PER_TURN:
            await asyncio.sleep(0)
