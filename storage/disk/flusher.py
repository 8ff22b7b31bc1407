"""The flusher: makes appended bytes durable, many logs side by side, and reports that to the logs.

Always true: of one log at most one flush runs at a time; it covers exactly what was appended before it began, so a
batch is never reported durable by a sync that began before its write had ended; threads make system calls and touch
no state; results arrive in the event loop, in batches.
"""

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from enum import StrEnum
from functools import partial
from queue import SimpleQueue
from typing import Final, Protocol

from eosin.protocol.names import TopicPartition, Uuid
from eosin.runtime.clock import stopwatch_ns
from eosin.storage.disk.interfaces import LACKING_DESCRIPTORS, Buffer, Disk, File

UNHURRIED_S: Final = 0.1
"""After this, in seconds, a write without a waiting caller gets a sync of its own."""


class Durability(StrEnum):
    """The failures that an acknowledged write survives (`eosin.durability`)."""

    FSYNC = "fsync"
    """kill -9 and power loss."""
    OS = "os"
    """kill -9: it is in the page cache."""
    MEMORY = "memory"
    """Nothing: it is in this process."""


class Flush:
    """The system calls that make one log durable up to an offset. `run` may be called in any thread."""

    __slots__ = ("_closed", "_disk", "_files", "directories", "end_offset", "paths")

    def __init__(
        self,
        disk: Disk,
        *,
        end_offset: int,
        files: Sequence[File] = (),
        closed: Sequence[str] = (),
        paths: Sequence[str] = (),
        directories: Sequence[str] = (),
    ) -> None:
        """`closed` are files of the log that are not open, by their paths. `paths` are small files, `directories` those
        with new names in them; both are synced before the log's own files, so that durable records never lack what they
        need."""
        self._disk = disk
        self._files = files
        self._closed = closed
        self.paths = paths
        self.directories = directories
        self.end_offset = end_offset
        for file in files:
            file.pin()

    def run(self) -> None:
        """Wait until all of it is durable. Raises OSError."""
        for path in self.paths:
            self._disk.sync_file(path)
        for path in self.directories:
            self._disk.sync_directory(path)
        self.run_records()

    def run_records(self) -> None:
        """Wait until the log's own files are durable, whatever their names are. Raises OSError."""
        for file in self._files:
            file.sync()
        for path in self._closed:
            # Retention may have taken it meanwhile, as it may take an open one.
            with suppress(FileNotFoundError):
                self._disk.sync_file(path)

    def release(self) -> None:
        """Let go of the files. In the event loop, once `run` has returned."""
        for file in self._files:
            file.unpin()


class Flushable(Protocol):
    """A log, as the flusher sees it."""

    topic_id: Uuid
    leader_epoch: int
    log_end_offset: int
    unflushed_bytes: int
    """Appended since its last flush began. The flusher's to change."""

    @property
    def topic_partition(self) -> TopicPartition:
        """The partition's name."""

    @property
    def has_new_names(self) -> bool:
        """True if the next flush must sync more than records: names of files, or small files."""

    @property
    def is_lost(self) -> bool:
        """True if it has failed: a sync of its files would prove nothing."""

    def begin_flush(self) -> Flush:
        """The flush of everything appended so far. Raises OSError."""

    def end_flush(self, end_offset: int, error: OSError | None) -> None:
        """Everything below `end_offset` is durable, or `error` says why it may not be."""

    def advance(self, end_offset: int) -> None:
        """The log, which was just appended to, is durable up to `end_offset`."""

    def note_flush(self) -> None:
        """Every append so far is about to be durable without a sync of the log's files."""


class Flusher(Protocol):
    """Decides when logs are synced."""

    @property
    def defers(self) -> bool:
        """True if it calls `begin_flush` of logs, later; else each write is durable when it returns, and logs tell no
        flusher of it. Always the same."""

    @property
    def backlog_bytes(self) -> int:
        """Appended and not yet durable, over all logs. When it grows, connections should read more slowly."""

    def appended(
        self,
        log: Flushable,
        size: int,
        batch: Sequence[Buffer],
        *,
        awaited: bool = True,
        base_offset: int | None = None,
    ) -> None:
        """`log` has written `size` more bytes, those of `batch`; `awaited` if a caller waits until they are durable.
        `base_offset` is where the log ended before, if the batch begins behind that. Called in the event loop; does not
        wait. The batch may change afterwards."""

    async def settle(self, log: Flushable) -> None:
        """Wait until no flush of `log`, which nothing is appended to meanwhile, is under way or due."""

    def synced(self, log: Flushable, end_offset: int) -> None:
        """A checkpoint has synced the files of `log`: everything below `end_offset` is durable there."""

    def forget(self, log: Flushable) -> None:
        """`log` is deleted: nothing of it needs to be durable."""

    async def close(self) -> None:
        """Finish every flush and stop."""


