"""`PartitionLog`: one partition: which batches may be appended, by whom, and what that changes.

The top layer of a log. Always true:
- An append checks, writes and updates state without an await, so there is no lock to hold or to lose.
- A failed write other than for want of space takes the log offline for good.
- Only a leader's log takes records of clients and coordinators, only a follower's log those of its leader.
"""

import errno
from collections.abc import Callable, Iterator
from typing import Final

from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import METADATA_TOPIC, TRANSACTION_STATE_TOPIC, TopicPartition, Uuid
from eosin.protocol.records.batch import (
    STAMP_BYTES,
    BatchHeader,
    CorruptRecords,
    read_header,
    stamp,
    view_of,
)
from eosin.protocol.records.header import LOG_APPEND_TIME, NO_TIMESTAMP, plain_batch
from eosin.storage.disk.interfaces import Buffer, TornWrite
from eosin.storage.disk.space import WritePurpose, is_no_space
from eosin.storage.indexes.aborted import AbortedRow
from eosin.storage.log.committed_log import NOT_LEADER, CommittedLog
from eosin.storage.log.config import LogConfig
from eosin.storage.log.context import LogContext
from eosin.storage.log.leader_batches import leader_batches
from eosin.storage.log.producer_refill import refill
from eosin.storage.log.segment import Segment
from eosin.storage.log.segmented_log import LOG, PASSING_ERRORS
from eosin.storage.producers.applied import apply_batch
from eosin.storage.producers.snapshot import encode_snapshot
from eosin.storage.producers.state import EndedTransaction, repeated
from eosin.storage.results.log_results import (
    ActiveProducer,
    Appended,
    AppendOrigin,
    AppendResult,
    FollowerAppend,
    Marker,
    Refused,
    VerificationGuard,
)

_CLIENT: Final = AppendOrigin.CLIENT
_TO_HIGH_WATERMARK: Final = -1
_PURPOSES: Final = {METADATA_TOPIC: WritePurpose.VITAL, TRANSACTION_STATE_TOPIC: WritePurpose.UPKEEP}
"""Purposes of the writes that go on while the disk is full, by topic."""


