"""`PartitionLog`: one partition: which batches may be appended, how durable they are, when the log is offline.

Always true:
- log start <= last stable offset <= high watermark <= log end; offsets only grow.
- The high watermark covers what is as durable as configured, and nothing else moves it. The last stable offset is the
  first offset of the oldest transaction that is open or whose marker is not below the high watermark, or else the high
  watermark itself.
- An append checks, writes and updates state without an await, so there is no lock to hold or to lose.
- A failed sync, or a failed write other than for want of space, takes the log offline for good.
"""

import asyncio
import heapq
from collections.abc import Callable
from typing import Final

from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import METADATA_TOPIC, TRANSACTION_STATE_TOPIC, TopicPartition, Uuid
from eosin.protocol.records.batch import (
    STAMP_BYTES,
    BatchHeader,
    CorruptRecords,
    build_control_batch,
    read_header,
    stamp,
)
from eosin.protocol.records.header import LOG_APPEND_TIME, plain_batch
from eosin.storage.disk.interfaces import Buffer, TornWrite
from eosin.storage.disk.space import Need, is_no_space
from eosin.storage.indexes.aborted import AbortedRow
from eosin.storage.log.config import LogConfig
from eosin.storage.log.context import LogContext
from eosin.storage.log.log_results import (
    ActiveProducer,
    Appended,
    AppendOrigin,
    AppendResult,
    Marker,
    Refused,
    VerificationGuard,
)
from eosin.storage.log.producer_refill import refill
from eosin.storage.log.readable_log import ReadableLog
from eosin.storage.log.segment import Segment
from eosin.storage.log.segmented_log import LOG, PASSING_ERRORS
from eosin.storage.producers.snapshot import encode_snapshot
from eosin.storage.producers.state import EndedTransaction, ProducerState, repeated

Waiter = asyncio.Future[ErrorCode]


class Waiters:
    """Futures by the end offset that each waits for."""

    __slots__ = ("_heap", "_made")

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Waiter]] = []
        self._made = 0

    def __bool__(self) -> bool:
        return bool(self._heap)

    def add(self, end_offset: int) -> Waiter:
        """A future that is done once the high watermark is at or beyond `end_offset`."""
        waiter: Waiter = asyncio.get_running_loop().create_future()
        self._made += 1
        heapq.heappush(self._heap, (end_offset, self._made, waiter))
        return waiter

    def reached(self, high_watermark: int) -> bool:
        """Complete every future up to `high_watermark`; returns whether any is left."""
        heap = self._heap
        while heap and heap[0][0] <= high_watermark:
            waiter = heapq.heappop(heap)[2]
            if not waiter.done():
                waiter.set_result(ErrorCode.NONE)
        return bool(heap)

    def give_up(self, error: ErrorCode) -> None:
        """Complete every future with `error`."""
        waiting, self._heap = sorted(self._heap), []
        for _, _, waiter in waiting:
            if not waiter.done():
                waiter.set_result(error)


_TO_HIGH_WATERMARK: Final = -1
_NEEDS: Final = {METADATA_TOPIC: Need.VITAL, TRANSACTION_STATE_TOPIC: Need.UPKEEP}
"""What may be written while the disk is full."""


