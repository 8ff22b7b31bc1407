"""`pruning_of`: which records of a partition nobody needs any more, and whose snapshots keep them there (share-state.md
5). The topic is not compacted.

Snapshots are written for nothing else only where it pays: when more than half of the log could go. So a broker on which
nothing happens writes nothing, and each record is written again once at most, on an average.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from eosin.coordinator.share_state.rules.records import StoredState
from eosin.coordinator.share_states import SharePartition

WORTH_RECORDS: Final = 1000
"""Fewer records than that are left alone."""


class Pruning(NamedTuple):
    """The work that shortens a log."""

    first_needed: int
    """Offset of the first record that is needed: all before it can go."""
    cold: tuple[SharePartition, ...]
    """Share partitions to write a snapshot of, the oldest first, so that more can go the next time."""


def pruning_of(
    states: Mapping[SharePartition, StoredState],
    broken: Mapping[SharePartition, int],
    *,
    log_end: int,
    now_ms: int,
    cold_after_ms: int,
) -> Pruning:
    """The work that shortens a log which ends at `log_end`, and whose states are these. `broken`: the offsets from
    which records are kept that cannot be read."""
    offsets = [state.snapshot_offset for state in states.values()]
    first_needed = min((*offsets, *broken.values(), log_end))
    records = log_end - first_needed
    if records <= WORTH_RECORDS + 2 * len(states):
        return Pruning(first_needed, ())
    middle = log_end - records // 2
    cold = sorted(
        (state.snapshot_offset, partition)
        for partition, state in states.items()
        if state.snapshot_offset < middle and not 0 <= now_ms - state.snapshot_ms < cold_after_ms
    )
    return Pruning(first_needed, tuple(partition for _, partition in cold))
