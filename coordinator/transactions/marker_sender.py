"""Sends the markers of a decided transaction to its partitions, again and again until each has one (transactions.md 5).

A job is one transaction: its marker, and the partitions that still need it. Always true: a partition is done by its own
answer alone, whatever the others answer; a job ends exactly once, when every partition is done or when it is dropped;
and the outcome is already durable, so nothing here can change it.

Nothing assumes that a partition is local: each attempt asks for the partition's current leader.
"""

import asyncio
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, Protocol

from eosin.coordinator.transactions.ports import MarkersForPartitions, MarkerTarget, MarkerTargets, TransactionObserver
from eosin.coordinator.transactions.rules.config import TransactionConfig
from eosin.coordinator.transactions.rules.state import TransactionState, Txn
from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import TopicPartition
from eosin.runtime.backoff import backoff_ms
from eosin.runtime.chance import Chance
from eosin.runtime.clock import Clock, Timer
from eosin.runtime.start_now import start_now
from eosin.runtime.turns import TurnQueue
from eosin.storage.results.log_results import Marker

_LOG: Final = logging.getLogger(__name__)

_NONE: Final = ErrorCode.NONE
SENT_AT_ONCE: Final = 1000
"""Partitions of one transaction whose markers are sent in one turn of the event loop: one takes 2 us or more."""

Answers = Mapping[tuple[int, TopicPartition], ErrorCode]

SETTLED: Final = frozenset(
    {
        ErrorCode.NONE,
        ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
        ErrorCode.UNSUPPORTED_VERSION,
        # A marker of a higher epoch is there already: this partition's part of the transaction is over
        # (transactions.md 5.3.1).
        ErrorCode.INVALID_PRODUCER_EPOCH,
    }
)
"""Answers after which a partition is done."""


def marker_of(txn: Txn, *, coordinator_epoch: int) -> Marker:
    """The marker of the transaction of `txn`, which is in Prepare*."""
    return Marker(
        producer_id=txn.producer_id,
        producer_epoch=txn.producer_epoch,
        commit=txn.state is TransactionState.PREPARE_COMMIT,
        coordinator_epoch=coordinator_epoch,
        transaction_version=txn.client_transaction_version,
    )


class JobOwner(Protocol):
    """Receives the sender's reports about jobs."""

    def markers_written(self, job: "MarkerJob") -> None:
        """Every partition has its marker."""

    def markers_fenced(self, job: "MarkerJob") -> bool:
        """A partition knows a newer coordinator epoch. Returns whether to go on with the job all the same."""


class MarkerJob:
    """One transaction's markers on their way."""

    __slots__ = ("attempts", "coordinator_partition", "in_flight", "marker", "remaining", "retry", "transactional_id")

    def __init__(
        self,
        transactional_id: str,
        marker: Marker,
        partitions: Iterable[TopicPartition],
        *,
        coordinator_partition: int,
    ) -> None:
        self.transactional_id = transactional_id
        self.marker = marker
        self.coordinator_partition = coordinator_partition
        self.remaining = dict.fromkeys(partitions)
        """In order; the values mean nothing."""
        self.attempts = 0
        self.in_flight = 0
        """Targets that have not answered this attempt."""
        self.retry: Timer | None = None

    @property
    def is_worth_a_line(self) -> bool:
        """True if a failure of this attempt is logged: of the 1st, 2nd, 4th, 8th and so on."""
        return self.attempts & (self.attempts - 1) == 0


