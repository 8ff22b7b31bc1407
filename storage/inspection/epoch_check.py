"""`EpochCheck`: the leader epochs in the batches against those in their file (storage.md section 10)."""

from collections.abc import Iterator

from eosin.protocol.records.batch import BatchHeader
from eosin.storage.disk.checkpoint_formats import MalformedCheckpoint
from eosin.storage.disk.interfaces import Disk
from eosin.storage.log.leader_epochs import FILE_NAME, LeaderEpochs


class EpochCheck:
    """The leader epochs of one partition. Says each thing once."""

    def __init__(self, log_start_offset: int) -> None:
        self.path = ""
        self._log_start_offset = log_start_offset
        self._epochs: LeaderEpochs | None = LeaderEpochs()
        self._latest = -1
        self._said: dict[tuple[int, int], None] = {}

    def load(self, disk: Disk, directory: str) -> Iterator[str]:
        """Read the file; returns its fault, if any. Raises OSError."""
        self.path = f"{directory}/{FILE_NAME}"
        try:
            self._epochs = LeaderEpochs.decode(disk.read_whole(self.path))
        except FileNotFoundError:
            return
        except MalformedCheckpoint as error:
            self._epochs = None
            yield str(error)

    def batch(self, header: BatchHeader) -> str | None:
        """Take the next batch; returns the fault of its epoch, if any."""
        epoch = header.partition_leader_epoch
        if epoch < 0:
            return None
        latest, self._latest = self._latest, max(self._latest, epoch)
        if epoch < latest:
            return f"leader epoch {epoch} after {latest}"
        if self._epochs is None or header.base_offset < self._log_start_offset:
            return None
        told = self._epochs.epoch_at(header.base_offset)
        if told == epoch or (epoch, told) in self._said:
            return None
        self._said[epoch, told] = None
        return f"leader epoch {epoch}, where {FILE_NAME} says {told if told >= 0 else 'nothing'}"

    def finish(self, end: int) -> Iterator[tuple[str, int]]:
        """The log ends at `end`: what the file says beyond it, and where."""
        for epoch, start in self._epochs.entries if self._epochs is not None else ():
            if start > end:
                yield f"leader epoch {epoch} starts at {start}, beyond the log, which ends at {end}", start
