"""A small producer: plain, idempotent or transactional, by the first and by the second transaction protocol.

Owns a producer id, its epoch and the next sequence of each partition. Always true: a sequence is used for one batch
only, batches of one partition are sent one after the other, and a transaction in which anything failed can only be
aborted. Batching is the caller's: one `send` is one batch. For tests that need a wrong id, epoch or sequence, `send`
takes them as arguments, and `produce.py` sends any bytes.

TV1 (KIP-98): AddPartitionsToTxn before the first batch of a partition, epochs change at InitProducerId only.
TV2 (KIP-890): Produce v12 adds partitions by itself, EndTxn v5 answers with the epoch of the next transaction.
"""

import asyncio
import functools
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from eosin.client.client import Client, CoordinatorType
from eosin.client.errors import BrokerError, ClientError, ProducerStateError, check
from eosin.client.produce import produce
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.names import ProducerIdAndEpoch, TopicPartition
from eosin.protocol.records.batch import (
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NewRecord,
    build_batch,
    next_sequence,
)
from eosin.protocol.records.compression import Compression
from eosin.protocol.schemas.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from eosin.protocol.schemas.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from eosin.protocol.schemas.end_txn import EndTxnRequest, EndTxnResponse
from eosin.protocol.schemas.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from eosin.protocol.schemas.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from eosin.protocol.types import Message

TV1: Final = 1
TV2: Final = 2
_TV2_PRODUCE: Final = 12
_TV2_END_TXN: Final = 5
_TV2_OFFSET_COMMIT: Final = 5
TRANSACTION_TIMEOUT_MS: Final = 60_000

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ConsumerGroupMetadata:
    """The consumer whose offsets a transaction commits; without a generation it need not be a member."""

    group_id: str
    generation_id: int = -1
    member_id: str = ""
    group_instance_id: str | None = None