class PartitionLog(ReadableLog):
    """One partition's log. Nothing of it is on disk before its first append."""

    __slots__ = (
        "_need",
        "_waiters",
        "failure",
        "on_progress",
        "producer_state",
    )

    def __init__(
        self,
        context: LogContext,
        topic_partition: TopicPartition,
        *,
        directory: str,
        topic_id: Uuid,
        config: LogConfig,
        leader_epoch: int,
        log_start_offset: int = 0,
    ) -> None:
        """An empty log; `directory` need not exist. A loader fills in the rest."""
        super().__init__(
            context,
            topic_partition,
            directory=directory,
            topic_id=topic_id,
            config=config,
            leader_epoch=leader_epoch,
            log_start_offset=log_start_offset,
        )
        self._need = _NEEDS.get(topic_partition.topic, Need.RECORDS)
        self.failure: OSError | None = None
        """Why the log is offline, if it is."""
        self.on_progress: Callable[[PartitionLog], None] | None = None
        """Called, in the event loop, whenever the high watermark, the last stable offset or `failure` has changed. It
        may run inside an append, so it must not write to this log."""
        self.producer_state = ProducerState()
        self._waiters: Waiters | None = None

    def __repr__(self) -> str:
        return f"<PartitionLog {self.topic_partition} [{self.log_start_offset}, {self.log_end_offset})>"

    # Appending ------------------------------------------------------------------------------------------------------

    def append(
        self,
        batch: Buffer,
        *,
        now_ms: int,
        origin: AppendOrigin = AppendOrigin.CLIENT,
        guard: VerificationGuard | None = None,
        header: BatchHeader | None = None,
        awaited: bool = True,
    ) -> AppendResult:
        """Check one batch against the producer's state and write it, now. The batch has passed validation; `header` is
        its header when the caller has read it already (storage.md 4 steps 15 and 16, transactions.md 6.2). Without
        `awaited` no caller waits until it is durable, and it takes no sync of its own."""
        if self._unusable is not None:
            return self._unusable
        if header is None:
            header = read_header(batch)
        from_client = origin is AppendOrigin.CLIENT
        has_producer = header.producer_id >= 0
        if self.context.space.refuses_records and self._need is Need.RECORDS:
            if has_producer and from_client:
                self.producer_state.refused_for_now(header)
            return self._no_space()
        size = header.size
        assert size == len(batch), "one whole batch"
        if size > self._segment_limit_bytes or (not from_client and size > self._config.max_message_bytes):
            return self._too_large(size)
        if has_producer:
            verdict = self._check_producer(header, from_client, guard)
            if verdict is not None:
                return verdict
        base_offset = self.log_end_offset
        head = stamp(base_offset=base_offset, size=size, partition_leader_epoch=self.leader_epoch)
        buffers = (head, memoryview(batch)[STAMP_BYTES:])
        while True:
            try:
                self.write(
                    buffers,
                    size=size,
                    last_offset=base_offset + header.last_offset_delta,
                    max_timestamp=header.max_timestamp,
                    now_ms=now_ms,
                )
                break
            except OSError as error:
                if not self.context.space.makes_room(error, self._need):
                    if has_producer and from_client:
                        self.producer_state.refused_for_now(header)
                    return self._write_failed(error)
        if has_producer:
            self.producer_state.data_appended(header, base_offset, max_timestamp=header.max_timestamp, now_ms=now_ms)
        self.context.flusher.appended(self, size, buffers, awaited=awaited)
        return Appended(
            base_offset,
            base_offset + header.last_offset_delta,
            header.max_timestamp if header.attributes & LOG_APPEND_TIME else -1,
            self.log_start_offset,
        )

    def append_records(self, records: bytes, *, count: int, now_ms: int, awaited: bool = True) -> AppendResult:
        """Write `count` encoded records of a coordinator as one batch without a producer, now. It is made here, so only
        its size is checked. `awaited` as in `append`."""
        if self._unusable is not None:
            return self._unusable
        if self.context.space.refuses_records and self._need is Need.RECORDS:
            return self._no_space()
        offset, epoch = self.log_end_offset, self.leader_epoch
        batch = plain_batch(records, count=count, timestamp=now_ms, base_offset=offset, partition_leader_epoch=epoch)
        if (size := len(batch)) > self._segment_limit_bytes or size > self._config.max_message_bytes:
            return self._too_large(size)
        while True:
            try:
                self.write((batch,), size=size, last_offset=offset + count - 1, max_timestamp=now_ms, now_ms=now_ms)
                break
            except OSError as error:
                if not self.context.space.makes_room(error, self._need):
                    return self._write_failed(error)
        self.context.flusher.appended(self, size, (batch,), awaited=awaited)
        return Appended(offset, offset + count - 1, -1, self.log_start_offset)

    def _no_space(self) -> Refused:
        self.context.space.refused_records()
        return Refused(ErrorCode.KAFKA_STORAGE_ERROR, "no space left on the disk: records are refused for now")

    def _too_large(self, size: int) -> Refused:
        if size > self._segment_limit_bytes:
            limit = f"a segment holds at most {self._segment_limit_bytes}"
            return Refused(ErrorCode.RECORD_LIST_TOO_LARGE, f"a batch of {size} bytes fits no segment: {limit}")
        limit = f"max.message.bytes allows {self._config.max_message_bytes}"
        return Refused(ErrorCode.MESSAGE_TOO_LARGE, f"a batch of {size} bytes is too large: {limit}")

    def _check_producer(
        self, header: BatchHeader, from_client: bool, guard: VerificationGuard | None
    ) -> AppendResult | None:
        if from_client and self.producer_state.may_be_forgotten_duplicate(header):
            self.refill_producers()
        verdict = self.producer_state.check_data(
            header, from_client=from_client, guard=guard, verification_enabled=self.context.verification_enabled
        )
        if verdict is None or isinstance(verdict, Refused):
            return verdict
        return repeated(verdict, is_log_append_time=header.is_log_append_time, log_start_offset=self.log_start_offset)

    def refill_producers(self) -> bool:
        """Read back the producers' last batches that a snapshot leaves out, while the log still has them; returns
        whether any were missing."""
        try:
            return refill(self.producer_state, self.segments)
        except (OSError, CorruptRecords) as error:
            LOG.warning("%s-%d: cannot read back old batches: %s", self.topic, self.partition, error)
            return False

    def append_marker(self, marker: Marker, *, now_ms: int) -> AppendResult:
        """Write a transaction marker, now (transactions.md 5.2 and 5.3, storage.md 5.4)."""
        refused = self._unusable or self.producer_state.check_marker(marker)
        if refused is not None:
            return refused
        offset = self.log_end_offset
        batch = build_control_batch(
            producer_id=marker.producer_id,
            producer_epoch=marker.producer_epoch,
            commit=marker.commit,
            coordinator_epoch=marker.coordinator_epoch,
            timestamp=now_ms,
            base_offset=offset,
            partition_leader_epoch=self.leader_epoch,
        )
        while True:
            try:
                self.write((batch,), size=len(batch), last_offset=offset, max_timestamp=now_ms, now_ms=now_ms)
                break
            except OSError as error:
                # Retention can delete the records of a transaction only once it has ended.
                if not self.context.space.makes_room(error, max(self._need, Need.UPKEEP)):
                    return self._write_failed(error)
        ended = self.producer_state.marker_appended(
            producer_id=marker.producer_id,
            producer_epoch=marker.producer_epoch,
            coordinator_epoch=marker.coordinator_epoch,
            commit=marker.commit,
            offset=offset,
            timestamp=now_ms,
            now_ms=now_ms,
        )
        if ended is not None and not ended.committed and self.segments.active is not None:
            self.index_aborted(self.segments.active, ended)
        self.context.flusher.appended(self, len(batch), (batch,))
        return Appended(offset, offset, -1, self.log_start_offset)

    def index_aborted(self, segment: Segment, ended: EndedTransaction) -> None:
        """Add an aborted transaction, whose marker is in `segment`, to the index."""
        first_open = self.producer_state.transactions.first_open
        segment.require_aborted_index().add(
            AbortedRow(
                producer_id=ended.producer_id,
                first_offset=ended.first_offset,
                last_offset=ended.marker_offset,
                last_stable_offset=ended.marker_offset + 1 if first_open is None else first_open,
            )
        )

    def begin_verification(
        self, *, producer_id: int, producer_epoch: int, base_sequence: int, from_zero: bool = False
    ) -> VerificationGuard | Refused | None:
        """The guard under which a transactional batch may be appended once the coordinator has confirmed it; None when
        its transaction is open here already; Refused for a lower epoch (47), or while the previous transaction's marker
        is missing (51). `from_zero`: a producer unknown here must start with sequence 0 (Produce v12 and later)."""
        return self.producer_state.begin_verification(
            producer_id=producer_id, producer_epoch=producer_epoch, base_sequence=base_sequence, from_zero=from_zero
        )

    def _write_failed(self, error: OSError) -> Refused:
        if isinstance(error, TornWrite) or error.errno not in PASSING_ERRORS:
            self.fail(error)
        elif not is_no_space(error):  # the state of the disk reports that, once for all logs
            LOG.error("%s-%d: an append failed and was taken back: %s", self.topic, self.partition, error)
        return Refused(ErrorCode.KAFKA_STORAGE_ERROR, str(error))

    def roll(self, now_ms: int) -> Segment:
        """Start a new segment at the log end, with a producer snapshot to go with it. Raises OSError."""
        segment = super().roll(now_ms)
        self.checkpoint_state.rolled(self.log_end_offset, encode_snapshot(self.producer_state))
        return segment

    # Durability -----------------------------------------------------------------------------------------------------

    def durable(self, end_offset: int) -> Waiter:
        """Done with NONE once the high watermark is at or beyond `end_offset`; with KAFKA_STORAGE_ERROR when the log
        has failed, UNKNOWN_TOPIC_OR_PARTITION when it is deleted. Cancelling it undoes nothing."""
        if self._waiters is None:
            self._waiters = Waiters()
        waiter = self._waiters.add(end_offset)
        if end_offset <= self.high_watermark:
            self._waiters.reached(self.high_watermark)
        elif self._unusable is not None:
            self._waiters.give_up(self._unusable.error)
        return waiter

    def end_flush(self, end_offset: int, error: OSError | None) -> None:
        """Everything below `end_offset` is durable, or a sync failed (`Flushable`)."""
        if error is not None:
            self.fail(error)
        elif self._unusable is None:
            self.advance(end_offset)

    def advance(self, end_offset: int) -> None:
        """Move the high watermark up to `end_offset`, and the last stable offset with it."""
        if end_offset <= self.high_watermark:
            return
        self.high_watermark = end_offset
        transactions = self.producer_state.transactions
        if transactions.is_any:
            self._settle(transactions.high_watermark_moved(end_offset))
        else:
            self.last_stable_offset = end_offset
        if self._waiters is not None and not self._waiters.reached(end_offset):
            self._waiters = None
        if self.on_progress is not None:
            self.on_progress(self)

    def settle_last_stable(self) -> None:
        """Compute the last stable offset again."""
        self._settle(self.producer_state.transactions.first_unstable)

    def _settle(self, unstable: int | None) -> None:
        if unstable is None or unstable >= self.high_watermark:
            self.last_stable_offset = self.high_watermark
        else:
            self.last_stable_offset = max(unstable, self.log_start_offset)

    def fail(self, error: OSError) -> None:
        """Take the log offline, for good: the page cache can no longer be trusted (storage.md section 11)."""
        if self._unusable is not None:
            return
        LOG.critical("%s-%d is offline: %s", self.topic, self.partition, error)
        self.failure = error
        self.context.owner.failed(self)
        self._stop(Refused(ErrorCode.KAFKA_STORAGE_ERROR, f"the log is offline: {error}"))

    def retire(self) -> None:
        """The partition is deleted: refuse everything from now on."""
        self.forget_unsynced()
        if self._unusable is None or self.failure is not None:
            self._stop(Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "the partition has been deleted"))

    def _stop(self, refused: Refused) -> None:
        self._unusable = refused
        if self._waiters is not None:
            self._waiters.give_up(refused.error)
        if self.on_progress is not None:
            self.on_progress(self)

    @property
    def is_lost(self) -> bool:
        """Whether it is offline (`Flushable`)."""
        return self.failure is not None

    # Producers ------------------------------------------------------------------------------------------------------

    def producers(self) -> tuple[ActiveProducer, ...]:
        """Every producer known here (transactions.md 10.1)."""
        return tuple(
            ActiveProducer(
                entry.producer_id,
                entry.producer_epoch,
                entry.last_sequence,
                entry.last_timestamp,
                entry.coordinator_epoch,
                entry.transaction_first_offset,
            )
            for entry in self.producer_state
        )

    def expire_producers(self, now_ms: int, *, after_ms: int) -> int:
        """Drop idle producers (storage.md 5.5); how many went."""
        return self.producer_state.expire(now_ms, after_ms=after_ms)

    # Deleting -------------------------------------------------------------------------------------------------------

    async def delete_records_before(self, offset: int) -> ErrorCode:
        """Move the log start up to `offset` (-1: to the high watermark), as durably as configured (storage.md 13)."""
        if self._unusable is not None:
            return self._unusable.error
        if not self.config.is_deleted_by_retention:
            return ErrorCode.POLICY_VIOLATION
        target = self.high_watermark if offset == _TO_HIGH_WATERMARK else offset
        if not 0 <= target <= self.high_watermark:
            return ErrorCode.OFFSET_OUT_OF_RANGE
        if target > self.log_start_offset:
            self.move_log_start(target)
        try:
            # Also when nothing moved: a caller that went away may have left the checkpoint unwritten.
            await self.context.owner.save_log_starts()
        except OSError:
            return ErrorCode.KAFKA_STORAGE_ERROR
        return ErrorCode.NONE

    def move_log_start(self, offset: int) -> None:
        """Move the log start up to `offset`, which is at most the high watermark."""
        self.log_start_offset = offset
        self.epochs.truncate_from_start(offset)
        before = self.last_stable_offset
        self.settle_last_stable()
        self.mark_unsaved()
        if self.last_stable_offset != before and self.on_progress is not None:
            self.on_progress(self)
