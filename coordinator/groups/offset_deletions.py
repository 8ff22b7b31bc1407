"""`OffsetDeletions`: many offsets go, some in each turn of the event loop (groups.md 14).

Always true: a group keeps all its offsets or loses all of them, unless its log fails in the middle. What is committed
while the offsets of a topic go stays, since whoever commits for one of them has the old one deleted first. And a crash
in between leaves none of them to a topic that was made anew meanwhile: where they do not go at once, the log says in
the same turn that the topic has ended, and who loads it deletes what stands before that.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Final

from eosin.coordinator.groups.log import records as group_records
from eosin.coordinator.groups.log.writer import NO_OFFSET, Settled
from eosin.coordinator.groups.offset_commits import Commits, Key, Tombstones
from eosin.coordinator.groups.rules.config import GroupConfig
from eosin.coordinator.groups.rules.offset_store import OffsetToCommit
from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import TopicPartition
from eosin.protocol.records.batch import NewRecord
from eosin.runtime.clock import Clock
from eosin.runtime.turns import SharedTurns, TurnQueue

DELETED_AT_ONCE: Final = 200
"""In one step: an offset takes some 5 us."""
STEPS_PER_TURN: Final = 5


class _DoomedOffsets:
    """Offsets that are being deleted."""

    def __init__(self, matches: Callable[[Key], bool]) -> None:
        self.matches = matches
        self.kept: set[Key] = set()
        """Offsets that were committed since."""

    def dooms(self, key: Key) -> bool:
        """True if the offset is one of those that go."""
        return self.matches(key) and key not in self.kept


class OffsetDeletions:
    """The deletions of one partition of `__consumer_offsets`."""

    def __init__(
        self,
        commits: Commits,
        *,
        clock: Clock,
        config: GroupConfig,
        turns: SharedTurns,
        is_active: Callable[[], bool],
        settled: Settled,
    ) -> None:
        """`settled` hears of each write that deletes offsets of topics. All of it is done in `turns`."""
        self._commits = commits
        self._clock = clock
        self._config = config
        self._turns = turns
        self._is_active = is_active
        self._settled = settled
        self._queue: TurnQueue | None = None  # few partitions ever delete anything
        self._doomed: list[_DoomedOffsets] = []

    def delete_group(
        self, group_id: str, partitions: Sequence[TopicPartition], tombstones: Sequence[NewRecord], settled: Settled
    ) -> None:
        """Delete a group, to which nobody may commit meanwhile, with all its offsets. `tombstones` are those of the
        group itself."""
        self._begin(self._group_steps(group_id, partitions, tombstones, settled))

    def forget(self, topics: Collection[str]) -> None:
        """Delete the offsets of some topics, in all groups."""
        if not self._commits.are_none and not self._go(lambda key: key.partition.topic in topics):
            self.end_topics(topics)

    def end_topics(self, topics: Iterable[str]) -> None:
        """Write that all offsets of these topics which the log has are to go, for a crash that comes before they have
        gone."""
        records = [group_records.topic_tombstone(topic) for topic in topics]
        self._commits.write_tombstones(records, self._settled)

    def resume(self, keys: Collection[tuple[str, TopicPartition]]) -> None:
        """Go on with the deletion of these offsets, which a crash has interrupted."""
        if keys:
            self._go(lambda key: key in keys)

    def before_commit(self, group_id: str, offsets: Sequence[OffsetToCommit]) -> None:
        """Delete what these offsets would follow, where it is to go: they themselves stay."""
        keys = [Key(group_id, each.partition) for each in offsets] if self._doomed else []
        for gone in self._doomed:
            doomed = [key for key in keys if gone.dooms(key)]
            gone.kept.update(doomed)
            held = [key for key in dict.fromkeys(doomed) if self._commits.has(key)]
            if held:
                self._commits.delete(held, self._settled)

    @property
    def are_under_way(self) -> bool:
        """True if offsets of topics, or of an interrupted deletion, are going."""
        return bool(self._doomed)

    def dooms(self, group_id: str, partition: TopicPartition) -> bool:
        """True if what is committed for the partition is about to go."""
        return bool(self._doomed) and any(gone.dooms(Key(group_id, partition)) for gone in self._doomed)

    def _go(self, matches: Callable[[Key], bool]) -> bool:
        """Begin to delete offsets. True if all of them have gone at once."""
        gone = _DoomedOffsets(matches)
        self._doomed.append(gone)
        self._begin(self._doomed_steps(gone))
        return gone not in self._doomed

    def _begin(self, steps: Iterator[None]) -> None:
        if self._queue is None:
            self._queue = TurnQueue(self._clock, steps_per_turn=STEPS_PER_TURN, turns=self._turns)
        self._queue.add(steps)

    def _group_steps(
        self, group_id: str, partitions: Sequence[TopicPartition], tombstones: Sequence[NewRecord], settled: Settled
    ) -> Iterator[None]:
        """All batches are made before the first is written."""
        now_ms = self._clock.now_ms()
        pieces: list[Tombstones] = []
        for start in range(0, len(partitions) or 1, DELETED_AT_ONCE):
            if pieces:
                yield
            if not self._is_active():
                break
            keys = [Key(group_id, each) for each in partitions[start : start + DELETED_AT_ONCE]]
            records = [group_records.offset_tombstone(*key) for key in keys]
            if start + DELETED_AT_ONCE >= len(partitions):
                records += tombstones
            pieces.append(Tombstones(keys, group_records.batch(records, self._config, now_ms=now_ms)))
        if self._is_active():
            self._commits.delete_group(group_id, pieces, settled)
        else:
            settled(ErrorCode.NOT_COORDINATOR, NO_OFFSET)

    def _doomed_steps(self, gone: _DoomedOffsets) -> Iterator[None]:
        doomed: list[Key] = []
        seen = 0
        for group_id in self._commits.group_ids():
            for partition in self._commits.partitions(group_id):
                seen += 1
                key = Key(group_id, partition)
                if gone.matches(key):
                    doomed.append(key)
                if seen == DELETED_AT_ONCE:
                    self._delete(gone, doomed)
                    doomed, seen = [], 0
                    yield
                    if not self._is_active():  # another broker goes on with it
                        self._doomed.remove(gone)
                        return
        self._delete(gone, doomed)
        self._doomed.remove(gone)

    def _delete(self, gone: _DoomedOffsets, doomed: Sequence[Key]) -> None:
        keys = [key for key in doomed if gone.dooms(key)]
        if keys and self._is_active():
            self._commits.delete(keys, self._settled)
