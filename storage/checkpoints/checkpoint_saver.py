"""`CheckpointSaver`: which logs are saved when, while the broker runs and when it stops.

Always true: a log that has something to save is in `_unsaved` or is being saved; of one log at most one checkpoint
runs; after a save that found no space the next ones wait a while; a round that is under way when the broker stops
begins no more saves.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Final

from eosin.runtime.clock import Clock
from eosin.runtime.turns import in_turns
from eosin.storage.checkpoints.checkpoint import Checkpoint, run_together, unsynced_folder
from eosin.storage.disk.flusher import Durability
from eosin.storage.disk.interfaces import LACKING_DESCRIPTORS, Disk, WholeSync
from eosin.storage.disk.space import WritePurpose, is_no_space
from eosin.storage.log.partition_log import PartitionLog

_LOG: Final = logging.getLogger("eosin.storage")

CHECKPOINT_BYTES: Final = 64 * 1024 * 1024
"""A log with this much to recover is checkpointed at the next round."""
SMALL_TOTAL_BYTES: Final = 8 * 1024 * 1024
"""Bytes that all logs which have waited as long as a large one may leave to recover together."""
TOTAL_BATCHES: Final = 70_000
"""Batches that all logs may leave to recover together: a start takes 5 to 15 us for each."""
SAVES_AT_ONCE: Final = 16
"""Logs that are saved at the same time while the broker serves, at most."""
ONE_BY_ONE: Final = 64
"""Of a round with fewer logs one is saved after the other, which takes a fraction of the interval between rounds; of
more, one more at a time for each so many. A save is a hundred small system calls of a thread, after each of which it
wants the interpreter back. Where ids are equally busy, the logs of all of them are due in one moment, and while the
threads of sixteen saves took turns the event loop got half of what it needed: three commits in a hundred met such a
tenth of a second, half of them took more than 10 ms, and they were the p99."""
SMALL_BYTES: Final = 1024 * 1024
SMALL_AFTER_MS: Final = 60_000
"""A log with less than `SMALL_BYTES` to recover may wait this long: a start scans it faster than saves would take."""
LARGE_AFTER_MS: Final = 10_000
"""A larger one may wait this long: a save costs the same for many bytes as for few."""
CROWDED_BYTES: Final = 256 * 1024 * 1024
CROWDED_AFTER_MS: Final = 5000
"""The same while all logs together have more than `CROWDED_BYTES` to recover, which is a fraction of a second."""
TOGETHER_FROM: Final = 64
"""At a stop this many logs are saved by syncing the whole file system."""
SMALL_FILES_BYTES: Final = 32 * 1024
"""Bytes that the small files, the directory and half filled pages of a log take in the page cache."""
OTHERS_MAX_BYTES: Final = 64 * 1024 * 1024
"""The whole file system is not synced if that writes more than this of other files."""
WITHOUT_SPACE_INTERVAL_MS: Final = 10_000
"""Pause of all saves after one that found no space."""


class CheckpointSaver:
    """The checkpoints of one data directory's logs."""

    def __init__(self, disk: Disk, clock: Clock, durability: Durability) -> None:
        self._disk = disk
        self._clock = clock
        self._durability = durability
        self._unsaved: dict[PartitionLog, None] = {}
        self._saving: dict[PartitionLog, tuple[Checkpoint, asyncio.Task[None]]] = {}
        self._purpose = WritePurpose.UPKEEP
        self._wait_until_ms = 0
        self._has_ended_rounds = False

    @property
    def unsaved_count(self) -> int:
        """Number of logs that have something to save."""
        return len(self._unsaved)

    def add(self, log: PartitionLog) -> None:
        """`log` has something to save."""
        self._unsaved[log] = None
        log.checkpoint_state.waits_since(self._clock.elapsed_ms())

    def forget(self, log: PartitionLog) -> None:
        """`log` is deleted: save nothing of it, and let no checkpoint touch its files any more."""
        self._unsaved.pop(log, None)
        if log in self._saving:
            self._saving[log][0].cancel()

    # While the broker runs ------------------------------------------------------------------------------------------

    async def save_due(self, *, force: bool = False) -> None:
        """Save the logs for which it is time, or all that have changed."""
        elapsed_ms = self._clock.elapsed_ms()
        if not force and elapsed_ms < self._wait_until_ms:
            return
        due: list[PartitionLog] = []
        is_crowded = sum(log.checkpoint_state.unsaved_bytes for log in self._unsaved) > CROWDED_BYTES
        large_after_ms = CROWDED_AFTER_MS if is_crowded else LARGE_AFTER_MS

        def add(log: PartitionLog) -> None:
            if force or self._is_due(log, elapsed_ms, large_after_ms):
                due.append(log)

        await in_turns(list(self._unsaved), add, self._clock)
        chosen = due or too_many(self._unsaved, elapsed_ms, large_after_ms)
        await self._save_each(chosen, at_once=SAVES_AT_ONCE if force else saves_at_once(len(chosen)))

    def _is_due(self, log: PartitionLog, elapsed_ms: int, large_after_ms: int) -> bool:
        state = log.checkpoint_state
        waited_ms = elapsed_ms - state.waiting_since_ms
        limit_ms = SMALL_AFTER_MS if state.unsaved_bytes < SMALL_BYTES else large_after_ms
        unsaved_records = 0
        if self._durability is Durability.OS:  # where the topic may ask that its records are synced now and then
            limit_ms = min(limit_ms, log.config.flush_ms)
            unsaved_records = log.log_end_offset - state.recovery_point
        return (
            waited_ms >= limit_ms
            or state.unsaved_bytes >= CHECKPOINT_BYTES
            or bool(state.unsaved_snapshots)
            or unsaved_records >= log.config.flush_messages
        )

    async def _save_each(self, logs: Iterable[PartitionLog], *, at_once: int) -> None:
        """Save these logs, `at_once` of them at a time: clients share the interpreter and the disk."""
        folders: dict[str, OSError | None] = {}
        for log in logs:
            if self._has_ended_rounds:
                break
            if await self._has_durable_name(log, folders):
                self._begin(log)
            if len(self._saving) >= at_once:
                running = [task for _, task in self._saving.values()]
                await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
        await self.finish()

    async def _has_durable_name(self, log: PartitionLog, folders: dict[str, OSError | None]) -> bool:
        """Make sure that the log's directory is found again. One sync of the folder that it is in does for all logs of
        a round: `folders` are those that were synced, and the errors. After an error no other sync proves anything."""
        folder = unsynced_folder(log)
        if folder is None or log.unusable is not None:
            return True
        if folder not in folders:
            folders[folder] = None
            try:
                await self._disk.off_loop(self._disk.sync_directory, folder)
            except OSError as error:
                folders[folder] = error
        failure = folders[folder]
        if failure is not None and failure.errno not in LACKING_DESCRIPTORS:
            log.fail(failure)
        return failure is None

    def _begin(self, log: PartitionLog) -> None:
        if log.files_busy or log.unusable is not None or log not in self._unsaved:
            return
        try:
            checkpoint = Checkpoint(log, self._clock.elapsed_ms(), self._purpose)
        except OSError as error:
            if not self._waits_for_space(error):
                _LOG.error("%s: a checkpoint could not begin: %s", log.topic_partition, error)
            return
        self._unsaved.pop(log, None)
        self._saving[log] = checkpoint, asyncio.get_running_loop().create_task(self._save(log, checkpoint))

    async def _save(self, log: PartitionLog, checkpoint: Checkpoint) -> None:
        error: OSError | None = None
        try:
            await self._disk.off_loop(checkpoint.run)
        except OSError as raised:
            error = raised
            self._waits_for_space(error)
        del self._saving[log]
        checkpoint.conclude(error)

    def _waits_for_space(self, error: OSError) -> bool:
        """True if a save failed for want of space: then the next ones wait a while."""
        if is_no_space(error):
            self._wait_until_ms = self._clock.elapsed_ms() + WITHOUT_SPACE_INTERVAL_MS
            return True
        return False

    async def quiet(self, log: PartitionLog) -> None:
        """Wait until no checkpoint of `log` runs."""
        if log in self._saving:
            await asyncio.shield(self._saving[log][1])

    async def finish(self) -> None:
        """Wait until no checkpoint runs."""
        while self._saving:
            # Shielded: a caller that gives up does not stop the thread, so the task must live to conclude.
            await asyncio.shield(asyncio.gather(*[task for _, task in self._saving.values()]))

    # At a stop ------------------------------------------------------------------------------------------------------

    def end_rounds(self) -> None:
        """The broker stops: `save_all` saves what a round under way has not begun."""
        self._has_ended_rounds = True

    async def save_all(self, sync: WholeSync | None) -> None:
        """Save every log, many of them by `sync` of the whole file system. Nothing may be appended any more."""
        self._purpose = WritePurpose.STOP
        logs = [log for log in self._unsaved if log.unusable is None]
        for log in logs:
            if log.segments.active is not None:
                log.segments.active.finish()
        if len(logs) >= TOGETHER_FROM and sync is not None:
            await self._save_together(sync, logs)
        folders: dict[str, OSError | None] = {}
        for log in logs:
            if await self._has_durable_name(log, folders):
                self._begin(log)
        await self.finish()

    async def _save_together(self, sync: WholeSync, logs: list[PartitionLog]) -> None:
        """Save these logs, on which nothing is at work, as one; the others are then saved one by one."""
        own_bytes = sum(log.checkpoint_state.unsaved_bytes + SMALL_FILES_BYTES for log in logs)
        if await self._disk.off_loop(sync.waiting_bytes) > own_bytes + OTHERS_MAX_BYTES:
            return
        begun: list[Checkpoint] = []
        for log in logs:
            with contextlib.suppress(OSError):
                begun.append(Checkpoint(log, self._clock.elapsed_ms(), self._purpose, together=True))
                del self._unsaved[log]
        saved = await self._disk.off_loop(run_together, sync, begun)
        for checkpoint in begun:
            if checkpoint in saved:
                checkpoint.conclude(None)
            else:
                checkpoint.give_up()


