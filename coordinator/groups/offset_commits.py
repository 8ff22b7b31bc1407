"""`Commits`: the committed offsets of one partition of `__consumer_offsets`, written and read.

Every change is appended first and applied when it is durable, in the order of the log: what a reader sees survives a
crash, and memory always equals a replay. Between the two, the keys being written are remembered, so that a delete or an
expiry that comes in between misses none of them.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

from eosin.coordinator.groups.log import records as group_records
from eosin.coordinator.groups.log.writer import NO_OFFSET, LogWriter, Settled
from eosin.coordinator.groups.ports import GroupObserver
from eosin.coordinator.groups.rules.config import GroupConfig
from eosin.coordinator.groups.rules.offset_store import OffsetStore, OffsetToCommit
from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import TopicPartition
from eosin.runtime.clock import Clock
from eosin.storage.results.log_results import Marker


class Key(NamedTuple):
    """The group and partition that an offset is committed for."""

    group_id: str
    partition: TopicPartition


class Commits:
    """The offsets of one partition."""

    def __init__(
        self, *, writer: LogWriter, clock: Clock, config: GroupConfig, group_appears: Callable[[str], None]
    ) -> None:
        self.offsets = OffsetStore()
        self.observer: GroupObserver | None = None
        self._writer = writer
        self._clock = clock
        self._config = config
        self._group_appears = group_appears
        self._being_written: dict[str, dict[TopicPartition, int]] = {}

    def is_being_written(self, group_id: str, partition: TopicPartition | None = None) -> bool:
        """True if a write for the group (and that partition) is in the log but not yet durable."""
        partitions = self._being_written.get(group_id)
        return partitions is not None and (partition is None or partition in partitions)

    def holds(self, group_id: str) -> bool:
        """True if the group has offsets of any kind: committed, pending or being written."""
        return group_id in self._being_written or not self.offsets.is_empty(group_id)

    def partitions(self, group_id: str) -> dict[TopicPartition, None]:
        """Every partition of which the log may hold an offset of the group, each once, in a stable order."""
        return dict.fromkeys((*self.offsets.partitions(group_id), *self._being_written.get(group_id, ())))

    def group_ids(self) -> dict[str, None]:
        """Every group that `holds` something."""
        return dict.fromkeys((*self.offsets.group_ids(), *self._being_written))

    def commit(self, group_id: str, offsets: Sequence[OffsetToCommit], settled: Settled) -> None:
        """Commit offsets; `settled` is called once they are durable and visible."""
        now_ms = self._clock.now_ms()
        records = [group_records.offset_record(group_id, each, now_ms=now_ms) for each in offsets]

        def apply(base_offset: int) -> None:
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

    def complete(self, marker: Marker, settled: Settled) -> None:
        """Write a transaction's marker and, once it is durable, make its offsets visible or forget them."""

        def on_settled(error: ErrorCode, base_offset: int) -> None:
            if error is ErrorCode.NONE:
                if self.observer is not None and (held := self.offsets.held_by(marker.producer_id)):
                    self.observer.offsets_completed(held, marker, self._clock.now_ms())
                self.offsets.complete(marker.producer_id, commit=marker.commit)
            settled(error, base_offset)

        self._writer.write_marker(marker, now_ms=self._clock.now_ms(), settled=on_settled)

    def delete(self, keys: Sequence[Key], settled: Settled, *, group_id: str | None = None) -> None:
        """Delete offsets, committed and pending, and with `group_id` the record of that group.

        One batch, all or nothing, unless there are many thousands. Then the group's record comes last, and a batch that
        is refused ends it: a group is never gone before its offsets.
        """
        records = [group_records.offset_tombstone(*key) for key in keys]
        if group_id is not None:
            records.append(group_records.group_tombstone(group_id))
        pieces = list(group_records.in_batches(records))
        outcomes: list[ErrorCode] = []

        def piece_settled(error: ErrorCode, base_offset: int) -> None:
            outcomes.append(error)
            if len(outcomes) == len(pieces):
                settled(max(outcomes, key=bool), base_offset)

        now_ms = self._clock.now_ms()
        start = 0
        for piece in pieces:
            refused = next(filter(None, outcomes), None)
            if refused is not None:
                piece_settled(refused, NO_OFFSET)
                continue
            piece_keys = keys[start : start + len(piece)]
            start += len(piece)
            batch = group_records.batch(piece, self._config, now_ms=now_ms)
            self._write(batch, now_ms, partial(iter, piece_keys), partial(self._remove, piece_keys), piece_settled)

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
