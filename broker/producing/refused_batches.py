"""`RefusedBatches`: whose batches were refused by partitions that did not know their producers, so that nothing in
flight behind the first of them is taken for the beginning of its producer (storage.md 5.2.6, KAFKA-14359).

A client sends up to five batches of a partition before it hears of the first. If that one comes just before its topic,
or the election of this broker, is known here, it is refused and comes again; but one behind it comes just after, and a
log that does not know a producer takes any sequence. The first one would be out of order for good then. Likewise with
one that is refused for what it is: a batch that is too large comes again in pieces of the same sequences, and of one
that is given up Java gives the sequences to what is behind it, whose repetition would be taken for a duplicate.

Always true: a log that knows a producer judges by itself; what is remembered here only refuses, for a short while, what
comes behind a batch that was refused before; and it is bounded, whatever clients send.
"""

from typing import TYPE_CHECKING, Final

from eosin.protocol.errors import ErrorCode
from eosin.storage.producers.guards import AwaitedBatch
from eosin.storage.results.log_results import Refused

if TYPE_CHECKING:
    from eosin.broker.producing.produced import ProducedBatch
    from eosin.protocol.names import Uuid
    from eosin.runtime.clock import Clock

REFUSED: Final = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.INVALID_RECORD,
        ErrorCode.INVALID_TIMESTAMP,
    }
)
"""The errors after which clients send a batch again as it is, or use its sequences again."""

KEPT_MS: Final = 10_000
"""A batch is remembered for so long at least, and twice as long at most, after it was refused last: longer than those
behind it are in flight. A client that has given it up instead may go on after that."""
MOST: Final = 1000
"""So many are remembered of each `KEPT_MS`; beyond them the oldest is forgotten, as Apache Kafka forgets all."""

_Key = tuple["str | Uuid", int, int]
"""A topic as requests name it, a partition, a producer id."""


class RefusedBatches:
    """The refused batches of one broker."""

    __slots__ = ("_clock", "_older", "_recent", "is_any")

    def __init__(self, clock: "Clock") -> None:
        self._clock = clock
        self.is_any = False
        """False if there are none: the deadline of the batches runs while there may be."""
        self._recent: dict[_Key, AwaitedBatch] = {}
        self._older: dict[_Key, AwaitedBatch] = {}

    def __len__(self) -> int:
        return len(self._recent) + len(self._older)

    def add(self, batch: "ProducedBatch") -> None:
        """A batch was refused. Harmless for one that has no producer, or whose sequences clients do not use again."""
        header, outcome = batch.header, batch.outcome
        if header.producer_id < 0 or not isinstance(outcome, Refused) or outcome.error not in REFUSED:
            return
        if not self.is_any:
            self._count()
        key = (batch.topic, batch.index, header.producer_id)
        awaited = self._recent.pop(key, None) or self._older.pop(key, None)
        if awaited is None:
            awaited = AwaitedBatch(producer_epoch=header.producer_epoch, base_sequence=header.base_sequence)
        else:
            awaited.also_requested(producer_epoch=header.producer_epoch, base_sequence=header.base_sequence)
        if len(self._recent) >= MOST:
            del self._recent[next(iter(self._recent))]
        self._recent[key] = awaited

    def refusal(self, batch: "ProducedBatch") -> Refused | None:
        """Returns why a batch may not be appended yet: it comes behind one that was refused, and that its log lacks. To
        be asked only while there may be any (`is_any`)."""
        header = batch.header
        key = (batch.topic, batch.index, header.producer_id)
        awaited = self._recent.get(key) or self._older.get(key)
        if awaited is None:
            return None
        if batch.log.producer_state.get(header.producer_id) is not None:
            self._recent.pop(key, None)
            self._older.pop(key, None)
            return None
        if awaited.producer_epoch != header.producer_epoch or not awaited.is_overtaken_by(header.base_sequence):
            return None
        return Refused(
            ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
            f"producer {header.producer_id} sent sequence {header.base_sequence} behind {awaited.lowest_sequence},"
            " which was refused",
        )

    def _count(self) -> None:
        self.is_any = True
        self._clock.start_deadline(KEPT_MS, self._forget)

    def _forget(self) -> None:
        self.is_any = False
        self._older, self._recent = self._recent, {}
        if self._older:
            self._count()
