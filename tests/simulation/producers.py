"""Producers: transactional ones of both protocol versions, instance after instance, and plain idempotent ones."""

import asyncio
from collections.abc import Sequence

from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.names import TopicPartition
from eosin.protocol.schemas.add_offsets_to_txn import AddOffsetsToTxnRequest
from eosin.protocol.schemas.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from eosin.protocol.schemas.end_txn import EndTxnRequest
from eosin.protocol.schemas.init_producer_id import InitProducerIdRequest
from eosin.protocol.schemas.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from simulation.client import GaveUp, Session, World
from simulation.history import Ending, Introduction, Transaction
from simulation.sending import Sequencer

COORDINATOR = "coordinator"
TIMED_OUT = ErrorCode.UNKNOWN_PRODUCER_ID
"""How a producer of the first protocol hears that its transaction has timed out, when it wants to add to it."""
COMES_TOO_LATE = (ErrorCode.TRANSACTION_ABORTABLE, ErrorCode.INVALID_PRODUCER_ID_MAPPING)
"""How it hears that when it wants to commit."""

Output = dict[TopicPartition, list[list[str]]]
"""The values of a transaction: by partition, batch after batch."""


class Over(Exception):
    """This producer instance cannot go on: it was fenced, or its transaction timed out."""


class TransactionalProducer:
    """One instance of an application with a transactional id."""

    def __init__(
        self, world: World, name: str, transactional_id: str, *, version: int, timeout_ms: int, patience_ms: float
    ) -> None:
        """`version` is the transaction protocol's, 1 or 2; `patience_ms` is how long it tries to write a batch."""
        # In the first protocol a control request that comes late is taken for one of the next transaction.
        self.session = Session(world, name, punctual=frozenset({COORDINATOR}) if version == 1 else frozenset())
        self.world = world
        self.name = name
        self.transactional_id = transactional_id
        self.version = version
        self.timeout_ms = timeout_ms
        self.patience_ms = patience_ms
        self.sequencer = Sequencer(self.session, transactional_id, version=12 if version == 2 else 11)
        self.membership: tuple[int, str, str | None] = (-1, "", None)
        """Generation and member id in the group whose offsets it commits."""
        self.transactions = 0
        self.oversleeps = world.oversleeps
        """How likely it ends a transaction only after that has timed out."""

    async def introduce(self, *, recovering: bool = False, keeping: bool = False) -> tuple[int, int]:
        """Get a producer id and an epoch; `recovering` with the ones it has, `keeping` what older instances have open,
        for this one to end. The pair of what is open, or -1. Raises Over."""
        history = self.world.history
        asked = Introduction(self.name, self.transactional_id, history.moment(), recovering)
        history.introductions.append(asked)
        pair = (self.sequencer.producer_id, self.sequencer.producer_epoch) if recovering else (-1, -1)
        losses = self.session.losses
        answer = await self.session.insist(
            ApiKey.INIT_PRODUCER_ID,
            6 if keeping else 4,
            InitProducerIdRequest(self.transactional_id, self.timeout_ms, *pair, keeping, keeping),
            lambda response: ErrorCode(response.error_code),
            lane=COORDINATOR,
        )
        asked.answered = history.moment()
        asked.lost = self.session.losses - losses
        if answer.error_code:
            asked.error = ErrorCode(answer.error_code).name
            raise self._over(asked.error)
        asked.producer_id, asked.producer_epoch = answer.producer_id, answer.producer_epoch
        if recovering and history.ids_expire and answer.producer_id != pair[0]:
            # Its id was forgotten and begins anew, for an instance that others have followed as well: it goes.
            raise self._over(ErrorCode.INVALID_PRODUCER_ID_MAPPING.name)
        self.sequencer.adopt(answer.producer_id, answer.producer_epoch)
        return answer.ongoing_txn_producer_id, answer.ongoing_txn_producer_epoch

    def _over(self, error: str) -> Over:
        history = self.world.history
        history.endings.append(Ending(self.name, self.transactional_id, history.moment(), error))
        return Over(error)

    def begin(self) -> Transaction:
        """A new transaction."""
        self.transactions += 1
        transaction = Transaction(
            f"{self.name}#{self.transactions}",
            self.name,
            self.transactional_id,
            self.version,
            self.timeout_ms,
            self.world.history.moment(),
            self.world.now_ms,
        )
        self.world.history.transactions.append(transaction)
        return transaction

    async def run(self, transaction: Transaction, output: Output, *, commit: bool) -> bool:
        """Carry a transaction out; whether it ended as asked. What it cannot write makes it abort. Raises Over."""
        try:
            in_doubt = not await self.fill(transaction, output)
        except GaveUp:
            in_doubt = True
        if self.session.chance.random() < self.oversleeps:
            await asyncio.sleep(1.5 * self.timeout_ms / 1000)  # it comes back when its transaction has timed out
        is_ended = await self.end(transaction, commit=commit and not in_doubt)
        if (in_doubt or not is_ended) and self.version == 1:
            # What it gave up may still come: only a new epoch keeps that out of the next transaction.
            await self.introduce(recovering=True)
        return is_ended and not in_doubt

    async def fill(self, transaction: Transaction, output: Output) -> bool:
        """Write what belongs into a transaction; False when something was refused. Raises GaveUp, Over."""
        if self.version == 1:
            for partition in output:
                if not await self._add(partition):
                    return False
        all_batches = [
            [self.sequencer.batch(partition, values, transaction) for values in batches]
            for partition, batches in output.items()
        ]
        if len(all_batches) > 1 and self.session.chance.random() < 0.3:
            firsts = [batches.pop(0) for batches in all_batches]
            if not await self.sequencer.deliver_together(firsts, patience_ms=self.patience_ms):
                return False
        writes = [self.sequencer.deliver(batches, patience_ms=self.patience_ms) for batches in all_batches if batches]
        results = await asyncio.gather(*writes, return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException):
                raise result
        if not all(results):
            return False
        return not transaction.offsets or await self._send_offsets(transaction)

    async def _add(self, partition: TopicPartition) -> bool:
        topic = AddPartitionsToTxnTopic(partition.topic, (partition.partition,))
        answer = await self.session.insist(
            ApiKey.ADD_PARTITIONS_TO_TXN,
            3,
            AddPartitionsToTxnRequest((), self.transactional_id, *self.pair, (topic,)),
            lambda response: ErrorCode(
                response.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code
            ),
            lane=COORDINATOR,
        )
        error = answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code
        if error and error != TIMED_OUT:
            raise self._over(ErrorCode(error).name)
        return not error

    @property
    def pair(self) -> tuple[int, int]:
        """Its producer id and epoch."""
        return self.sequencer.producer_id, self.sequencer.producer_epoch

    async def _send_offsets(self, transaction: Transaction) -> bool:
        if self.version == 1:
            added = await self.session.insist(
                ApiKey.ADD_OFFSETS_TO_TXN,
                3,
                AddOffsetsToTxnRequest(self.transactional_id, *self.pair, transaction.group),
                lambda response: ErrorCode(response.error_code),
                lane=COORDINATOR,
            )
            if added.error_code and added.error_code != TIMED_OUT:
                raise self._over(ErrorCode(added.error_code).name)
            if added.error_code:
                return False
        topics = tuple(
            TxnOffsetCommitRequestTopic(
                partition.topic, partitions=(TxnOffsetCommitRequestPartition(partition.partition, offset),)
            )
            for partition, offset in transaction.offsets.items()
        )
        generation_id, member_id, instance_id = self.membership
        answer = await self.session.insist(
            ApiKey.TXN_OFFSET_COMMIT,
            5 if self.version == 2 else 3,
            TxnOffsetCommitRequest(
                self.transactional_id,
                transaction.group,
                *self.pair,
                generation_id,
                member_id,
                instance_id,
                topics=topics,
            ),
            lambda response: ErrorCode(response.topics[0].partitions[0].error_code),
            lane=COORDINATOR,
            patience_ms=self.patience_ms if self.version == 2 else None,
        )
        return all(not each.error_code for topic in answer.topics for each in topic.partitions)

    async def end(self, transaction: Transaction, *, commit: bool) -> bool:
        """Commit or abort; False if it was to be committed and had timed out. Raises Over."""
        history = self.world.history
        transaction.end_requested(history.moment(), commit=commit)
        losses = self.session.losses
        error = await self._end(commit=commit)
        transaction.lost_ends += self.session.losses - losses
        transaction.end_response(history.moment(), self.world.now_ms, error=error.name if error else "")
        if error == ErrorCode.NONE:
            return True
        # Where ids are forgotten within a second, a commit that was carried out may find none when it is repeated, and
        # so may an instance that others have followed: both would be taken back as if nothing had been.
        is_forgotten = error == ErrorCode.INVALID_PRODUCER_ID_MAPPING and history.ids_expire
        if not commit or error not in COMES_TOO_LATE or is_forgotten:
            raise self._over(error.name)
        error = await self._end(commit=False)
        if error != ErrorCode.NONE:
            raise self._over(error.name)
        transaction.disowned = True
        return False

    async def _end(self, *, commit: bool) -> ErrorCode:
        answer = await self.session.insist(
            ApiKey.END_TXN,
            5 if self.version == 2 else 3,
            EndTxnRequest(self.transactional_id, *self.pair, commit),
            lambda response: ErrorCode(response.error_code),
            lane=COORDINATOR,
        )
        if self.version == 2 and not answer.error_code:
            self.sequencer.adopt(answer.producer_id, answer.producer_epoch)
        return ErrorCode(answer.error_code)


