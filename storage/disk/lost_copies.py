"""`LostCopies`: replicas that nobody may lead because nobody knows whether they are complete, and what an operator says
of them (cluster.md 4.18).

A broker leaves a marker in its data directory for each such replica. An operator who accepts the loss renames it, with
the broker running or stopped; the broker acts on the new name and removes it. Always true: a loss can be accepted only
while a broker waits for that, so that no acceptance is left over for a later loss; and not while the marker names other
brokers, which have copies that could count.
"""

import contextlib
from collections.abc import Collection
from typing import Final

from eosin.protocol.names import TopicPartition
from eosin.storage.disk.interfaces import Disk

WAITING: Final = ".lost"
ACCEPTED: Final = ".accepted-loss"


class NotWaiting(Exception):
    """No broker waits for a word about this partition."""


class HeldElsewhere(Exception):
    """Other brokers run that have a copy: their ids."""


class LostCopies:
    """The markers in one data directory."""

    def __init__(self, disk: Disk, data_dir: str) -> None:
        self._disk = disk
        self._data_dir = data_dir

    def wait(self, partition: TopicPartition, elsewhere: Collection[int]) -> None:
        """Leave a marker, unless the loss was accepted already. `elsewhere` are brokers whose copies could count.

        Raises OSError."""
        if not self.is_accepted(partition):
            self._disk.write_atomic(self._path(partition, WAITING), ", ".join(map(str, elsewhere)).encode())

    def is_accepted(self, partition: TopicPartition) -> bool:
        """True if an operator has accepted the loss."""
        return self._disk.size(self._path(partition, ACCEPTED)) is not None

    def withdraw(self, partition: TopicPartition) -> None:
        """Nobody waits any more. Raises OSError."""
        for suffix in (WAITING, ACCEPTED):
            with contextlib.suppress(FileNotFoundError):
                self._disk.unlink(self._path(partition, suffix))

    def keep_only(self, partitions: Collection[TopicPartition]) -> None:
        """Remove the markers of all other partitions. Raises OSError."""
        kept = {f"{partition}{suffix}" for partition in partitions for suffix in (WAITING, ACCEPTED)}
        for name in self._disk.list(self._data_dir):
            if name.endswith((WAITING, ACCEPTED)) and name not in kept:
                self._disk.unlink(f"{self._data_dir}/{name}")

    def waiting(self) -> list[str]:
        """The partitions that a broker waits for. Raises OSError."""
        names = self._disk.list(self._data_dir)
        return [name.removesuffix(WAITING) for name in names if name.endswith(WAITING)]

    def accept(self, partition: str) -> None:
        """Accept the loss of a partition, TOPIC-N. Raises NotWaiting, HeldElsewhere, OSError."""
        try:
            elsewhere = self._disk.read_whole(f"{self._data_dir}/{partition}{WAITING}")
            if elsewhere:
                raise HeldElsewhere(elsewhere.decode("ascii", "replace"))
            self._disk.rename(f"{self._data_dir}/{partition}{WAITING}", f"{self._data_dir}/{partition}{ACCEPTED}")
        except FileNotFoundError:
            raise NotWaiting(partition) from None
        self._disk.sync_directory(self._data_dir)

    def _path(self, partition: TopicPartition, suffix: str) -> str:
        return f"{self._data_dir}/{partition}{suffix}"