class PartitionLog(CommittedLog):
    """One partition's log. Nothing of it is on disk before its first append."""

    __slots__ = ("_purpose", "on_append")

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
        self._purpose = _PURPOSES.get(topic_partition.topic, WritePurpose.RECORDS)
        self.on_append: Callable[[PartitionLog], None] | None = None
        """Called, in the event loop, when a leader's append has moved the log end; as restricted as `on_progress`."""

    def __repr__(self) -> str:
        return f"<PartitionLog {self.topic_partition} [{self.log_start_offset}, {self.log_end_offset})>"

    # Appending ------------------------------------------------------------------------------------------------------

    def append(
        self,
        batch: Buffer,
        *,
        now_ms: int,
        origin: AppendOrigin = _CLIENT,
        guard: VerificationGuard | None = None,
        header: BatchHeader | None = None,
        awaited: bool = True,
    ) -> AppendResult:
        """Check one batch against the producer's state and write it, now. The batch has passed validation; `header` is
        its header when the caller has read it already (storage.md 4 steps 15 and 16, transactions.md 6.2). Without
        `awaited` no caller waits until it is durable, and it takes no sync of its own."""
        if self._no_appends is not None:
            return self._no_appends
        if header is None:
            header = read_header(batch)
        from_client = origin is _CLIENT
        has_producer = header.producer_id >= 0
        if self.context.space.refuses_records and self._purpose is WritePurpose.RECORDS:
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
        buffers = (head, view_of(batch)[STAMP_BYTES:])
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
                if not self.context.space.makes_room(error, self._purpose):
                    if has_producer and from_client:
                        self.producer_state.refused_for_now(header)
                    return self._write_failed(error)
        if has_producer:
            self.producer_state.data_appended(header, base_offset, max_timestamp=header.max_timestamp, now_ms=now_ms)
        self.report_write(size, buffers, awaited=awaited)
        if self.on_append is not None:
            self.on_append(self)
        return Appended(
            base_offset,
            base_offset + header.last_offset_delta,
            header.max_timestamp if header.attributes & LOG_APPEND_TIME else -1,
            self.log_start_offset,
        )

    def append_records(
        self, records: bytes, *, count: int, now_ms: int, awaited: bool = True, bounded: bool = True
    ) -> AppendResult:
        """Write `count` encoded records of a coordinator as one batch without a producer, now. It is made here, so only
        its size is checked: not even that unless it is `bounded`, so that no setting keeps what has begun from ending.
        `awaited` as in `append`."""
        if self._no_appends is not None:
            return self._no_appends
        if self.context.space.refuses_records and self._purpose is WritePurpose.RECORDS:
            return self._no_space()
        offset, epoch = self.log_end_offset, self.leader_epoch
        batch = plain_batch(records, count=count, timestamp=now_ms, base_offset=offset, partition_leader_epoch=epoch)
        size = len(batch)
        if bounded and (size > self._segment_limit_bytes or size > self._config.max_message_bytes):
            return self._too_large(size)
        while True:
            try:
                self.write((batch,), size=size, last_offset=offset + count - 1, max_timestamp=now_ms, now_ms=now_ms)
                break
            except OSError as error:
                if not self.context.space.makes_room(error, self._purpose):
                    return self._write_failed(error)
        self.report_write(size, (batch,), awaited=awaited)
        if self.on_append is not None:
            self.on_append(self)
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
        state, verification_enabled = self.producer_state, self.context.verification_enabled
        verdict = state.check_data(
            header, from_client=from_client, guard=guard, verification_enabled=verification_enabled
        )
        if verdict is None:
            return None
        if isinstance(verdict, Refused):
            if not (from_client and state.may_be_forgotten_duplicate(header) and self.refill_producers()):
                return verdict
            verdict = state.check_data(
                header, from_client=from_client, guard=guard, verification_enabled=verification_enabled
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
        refused = self._no_appends or self.producer_state.check_marker(marker)
        if refused is not None:
            return refused
        offset = self.log_end_offset
        behind_stamp = marker.behind_stamp(now_ms)
        size = STAMP_BYTES + len(behind_stamp)
        head = stamp(base_offset=offset, size=size, partition_leader_epoch=self.leader_epoch)
        buffers = (head + behind_stamp,)
        while True:
            try:
                self.write(buffers, size=size, last_offset=offset, max_timestamp=now_ms, now_ms=now_ms)
                break
            except OSError as error:
                # Retention can delete the records of a transaction only once it has ended.
                if not self.context.space.makes_room(error, max(self._purpose, WritePurpose.UPKEEP)):
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
        self.report_write(size, buffers)
        if self.on_append is not None:
            self.on_append(self)
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

    def is_verifying(self, producer_id: int, guard: VerificationGuard) -> bool:
        """True if an append may still be made under a guard of `begin_verification`."""
        return self.producer_state.is_verifying(producer_id, guard)

    def begin_verification(
        self,
        *,
        producer_id: int,
        producer_epoch: int,
        base_sequence: int,
        from_zero: bool = False,
        transactional_id: str | None = None,
    ) -> VerificationGuard | Refused | None:
        """The guard under which a transactional batch may be appended once the coordinator has confirmed it; None when
        its transaction is open here already, and `transactional_id`, if given, was confirmed for it; Refused for a
        lower epoch (47), or while the previous transaction's marker is missing (51). `from_zero`: a producer unknown
        here must start with sequence 0 (Produce v12 and later)."""
        return self.producer_state.begin_verification(
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=base_sequence,
            from_zero=from_zero,
            transactional_id=transactional_id,
        )

    def _write_failed(self, error: OSError) -> Refused:
        if isinstance(error, TornWrite) or error.errno not in PASSING_ERRORS:
            self.fail(error)
        elif not is_no_space(error):  # the state of the disk reports that, once for all logs
            LOG.error("%s-%d: an append failed and was taken back: %s", self.topic, self.partition, error)
        return Refused(ErrorCode.KAFKA_STORAGE_ERROR, str(error))

    def roll(self, now_ms: int) -> Segment:
        """Start a new segment at the log end, with a producer snapshot to go with it. Raises OSError."""
        assert not self.is_truncating, "its end is not known yet"
        segment = super().roll(now_ms)
        self.checkpoint_state.rolled(self.log_end_offset, encode_snapshot(self.producer_state))
        return segment

    # Replicas -------------------------------------------------------------------------------------------------------

    def become_leader(self, epoch: int) -> None:
        """This broker leads the partition from now on, in leader epoch `epoch`: what is appended carries it, and the
        epoch begins at the log end (cluster.md 4.4). The first append writes that down, and it is durable before that
        batch is: an election of a thousand partitions touches no file, since nobody else could answer meanwhile
        (cluster.md 2.10). Called again for the same epoch it changes nothing. Not while the log is truncated: `settled`
        waits for that."""
        assert not self.is_truncating, "its end is not known yet"
        if self._unusable is not None:
            return
        if epoch < self.epochs.latest:
            self.fail(
                OSError(
                    errno.ESTALE,
                    f"the cluster elects leader epoch {epoch}, and records of epoch {self.epochs.latest} are here: its"
                    " metadata is older than this log",
                    self.directory,
                )
            )
            return
        self.leader_epoch = epoch
        self._no_appends = self._unusable

    def become_follower(self) -> None:
        """Another broker leads the partition, or none does: callers that wait for an append hear that (cluster.md
        4.5). The log keeps what it has."""
        if self._unusable is None:
            self._no_appends = NOT_LEADER
            self.fail_waiters(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def append_as_follower(self, data: Buffer, *, max_epoch: int, now_ms: int) -> FollowerAppend | Refused:
        """Write the whole batches in `data`, as the leader sent them, up to the first one of a leader epoch above
        `max_epoch` (cluster.md 4.6): all of them, or none if `leader_batches` refuses one. Producers and transactions
        follow without refusals (cluster.md 4.13). Refused with KAFKA_STORAGE_ERROR the first of them may have been
        written: the log end tells."""
        if self._unusable is not None:
            return self._unusable
        assert self._no_appends is not None, "a leader's log takes nothing from elsewhere"
        assert not self.is_truncating, "its end is not known yet"
        if self.context.space.refuses_records and self._purpose is WritePurpose.RECORDS:
            return self._no_space()
        is_empty = not len(self.segments)
        found = leader_batches(data, log_end_offset=self.log_end_offset, is_empty=is_empty, max_epoch=max_epoch)
        if isinstance(found, Refused):
            return found
        if is_empty and found.headers and found.headers[0].base_offset < self.log_end_offset:
            self._begin_at(found.headers[0].base_offset)
        base_offset, view, position = self.log_end_offset, memoryview(data), 0
        failed: OSError | None = None
        for header in found.headers:
            batch = view[position : position + header.size]
            failed = self._append_from_leader(header, batch, now_ms)
            if failed is not None:
                break
            position += header.size
        if position:
            self.report_write(position, (view[:position],), base_offset=base_offset)
        if failed is not None:
            return self._write_failed(failed)
        return FollowerAppend(self.log_end_offset, position, found.stopped_at_epoch)

    def _begin_at(self, offset: int) -> None:
        """The first batch of an empty log begins before the offset at which the log was to start."""
        self.log_start_offset = self.log_end_offset = self.durable_end = offset
        self.high_watermark = self.last_stable_offset = offset

    def _append_from_leader(self, header: BatchHeader, batch: memoryview, now_ms: int) -> OSError | None:
        """Write one batch; the error if that failed."""
        while True:
            try:
                self.begin_epoch(header.partition_leader_epoch, header.base_offset)
                self.leader_epoch = self.epochs.latest
                self.write(
                    (batch,),
                    size=header.size,
                    last_offset=header.last_offset,
                    max_timestamp=header.max_timestamp if header.records_count else NO_TIMESTAMP,
                    now_ms=now_ms,
                )
                break
            except OSError as error:
                if not self.context.space.makes_room(error, self._purpose):
                    return error
        if header.producer_id >= 0:
            self._follow_producer(header, batch, now_ms)
        return None

    def _follow_producer(self, header: BatchHeader, batch: memoryview, now_ms: int) -> None:
        entry = self.producer_state.get(header.producer_id)
        if entry is not None and header.producer_epoch < entry.producer_epoch:
            LOG.warning(
                "%s: the leader's batch at offset %d has epoch %d of producer %d, after epoch %d",
                self.topic_partition,
                header.base_offset,
                header.producer_epoch,
                header.producer_id,
                entry.producer_epoch,
            )
        ended = apply_batch(self.producer_state, header, batch, log_name=self.topic_partition, now_ms=now_ms)
        if ended is not None and not ended.committed and self.segments.active is not None:
            self.index_aborted(self.segments.active, ended)

    async def truncate_to(self, offset: int) -> None:
        """Drop the batches at or behind `offset`, as the leader has others there (cluster.md 4.8). The log may end
        before `offset` afterwards, if no batch ends there. What fails takes the log offline. Goes on when the caller
        is cancelled: `settled` waits for it."""
        if self._unusable is not None:
            return
        if offset >= self.log_end_offset:
            self._drop_empty_epochs(offset)
            return
        start = self.log_start_offset
        whole = not len(self.segments) or offset <= max(start, self.segments[0].base_offset)
        await self.context.owner.truncate(self, offset, whole=whole)

    async def truncate_fully_and_start_at(self, offset: int) -> None:
        """Drop everything, and start at `offset`: the leader has nothing of what is here (cluster.md 4.7). Else as
        `truncate_to`."""
        if self._unusable is None:
            await self.context.owner.truncate(self, offset, whole=True)

    def _drop_empty_epochs(self, offset: int) -> None:
        """Forget the epochs at or behind the log end: nothing was written in them."""
        if self.epochs.truncate_from_end(offset) and len(self.segments):
            try:
                self.write_epochs()
            except OSError as error:
                self._write_failed(error)  # what is written next makes the file anew

    def follow_log_start(self, offset: int) -> None:
        """The leader's log starts at `offset`: so does this one, as far as its high watermark allows (cluster.md 4.6).
        Retention removes the segments below."""
        target = min(offset, self.high_watermark)
        if self._unusable is None and target > self.log_start_offset:
            self.move_log_start(target)

    # Producers ------------------------------------------------------------------------------------------------------

    def producers(self) -> tuple[ActiveProducer, ...]:
        """Every producer known here (transactions.md 10.1)."""
        return tuple(self.each_producer())

    def each_producer(self) -> Iterator[ActiveProducer]:
        """The producers known here now, each as it is when it is taken: there may be a million."""
        for entry in tuple(self.producer_state):
            yield ActiveProducer(
                entry.producer_id,
                entry.producer_epoch,
                entry.last_sequence,
                entry.last_timestamp,
                entry.coordinator_epoch,
                entry.transaction_first_offset,
            )

    def expire_producers(self, now_ms: int, *, after_ms: int) -> int:
        """Drop idle producers (storage.md 5.5); how many went."""
        return self.producer_state.expire(now_ms, after_ms=after_ms)

    # Deleting -------------------------------------------------------------------------------------------------------

    async def delete_records_before(self, offset: int) -> ErrorCode:
        """Move the log start up to `offset` (-1: to the high watermark), as durably as configured (storage.md 13)."""
        return self.move_start_before(offset) or await self.start_saved()

    def move_start_before(self, offset: int) -> ErrorCode:
        """The first half of `delete_records_before`: move the start, now. `start_saved` makes that durable."""
        if self._unusable is not None:
            return self._unusable.error
        if not self.config.is_deleted_by_retention:
            return ErrorCode.POLICY_VIOLATION
        target = self.high_watermark if offset == _TO_HIGH_WATERMARK else offset
        if not 0 <= target <= self.high_watermark:
            return ErrorCode.OFFSET_OUT_OF_RANGE
        if target > self.log_start_offset:
            self.move_log_start(target)
        return ErrorCode.NONE

    async def start_saved(self) -> ErrorCode:
        """Wait until the starts of this log and of all logs beside it are as durable as configured. Also when nothing
        moved: a caller that went away may have left the checkpoint unwritten."""
        try:
            await self.context.owner.save_log_starts()
        except OSError:
            return ErrorCode.KAFKA_STORAGE_ERROR
        return ErrorCode.NONE

    def move_log_start(self, offset: int) -> None:
        """Move the log start up to `offset`, which is at most the high watermark."""
        self.log_start_offset = offset
        self.epochs.truncate_from_start(offset)
        self.settle_last_stable()
        self.mark_unsaved()
        if self.on_progress is not None:
            self.on_progress(self)
