"""`OffsetStore`: the offsets of one partition of `__consumer_offsets`, as far as its log is durable. Pure.

Always true: what is visible equals what replaying the log in order gives, with compaction or without. Two rules make it
so. Every value remembers the log offset of its record, and a transaction's value only replaces one that was written
before it. A tombstone takes away the committed value and every transaction's pending one for the same key, so that a
later COMMIT cannot bring back what was deleted.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from eosin.protocol.names import ZERO_UUID, TopicPartition, Uuid

NO_EXPIRY: Final = -1


@dataclass(frozen=True, slots=True)
class CommittedOffset:
    """One committed offset, and where it stands in the log."""

    offset: int
    leader_epoch: int
    """-1 when the client did not say."""
    metadata: str
    commit_timestamp_ms: int
    expire_timestamp_ms: int = NO_EXPIRY
    """Set only by commits of versions 2 to 4 that carry their own retention time."""
    record_offset: int = -1
    """The log offset of the record that carries it."""
    topic_id: Uuid = ZERO_UUID
    """The topic that it was committed for; zeros where its record does not say."""

    def may_be_of(self, topic_id: Uuid) -> bool:
        """False if it was committed for another topic, which had the name of this one before."""
        return self.topic_id in (ZERO_UUID, topic_id)


class OffsetToCommit(NamedTuple):
    """One offset of a commit request."""

    partition: TopicPartition
    offset: int
    leader_epoch: int = -1
    metadata: str | None = None
    commit_timestamp_ms: int = -1
    """-1: now."""
    expire_timestamp_ms: int = NO_EXPIRY
    """-1: by the broker's retention."""
    topic_id: Uuid = ZERO_UUID
    """The topic that had the name when the request came; zeros if that is not known."""

    def committed(self, *, now_ms: int, record_offset: int) -> CommittedOffset:
        """The value that this becomes."""
        return CommittedOffset(
            offset=self.offset,
            leader_epoch=self.leader_epoch,
            metadata=self.metadata or "",
            commit_timestamp_ms=now_ms if self.commit_timestamp_ms < 0 else self.commit_timestamp_ms,
            expire_timestamp_ms=self.expire_timestamp_ms,
            record_offset=record_offset,
            # Its record has no room for it, and memory is what a replay gives.
            topic_id=self.topic_id if self.expire_timestamp_ms == NO_EXPIRY else ZERO_UUID,
        )


_Offsets = dict[TopicPartition, CommittedOffset]


