"""`Commits`: the committed offsets of one partition of `__consumer_offsets`, written and read.

Every change is appended first and applied when it is durable, in the order of the log: what a reader sees survives a
crash, and memory always equals a replay. Between the two, the keys being written are remembered, so that a delete or an
expiry that comes in between misses none of them.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple, Self

from eosin.coordinator.groups.log import records as group_records
from eosin.coordinator.groups.log.writer import NO_OFFSET, LogWriter, Settled
from eosin.coordinator.groups.ports import GroupObserver
from eosin.coordinator.groups.rules.config import GroupConfig
from eosin.coordinator.groups.rules.offset_store import OffsetStore, OffsetToCommit
from eosin.coordinator.groups.rules.stats import GroupStats
from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import TopicPartition
from eosin.protocol.records.batch import NewRecord
from eosin.runtime.clock import Clock
from eosin.storage.results.log_results import Marker


class Key(NamedTuple):
    """The group and partition that an offset is committed for."""

    group_id: str
    partition: TopicPartition


class Tombstones(NamedTuple):
    """A batch that deletes some offsets."""

    keys: Sequence[Key]
    batch: bytes


class MarkerWatch:
    """Notices the markers of one producer that are written while its transaction's coordinator is asked about it."""

    __slots__ = ("_watches", "has_come", "producer_id")

    def __init__(self, producer_id: int, watches: "dict[MarkerWatch, None]") -> None:
        self.producer_id = producer_id
        self.has_come = False
        """True if one has been written."""
        self._watches = watches

    def __enter__(self) -> Self:
        self._watches[self] = None
        return self

    def __exit__(self, *_: object) -> None:
        del self._watches[self]


