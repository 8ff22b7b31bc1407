"""A history under judgement, and what several rules want to know of it. Pure."""

from collections.abc import Iterator

from eosin.protocol.names import TopicPartition
from simulation.history import NEVER, History, Introduction, LoggedBatch, Seen, Transaction, Write
from simulation.values import COMPACTED, DELETED, RETAINED, is_tombstone, key_of

Violations = Iterator[str]


class Case:
    """A history with its indices."""

    def __init__(self, history: History) -> None:
        self.history = history
        self.final = history.final
        self.write_of: dict[str, Write] = {value: write for write in history.writes for value in write.values}
        self.places: dict[str, list[tuple[TopicPartition, int]]] = {}
        """Where each value lies in the logs at the end."""
        self.visible: dict[str, list[tuple[TopicPartition, int]]] = {}
        """Where committed readers see it at the end."""
        for partition, final in self.final.partitions.items():
            for batch in final.batches:
                for seen in records(batch):
                    self.places.setdefault(seen.value, []).append((partition, seen.offset))
            for seen in final.committed:
                self.visible.setdefault(seen.value, []).append((partition, seen.offset))
        self._offsets = self._known_offsets()

    def _known_offsets(self) -> dict[str, int]:
        """Where the values of the compacted topic were, as somebody was told."""
        offsets: dict[str, int] = {}
        for write in self.history.writes:
            if write.partition == COMPACTED and write.offset >= 0:
                for index, value in enumerate(write.values):
                    offsets[value] = write.offset + index
        for fetched in self.history.fetches:
            if fetched.partition == COMPACTED:
                for seen in fetched.records:
                    offsets[seen.value] = seen.offset
        return offsets

    def may_be_gone(self, value: str) -> bool:
        """Whether a value that was written need not be in its log any more."""
        write = self.write_of.get(value)
        if write is None:
            return False
        if write.partition == COMPACTED:
            return self.may_be_compacted_away(value)
        if write.partition == DELETED:
            return any(write.asked < deletion.answered for deletion in self.history.deletions)
        if write.partition == RETAINED:
            first = write.offset + write.values.index(value)
            return write.offset < 0 or first < self.final.partitions[RETAINED].log_start_offset
        return False

    def may_be_compacted_away(self, value: str) -> bool:
        """Whether a value need not be there: something newer has its key, or had it until it was deleted."""
        write = self.write_of.get(value)
        if write is None or write.partition != COMPACTED:
            return False
        if is_tombstone(value):
            return True
        offset = self._offsets.get(value, -1)
        for other, written in self.write_of.items():
            if written.partition != COMPACTED or other == value or key_of(other) != key_of(value):
                continue
            is_newer = self._offsets.get(other, NEVER) > offset
            if is_newer and (other in self.visible or (is_tombstone(other) and may_be_committed(written))):
                return True
        return False

    def introduction_of(self, transaction: Transaction) -> Introduction:
        """How the producer of a transaction was given what it wrote it with."""
        return max(
            (
                each
                for each in self.history.introductions
                if each.instance == transaction.instance and each.answered < transaction.begun
            ),
            key=lambda each: each.answered,
        )

    def introductions_of_others(self, transaction: Transaction) -> Iterator[Introduction]:
        """Those of other instances with the same transactional id."""
        for each in self.history.introductions:
            if each.transactional_id == transaction.transactional_id and each.instance != transaction.instance:
                yield each

    def may_be_refused(
        self, transaction: Transaction, answered: int, answered_ms: int, *, by_coordinator: bool = False
    ) -> bool:
        """Whether the producer of a transaction may have lost it by then: its time had run out, another instance came,
        or a request for an epoch came late. A leader that is cut off may refuse what its successor has let begin; a
        coordinator may not, for it asks its replicas first (cluster.md 6.5)."""
        if answered_ms - transaction.begun_ms >= transaction.timeout_ms or self.history.ages_differ:
            return True
        if self.history.may_be_stale and not by_coordinator:
            return True
        since = self.introduction_of(transaction).asked
        return any(
            (each.answered > since or each.lost) and each.asked < answered
            for each in self.history.introductions
            if each.transactional_id == transaction.transactional_id
            and (each.instance != transaction.instance or each.lost)
        )

    def may_have_expired(self, transaction: Transaction, error: str, answered: int) -> bool:
        """Whether it was refused because its id was forgotten, which never happens to an open transaction: it is open
        from its first acknowledged write to the first request to end it."""
        if not self.history.ids_expire or error != "INVALID_PRODUCER_ID_MAPPING":
            return False
        is_begun = any(write.acknowledged and write.answered < answered for write in transaction.writes)
        return not is_begun or (transaction.lost_ends > 0 and transaction.end_answered == answered)


def records(batch: LoggedBatch) -> list[Seen]:
    """The records of a batch as it lies in a log."""
    return [Seen(offset, value) for offset, value in zip(batch.offsets, batch.values, strict=True)]


def may_be_committed(write: Write) -> bool:
    """Whether readers may come to see what was written, if it is in the log at all."""
    return write.transaction is None or write.transaction.may_be_committed


def difference(expected: list[Seen], found: list[Seen]) -> str:
    """What is wrong with what was found."""
    missing = [seen for seen in expected if seen not in found]
    surplus = [seen for seen in found if seen not in expected]
    return f"not {missing} but {surplus}"
