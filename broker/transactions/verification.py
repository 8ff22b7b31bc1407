"""Before a partition takes the first batch of a transaction, the transaction coordinator must know of it (KIP-890;
transactions.md 4.8, 6.4 and 6.5).

`TransactionVerification` asks the coordinator once per Produce request, for all its partitions. Always true: a batch is
appended under the guard that its own log gave out when the question was asked, so an answer that comes too late opens
nothing; every request is judged by its own version's rules, whoever else asks for the same producer; and while a
producer's request waits for the coordinator, its later requests wait behind it, so none of them overtakes.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from eosin.broker.producing.produced import ProducedBatch
from eosin.coordinator.transactions.entries import PendingRequest
from eosin.coordinator.transactions.ports import TransactionVerifier
from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import ProducerIdAndEpoch
from eosin.runtime.clock import Clock, stopwatch_ns
from eosin.runtime.start_now import start_now
from eosin.storage.results.log_results import Refused, VerificationGuard

if TYPE_CHECKING:
    from eosin.settings.broker import BrokerConfig

RETRY_BACKOFF_MS: Final = 20
"""Between two questions while the coordinator is busy (Kafka's `add.partitions.to.txn.retry.backoff.ms`)."""
RETRY_MAX_MS: Final = 100
"""Longest time to go on asking (Kafka's `add.partitions.to.txn.retry.backoff.max.ms`)."""
MOST_QUESTIONS: Final = 3
"""Asked again at once when a marker has come meanwhile: each transaction of a producer has one."""

FIRST_ADDING_VERSION: Final = 12
"""From this version of Produce on, asking also adds the partition to the transaction."""
FIRST_ABORTABLE_VERSION: Final = 11
"""From this version of Produce on, clients know TRANSACTION_ABORTABLE."""

_CONCURRENT: Final = ErrorCode.CONCURRENT_TRANSACTIONS
_ALWAYS: Final[Mapping[ErrorCode, ErrorCode]] = {
    # Retriable by every client, and without a search for a new leader: the partition is where it was.
    ErrorCode.NETWORK_EXCEPTION: ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.NOT_COORDINATOR: ErrorCode.NOT_ENOUGH_REPLICAS,
    # Produce never says PRODUCER_FENCED: clients abort on the one and die of the other (transactions.md 4).
    ErrorCode.PRODUCER_FENCED: ErrorCode.INVALID_PRODUCER_EPOCH,
}
_BUSY_IS_LATER: Final = {**_ALWAYS, ErrorCode.CONCURRENT_TRANSACTIONS: ErrorCode.NOT_ENOUGH_REPLICAS}
_NO_ABORTABLE: Final = {**_BUSY_IS_LATER, ErrorCode.TRANSACTION_ABORTABLE: ErrorCode.INVALID_TXN_STATE}

_MESSAGES: Final[Mapping[ErrorCode, str]] = {
    ErrorCode.NOT_ENOUGH_REPLICAS: "the transaction coordinator cannot confirm the transaction yet",
    ErrorCode.CONCURRENT_TRANSACTIONS: "the producer's previous transaction is still being completed",
    ErrorCode.INVALID_TXN_STATE: "the partition is not part of the producer's transaction",
    ErrorCode.TRANSACTION_ABORTABLE: "the partition is not part of the producer's transaction",
    ErrorCode.INVALID_PRODUCER_EPOCH: "a newer instance of the producer has taken over",
    ErrorCode.INVALID_PRODUCER_ID_MAPPING: "the transactional id does not belong to this producer id",
}

_IMPOSSIBLE: Final = frozenset({ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_ID_MAPPING})
"""Answers after which waiting for the previous transaction's marker would not help."""


class VerificationRequest:
    """The question of one Produce request to the coordinator: one producer, all its batches that may start a
    transaction."""

    __slots__ = ("adds_partitions", "api_version", "batches", "is_put_off", "producer", "transactional_id", "trying")

    def __init__(self, transactional_id: str, batches: Sequence[ProducedBatch], *, api_version: int) -> None:
        header = batches[0].header
        self.transactional_id = transactional_id
        self.batches = batches
        self.api_version = api_version
        self.adds_partitions = api_version >= FIRST_ADDING_VERSION
        self.producer = ProducerIdAndEpoch(header.producer_id, header.producer_epoch)
        self.trying: asyncio.Task[bool] | None = None
        """The task that `verify_now` has begun, when that has to be waited for."""
        self.is_put_off = False
        """True if the coordinator was asked just now and is busy: it is asked again after a pause."""


def translated(refused: Refused, api_version: int) -> Refused:
    """A refusal as a transactional client of Produce `api_version` must hear it (transactions.md 4.8 rules 3 and 5)."""
    error = refused.error
    if api_version >= FIRST_ADDING_VERSION:
        error = _ALWAYS.get(error, error)
    elif api_version >= FIRST_ABORTABLE_VERSION:
        error = _BUSY_IS_LATER.get(error, error)
    else:
        error = _NO_ABORTABLE.get(error, error)
    return Refused(error, refused.message or _MESSAGES.get(error), refused.record_errors)


class TransactionVerification:
    """The partitions' side of verification, for all producers."""

    def __init__(
        self,
        verifier: TransactionVerifier,
        *,
        clock: Clock,
        config: "BrokerConfig",
        watch: Callable[[ErrorCode, int], None] | None = None,
    ) -> None:
        """`watch` is told each answer of a coordinator, and when (`stopwatch_ns`) it was asked."""
        self._verifier = verifier
        self._clock = clock
        self._enabled = config.transaction_partition_verification_enable
        self._retry_for_ms = min(RETRY_MAX_MS, config.request_timeout_ms)
        self._watch = watch
        # Of each producer with waiting requests: done when the last of them is settled.
        self._queues: dict[ProducerIdAndEpoch, asyncio.Future[None]] = {}

    def verify_now(self, request: VerificationRequest) -> bool:
        """Settle every batch of `request`, if that takes no wait; else the caller goes on, at once, with `verify`."""
        if request.producer in self._queues:
            return False
        unknown = _begin(request)
        if not unknown and all(batch.outcome is None for batch in request.batches):
            return True  # the logs know the transaction: its second batch and all that follow
        is_settled = start_now(self._try(request, unknown))
        if isinstance(is_settled, bool):
            return is_settled
        request.trying = is_settled
        return False

    async def verify(self, request: VerificationRequest) -> None:
        """Settle every batch of `request`, after whatever its producer has waiting already: give it its guard, or its
        refusal. The caller appends at once, before the producer's next request goes on."""
        before = self._queues.get(request.producer)
        settled = self._queues[request.producer] = asyncio.get_running_loop().create_future()
        try:
            if before is not None:
                await asyncio.wait((before,))
            await self._verify(request)
        finally:
            settled.set_result(None)  # its callbacks run in a later turn of the loop
            if self._queues[request.producer] is settled:
                del self._queues[request.producer]

    async def _verify(self, request: VerificationRequest) -> None:
        """While the coordinator or a log is busy with the producer's previous transaction, try again, for a while."""
        deadline_ms = self._clock.elapsed_ms() + self._retry_for_ms
        if request.trying is not None:
            is_settled = await request.trying
        else:
            is_settled = False if request.is_put_off else await self._try(request, _begin(request))
        while not is_settled and self._clock.elapsed_ms() + RETRY_BACKOFF_MS <= deadline_ms:
            await self._clock.sleep(RETRY_BACKOFF_MS)
            is_settled = await self._try(request, _begin(request))
        if not is_settled:
            _translate(request)

    async def _try(self, request: VerificationRequest, unknown: list[ProducedBatch]) -> bool:
        """Ask the coordinator about the batches of `unknown`, which the logs do not know. Returns whether every batch
        is settled: else a log, or the coordinator, is busy."""
        for questions_left in reversed(range(MOST_QUESTIONS)):
            await self._send_verification(request, unknown)
            if request.adds_partitions and _is_busy(request.batches):
                request.is_put_off = bool(unknown)
                return False
            if not questions_left or not _is_outdated(unknown):
                break
            unknown = _begin(request)
        _translate(request)
        return True

    async def _send_verification(self, request: VerificationRequest, unknown: list[ProducedBatch]) -> None:
        """Ask once."""
        if len(unknown) < len(request.batches):
            await self._recognise(request)
        if unknown and request.adds_partitions:
            began_ns = 0 if self._watch is None else stopwatch_ns()
            asked = self._add(request, unknown)
            error = (asked.reply or await asked).error
            if self._watch is not None:
                self._watch(error, began_ns)
            _apply_result(request, error)
        elif unknown and self._enabled:
            for batch, error in await self._verified(request, unknown):
                if error != ErrorCode.NONE:
                    batch.outcome = Refused(error)
                else:
                    batch.confirmed_id = request.transactional_id
        else:
            for batch in unknown:  # nobody is to be asked, now or for those that follow
                batch.confirmed_id = request.transactional_id

    async def _verified(
        self, request: VerificationRequest, batches: Sequence[ProducedBatch]
    ) -> list[tuple[ProducedBatch, ErrorCode]]:
        producer_id, producer_epoch = request.producer
        began_ns = 0 if self._watch is None else stopwatch_ns()
        answers = await self._verifier.verify(
            request.transactional_id,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            partitions=[batch.partition for batch in batches],
        )
        if self._watch is not None:
            self._watch(next((each for each in answers.values() if each), ErrorCode.NONE), began_ns)
        return [(batch, answers[batch.partition]) for batch in batches]

    async def _recognise(self, request: VerificationRequest) -> None:
        """A log cannot tell the next transaction of a producer from an epoch that nobody was ever given: both are newer
        than what is open there. The coordinator can."""
        early = [batch for batch in request.batches if _is_early(batch)]
        if not early or not (self._enabled or request.adds_partitions):
            return
        for batch, error in await self._verified(request, early):
            if error in _IMPOSSIBLE:
                batch.outcome = Refused(error)

    def _add(self, request: VerificationRequest, unknown: Sequence[ProducedBatch]) -> PendingRequest:
        producer_id, producer_epoch = request.producer
        return self._verifier.add_partitions(
            request.transactional_id,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            partitions=[batch.partition for batch in unknown],
        )


def _apply_result(request: VerificationRequest, error: ErrorCode) -> None:
    """The coordinator's answer for the batches that were given a guard to ask with."""
    for batch in request.batches:
        if batch.guard is None:
            continue
        if error is ErrorCode.NONE:
            batch.confirmed_id = request.transactional_id
        else:
            batch.outcome = Refused(error)


def _begin(request: VerificationRequest) -> list[ProducedBatch]:
    """Ask each log what it knows. Those left over need the coordinator's word, and have the guard to append under."""
    unknown: list[ProducedBatch] = []
    for batch in request.batches:
        header = batch.header
        verdict = batch.log.begin_verification(
            producer_id=header.producer_id,
            producer_epoch=header.producer_epoch,
            base_sequence=header.base_sequence,
            # A producer that adds partitions as it goes starts each with sequence 0 (KAFKA-18202).
            from_zero=request.adds_partitions,
            transactional_id=request.transactional_id,
        )
        batch.guard = batch.outcome = batch.confirmed_id = None
        if isinstance(verdict, VerificationGuard):
            batch.guard = verdict
            unknown.append(batch)
        elif verdict is not None:
            batch.outcome = verdict
    return unknown


def _is_busy(batches: Sequence[ProducedBatch]) -> bool:
    for batch in batches:
        is_open = batch.outcome is None  # as nearly all are, so no generator goes through them
        if not is_open and _is_early(batch):
            return True
    return False


def _is_outdated(batches: Sequence[ProducedBatch]) -> bool:
    """True if the marker of the producer's transaction before has taken a guard away while the coordinator was asked:
    its answer may be older than the marker, so it is asked again."""
    for batch in batches:
        guard, is_open = batch.guard, batch.outcome is None
        if is_open and guard is not None and not batch.log.is_verifying(batch.header.producer_id, guard):
            return True
    return False


def _is_early(batch: ProducedBatch) -> bool:
    """True if something is still under way that the batch has to wait for."""
    outcome = batch.outcome
    return outcome is not None and isinstance(outcome, Refused) and outcome.error is _CONCURRENT


def _translate(request: VerificationRequest) -> None:
    for batch in request.batches:
        outcome = batch.outcome
        if outcome is not None and isinstance(outcome, Refused):
            batch.outcome = translated(outcome, request.api_version)
