"""`JournalFlusher`: group commit through one journal, for all logs at once.

Appended batches go to the logs' files, unsynced, and are kept here until the group before is durable; then all of them
go into the journal as one group, with one write and one sync. A log's own files are synced instead when it has much to
make durable, since writing that twice gains nothing; when it has new names on the disk, which are not in the journal;
and whenever the journal has no room. Always true: at most one group is under way, and a log is not in it while
its own files are being synced for a waiting caller; a group holds everything that its logs have appended since their
last flush, or they are not in it.
"""

import asyncio
import errno
import logging
from collections.abc import Callable, Sequence
from functools import partial
from queue import SimpleQueue
from typing import Final

from eosin.storage.disk.flusher import Ended, Flush, Flushable, Job, ThreadFlusher, Work
from eosin.storage.disk.interfaces import Buffer
from eosin.storage.journal.codec import LogName
from eosin.storage.journal.gathering import GATHER_S, Gathering
from eosin.storage.journal.journal import Extension, GroupWrite, Journal, NoRoom
from eosin.storage.journal.ring import Place
from eosin.storage.log.journal_mark import JournalMark

_LOG: Final = logging.getLogger("eosin.storage")
_NO_SPACE: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
RETRY_S: Final = 5.0
"""After this, in seconds, a file that could not be made, or a write that found no space, is tried again."""
SETTLERS: Final = 2
"""So many logs are synced side by side so that a file of the journal can be used again."""


class _PendingBatches:
    """The batches that a log has appended since its last flush."""

    __slots__ = ("base_offset", "is_direct", "name", "parts", "size")

    def __init__(self, name: LogName) -> None:
        self.name = name
        self.base_offset: int | None = None
        """Log end before, if the first batch begins behind that."""
        self.parts: list[bytes] = []
        self.size = 0
        self.is_direct = False
        """True if the log's own files are to be synced, since some of its batches are not kept here."""


