"""Which of many small logs to save when each could wait, but all together would make a recovery long."""

from collections.abc import Iterable
from typing import Final

from eosin.storage.log.partition_log import PartitionLog

SMALL_TOTAL_BYTES: Final = 8 * 1024 * 1024
"""What all small logs together may leave to recover. Their batches are small too: this is some 70 000 of them."""


def too_many_small(waiting: Iterable[PartitionLog]) -> list[PartitionLog]:
    """The largest of the logs that may wait, as many as bring the rest down to half of the limit; mostly none."""
    by_size = sorted(waiting, key=lambda log: log.checkpoint_state.unsaved_bytes, reverse=True)
    excess = sum(log.checkpoint_state.unsaved_bytes for log in by_size) - SMALL_TOTAL_BYTES // 2
    if excess <= SMALL_TOTAL_BYTES // 2:
        return []
    chosen = []
    for log in by_size:
        if excess <= 0:
            break
        excess -= log.checkpoint_state.unsaved_bytes
        chosen.append(log)
    return chosen
