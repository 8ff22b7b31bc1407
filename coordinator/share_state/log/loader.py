"""Reading a partition of `__share_group_state` back into memory (share-state.md 4).

The order of the log decides. A record that cannot be read takes its share partition aside, and no other: that one has
no state until a later snapshot or tombstone says again all there is to say. Its records are kept in the log, for a
version that can read them.
"""

import gc
import logging
from collections.abc import Iterable
from typing import Final

from eosin.coordinator.ports import CoordinatorLog
from eosin.coordinator.share_state.log.records import RecordRead, read_change, read_key
from eosin.coordinator.share_state.rules.records import StoredState, applied
from eosin.coordinator.share_states import SharePartition
from eosin.protocol.records.batch import CONTROL, Record, iter_records
from eosin.protocol.records.scan import Head, sound_batches
from eosin.protocol.types import DecodeError
from eosin.runtime.turns import next_turn

_LOG: Final = logging.getLogger("eosin.coordinator.share_state")
RECORDS_PER_TURN: Final = 100
"""Each takes some 15 us, and a batch may have thousands."""
FROZEN_AT_ONCE: Final = 5000


class StateLoader:
    """Replays one partition's log into states."""

    def __init__(self) -> None:
        self.states: dict[SharePartition, StoredState] = {}
        self.broken: dict[SharePartition, int] = {}
        """Share partitions with a record that cannot be read, and the offset from which their records are kept."""
        self._unknown: dict[str, int] = {}
        self._frozen = 0
        """Number of states that no round looks at."""
        self._groups: dict[str, str] = {}
        self._topics: dict[bytes, bytes] = {}

    async def load(self, log: CoordinatorLog, *, name: str) -> None:
        """Read the whole log, `name`. Raises CorruptRecords, DecodeError or OSError when it cannot be read."""
        left = RECORDS_PER_TURN
        for run in log.runs(0):
            for head in sound_batches(run):
                for record in _records(run, head):
                    self._apply(record)
                    left -= 1
                    if left <= 0:
                        left = RECORDS_PER_TURN
                        self._freeze()
                        await next_turn()
        for kind, count in self._unknown.items():
            _LOG.warning("%s: skipped %d records of an unknown kind (%s)", name, count, kind)
        for partition, offset in self.broken.items():
            _LOG.error("%s: the state of %s is not served: see offset %d", name, partition, offset)

    def _freeze(self) -> None:
        """Keep many new states from the garbage collector: a round over 100,000 takes 70 ms. One that is replaced is
        freed all the same: it is in no cycle of references."""
        if len(self.states) - self._frozen >= FROZEN_AT_ONCE:
            self._frozen = len(self.states)
            gc.freeze()

    def apply(self, run: memoryview, head: Head) -> None:
        """Apply one batch of `run`. Raises CorruptRecords."""
        for record in _records(run, head):
            self._apply(record)

    def _apply(self, record: Record) -> None:
        try:
            found = read_key(record)
        except DecodeError as error:
            self._count_unknown(f"a broken key: {error}")
            return
        if found is None:
            self._count_unknown(f"key version {(record.key or b'')[:2].hex()}")
            return
        found.partition = self._shared(found.partition)
        try:
            self._put(found, record)
        except DecodeError as error:
            partition = found.partition
            if partition not in self.broken:
                before = self.states.pop(partition, None)
                is_needed = before is not None and not found.is_snapshot
                self.broken[partition] = before.snapshot_offset if is_needed and before else record.offset
            _LOG.warning(
                "a record of the state of %s, at offset %d, cannot be read: %s", partition, record.offset, error
            )

    def _put(self, found: RecordRead, record: Record) -> None:
        partition, change = found.partition, read_change(found, record)
        if partition in self.broken:
            if change is not None and not found.is_snapshot:
                return
            del self.broken[partition]
        after = applied(self.states.get(partition), change, offset=record.offset)
        if after is None:
            self.states.pop(partition, None)
        else:
            self.states[partition] = after

    def _shared(self, partition: SharePartition) -> SharePartition:
        """The same, made of one object for each group and each topic: there may be 100,000 of them."""
        group_id, topic_id, index = partition
        topic_id = self._topics.setdefault(topic_id, topic_id)
        return SharePartition(self._groups.setdefault(group_id, group_id), topic_id, index)

    def _count_unknown(self, kind: str) -> None:
        self._unknown[kind] = self._unknown.get(kind, 0) + 1


def _records(run: memoryview, head: Head) -> Iterable[Record]:
    """The records of one batch of `run`, read one by one. Raises CorruptRecords."""
    position, size, _, attributes, _, count = head
    return () if not count or attributes & CONTROL else iter_records(run[position : position + size])
