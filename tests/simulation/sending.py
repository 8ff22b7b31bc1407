"""Batches in sequence: what a producer does to get batches into partitions, with several in flight."""

import asyncio
from collections.abc import Sequence

from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.names import TopicPartition
from eosin.protocol.records.batch import build_batch
from eosin.protocol.schemas.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from simulation.client import ASK_AGAIN, NEVER_EXPECTED, GaveUp, Session
from simulation.history import Transaction, Write
from simulation.network import ConnectionLost
from simulation.values import record_of

SEQUENCES_BEHIND = frozenset({ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID})
"""Clients take these for a reason to come back while an earlier batch is not in (KAFKA-5494)."""


class Batch:
    """One batch and its fate."""

    __slots__ = ("data", "write")

    def __init__(self, write: Write, data: bytes) -> None:
        self.write = write
        self.data = data


class Sequencer:
    """Numbers the batches of one producer id and epoch, per partition, and sends them."""

    def __init__(self, session: Session, transactional_id: str | None, *, version: int) -> None:
        """`version` is that of Produce."""
        self._session = session
        self._transactional_id = transactional_id
        self._version = version
        self._sequences: dict[TopicPartition, int] = {}
        self.producer_id = -1
        self.producer_epoch = -1

    def adopt(self, producer_id: int, producer_epoch: int) -> None:
        """Go on with this pair; a new one begins with sequence 0 everywhere."""
        if (producer_id, producer_epoch) != (self.producer_id, self.producer_epoch):
            self._sequences.clear()
        self.producer_id, self.producer_epoch = producer_id, producer_epoch

    def batch(self, partition: TopicPartition, values: Sequence[str], transaction: Transaction | None) -> Batch:
        """The next batch for a partition."""
        world = self._session.world
        sequence = self._sequences.get(partition, 0)
        self._sequences[partition] = sequence + len(values)
        write = Write(
            self._session.name,
            partition,
            tuple(values),
            self.producer_id,
            self.producer_epoch,
            sequence,
            world.history.moment(),
            transaction,
        )
        world.history.writes.append(write)
        if transaction is not None:
            transaction.writes.append(write)
        data = build_batch(
            [record_of(partition, value) for value in values],
            timestamp=world.now_ms,
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            base_sequence=sequence,
            transactional=transaction is not None,
        )
        return Batch(write, bytes(data))

    async def deliver_together(self, batches: Sequence[Batch], *, patience_ms: float | None = None) -> bool:
        """Send batches of different partitions in one request, and what was not taken at once one by one; whether all
        are in. Raises GaveUp."""
        try:
            outcome = await self._session.send(ApiKey.PRODUCE, self._version, self._request(*batches))
        except ConnectionLost:
            left = list(batches)
        else:
            left = []
            answers = [each for topic in outcome.responses for each in topic.partition_responses]
            is_refused = False
            for batch, answer in zip(batches, answers, strict=True):
                error = ErrorCode(answer.error_code)
                if error in ASK_AGAIN:
                    left.append(batch)
                elif not self._ended(batch.write, error, answer.base_offset):
                    is_refused = True
            if is_refused:
                return False
        for batch in left:
            if not await self.deliver([batch], patience_ms=patience_ms):
                return False
        return True

    async def deliver(self, batches: Sequence[Batch], *, patience_ms: float | None = None) -> bool:
        """Send batches of one partition, all in flight at once, until each is in or one is refused; whether all are in.
        Raises GaveUp."""
        session, world = self._session, self._session.world
        number = world.begin(f"{session.name}: PRODUCE {batches[0].write.partition} {batches[0].write.values}")
        begun = world.network.time()
        waiting = list(batches)
        is_again = False
        try:
            while waiting:
                now, later = waiting, waiting[:0]
                if is_again and world.retries_in_order:
                    now, later = waiting[:1], waiting[1:]
                answers = [session.send(ApiKey.PRODUCE, self._version, self._request(each)) for each in now]
                outcomes = await asyncio.gather(*answers, return_exceptions=True)
                left: list[Batch] = []
                for batch, outcome in zip(now, outcomes, strict=True):
                    if isinstance(outcome, ConnectionLost):
                        left.append(batch)
                        continue
                    if isinstance(outcome, BaseException):
                        raise outcome
                    answer = outcome.responses[0].partition_responses[0]
                    error = ErrorCode(answer.error_code)
                    if error in ASK_AGAIN or (error in SEQUENCES_BEHIND and left):
                        left.append(batch)
                    elif not self._ended(batch.write, error, answer.base_offset):
                        return False
                is_again = bool(left)
                waiting = left + later
                if left:
                    if patience_ms is not None and world.network.time() - begun > patience_ms / 1000:
                        raise GaveUp
                    await session.back_off()
            return True
        finally:
            world.end(number)

    def _ended(self, write: Write, error: ErrorCode, offset: int) -> bool:
        world = self._session.world
        write.answered = world.history.moment()
        write.answered_ms = world.now_ms
        if error in NEVER_EXPECTED:
            world.fault(f"{self._session.name} was answered {error.name} to PRODUCE of {write.values}")
        write.acknowledged = error in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER)
        if error == ErrorCode.NONE:
            write.offset = offset
        elif not write.acknowledged:
            write.error = error.name
        return write.acknowledged

    def _request(self, *batches: Batch) -> ProduceRequest:
        topics = tuple(
            TopicProduceData(
                batch.write.partition.topic,
                partition_data=(PartitionProduceData(batch.write.partition.partition, batch.data),),
            )
            for batch in batches
        )
        return ProduceRequest(self._transactional_id, -1, 30_000, topics)
