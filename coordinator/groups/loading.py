"""Reading a partition of `__consumer_offsets` back into memory (groups.md 13).

The order of the log decides: each record is applied as it was when it was written, so that the result is what the
coordinator knew before it stopped, up to what was durable.
"""

import asyncio
import logging
from typing import Final

from eosin.coordinator.groups.group import Group
from eosin.coordinator.groups.group_log import GroupWritten, OffsetWritten, read
from eosin.coordinator.groups.offsets import OffsetStore
from eosin.coordinator.ports import CoordinatorLog
from eosin.protocol.key_values import KeyValue, key_values, marker_of
from eosin.protocol.records import BatchHeader, CorruptRecords, read_header, verify_crc

_LOG: Final = logging.getLogger("eosin.coordinator.groups")

_BATCHES_PER_TURN: Final = 64
"""How many batches are read before others get a turn."""


class Loader:
    """Replays one partition's log into groups and offsets."""

    def __init__(self, offsets: OffsetStore) -> None:
        self.groups: dict[str, Group] = {}
        self._offsets = offsets
        self._unknown: dict[bytes, int] = {}

    async def load(self, log: CoordinatorLog) -> None:
        """Read the whole log. Raises CorruptRecords, DecodeError or OSError when it cannot be read."""
        for count, batch in enumerate(log.batches()):
            self.replay(batch)
            if count % _BATCHES_PER_TURN == _BATCHES_PER_TURN - 1:
                await asyncio.sleep(0)
        self.finish()

    def replay(self, batch: bytes | memoryview) -> None:
        """Apply one batch."""
        header = read_header(batch)
        if not verify_crc(batch, 0, header):
            raise CorruptRecords(f"the batch at offset {header.base_offset} has a wrong checksum")
        if header.is_control:
            control = marker_of(batch, header)
            if control is not None:  # else compaction has emptied it, and its transaction left nothing here
                self._offsets.complete(header.producer_id, commit=control.is_commit)
            return
        for record in key_values(batch, header):
            self._apply(header, record)

    def finish(self) -> None:
        """Offsets whose group has no record belong to a group that only holds offsets."""
        for group_id in self._offsets.group_ids():
            self.groups.setdefault(group_id, Group(group_id))
        for key_version, count in self._unknown.items():
            _LOG.warning("skipped %d records of an unknown kind (key version %s)", count, key_version.hex())

    def _apply(self, header: BatchHeader, record: KeyValue) -> None:
        written = read(record)
        match written:
            case OffsetWritten():
                self._apply_offset(header, written)
            case GroupWritten(group_id, None):
                self.groups.pop(group_id, None)
            case GroupWritten(group_id, group):
                assert group is not None
                self.groups[group_id] = group
            case None:
                kind = (record.key or b"")[:2]
                self._unknown[kind] = self._unknown.get(kind, 0) + 1

    def _apply_offset(self, header: BatchHeader, written: OffsetWritten) -> None:
        group_id, partition, value = written.group_id, written.partition, written.value
        if header.is_transactional:
            if value is None:
                self._offsets.remove_pending(header.producer_id, group_id, partition)
            else:
                self._offsets.put_pending(header.producer_id, group_id, partition, value)
        elif value is None:
            self._offsets.remove(group_id, partition)
        else:
            self._offsets.put(group_id, partition, value)
