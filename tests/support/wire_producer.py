"""A producer as it goes over the wire: it keeps its id, its epoch and its sequences, and does what a test tells it."""

from dataclasses import dataclass, field
from typing import Any, Final

from waiting import until
from wire import Wire, now_ms, produced, records, settled, unique

from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import ZERO_UUID, TopicPartition
from eosin.protocol.records.batch import build_batch, next_sequence
from eosin.protocol.schemas.add_offsets_to_txn import AddOffsetsToTxnRequest
from eosin.protocol.schemas.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from eosin.protocol.schemas.end_txn import EndTxnRequest, EndTxnResponse
from eosin.protocol.schemas.produce import PartitionProduceResponse, ProduceRequest
from eosin.protocol.schemas.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)

_TOPIC_IDS_FROM: Final = 6


@dataclass
class RawProducer:
    """A producer that does as it is told. `level` 2 speaks the versions of KIP-890's second part, 1 those before."""

    wire: Wire
    transactional_id: str | None
    producer_id: int
    producer_epoch: int
    level: int = 2
    sequences: dict[TopicPartition, int] = field(default_factory=dict)
    last_end: tuple[EndTxnRequest, int] | None = None
    """The last EndTxn and its version."""

    @property
    def pair(self) -> tuple[int, int]:
        return self.producer_id, self.producer_epoch

    def adopt(self, answer: Any) -> None:
        """Go on with the id and the epoch of an answer; sequences begin again."""
        if (answer.producer_id, answer.producer_epoch) != self.pair:
            self.producer_id, self.producer_epoch = answer.producer_id, answer.producer_epoch
            self.sequences.clear()

    # --- records

    def batch(
        self,
        partition: TopicPartition,
        count: int = 1,
        *,
        sequence: int | None = None,
        epoch: int | None = None,
        size: int = 5,
        timestamp: int | None = None,
    ) -> bytearray:
        """The next batch for a partition. A sequence that is given does not count as the next one."""
        first = self.sequences.get(partition, 0) if sequence is None else sequence
        if sequence is None:
            self.sequences[partition] = next_sequence(first, count)
        return build_batch(
            records(count, size=size),
            timestamp=now_ms() if timestamp is None else timestamp,
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch if epoch is None else epoch,
            base_sequence=first,
            transactional=self.transactional_id is not None,
        )

    def request(self, partition: TopicPartition, batch: Any) -> ProduceRequest:
        """The Produce that carries a batch of this producer."""
        return self.wire.produce_request(partition, batch, transactional_id=self.transactional_id)

    async def resend(
        self, partition: TopicPartition, batch: Any, *, version: int | None = None
    ) -> PartitionProduceResponse:
        """Send a batch that may have been sent before."""
        chosen = (12 if self.level >= 2 else 11) if version is None else version
        answer = await settled(
            lambda: self.wire.ask(self.request(partition, batch), chosen),
            lambda answer: produced(answer).error_code,
        )
        return produced(answer)

    async def send(
        self, partition: TopicPartition, count: int = 1, *, version: int | None = None, **how: Any
    ) -> PartitionProduceResponse:
        """Send the next batch, or one with another `sequence` or `epoch`."""
        return await self.resend(partition, self.batch(partition, count, **how), version=version)

    async def append(self, partition: TopicPartition, count: int = 1, **how: Any) -> int:
        """`send`, which must succeed; the first offset."""
        answer = await self.send(partition, count, **how)
        assert answer.error_code == ErrorCode.NONE, ErrorCode(answer.error_code)
        return answer.base_offset

    # --- transactions

    async def add(self, *partitions: TopicPartition, version: int = 3, epoch: int | None = None) -> ErrorCode:
        """AddPartitionsToTxn; the first partition's error."""
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id or "",
            v3_and_below_producer_id=self.producer_id,
            v3_and_below_producer_epoch=self.producer_epoch if epoch is None else epoch,
            v3_and_below_topics=tuple(AddPartitionsToTxnTopic(name, (index,)) for name, index in partitions),
        )
        answer = await settled(lambda: self.wire.ask(request, version), lambda answer: added(answer)[0])
        return added(answer)[0]

    async def add_offsets(self, group: str, *, version: int = 4, epoch: int | None = None) -> ErrorCode:
        """AddOffsetsToTxn."""
        request = AddOffsetsToTxnRequest(
            self.transactional_id or "", self.producer_id, self.producer_epoch if epoch is None else epoch, group
        )
        answer = await settled(lambda: self.wire.ask(request, version), lambda answer: int(answer.error_code))
        return ErrorCode(answer.error_code)

    async def commit_offsets(
        self,
        group: str,
        partition: TopicPartition,
        offset: int,
        *,
        version: int | None = None,
        epoch: int | None = None,
        generation_id: int = -1,
        **member: Any,
    ) -> ErrorCode:
        """TxnOffsetCommit of one partition; `member` as in the request."""
        chosen = (5 if self.level >= 2 else 4) if version is None else version
        topic_id = self.wire.topic_id(partition.topic) if chosen >= _TOPIC_IDS_FROM else ZERO_UUID
        entry = TxnOffsetCommitRequestPartition(partition_index=partition.partition, committed_offset=offset)
        request = TxnOffsetCommitRequest(
            transactional_id=self.transactional_id or "",
            group_id=group,
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch if epoch is None else epoch,
            topics=(TxnOffsetCommitRequestTopic(partition.topic, topic_id, (entry,)),),
            generation_id_or_member_epoch=generation_id,
            **member,
        )
        answer = await settled(
            lambda: self.wire.ask(request, chosen), lambda answer: answer.topics[0].partitions[0].error_code
        )
        return ErrorCode(answer.topics[0].partitions[0].error_code)

    async def end(
        self,
        *,
        commit: bool,
        version: int | None = None,
        pair: tuple[int, int] | None = None,
    ) -> EndTxnResponse:
        """EndTxn; a pair that comes back is adopted, unless the test gave the pair that is sent."""
        pid, epoch = self.pair if pair is None else pair
        request = EndTxnRequest(self.transactional_id or "", pid, epoch, commit)
        chosen = (5 if self.level >= 2 else 4) if version is None else version
        answer: EndTxnResponse = await settled(
            lambda: self.wire.ask(request, chosen), lambda answer: int(answer.error_code)
        )
        if answer.error_code == ErrorCode.NONE:
            self.last_end = request, chosen
        if pair is None and answer.producer_id >= 0:
            self.adopt(answer)
        return answer

    async def completed(self) -> None:
        """Wait until the transaction that was ended last is complete: only then is the same EndTxn answered again."""
        assert self.last_end is not None
        request, version = self.last_end

        async def is_complete() -> bool:
            answer = await self.wire.ask(request, version)
            assert answer.error_code in (ErrorCode.NONE, ErrorCode.CONCURRENT_TRANSACTIONS)
            return bool(answer.error_code == ErrorCode.NONE)

        await until(is_complete)

    async def commit(self, **how: Any) -> None:
        """`end`, which must succeed."""
        assert (await self.end(commit=True, **how)).error_code == ErrorCode.NONE

    async def abort(self, **how: Any) -> None:
        """`end`, which must succeed."""
        assert (await self.end(commit=False, **how)).error_code == ErrorCode.NONE


def added(answer: Any) -> list[ErrorCode]:
    """The partitions' errors in an answer to AddPartitionsToTxn up to version 3."""
    return [
        ErrorCode(each.partition_error_code)
        for topic in answer.results_by_topic_v3_and_below
        for each in topic.results_by_partition
    ]


async def idempotent(wire: Wire) -> RawProducer:
    """A producer without a transactional id."""
    answer = await wire.init(None)
    assert answer.error_code == ErrorCode.NONE
    return RawProducer(wire, None, answer.producer_id, answer.producer_epoch)


async def transactional(
    wire: Wire, transactional_id: str | None = None, *, level: int = 2, timeout_ms: int = 60_000
) -> RawProducer:
    """A producer that has just been initialised; `level` is the transaction version that it speaks."""
    name = transactional_id or unique("tx")
    answer = await wire.init(name, timeout_ms=timeout_ms)
    assert answer.error_code == ErrorCode.NONE
    return RawProducer(wire, name, answer.producer_id, answer.producer_epoch, level)