class Work(Protocol):
    """System calls that a thread makes."""

    def run(self) -> None:
        """Make them. Raises OSError."""


Ended = Callable[[OSError | None], None]
"""Called in the event loop when work has ended, with the error if it failed."""
Job = tuple[Work, Ended]
_Queue = SimpleQueue[Job | None]


class ThreadFlusher:
    """Group commit by a small pool of threads. Appends of one turn of the event loop share a flush; those that come
    while it runs share the next one. An append without a waiting caller shares the next flush of its log, and has one
    of its own only when none comes for a while."""

    defers: Final = True

    def __init__(
        self,
        *,
        threads: int = 4,
        unhurried_s: float = UNHURRIED_S,
        watch: Callable[[int], None] | None = None,
        watch_bytes: Callable[[int], None] | None = None,
    ) -> None:
        """An append without a waiting caller waits at most `unhurried_s` for a flush that it shares. `watch` is told
        how long each flush took (ns), by the thread that made it; `watch_bytes` in the event loop how many bytes it has
        made durable."""
        self._thread_count = threads
        self._unhurried_s: Final = unhurried_s
        self._threads: list[threading.Thread] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        self._jobs: _Queue = SimpleQueue()
        self._results: deque[tuple[Ended, OSError | None]] = deque()
        self._is_waking = False
        self._under_way = 0
        """Jobs that threads have, or will have."""
        self._to_flush: dict[Flushable, None] = {}
        self._unhurried: dict[Flushable, None] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._running: dict[Flushable, None] = {}
        self._settlers: dict[Flushable, list[asyncio.Future[None]]] = {}
        """Callers of `settle`, to be woken when a flush of their log has ended."""
        self._is_scheduled = False
        self._idle: asyncio.Future[None] | None = None
        self.backlog_bytes = 0
        self._watch: Final = watch
        self._watch_bytes: Final = watch_bytes

    def appended(
        self,
        log: Flushable,
        size: int,
        batch: Sequence[Buffer],
        *,
        awaited: bool = True,
        base_offset: int | None = None,
    ) -> None:
        """Sync `log` at the end of this turn of the loop, or when its running flush has ended; within `unhurried_s`
        if no caller waits for it."""
        self.backlog_bytes += size
        log.unflushed_bytes += size
        if awaited:
            self._to_flush[log] = None
            self._schedule()
        else:
            self._wait_for_company(log)

    def _wait_for_company(self, log: Flushable) -> None:
        self._unhurried[log] = None
        if self._timer is None:
            self._timer = self._running_loop().call_later(self._unhurried_s, self._hurry)

    def _schedule(self) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            self._running_loop().call_soon(self._start)

    def _running_loop(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
        return self._loop

    def _hurry(self) -> None:
        """Sync the logs that have waited for company long enough."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._to_flush.update(self._unhurried)
        self._start()

    def _start(self) -> None:
        self._is_scheduled = False
        for log in [log for log in self._to_flush if log not in self._running]:
            self._begin(log)

    def _begin(self, log: Flushable) -> None:
        """Sync a log's own files."""
        self._to_flush.pop(log, None)
        self._unhurried.pop(log, None)
        covered, log.unflushed_bytes = log.unflushed_bytes, 0
        try:
            flush = log.begin_flush()
        except OSError as error:
            self.backlog_bytes -= covered
            log.end_flush(log.log_end_offset, error)
            self._wake_settlers(log)
            return
        self._running[log] = None
        self._submit(flush, partial(self._ended, log, flush, covered))

    def _ended(self, log: Flushable, flush: Flush, covered: int, error: OSError | None) -> None:
        del self._running[log]
        self.backlog_bytes -= covered
        flush.release()
        if error is None:
            if self._watch_bytes is not None:
                self._watch_bytes(covered)
            self.synced(log, flush.end_offset)
        log.end_flush(flush.end_offset, error)
        self._wake_settlers(log)

    async def settle(self, log: Flushable) -> None:
        """Sync the log's own files if anything is due, and wait for what is under way."""
        while self._is_running(log) or (log.unflushed_bytes and not log.is_lost):
            if log.unflushed_bytes and not log.is_lost:
                self._to_flush[log] = None
                self._schedule()
            woken: asyncio.Future[None] = self._running_loop().create_future()
            self._settlers.setdefault(log, []).append(woken)
            await woken

    def _is_running(self, log: Flushable) -> bool:
        """True if a thread works for `log`."""
        return log in self._running

    def _wake_settlers(self, log: Flushable) -> None:
        """A flush of `log` has ended."""
        for woken in self._settlers.pop(log, ()):
            if not woken.done():
                woken.set_result(None)

    def synced(self, log: Flushable, end_offset: int) -> None:
        """Its own account is kept by flushes."""

    def forget(self, log: Flushable) -> None:
        """A flush that is under way ends as it will."""

    def _submit(self, work: Work, ended: Ended) -> None:
        """Let a thread of the pool do `work`, then call `ended` in the event loop."""
        self._under_way += 1
        self._jobs.put((work, ended))
        if len(self._threads) < min(self._thread_count, self._under_way):
            self._start_thread(f"flusher-{len(self._threads)}", self._jobs)

    def _start_thread(self, name: str, jobs: _Queue) -> None:
        self._running_loop()
        thread = threading.Thread(target=self._run, args=(jobs,), name=name, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _run(self, jobs: _Queue) -> None:
        """A thread's life: do work and hand back results, until the queue holds None."""
        loop = self._loop
        assert loop is not None
        while (job := jobs.get()) is not None:
            work, ended = job
            began_ns = stopwatch_ns() if self._watch is not None else 0
            self._results.append((ended, outcome(work)))
            if self._watch is not None and began_ns:
                self._watch(stopwatch_ns() - began_ns)
            # A wake-up that is under way drains the deque after it has cleared the flag, so it sees this result too.
            if not self._is_waking:
                self._is_waking = True
                loop.call_soon_threadsafe(self._deliver)

    def _deliver(self) -> None:
        self._is_waking = False
        while self._results:
            ended, error = self._results.popleft()
            self._under_way -= 1
            ended(error)
        if self._has_more:
            self._schedule()  # not now: what waited for these results may append more in this turn
        if self._idle is not None and self._is_idle and not self._idle.done():
            self._idle.set_result(None)

    @property
    def _has_more(self) -> bool:
        """True if something waits to be begun."""
        return bool(self._to_flush)

    @property
    def _is_idle(self) -> bool:
        return not (self._under_way or self._has_more)

    async def close(self) -> None:
        """Finish every flush and stop the threads."""
        if self._unhurried:
            self._hurry()
        while not self._is_idle:
            self._idle = asyncio.get_running_loop().create_future()
            await self._idle
        self._stop_threads()

    def _stop_threads(self) -> None:
        for _ in self._threads:
            self._jobs.put(None)
        for thread in self._threads:
            thread.join()
        self._threads.clear()


class ImmediateFlusher:
    """The flusher of durability `os` and `memory`, by which a write is as durable as it gets once it returns."""

    backlog_bytes: Final = 0
    defers: Final = False

    def appended(
        self,
        log: Flushable,
        size: int,
        batch: Sequence[Buffer],
        *,
        awaited: bool = True,
        base_offset: int | None = None,
    ) -> None:
        """Logs tell only a flusher that defers."""
        raise AssertionError("a write was durable when it returned")

    async def settle(self, log: Flushable) -> None:
        """There is never a flush."""

    def synced(self, log: Flushable, end_offset: int) -> None:
        """No caller waits for that."""

    def forget(self, log: Flushable) -> None:
        """There is nothing to forget."""

    async def close(self) -> None:
        """Nothing runs."""


def outcome(work: Work) -> OSError | None:
    """Do the work; returns the error if it failed. A file that cannot be opened for want of descriptors is tried again
    until it can: other flushes and other clients give descriptors back."""
    while True:
        try:
            work.run()
        except OSError as error:
            if error.errno not in LACKING_DESCRIPTORS:
                return error
        else:
            return None


def flusher_for(durability: Durability) -> Flusher:
    """The flusher that keeps what `durability` promises."""
    return ThreadFlusher() if durability is Durability.FSYNC else ImmediateFlusher()
