"""`LogContext`: what all logs of one directory share, and what they ask of whoever manages them."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from eosin.storage.clock import Chance
from eosin.storage.disk import Disk
from eosin.storage.disk_space import DiskSpace
from eosin.storage.flusher import Flusher

if TYPE_CHECKING:
    from eosin.storage.segmented_log import SegmentedLog


class LogOwner(Protocol):
    """Whoever manages a log."""

    def dirtied(self, log: "SegmentedLog") -> None:
        """`log` has something that a checkpoint should save."""

    async def save_log_starts(self) -> None:
        """Make every log start offset as durable as configured. Raises OSError."""


@dataclass(frozen=True, slots=True)
class LogContext:
    """The surroundings of a log."""

    disk: Disk
    flusher: Flusher
    chance: Chance
    owner: LogOwner
    space: DiskSpace
    verification_enabled: bool = True
    """Whether a transaction's first batch needs a guard (`transaction.partition.verification.enable`)."""