def saves_at_once(logs: int) -> int:
    """Number of saves that run side by side in a round with so many logs."""
    return min(SAVES_AT_ONCE, 1 + logs // ONE_BY_ONE)


def too_many(waiting: Collection[PartitionLog], elapsed_ms: int, large_after_ms: int) -> Sequence[PartitionLog]:
    """The logs to save of those that may wait, because all together leave a start too much to recover; mostly none. A
    log that was saved a moment ago is saved again for the number of its batches alone: bytes are checked in no time."""
    old = [log for log in waiting if elapsed_ms - log.checkpoint_state.waiting_since_ms >= large_after_ms]
    return _largest(old, lambda log: log.checkpoint_state.unsaved_bytes, SMALL_TOTAL_BYTES) or _largest(
        waiting, lambda log: log.checkpoint_state.unsaved_batches, TOTAL_BATCHES
    )


def _largest(logs: Collection[PartitionLog], size: Callable[[PartitionLog], int], limit: int) -> list[PartitionLog]:
    """The largest logs, as many as bring the rest down to half of the limit; none below the limit."""
    excess = sum(map(size, logs)) - limit // 2
    if excess <= limit // 2:
        return []
    chosen = []
    for log in sorted(logs, key=size, reverse=True):
        if excess <= 0:
            break
        excess -= size(log)
        chosen.append(log)
    return chosen