class IdempotentProducer:
    """A producer without transactions."""

    def __init__(self, world: World, name: str) -> None:
        self.session = Session(world, name)
        self.world = world
        self.name = name
        self.sequencer = Sequencer(self.session, None, version=11)

    async def introduce(self) -> None:
        """Get a producer id."""
        history = self.world.history
        asked = Introduction(self.name, None, history.moment())
        history.introductions.append(asked)
        answer = await self.session.insist(
            ApiKey.INIT_PRODUCER_ID,
            4,
            InitProducerIdRequest(None, 2**31 - 1),
            lambda response: ErrorCode(response.error_code),
        )
        asked.answered = history.moment()
        asked.producer_id, asked.producer_epoch = answer.producer_id, answer.producer_epoch
        self.sequencer.adopt(answer.producer_id, answer.producer_epoch)

    async def write(
        self, partition: TopicPartition, batches: Sequence[Sequence[str]], *, patience_ms: float | None = None
    ) -> None:
        """Write batches to a partition, all in flight at once. After `patience_ms` it gives up those that are not in,
        and goes on with the next epoch, so that they cannot come between what follows."""
        try:
            await self.sequencer.deliver(
                [self.sequencer.batch(partition, values, None) for values in batches], patience_ms=patience_ms
            )
        except GaveUp:
            self.sequencer.adopt(self.sequencer.producer_id, self.sequencer.producer_epoch + 1)