class MarkerSender:
    """All jobs of this coordinator."""

    def __init__(
        self,
        targets: MarkerTargets,
        owner: JobOwner,
        *,
        clock: Clock,
        config: TransactionConfig,
        chance: Chance,
    ) -> None:
        self._targets = targets
        self._owner = owner
        self._clock = clock
        self._chance = chance
        self._config = config
        self.observer: TransactionObserver | None = None
        self._jobs: dict[MarkerJob, None] = {}
        self._parts = TurnQueue(clock, steps_per_turn=1)
        self._tasks: dict[asyncio.Task[Answers], None] = {}

    def send(self, job: MarkerJob) -> None:
        """Begin. When nothing has to be waited for, the owner is told before this returns."""
        self._jobs[job] = None
        self._attempt(job)

    def drop(self, coordinator_partition: int) -> None:
        """Drop the jobs of a coordinator partition that is not ours any more: its next owner repeats them."""
        for job in [job for job in self._jobs if job.coordinator_partition == coordinator_partition]:
            self._end(job)

    async def stop(self) -> None:
        """Drop all jobs."""
        for job in list(self._jobs):
            self._end(job)
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    @property
    def outstanding(self) -> int:
        """Number of transactions that wait for markers."""
        return len(self._jobs)

    def remaining(self, transactional_id: str) -> Sequence[TopicPartition]:
        """The partitions that the id's transaction still waits for. Looks at every job."""
        for job in self._jobs:
            if job.transactional_id == transactional_id:
                return tuple(job.remaining)
        return ()

    def _end(self, job: MarkerJob) -> None:
        self._jobs.pop(job, None)
        if job.retry is not None:
            job.retry.cancel()

    def _attempt(self, job: MarkerJob) -> None:
        job.retry = None
        job.attempts += 1
        job.in_flight = 1  # until all are sent: an answer that comes at once must not count as the last
        partitions = list(job.remaining)
        if len(partitions) <= SENT_AT_ONCE:
            self._send_all(job, partitions)
            self._handle_results(job, {})
        else:
            self._parts.add(self._steps(job, partitions))

    def _steps(self, job: MarkerJob, partitions: Sequence[TopicPartition]) -> Iterator[None]:
        """Send the markers of very many partitions, some in each turn of the event loop from the next one on: to order
        them has taken this one."""
        yield
        for start in range(0, len(partitions), SENT_AT_ONCE):
            if job not in self._jobs:
                return
            self._send_all(job, partitions[start : start + SENT_AT_ONCE])
            yield
        self._handle_results(job, {})

    def _send_all(self, job: MarkerJob, partitions: Sequence[TopicPartition]) -> None:
        by_target = self._by_target(job, partitions)
        job.in_flight += len(by_target)
        for target, theirs in by_target.items():
            self._send(job, target, theirs)

    def _by_target(
        self, job: MarkerJob, partitions: Sequence[TopicPartition]
    ) -> dict[MarkerTarget, list[TopicPartition]]:
        by_target: dict[MarkerTarget, list[TopicPartition]] = {}
        before: MarkerTarget | ErrorCode | None = None
        theirs: list[TopicPartition] = []
        for partition in partitions:
            target = self._targets.target(partition)
            if target is before:  # as mostly, and asked first, since to be no ErrorCode takes longer to tell
                theirs.append(partition)
            elif not isinstance(target, ErrorCode):
                before, theirs = target, by_target.setdefault(target, [])
                theirs.append(partition)
            elif target is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                _LOG.info("%s: %s was deleted and needs no marker", job.transactional_id, partition)
                del job.remaining[partition]
            else:
                self._observe(job, partition, target)
        return by_target

    def _send(self, job: MarkerJob, target: MarkerTarget, partitions: Sequence[TopicPartition]) -> None:
        try:
            answers = start_now(target.write_markers((MarkersForPartitions(job.marker, tuple(partitions)),)))
        except OSError as error:
            self._failed(job, error)
            return
        if isinstance(answers, asyncio.Task):
            self._tasks[answers] = None
            answers.add_done_callback(lambda task: self._task_ended(job, task))
        else:
            self._handle_results(job, answers)

    def _task_ended(self, job: MarkerJob, task: "asyncio.Task[Answers]") -> None:
        del self._tasks[task]
        if task.cancelled():
            return
        error = task.exception()
        if error is not None:
            self._failed(job, error)
        else:
            self._handle_results(job, task.result())

    def _failed(self, job: MarkerJob, error: BaseException) -> None:
        if not isinstance(error, OSError):  # a target that is not reached says so itself, once for all transactions
            _LOG.error("%s: a marker target failed: %s", job.transactional_id, error, exc_info=error)
        self._handle_results(job, {})

    def _handle_results(self, job: MarkerJob, answers: Answers) -> None:
        if job not in self._jobs:
            return
        job.in_flight -= 1
        for (_, partition), error in answers.items():
            if error is _NONE or error in SETTLED:
                job.remaining.pop(partition, None)
            if error is not _NONE and not self._goes_on(job, partition, error):
                self._end(job)
                return
        if job.in_flight:
            return
        if job.remaining:
            self._retry_later(job)
        else:
            self._end(job)
            self._owner.markers_written(job)

    def _observe(self, job: MarkerJob, partition: TopicPartition, error: ErrorCode) -> None:
        if self.observer is not None:
            self.observer.marker_refused(job.transactional_id, partition, error, now_ms=self._clock.now_ms())

    def _goes_on(self, job: MarkerJob, partition: TopicPartition, error: ErrorCode) -> bool:
        self._observe(job, partition, error)
        if error is ErrorCode.TRANSACTION_COORDINATOR_FENCED:
            return self._owner.markers_fenced(job)
        if error in SETTLED:
            _LOG.warning(
                "%s: the leader of %s has answered a marker with %s", job.transactional_id, partition, error.name
            )
        elif job.is_worth_a_line:
            _LOG.info("%s: the leader of %s has answered a marker with %s", job.transactional_id, partition, error.name)
        return True

    def _retry_later(self, job: MarkerJob) -> None:
        wait_ms = backoff_ms(
            job.attempts,
            first_ms=self._config.retry_backoff_ms,
            longest_ms=self._config.retry_backoff_max_ms,
            chance=self._chance,
        )
        job.retry = self._clock.call_later(wait_ms, lambda: self._attempt(job))