class JournalFlusher(ThreadFlusher):
    """Without a journal, which `use` gives it, it syncs each log by itself."""

    def __init__(
        self,
        *,
        threads: int = 4,
        watch: Callable[[int], None] | None = None,
        watch_bytes: Callable[[int], None] | None = None,
    ) -> None:
        """See `ThreadFlusher`."""
        super().__init__(threads=threads, watch=watch, watch_bytes=watch_bytes)
        self._journal: Journal | None = None
        self._direct_bytes = 0
        self._group_jobs: SimpleQueue[Job | None] = SimpleQueue()
        self._group_thread_runs = False
        self._pending: dict[Flushable, _PendingBatches] = {}
        self._names: dict[Flushable, LogName] = {}
        self._waiting: dict[Flushable, None] = {}
        """The logs whose pending bytes go into the next group."""
        self._group: GroupWrite | None = None
        """The group that is under way."""
        self._gathering = Gathering()
        self._gather_timer: asyncio.TimerHandle | None = None
        """Until it fires no group begins."""
        self._settling: dict[Flushable, None] = {}
        """The logs whose files are being synced to free the journal; no caller waits for that."""
        self._to_settle: dict[Flushable, None] = {}
        self._is_extending = False
        self._retry_at = 0.0
        self._is_paused = False
        """True if a group found no space a moment ago."""
        self._is_closing = False
        self._failure: OSError | None = None
        self._on_failure: Callable[[OSError], None] = lambda error: None

    def use(self, journal: Journal, *, direct_bytes: int, on_failure: Callable[[OSError], None]) -> None:
        """Write to `journal` from now on. A log that has `direct_bytes` or more to make durable is synced by itself.
        `on_failure` is called when a write or sync of the journal has failed: nothing is durable any more."""
        self._journal = journal
        self._direct_bytes = direct_bytes
        self._on_failure = on_failure

    # Appends --------------------------------------------------------------------------------------------------------

    def appended(
        self,
        log: Flushable,
        size: int,
        batch: Sequence[Buffer],
        *,
        awaited: bool = True,
        base_offset: int | None = None,
    ) -> None:
        """Put the batch into the next group, or sync the log."""
        self.backlog_bytes += size
        log.unflushed_bytes += size
        is_kept = self._journal is not None and not self._is_paused and self._keep(log, size, batch, base_offset)
        if not awaited:
            self._wait_for_company(log)
        elif is_kept:
            self._waiting[log] = None
            if self._group is None:
                self._schedule()
        else:
            self._to_flush[log] = None
            self._schedule()

    def _keep(self, log: Flushable, size: int, batch: Sequence[Buffer], base_offset: int | None) -> bool:
        """Keep the batch for the next group; returns whether everything that the log has to flush is kept now."""
        pending = self._pending.get(log) or self._new_pending(log)
        if pending.is_direct:
            return False
        pending.size += size
        if pending.size >= self._direct_bytes or pending.size != log.unflushed_bytes or log.has_new_names:
            self._sync_itself(log, pending)
            return False
        if not pending.parts:
            pending.base_offset = base_offset
        pending.parts.append(b"".join(batch))
        return True

    def _hurry(self) -> None:
        for log in self._unhurried:
            pending = self._pending.get(log)
            (self._to_flush if pending is None or pending.is_direct else self._waiting)[log] = None
        self._unhurried.clear()
        super()._hurry()

    def _start(self) -> None:
        self._is_scheduled = False
        for log in [log for log in self._to_flush if log not in self._running and log not in self._settling]:
            self._begin(log)
        if self._waiting and self._group is None and self._gather_timer is None:
            self._begin_group()

    def _begin(self, log: Flushable) -> None:
        self._pending.pop(log, None)
        self._waiting.pop(log, None)
        if self._failure is not None:
            self._to_flush.pop(log, None)
            self._unhurried.pop(log, None)
            self.backlog_bytes -= log.unflushed_bytes
            log.unflushed_bytes = 0
            log.end_flush(log.log_end_offset, self._failure)
            self._wake_settlers(log)
            return
        super()._begin(log)
        if self._journal is not None and self._journal.ring.is_empty:
            self._upkeep()

    # Groups ---------------------------------------------------------------------------------------------------------

    def _begin_group(self) -> None:
        journal = self._journal
        logs, size = self._next_group()
        if not logs:
            return
        place = journal.ring.place(size, self._running_loop().time()) if journal is not None else None
        if journal is None or place is None:
            self._cannot_place(logs)
            return
        self._gathering.began(len(logs))
        parts: list[bytes] = []
        members: list[tuple[Flushable, int, int]] = []
        for log in logs:
            pending = self._pending.pop(log)
            self._waiting.pop(log, None)
            self._unhurried.pop(log, None)
            self._running[log] = None
            log.unflushed_bytes = 0
            end_offset = log.log_end_offset
            base_offset = pending.base_offset
            if base_offset is None:
                base_offset = int.from_bytes(pending.parts[0][:8], "big")
            parts.append(
                pending.name.entry_head(
                    leader_epoch=log.leader_epoch,
                    base_offset=base_offset,
                    end_offset=end_offset,
                    size=pending.size,
                )
            )
            parts += pending.parts
            members.append((log, end_offset, pending.size))
            journal.ring.note(place, log, end_offset)
            log.note_flush()
        self._write(journal, place, parts, members)
        self._upkeep()

    def _next_group(self) -> tuple[list[Flushable], int]:
        """The logs whose entries fit into one group, and how many bytes these are."""
        limit = self._journal.ring.payload_limit if self._journal is not None else 0
        logs: list[Flushable] = []
        size = 0
        for log in dict.fromkeys((*self._waiting, *self._unhurried)):
            pending = self._pending.get(log)
            if pending is None or pending.is_direct or log in self._running:
                continue
            if log.is_lost:  # its lost batches may lie below the kept ones
                self._sync_itself(log, pending)
                continue
            entry_bytes = pending.name.entry_bytes + pending.size
            if size + entry_bytes > limit and logs:
                break
            logs.append(log)
            size += entry_bytes
        return logs, size

    def _cannot_place(self, logs: list[Flushable]) -> None:
        """Write an empty group, if that frees a file of the journal; else sync the logs themselves."""
        journal = self._journal
        place = journal.ring.announcement() if journal is not None else None
        if journal is not None and place is not None:
            self._write(journal, place, [], [])
            return
        self._upkeep()
        for log in logs:
            self._sync_itself(log, self._pending[log])

    def _new_pending(self, log: Flushable) -> _PendingBatches:
        name = self._names.get(log)
        if name is None or name.topic_id != log.topic_id:  # a log may learn it late
            name = self._names[log] = LogName(log.topic_partition, log.topic_id)
        pending = self._pending[log] = _PendingBatches(name)
        return pending

    def _sync_itself(self, log: Flushable, pending: _PendingBatches) -> None:
        """Let the files of `log` be synced, at once if a caller waits."""
        pending.is_direct = True
        pending.parts.clear()
        if self._waiting.pop(log, self) is None:
            self._to_flush[log] = None
            self._schedule()

    def _write(
        self, journal: Journal, place: Place, parts: list[bytes], members: list[tuple[Flushable, int, int]]
    ) -> None:
        self._group = journal.write_of(place, parts, members)
        self._submit_group(self._group, self._group_ended)

    def _submit_group(self, work: Work, ended: Ended) -> None:
        """Let the journal's own thread do `work`: the jobs of the pool must not hold it up."""
        self._under_way += 1
        self._group_jobs.put((work, ended))
        if not self._group_thread_runs:
            self._group_thread_runs = True
            self._start_thread("journal", self._group_jobs)

    def _group_ended(self, error: OSError | None) -> None:
        group, self._group = self._group, None
        assert group is not None
        for log, _, _ in group.logs:
            del self._running[log]
        if error is None:
            if self._journal is not None:
                self._journal.ring.durable(group.place)
            if self._watch_bytes is not None:
                self._watch_bytes(sum(size for _, _, size in group.logs))
            if not self._is_closing and self._gathering.waits(len(group.logs), len(self._waiting)):
                self._gather_timer = self._running_loop().call_later(GATHER_S, self._gathered)
            for log, end_offset, size in group.logs:
                self.backlog_bytes -= size
                log.end_flush(end_offset, None)
                self._wake_settlers(log)
        elif error.errno in _NO_SPACE and not group.is_written:
            self._undo(group, error)
        else:
            self._fail(group, error)

    def _gathered(self) -> None:
        self._gather_timer = None
        if self._has_more and not self._is_scheduled:
            self._start()

    def _undo(self, group: GroupWrite, error: OSError) -> None:
        """Undo a write that found no room: a file system that copies on write needs some even to overwrite a file."""
        assert self._journal is not None
        _LOG.warning("the journal cannot be written for now, logs are synced by themselves: %s", error)
        self._journal.ring.undo(group.place)
        self._is_paused = True
        self._running_loop().call_later(RETRY_S, self._resume)
        for log, _, size in group.logs:
            log.unflushed_bytes += size
            self._waiting[log] = None
            self._sync_itself(log, self._pending.get(log) or self._new_pending(log))
            self._wake_settlers(log)

    def _resume(self) -> None:
        self._is_paused = False

    def _fail(self, group: GroupWrite, error: OSError) -> None:
        """Take every log offline: after a failed sync the content of the journal is unknown, now and later."""
        _LOG.critical("the journal has failed, and with it every log: %s", error)
        self._failure = error
        self._journal = None
        for log, end_offset, size in group.logs:
            self.backlog_bytes -= size
            log.end_flush(end_offset, error)
            self._wake_settlers(log)
        self._to_flush.update(self._waiting)
        self._to_settle.clear()
        self._on_failure(error)

    # Room -----------------------------------------------------------------------------------------------------------

    def _upkeep(self) -> None:
        """Let files be made, or logs be synced, so that there will be room for groups to come."""
        if self._journal is None or self._is_closing:
            return
        ring = self._journal.ring
        now = self._running_loop().time()
        if ring.wants_a_file and not self._is_extending and now >= self._retry_at:
            self._is_extending = True
            extension = self._journal.extension()
            self._submit(extension, partial(self._extended, extension))
        if (ring.wants_syncs or not ring.has_room) and not self._to_settle and not self._settling:
            self._to_settle = dict.fromkeys(log for log in ring.to_sync() if not log.is_lost)
            self._settle()

    def _extended(self, extension: Extension, error: OSError | None) -> None:
        # A file that the note may name must stay as it is: then there are no more tries.
        self._is_extending = error is not None and extension.is_noted
        if error is None and self._journal is not None:
            self._journal.extended(extension)
        elif error is not None:
            self._retry_at = self._running_loop().time() + RETRY_S
            level = logging.DEBUG if isinstance(error, NoRoom) else logging.WARNING
            _LOG.log(level, "the journal does not grow, logs are synced by themselves while it is full: %s", error)

    def _settle(self) -> None:
        """Sync the files of logs, so that the journal need not hold their batches."""
        while self._to_settle and len(self._settling) < SETTLERS:
            log = next(iter(self._to_settle))
            del self._to_settle[log]
            if log.is_lost or log in self._to_flush:
                continue
            if log.has_new_names:
                # Without these names a start could not use their entries in the journal.
                self._to_flush[log] = None
                self._schedule()
                continue
            try:
                flush = log.begin_flush()
            except OSError as error:
                _LOG.warning("%s cannot be synced for now: %s", log.topic_partition, error)
                continue
            self._settling[log] = None
            self._submit(flush, partial(self._settled, log, flush))

    def _settled(self, log: Flushable, flush: Flush, error: OSError | None) -> None:
        del self._settling[log]
        flush.release()
        if error is not None:
            log.end_flush(flush.end_offset, error)
        else:
            self.synced(log, flush.end_offset)
        self._wake_settlers(log)
        self._settle()

    def _is_running(self, log: Flushable) -> bool:
        return log in self._running or log in self._settling

    def synced(self, log: Flushable, end_offset: int) -> None:
        """The journal need not hold batches of `log` below `end_offset`. After a failed sync no other proves
        anything."""
        if self._journal is not None and not log.is_lost:
            self._journal.ring.synced(log, end_offset)

    def forget(self, log: Flushable) -> None:
        """The journal need not hold anything of `log`."""
        self._names.pop(log, None)
        if self._journal is not None:
            self._journal.ring.forget(log)

    def mark(self) -> JournalMark | None:
        """Behind every group so far; None without a journal."""
        if self._journal is None:
            return None
        return JournalMark(self._journal.journal_id, self._journal.ring.last_sequence)

    # The end --------------------------------------------------------------------------------------------------------

    @property
    def _has_more(self) -> bool:
        return bool(self._to_flush or self._waiting)

    async def close(self) -> None:
        """Finish every flush and stop the threads."""
        self._is_closing = True
        self._to_settle.clear()
        await super().close()
        if self._journal is not None:
            self._journal.close()
            self._journal = None

    def _stop_threads(self) -> None:
        self._group_jobs.put(None)
        super()._stop_threads()
