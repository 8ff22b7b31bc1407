"""`DiskWatch`: what a broker of a cluster does about its disk: others lead what it cannot write (cluster.md 4.19).

Always true: a log that goes offline is declared lost in the same step; a directory that has failed is told to the
controller before this broker ends, if a controller can be told in time.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from eosin.cluster.membership.failing_disk import DiskFullFence, LogFailures, Room
from eosin.cluster.membership.rules.ports import MembershipLost

if TYPE_CHECKING:
    from eosin.cluster.membership.lifecycle import Membership
    from eosin.runtime.clock import Clock
    from eosin.storage.log.partition_log import PartitionLog
    from eosin.storage.manager import LogManager

_LOG: Final = logging.getLogger(__name__)


class DiskWatch:
    """The data directory of one broker, while that is a member."""

    def __init__(
        self,
        logs: "LogManager",
        membership: "Membership",
        *,
        declare_lost: "Callable[[PartitionLog], None]",
        max_failures: int,
        full_fence_ms: int,
        report_timeout_ms: int,
        clock: "Clock",
    ) -> None:
        """`max_failures` is `eosin.log.failures.max`, `full_fence_ms` `eosin.disk.full.fence.ms`, `report_timeout_ms`
        `log.dir.failure.timeout.ms`."""
        self.failed: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        """The sentence that says why this broker has to end."""
        self._logs = logs
        self._membership = membership
        self._declare_lost = declare_lost
        self._failures = LogFailures(max_failures)
        self._fence = DiskFullFence(full_fence_ms)
        self._report_timeout_ms = report_timeout_ms
        self._clock = clock
        self._reporting: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """Watch from now on, since there is something to lose."""
        self._logs.on_log_failed = self._log_failed
        self._logs.on_directory_failed = self._directory_failed

    async def check(self) -> None:
        """Let others lead while the disk is full. To be called again and again."""
        fence, is_full = self._fence, self._logs.space.is_full
        volume = await self._logs.volume() if is_full or fence.is_wanted else None
        room = None if volume is None else Room(volume.free, volume.total)
        if fence.update(is_full=is_full, room=room, now_ms=self._clock.elapsed_ms()):
            if fence.is_wanted:
                _LOG.error("the disk is full: this broker lets others lead until there is room")
            else:
                _LOG.warning("there is room on the disk again: this broker may lead")
            self._membership.want_fence(fence.is_wanted)

    async def close(self) -> None:
        """Watch no more."""
        self._logs.on_log_failed = self._logs.on_directory_failed = None
        if self._reporting is not None:
            self._reporting.cancel()
            await asyncio.gather(self._reporting, return_exceptions=True)

    def _log_failed(self, log: "PartitionLog") -> None:
        self._declare_lost(log)
        if self._failures.one_more(self._clock.elapsed_ms()):
            assert log.failure is not None
            self._directory_failed(log.failure)

    def _directory_failed(self, error: OSError) -> None:
        if self._reporting is None:
            self._reporting = asyncio.get_running_loop().create_task(self._report(error.strerror or str(error)))

    async def _report(self, why: str) -> None:
        path, directories = self._logs.path, (self._logs.directory_id,)
        _LOG.error("the data directory %s has failed (%s): this broker ends, others lead what it led", path, why)
        self._membership.report_failed_directories(directories)
        with contextlib.suppress(TimeoutError, MembershipLost):
            async with asyncio.timeout(self._report_timeout_ms / 1000):
                await self._membership.failures_reported(directories)
        self.failed.set_result(
            f"the data directory {path} has failed: {why}; replace the disk, or move the directory to another one"
        )