class OffsetStore:
    """Committed offsets by group, and those of open transactions by producer id."""

    def __init__(self) -> None:
        self._committed: dict[str, _Offsets] = {}
        self._pending: dict[int, dict[str, _Offsets]] = {}
        # The same pending offsets from the other side: group, partition, and the producer ids that hold one for it.
        self._holders: dict[str, dict[TopicPartition, dict[int, None]]] = {}

    def clear(self) -> None:
        """Forget everything."""
        self._committed.clear()
        self._pending.clear()
        self._holders.clear()

    def tables(self) -> Iterator[dict[Any, Any]]:
        """All that it consists of, parts before what holds them, for whoever lets go of it piece by piece."""
        yield from self._committed.values()
        yield self._committed
        for groups in self._pending.values():
            yield from groups.values()
        yield self._pending
        yield from self._holders.values()
        yield self._holders

    # What happens to it, in the order of the log

    def put(self, group_id: str, partition: TopicPartition, value: CommittedOffset) -> None:
        """A plain commit: visible at once."""
        self._committed.setdefault(group_id, {})[partition] = value

    def put_pending(self, producer_id: int, group_id: str, partition: TopicPartition, value: CommittedOffset) -> None:
        """A transaction's commit: invisible until its marker."""
        self._pending.setdefault(producer_id, {}).setdefault(group_id, {})[partition] = value
        self._holders.setdefault(group_id, {}).setdefault(partition, {})[producer_id] = None

    def complete(self, producer_id: int, *, commit: bool) -> None:
        """A marker: the producer's pending offsets become visible, or are dropped.

        Finds nothing when the marker is a repetition, which is harmless.
        """
        for group_id, pending in self._pending.pop(producer_id, {}).items():
            self._release(producer_id, group_id, pending)
            if not commit:
                continue
            committed = self._committed.setdefault(group_id, {})
            for partition, value in pending.items():
                current = committed.get(partition)
                if current is None or value.record_offset > current.record_offset:
                    committed[partition] = value

    def held_by(self, producer_id: int) -> dict[str, int]:
        """Of how many partitions a producer's transaction holds offsets, by group."""
        return {group_id: len(pending) for group_id, pending in self._pending.get(producer_id, {}).items()}

    def transaction_of(self, producer_id: int) -> object:
        """The same object as long as a producer's transaction holds offsets, and another one for its next; None while
        it holds none."""
        return self._pending.get(producer_id)

    def remove(self, group_id: str, partition: TopicPartition) -> None:
        """A tombstone: neither the committed value nor any pending one survives."""
        committed = self._committed.get(group_id)
        if committed is not None:
            committed.pop(partition, None)
            if not committed:
                del self._committed[group_id]
        for producer_id in list(self._holders.get(group_id, {}).get(partition, {})):
            self.remove_pending(producer_id, group_id, partition)

    def remove_group(self, group_id: str) -> dict[TopicPartition, CommittedOffset]:
        """Tombstones of all that a group has. Returns what was committed, for whoever lets go of it piece by piece."""
        committed = self._committed.pop(group_id, {})
        for partition in list(self.pending(group_id)):
            self.remove(group_id, partition)
        return committed

    def remove_pending(self, producer_id: int, group_id: str, partition: TopicPartition) -> None:
        """A tombstone inside of a transaction: takes back what that transaction had pending."""
        groups = self._pending.get(producer_id, {})
        pending = groups.get(group_id, {})
        if pending.pop(partition, None) is None:
            return
        self._forget_holder(producer_id, group_id, partition)
        if not pending:
            del groups[group_id]
        if not groups:
            del self._pending[producer_id]

    # Questions

    def get(self, group_id: str, partition: TopicPartition) -> CommittedOffset | None:
        """The visible value."""
        committed = self._committed.get(group_id)
        return None if committed is None else committed.get(partition)

    def committed(self, group_id: str) -> Mapping[TopicPartition, CommittedOffset]:
        """Every visible value of a group."""
        return self._committed.get(group_id, {})

    def is_pending(self, group_id: str, partition: TopicPartition) -> bool:
        """True if an open transaction holds an offset for the partition."""
        return partition in self._holders.get(group_id, {})

    def has_pending(self, group_id: str) -> bool:
        """True if open transactions hold offsets of the group."""
        return group_id in self._holders

    def pending(self, group_id: str) -> Iterator[TopicPartition]:
        """The partitions for which open transactions hold offsets."""
        return iter(self._holders.get(group_id, {}))

    def pending_offsets(self, group_id: str) -> dict[TopicPartition, int]:
        """The offsets that open transactions hold, of several for a partition the one that was written last."""
        held = (
            (partition, values[group_id][partition])
            for partition, producers in self._holders.get(group_id, {}).items()
            for values in (self._pending[producer_id] for producer_id in producers)
        )
        return {place: value.offset for place, value in sorted(held, key=lambda each: each[1].record_offset)}

    def partitions(self, group_id: str) -> dict[TopicPartition, None]:
        """Every partition for which the group has a committed or a pending value, each once, in a stable order."""
        partitions = dict.fromkeys(self.committed(group_id))
        partitions.update(dict.fromkeys(self.pending(group_id)))
        return partitions

    def is_empty(self, group_id: str) -> bool:
        """True if the group has neither committed nor pending offsets."""
        return group_id not in self._committed and group_id not in self._holders

    @property
    def are_none(self) -> bool:
        """True if no group has any offset."""
        return not (self._committed or self._holders)

    def group_ids(self) -> dict[str, None]:
        """Every group with a committed or pending offset, each once, in a stable order."""
        return dict.fromkeys((*self._committed, *self._holders))

    def open_producers(self) -> Iterator[int]:
        """Producer ids with pending offsets."""
        return iter(self._pending)

    def _release(self, producer_id: int, group_id: str, pending: _Offsets) -> None:
        """A producer holds none of its offsets of a group any more. There may be 100,000, in one step of the event
        loop."""
        holders = self._holders[group_id]
        if len(holders) == len(pending) == sum(map(len, holders.values())):  # nobody else holds any
            del self._holders[group_id]
            return
        for partition in pending:
            of_partition = holders[partition]
            if len(of_partition) == 1:
                del holders[partition]
            else:
                del of_partition[producer_id]
        if not holders:
            del self._holders[group_id]

    def _forget_holder(self, producer_id: int, group_id: str, partition: TopicPartition) -> None:
        partitions = self._holders[group_id]
        holders = partitions[partition]
        del holders[producer_id]
        if not holders:
            del partitions[partition]
        if not partitions:
            del self._holders[group_id]
