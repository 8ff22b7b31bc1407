"""Reading a partition of `__consumer_offsets` back into memory (groups.md 13).

The order of the log decides: each record counts as it did when it was written, so that the result is what the
coordinator knew before it stopped, up to what was durable. Nearly all of a log is past: offsets that a later one has
replaced, and markers of transactions that left nothing. So keys and values are carried as bytes, a marker is looked at
only when its producer has something pending, and only what is left in the end is decoded.

Always true: the result is that of `OffsetStore`, told of each record and marker in the order of the log. There, a
tombstone takes away each pending value of its key: here, each with a lower offset. When `load` returns it has applied
all that is in the log, also what was appended meanwhile: nothing can come between its last look and the caller.
"""

import logging
from collections.abc import Awaitable, Callable, Collection, Iterator
from itertools import chain
from typing import Any, Final

from eosin.coordinator.groups.log.records import NO_GROUP_KEY, GroupWritten, OffsetWritten, ended_topic, read
from eosin.coordinator.groups.rules.group import Group
from eosin.coordinator.groups.rules.offset_store import CommittedOffset, OffsetStore
from eosin.coordinator.letting_go import dropped
from eosin.coordinator.ports import CoordinatorLog
from eosin.coordinator.replay import exhaust, replay
from eosin.coordinator.steps import InSteps, finished
from eosin.protocol.names import TopicPartition
from eosin.protocol.records.header import CONTROL, TRANSACTIONAL, read_header
from eosin.protocol.records.scan import Head, KeyValue, key_values, marker_of

_LOG: Final = logging.getLogger("eosin.coordinator.groups")

_VERSION_BYTES: Final = 2
_OFFSET_KEYS: Final = (b"\0\0", b"\0\1")
"""Versions of a key that names a group and a partition, alike from there on."""
_GROUP_KEY: Final = b"\0\2"
_GROUP_KEYS_WITH_TIMES: Final = (b"\0\3", b"\0\x11")
"""Of the own records of consumer and streams groups."""


KEYS_PER_STEP: Final = 64
"""So many keys are looked at in one step: each takes a tenth of a microsecond."""
TRIES: Final = 3
"""So often what was read is put together in turns, while others still write to the log."""


def _nothing() -> InSteps[None]:
    """Nothing is to be done."""
    yield from ()