class Producer:
    """A producer; with a transactional id, a transactional one. Call `init` first, unless it is to be a plain one."""

    def __init__(
        self,
        client: Client,
        transactional_id: str | None = None,
        *,
        transaction_version: int | None = None,
        transaction_timeout_ms: int = TRANSACTION_TIMEOUT_MS,
        compression: Compression = Compression.NONE,
        acks: int = -1,
    ) -> None:
        """`transaction_version` is TV1 or TV2; None is what the cluster has agreed on."""
        self.transactional_id: Final = transactional_id
        self.identity = ProducerIdAndEpoch()
        self.sequences: dict[TopicPartition, int] = {}
        """The sequence of the next batch of each partition. A test may change it."""
        self._client = client
        self._wanted_version = transaction_version
        self._transaction_version = TV1
        self._transaction_timeout_ms = transaction_timeout_ms
        self._compression = compression
        self._acks = acks
        self._in_transaction = False
        self._touched: set[TopicPartition | str] = set()
        """The contents of the open transaction: partitions, and groups by id."""
        self._others_write = False
        """True if other producers have written into the open transaction: those that share it, or left it open."""
        self._failure: ClientError | None = None
        self._turns: dict[TopicPartition, asyncio.Lock] = {}

    @property
    def in_transaction(self) -> bool:
        """True if `begin` was called and neither `commit` nor `abort` since."""
        return self._in_transaction

    @property
    def transaction_version(self) -> int:
        """TV1 or TV2, known after `init`."""
        return self._transaction_version

    # --- the producer id

    async def init(self, *, keep: bool = False) -> ProducerIdAndEpoch:
        """Get a producer id and an epoch, fencing earlier holders of the transactional id. With `keep`, ask to go on
        with the present ones in the next epoch (KIP-360): refused when another holder has come since, and granted under
        a new producer id when none has and the id was forgotten (`transactional.id.expiration.ms`). An unfinished
        transaction of an earlier holder is aborted."""
        await self._agree()
        request = InitProducerIdRequest(
            transactional_id=self.transactional_id,
            transaction_timeout_ms=self._transaction_timeout_ms,
            producer_id=self.identity.producer_id if keep else NO_PRODUCER_ID,
            producer_epoch=self.identity.producer_epoch if keep else NO_PRODUCER_EPOCH,
        )

        async def attempt() -> InitProducerIdResponse:
            if self.transactional_id is None:
                response: InitProducerIdResponse = await self._client.request(ApiKey.INIT_PRODUCER_ID, request)
            else:
                response = await self._call_transaction_coordinator(ApiKey.INIT_PRODUCER_ID, request)
            check(response.error_code, f"initialising producer {self.transactional_id or '(idempotent)'}")
            return response

        response = await self._client.retry(attempt)
        self._adopt(ProducerIdAndEpoch(response.producer_id, response.producer_epoch))
        self._leave_transaction()
        return self.identity

    async def act_as(self, identity: ProducerIdAndEpoch) -> None:
        """Go on as one of several holders of an identity that another producer of this transactional id initialised.

        What is sent after `begin` is part of that producer's open transaction, which it alone ends. Sequences begin at
        0, so no two holders may write to one partition, and a partition of this epoch that was written to before not
        at all: the broker takes such batches for repetitions.
        """
        await self._agree()
        self._adopt(identity)
        self.sequences.clear()
        self._leave_transaction()

    def share(self) -> ProducerIdAndEpoch:
        """The identity for others to `act_as` in the open transaction. It is then ended at the coordinator even if this
        producer adds nothing to it, and after an abort nothing more is taken from them."""
        self._others_write = True
        return self.identity

    async def _agree(self) -> None:
        """Settle on a transaction protocol."""
        if self._wanted_version is None:
            agreed = await self._client.transaction_version()
            self._transaction_version = TV2 if agreed >= TV2 else TV1
        else:
            self._transaction_version = self._wanted_version

    def _adopt(self, identity: ProducerIdAndEpoch) -> None:
        if identity != self.identity:
            self.identity = identity
            self.sequences.clear()

    # --- records

    async def send(
        self,
        partition: TopicPartition,
        records: Sequence[NewRecord],
        *,
        timestamp: int = -1,
        identity: ProducerIdAndEpoch | None = None,
        base_sequence: int | None = None,
    ) -> int:
        """Append one batch of at least one record; returns the offset of the first. Raises a ClientError.

        `timestamp` (ms) is for records without one. `identity` and `base_sequence` replace its own this once.
        """
        build = functools.partial(build_batch, records, timestamp=timestamp)
        return await self.send_built(partition, build, len(records), identity, base_sequence)

    async def send_built(
        self,
        partition: TopicPartition,
        build: Callable[..., bytearray],
        count: int,
        identity: ProducerIdAndEpoch | None = None,
        base_sequence: int | None = None,
    ) -> int:
        """`send` for a batch of `count` records that `build` makes, given what `build_batch` takes from a producer."""
        async with self._turns.setdefault(partition, asyncio.Lock()):
            await self._join(partition)
            deliberate = identity is not None or base_sequence is not None
            present = identity or self.identity
            following = self.sequences.get(partition, 0) if present.producer_id >= 0 else NO_SEQUENCE
            sequence = following if base_sequence is None else base_sequence
            batch = build(
                producer_id=present.producer_id,
                producer_epoch=present.producer_epoch,
                base_sequence=sequence,
                transactional=self.transactional_id is not None,
                compression=self._compression,
            )
            offset = await self._guarded(lambda: self._append(partition, batch), deliberate=deliberate)
            if not deliberate and sequence != NO_SEQUENCE:
                self.sequences[partition] = next_sequence(sequence, count)
            return offset

    async def send_all(
        self, records: Mapping[TopicPartition, Sequence[NewRecord]], *, timestamp: int = -1
    ) -> dict[TopicPartition, int]:
        """`send` to several partitions at once; returns the first offset in each. Raises the first error, after all
        have ended."""
        sends = [self.send(partition, batch, timestamp=timestamp) for partition, batch in records.items()]
        results = await asyncio.gather(*sends, return_exceptions=True)
        offsets = {}
        for partition, result in zip(records, results, strict=True):
            if isinstance(result, BaseException):
                raise result
            offsets[partition] = result
        return offsets

    async def _append(self, partition: TopicPartition, batch: bytearray) -> int:
        at_most = None
        if self.transactional_id is not None and self._transaction_version < TV2:
            at_most = _TV2_PRODUCE - 1

        async def attempt() -> int:
            response = await produce(
                self._client,
                partition,
                batch,
                transactional_id=self.transactional_id,
                acks=self._acks,
                at_most=at_most,
            )
            # A duplicate was appended by an attempt whose response was lost.
            if response.error_code != ErrorCode.DUPLICATE_SEQUENCE_NUMBER:
                check(response.error_code, f"appending to {partition}", response.error_message)
            return response.base_offset

        return await self._client.retry(attempt)

    # --- transactions

    def begin(self) -> None:
        """Open a transaction. Nothing is sent."""
        if self.transactional_id is None:
            raise ProducerStateError("a producer without a transactional id has no transactions")
        if self.identity.producer_id < 0:
            raise ProducerStateError("the producer was not initialised")
        if self._in_transaction:
            raise ProducerStateError("a transaction is open already")
        self._in_transaction = True

    async def send_offsets(
        self,
        offsets: Mapping[TopicPartition, int],
        group: ConsumerGroupMetadata | str,
        *,
        metadata: Mapping[str, str] | None = None,
        may_be_gone: bool = False,
    ) -> set[TopicPartition]:
        """Commit a group's offsets as part of the transaction. Raises a ClientError.

        `metadata` is kept with the offsets of each topic. With `may_be_gone`, partitions that the broker does not know
        are left out, and returned.
        """
        member = ConsumerGroupMetadata(group) if isinstance(group, str) else group
        await self._join(member.group_id)
        partitions: dict[str, list[TxnOffsetCommitRequestPartition]] = {}
        for partition, offset in offsets.items():
            entry = TxnOffsetCommitRequestPartition(
                partition_index=partition.partition,
                committed_offset=offset,
                committed_metadata=(metadata or {}).get(partition.topic),
            )
            partitions.setdefault(partition.topic, []).append(entry)
        request = TxnOffsetCommitRequest(
            transactional_id=self.transactional_id or "",
            group_id=member.group_id,
            producer_id=self.identity.producer_id,
            producer_epoch=self.identity.producer_epoch,
            generation_id_or_member_epoch=member.generation_id,
            member_id=member.member_id,
            group_instance_id=member.group_instance_id,
            topics=tuple(
                TxnOffsetCommitRequestTopic(name, partitions=tuple(each)) for name, each in partitions.items()
            ),
        )
        at_most = _TV2_OFFSET_COMMIT if self._transaction_version >= TV2 else _TV2_OFFSET_COMMIT - 1

        async def attempt() -> set[TopicPartition]:
            response: TxnOffsetCommitResponse = await self._client.call_coordinator(
                CoordinatorType.GROUP, member.group_id, ApiKey.TXN_OFFSET_COMMIT, request, at_most=at_most
            )
            gone = set()
            for topic in response.topics:
                for each in topic.partitions:
                    if may_be_gone and each.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                        gone.add(TopicPartition(topic.name, each.partition_index))
                    else:
                        check(each.error_code, f"committing group {member.group_id!r} in a transaction")
            return gone

        return await self._guarded(lambda: self._client.retry(attempt))

    async def commit(self) -> None:
        """End the transaction, keeping it. Raises a ClientError; then `abort` is what remains."""
        if self._failure is not None:
            raise ProducerStateError(f"the producer must abort its transaction: {self._failure}") from self._failure
        await self._end(commit=True)

    async def abort(self) -> None:
        """End the transaction, discarding it."""
        await self._end(commit=False)

    @property
    def _may_hold_something(self) -> bool:
        """True if the coordinator may know of the open transaction, as far as this producer can tell."""
        return bool(self._touched) or self._others_write

    async def _end(self, *, commit: bool) -> None:
        if not self._in_transaction:
            raise ProducerStateError("no transaction is open")
        failed, others_write = self._failure is not None, self._others_write
        if self._may_hold_something or failed:
            await self._guarded(lambda: self._end_at_coordinator(commit=commit))
        self._leave_transaction()
        if (failed or (others_write and not commit)) and self._transaction_version < TV2:
            # Which sequences the broker has seen is not known any more: a new epoch begins with 0 again.
            await self.init(keep=True)

    async def _end_at_coordinator(self, *, commit: bool) -> None:
        request = EndTxnRequest(
            transactional_id=self.transactional_id or "",
            producer_id=self.identity.producer_id,
            producer_epoch=self.identity.producer_epoch,
            committed=commit,
        )
        at_most = _TV2_END_TXN if self._transaction_version >= TV2 else _TV2_END_TXN - 1

        async def attempt() -> EndTxnResponse:
            response: EndTxnResponse = await self._call_transaction_coordinator(
                ApiKey.END_TXN, request, at_most=at_most
            )
            check(response.error_code, f"{'committing' if commit else 'aborting'} {self.transactional_id!r}")
            return response

        response = await self._client.retry(attempt)
        if response.producer_id >= 0:
            self._adopt(ProducerIdAndEpoch(response.producer_id, response.producer_epoch))

    async def _join(self, member: TopicPartition | str) -> None:
        """Make a partition or a group part of the open transaction."""
        if self._failure is not None:
            remedy = "be initialised again" if self.transactional_id is None else "abort its transaction"
            raise ProducerStateError(f"the producer must {remedy}: {self._failure}") from self._failure
        if self.transactional_id is None:
            return
        if not self._in_transaction:
            raise ProducerStateError("no transaction is open")
        if member in self._touched:
            return
        if self._transaction_version < TV2:
            await self._guarded(lambda: self._client.retry(lambda: self._add(member)))
        self._touched.add(member)

    async def _add(self, member: TopicPartition | str) -> None:
        if isinstance(member, str):
            await self._add_group(member)
        else:
            await self._add_partition(member)

    async def _add_partition(self, partition: TopicPartition) -> None:
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id or "",
            v3_and_below_producer_id=self.identity.producer_id,
            v3_and_below_producer_epoch=self.identity.producer_epoch,
            v3_and_below_topics=(AddPartitionsToTxnTopic(partition.topic, (partition.partition,)),),
        )
        response: AddPartitionsToTxnResponse = await self._call_transaction_coordinator(
            ApiKey.ADD_PARTITIONS_TO_TXN, request, at_most=3
        )
        for topic in response.results_by_topic_v3_and_below:
            for each in topic.results_by_partition:
                check(each.partition_error_code, f"adding {partition} to a transaction")

    async def _add_group(self, group_id: str) -> None:
        request = AddOffsetsToTxnRequest(
            transactional_id=self.transactional_id or "",
            producer_id=self.identity.producer_id,
            producer_epoch=self.identity.producer_epoch,
            group_id=group_id,
        )
        response: AddOffsetsToTxnResponse = await self._call_transaction_coordinator(ApiKey.ADD_OFFSETS_TO_TXN, request)
        check(response.error_code, f"adding group {group_id!r} to a transaction")

    async def _call_transaction_coordinator(self, key: ApiKey, message: Message, *, at_most: int | None = None) -> Any:
        assert self.transactional_id is not None
        return await self._client.call_coordinator(
            CoordinatorType.TRANSACTION, self.transactional_id, key, message, at_most=at_most
        )

    async def _guarded(self, step: Callable[[], Awaitable[T]], *, deliberate: bool = False) -> T:
        """`step`, whose failure spoils the open transaction or the sequences; not so that of a `deliberate` one."""
        try:
            return await step()
        except BaseException as error:
            # A definite refusal of a plain idempotent batch leaves its sequence unused.
            spoils = self._in_transaction or not (isinstance(error, BrokerError) and not error.retriable)
            if spoils and not deliberate and self.identity.producer_id >= 0 and self._failure is None:
                interrupted = ClientError("a step was interrupted, and its outcome is not known")
                self._failure = error if isinstance(error, ClientError) else interrupted
            raise

    def _leave_transaction(self) -> None:
        self._in_transaction = False
        self._touched.clear()
        self._others_write = False
        self._failure = None