class Commits:
    """The offsets of one partition."""

    def __init__(
        self, *, writer: LogWriter, clock: Clock, config: GroupConfig, group_appears: Callable[[str], None]
    ) -> None:
        self.offsets = OffsetStore()
        self.observer: GroupObserver | None = None
        self.stats = GroupStats()
        self._writer = writer
        self._clock = clock
        self._config = config
        self._group_appears = group_appears
        self._being_written: dict[str, dict[TopicPartition, int]] = {}
        self._watches: dict[MarkerWatch, None] = {}
        self.before_commit: Callable[[str, Sequence[OffsetToCommit]], None] = lambda group_id, offsets: None
        """Called before offsets are written."""
        self.let_go: Callable[[dict[Any, Any]], None] = lambda table: None
        """Called with offsets that nobody needs any more: there may be very many."""

    def close(self) -> Iterator[dict[Any, Any]]:
        """Forget everything. Returns the tables that it was in: to let go of very many offsets takes long."""
        offsets, self.offsets = self.offsets, OffsetStore()
        return offsets.tables()

    def is_being_written(self, group_id: str, partition: TopicPartition | None = None) -> bool:
        """True if a write for the group (and that partition) is in the log but not yet durable."""
        partitions = self._being_written.get(group_id)
        return partitions is not None and (partition is None or partition in partitions)

    def holds(self, group_id: str) -> bool:
        """True if the group has offsets of any kind: committed, pending or being written."""
        return group_id in self._being_written or not self.offsets.is_empty(group_id)

    def holds_only(self, group_id: str, count: int) -> bool:
        """True if the group has so many committed offsets, and none that is pending or being written."""
        offsets = self.offsets
        return (
            len(offsets.committed(group_id)) == count
            and not offsets.has_pending(group_id)
            and group_id not in self._being_written
        )

    def partitions(self, group_id: str) -> dict[TopicPartition, None]:
        """Every partition of which the log may hold an offset of the group, each once, in a stable order."""
        partitions = self.offsets.partitions(group_id)
        partitions.update(dict.fromkeys(self._being_written.get(group_id, ())))
        return partitions

    @property
    def are_none(self) -> bool:
        """True if no group holds anything."""
        return self.offsets.are_none and not self._being_written

    def group_ids(self) -> dict[str, None]:
        """Every group that `holds` something."""
        return dict.fromkeys((*self.offsets.group_ids(), *self._being_written))

    def commit(self, group_id: str, offsets: Sequence[OffsetToCommit], settled: Settled) -> None:
        """Commit offsets; `settled` is called once they are durable and visible."""
        self.before_commit(group_id, offsets)
        now_ms = self._clock.now_ms()
        records = [group_records.offset_record(group_id, each, now_ms=now_ms) for each in offsets]

        def apply(base_offset: int) -> None:
            self.stats.commits += len(offsets)
            for record_offset, each in enumerate(offsets, base_offset):
                self.offsets.put(group_id, each.partition, each.committed(now_ms=now_ms, record_offset=record_offset))
            self._group_appears(group_id)

        keys = partial(_keys, group_id, offsets)
        self._write(group_records.batch(records, self._config, now_ms=now_ms), now_ms, keys, apply, settled)

    def commit_in_transaction(
        self,
        group_id: str,
        offsets: Sequence[OffsetToCommit],
        settled: Settled,
        *,
        producer_id: int,
        producer_epoch: int,
    ) -> None:
        """Add offsets to a producer's transaction; they become visible with its COMMIT marker."""
        self.before_commit(group_id, offsets)
        now_ms = self._clock.now_ms()
        records = [group_records.offset_record(group_id, each, now_ms=now_ms) for each in offsets]

        def apply(base_offset: int) -> None:
            for record_offset, each in enumerate(offsets, base_offset):
                value = each.committed(now_ms=now_ms, record_offset=record_offset)
                self.offsets.put_pending(producer_id, group_id, each.partition, value)
            self._group_appears(group_id)

        batch = group_records.transactional_batch(
            records, self._config, now_ms=now_ms, producer_id=producer_id, producer_epoch=producer_epoch
        )
        self._write(batch, now_ms, partial(_keys, group_id, offsets), apply, settled)

    def watch_markers(self, producer_id: int) -> MarkerWatch:
        """Watch for markers of a producer, inside of a `with`."""
        return MarkerWatch(producer_id, self._watches)

    def complete(self, marker: Marker, settled: Settled) -> None:
        """Write a transaction's marker and, once it is durable, make its offsets visible or forget them."""

        def on_settled(error: ErrorCode, base_offset: int) -> None:
            if error is ErrorCode.NONE:
                if self.observer is not None and (held := self.offsets.held_by(marker.producer_id)):
                    self.observer.offsets_completed(held, marker, self._clock.now_ms())
                self.offsets.complete(marker.producer_id, commit=marker.commit)
            settled(error, base_offset)

        for watch in self._watches:
            watch.has_come = watch.has_come or watch.producer_id == marker.producer_id
        self._writer.write_marker(marker, now_ms=self._clock.now_ms(), settled=on_settled)

    def has(self, key: Key) -> bool:
        """True if the log may hold an offset of this group and partition."""
        offsets = self.offsets
        return (
            offsets.get(*key) is not None
            or offsets.is_pending(*key)
            or self.is_being_written(key.group_id, key.partition)
        )

    def delete(self, keys: Sequence[Key], settled: Settled) -> None:
        """Delete offsets, committed and pending, in one batch unless there are many thousands."""
        now_ms = self._clock.now_ms()
        pieces: list[Tombstones] = []
        start = 0
        for piece in group_records.in_batches([group_records.offset_tombstone(*key) for key in keys]):
            batch = group_records.batch(piece, self._config, now_ms=now_ms)
            pieces.append(Tombstones(keys[start : start + len(piece)], batch))
            start += len(piece)

        def piece_settled(outcomes: Sequence[ErrorCode], base_offset: int) -> None:
            settled(max(outcomes, key=bool), base_offset)

        self._write_all(pieces, piece_settled, lambda piece: partial(iter, piece.keys), self._remove)

    def write_tombstones(self, records: Sequence[NewRecord], settled: Settled) -> None:
        """Write tombstones of what is not in memory; `settled` hears of each batch."""
        now_ms = self._clock.now_ms()
        for piece in group_records.in_batches(records):
            self._writer.write(group_records.batch(piece, self._config, now_ms=now_ms), now_ms=now_ms, settled=settled)

    def delete_group(self, group_id: str, pieces: Sequence[Tombstones], settled: Settled) -> None:
        """Delete a group to which nobody commits meanwhile: `pieces` are about all its offsets, and the last one is
        about the group as well, which so is never gone before they are. All of them go at once, when the last batch is
        durable; a batch that is refused ends it."""

        def all_settled(outcomes: Sequence[ErrorCode], base_offset: int) -> None:
            error = max(outcomes, key=bool)
            if error is ErrorCode.NONE:
                self.let_go(self.offsets.remove_group(group_id))
            else:
                for piece, outcome in zip(pieces, outcomes, strict=True):
                    if outcome is ErrorCode.NONE:
                        self._remove(piece.keys, base_offset)
            settled(error, base_offset)

        self._write_all(pieces, all_settled, lambda piece: partial(iter, piece.keys[:1]), lambda keys, _: None)

    def _write_all(
        self,
        pieces: Sequence[Tombstones],
        settled: Callable[[Sequence[ErrorCode], int], None],
        remembered: Callable[[Tombstones], Callable[[], Iterable[Key]]],
        apply: Callable[[Sequence[Key], int], None],
    ) -> None:
        """Write one batch after the other until one is refused; `settled` hears of all."""
        outcomes: list[ErrorCode] = []

        def piece_settled(error: ErrorCode, base_offset: int) -> None:
            outcomes.append(error)
            if len(outcomes) == len(pieces):
                settled(outcomes, base_offset)

        now_ms = self._clock.now_ms()
        for piece in pieces:
            refused = next(filter(None, outcomes), None)
            if refused is not None:
                piece_settled(refused, NO_OFFSET)
            else:
                self._write(piece.batch, now_ms, remembered(piece), partial(apply, piece.keys), piece_settled)

    def _remove(self, keys: Sequence[Key], _: int) -> None:
        for key in keys:
            self.offsets.remove(*key)

    def _write(
        self,
        batch: bytes,
        now_ms: int,
        keys: Callable[[], Iterable[Key]],
        apply: Callable[[int], None],
        settled: Settled,
    ) -> None:
        """Append a batch; apply it when it is durable. Until then, `keys` are remembered as being written."""
        is_settled = is_remembered = False

        def on_settled(error: ErrorCode, base_offset: int) -> None:
            nonlocal is_settled
            is_settled = True
            if is_remembered:
                for key in keys():
                    self._written(key)
            if error is ErrorCode.NONE:
                apply(base_offset)
            settled(error, base_offset)

        self._writer.write(batch, now_ms=now_ms, settled=on_settled)
        if not is_settled:  # the usual case under `os` durability costs nothing here
            is_remembered = True
            for key in keys():
                self._writing(key)

    def _writing(self, key: Key) -> None:
        partitions = self._being_written.setdefault(key.group_id, {})
        partitions[key.partition] = partitions.get(key.partition, 0) + 1

    def _written(self, key: Key) -> None:
        partitions = self._being_written[key.group_id]
        partitions[key.partition] -= 1
        if not partitions[key.partition]:
            del partitions[key.partition]
        if not partitions:
            del self._being_written[key.group_id]


def _keys(group_id: str, offsets: Sequence[OffsetToCommit]) -> Iterator[Key]:
    return (Key(group_id, each.partition) for each in offsets)