class Loader:
    """Replays one partition's log into groups and offsets."""

    def __init__(self, offsets: OffsetStore, other_kinds: Collection[bytes] = ()) -> None:
        """`other_kinds`: the first bytes of keys that others read."""
        self.groups: dict[str, Group] = {}
        self.group_offsets: dict[str, int] = {}
        """The offset of the record of each group that has one."""
        self._offsets = offsets
        self._settled: dict[bytes, KeyValue] = {}
        """The records that count for each group and partition, tombstones included."""
        self._tombstones: dict[bytes, int] = {}
        """Offset of the last tombstone of each group and partition."""
        self._pending: dict[int, dict[bytes, KeyValue]] = {}
        self._decoded: dict[int, OffsetWritten] = {}
        """The offset commits that were decoded ahead, by the offset of their record."""
        self._groups: dict[bytes, KeyValue] = {}
        self._unknown: dict[bytes, int] = {}
        self._ended_topics: dict[str, int] = {}
        """Offset of the last record that ended all offsets of a topic."""
        self.topics: set[str] = set()
        """The topics of the offsets that are left."""
        self.doomed: set[tuple[str, TopicPartition]] = set()
        """The groups and partitions among them of which the offset was to be deleted when the last life ended."""
        self._other_kinds = other_kinds
        self.of_other_kinds: dict[bytes, KeyValue] = {}
        """The last record of each key of these kinds."""
        self.group_times: dict[bytes, int] = {}
        """The time of each among them that is a consumer or streams group's own. All records of a batch are of one
        time."""

    @property
    def read(self) -> tuple[dict[Any, Any], ...]:
        """The tables that were read, which nobody needs once the groups are in place."""
        return (
            self.of_other_kinds,
            self.group_times,
            self._groups,
            self._settled,
            self._decoded,
            self._tombstones,
            self.group_offsets,
        )

    async def load(
        self,
        log: CoordinatorLog,
        then: Callable[[], InSteps[None]] = _nothing,
        in_turns: Callable[[InSteps[None]], Awaitable[None]] = exhaust,
    ) -> None:
        """Read the whole log, and put together what is left: `then` is what the caller does with it. All of that is
        done `in_turns`, and anew if the log has grown meanwhile; for the last time at once. Raises CorruptRecords,
        DecodeError or OSError when it cannot be read."""
        end = await replay(log, self.apply)
        await exhaust(self._decode_ahead())
        for _ in range(TRIES):
            await in_turns(self._put_together(then))
            before, end = end, await replay(log, self.apply, from_offset=end)
            if end == before:
                break
        else:
            finished(self._put_together(then))
        self._warn()

    def records_of(self, kinds: Collection[bytes]) -> InSteps[list[KeyValue]]:
        """The records of other kinds whose keys begin with one of these."""
        found: list[KeyValue] = []
        for number, (key, record) in enumerate(self.of_other_kinds.items()):
            if key[:_VERSION_BYTES] in kinds:
                found.append(record)
            if not number % KEYS_PER_STEP:
                yield
        return found

    def apply(self, run: memoryview, head: Head) -> None:
        """Apply one batch of `run`. Raises CorruptRecords, DecodeError."""
        position, size, _, attributes, producer_id, count = head
        if not count:
            return  # compaction has emptied it, and its transaction left nothing here
        if attributes & CONTROL:
            if producer_id in self._pending:
                self._apply_marker(run[position : position + size], producer_id)
            return
        batch = run[position : position + size]
        pending = self._pending.setdefault(producer_id, {}) if attributes & TRANSACTIONAL else None
        header = read_header(batch)
        for record in key_values(batch, header):
            key = record.key or b""
            kind = key[:_VERSION_BYTES]
            if kind in _OFFSET_KEYS:
                self._apply_offset(key[_VERSION_BYTES:], record, pending)
            elif kind == _GROUP_KEY:
                self._groups[key] = record
            elif kind in self._other_kinds:
                self.of_other_kinds[key] = record
                if kind in _GROUP_KEYS_WITH_TIMES:
                    self.group_times[key] = header.max_timestamp
            elif read(record) is None:
                self._unknown[kind] = self._unknown.get(kind, 0) + 1

    def _apply_offset(self, name: bytes, record: KeyValue, pending: dict[bytes, KeyValue] | None) -> None:
        """An offset, or the tombstone of one; `pending` are those of the transaction that it is in."""
        if pending is None:
            self._settled[name] = record
            if record.value is None:
                self._tombstones[name] = record.offset
                if name.startswith(NO_GROUP_KEY) and (topic := ended_topic(_offset(record))) is not None:
                    self._ended_topics[topic] = record.offset
        elif record.value is None:
            pending.pop(name, None)
        else:
            pending[name] = record

    def _apply_marker(self, batch: memoryview, producer_id: int) -> None:
        control = marker_of(batch, read_header(batch))
        if control is None:
            return
        pending = self._pending.pop(producer_id)
        if not control.is_commit:
            return
        for name, record in pending.items():
            before = self._settled.get(name)
            if before is None or before.offset < record.offset:
                self._settled[name] = record

    def _decode_ahead(self) -> Iterator[None]:
        for records in (self._settled, *self._pending.values()):
            for record in list(records.values()):
                if record.value is not None:
                    self._decoded[record.offset] = _offset(record)
                    yield

    def finish(self) -> None:
        """Decode what is left. Offsets whose group has no record belong to a group that only holds offsets. Raises
        DecodeError."""
        finished(self._put_together(_nothing))
        self._warn()

    def _put_together(self, then: Callable[[], InSteps[None]]) -> InSteps[None]:
        """The same, a record in each step; from the beginning, whatever an earlier try has left."""
        yield from dropped(chain((self.groups, self.group_offsets), self._offsets.tables()))
        self.topics, self.doomed = set(), set()
        self._offsets.clear()
        for record in self._groups.values():
            yield
            if record.value is not None:
                group = read(record)
                assert isinstance(group, GroupWritten)
                assert group.group is not None
                self.groups[group.group_id] = group.group
                self.group_offsets[group.group_id] = record.offset
        for record in self._settled.values():
            yield
            if record.value is not None:
                self._offsets.put(*self._kept(record))
        for producer_id, records in self._pending.items():
            for name, record in records.items():
                yield
                if self._tombstones.get(name, -1) < record.offset:
                    self._offsets.put_pending(producer_id, *self._kept(record))
        for group_id in self._offsets.group_ids():
            self.groups.setdefault(group_id, Group(group_id))
            yield
        yield from then()

    def _warn(self) -> None:
        for key_version, count in self._unknown.items():
            _LOG.warning("skipped %d records of an unknown kind (key version %s)", count, key_version.hex())

    def _kept(self, record: KeyValue) -> tuple[str, TopicPartition, CommittedOffset]:
        """An offset that is left. One that a crash has kept from being deleted is left too, and is doomed."""
        written = self._decoded.get(record.offset) or _offset(record)
        assert written.value is not None
        self.topics.add(written.partition.topic)
        if record.offset < self._ended_topics.get(written.partition.topic, -1):
            self.doomed.add((written.group_id, written.partition))
        return written.group_id, written.partition, written.value


def _offset(record: KeyValue) -> OffsetWritten:
    written = read(record)
    assert isinstance(written, OffsetWritten)
    return written
