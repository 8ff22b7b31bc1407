"""`LogContext`: the parts that all logs of one directory share, and their calls back to the manager."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from eosin.runtime.chance import Chance
from eosin.runtime.clock import as_stamped
from eosin.storage.disk.flusher import Flusher
from eosin.storage.disk.interfaces import Buffer, Disk
from eosin.storage.disk.space import DiskSpace
from eosin.storage.log.batch_scan import Read

if TYPE_CHECKING:
    from eosin.storage.log.segmented_log import SegmentedLog


class StartWasCancelled(Exception):
    """The start was cancelled. Its repairs so far are as a crash would leave them."""


class StartCancelled:
    """Set once when the start is cancelled; the thread that loads the logs checks it."""

    __slots__ = ("is_over",)

    def __init__(self) -> None:
        self.is_over = False

    def check(self) -> None:
        """Raises StartGivenUp after the start was cancelled."""
        if self.is_over:
            raise StartWasCancelled

    def while_wanted(self, read: Read) -> Read:
        """`read`, which scans call for at most a MiB, but only as long as the start is wanted."""

        def checked(position: int, size: int) -> Buffer:
            self.check()
            return read(position, size)

        return checked


class LogOwner(Protocol):
    """The manager of a log."""

    def needs_checkpoint(self, log: "SegmentedLog") -> None:
        """`log` has changes that a checkpoint should save."""

    def failed(self, log: "SegmentedLog") -> None:
        """`log` is offline."""

    async def save_log_starts(self) -> None:
        """Make every log start offset as durable as configured. Raises OSError."""

    async def truncate(self, log: "SegmentedLog", offset: int, *, whole: bool) -> None:
        """Cut `log` to `offset`, or, `whole`, empty it and let it start there; a failure takes it offline."""


@dataclass(frozen=True, slots=True)
class LogContext:
    """The surroundings of a log."""

    disk: Disk
    flusher: Flusher
    chance: Chance
    owner: LogOwner
    space: DiskSpace
    patience: StartCancelled
    verification_enabled: bool = True
    """True if a transaction's first batch needs a guard (`transaction.partition.verification.enable`)."""
    is_replicated: bool = False
    """True if other brokers may hold replicas of the logs: then a log takes no records before its partition's leader is
    known, and its high watermark is set from outside (cluster.md 4.2)."""
    moment_of: Callable[[int], int] = as_stamped
    """See `Clock.moment_of`: from there on a record ages."""
