"""`CheckpointState`: what of one log is saved, and what its next checkpoint has to save.

The log holds it and reports appends and rolls; `Checkpoint` reports how a save went; `OffsetCheckpoints` reports what
the checkpoint file says. Always true: only methods of this class change its fields; at most one checkpoint runs.
"""

from collections.abc import Collection


class CheckpointState:
    """Checkpoint bookkeeping of one log."""

    __slots__ = (
        "_is_running",
        "_is_unsaved",
        "_recovery_point",
        "_saved_recovery_point",
        "_unsaved_batches",
        "_unsaved_bytes",
        "_unsaved_snapshots",
        "_waiting_since_ms",
    )

    def __init__(self, recovery_point: int) -> None:
        """A log of which everything below `recovery_point` is saved, and nothing is appended yet."""
        self._recovery_point = recovery_point
        self._saved_recovery_point = recovery_point
        self._unsaved_bytes = 0
        self._unsaved_batches = 0
        self._unsaved_snapshots: list[tuple[int, bytes]] = []
        self._waiting_since_ms = 0
        self._is_unsaved = False
        self._is_running = False

    # Questions ------------------------------------------------------------------------------------------------------

    @property
    def recovery_point(self) -> int:
        """Everything below is on disk with its indexes and producer state: where recovery starts."""
        return self._recovery_point

    @property
    def saved_recovery_point(self) -> int:
        """The recovery point that the checkpoint file holds."""
        return self._saved_recovery_point

    @property
    def unsaved_bytes(self) -> int:
        """Appended since the last checkpoint."""
        return self._unsaved_bytes

    @property
    def unsaved_batches(self) -> int:
        """Number of batches that were."""
        return self._unsaved_batches

    @property
    def unsaved_snapshots(self) -> list[tuple[int, bytes]]:
        """Producer snapshots taken at rolls that are not in their files yet: (offset, content)."""
        return self._unsaved_snapshots

    @property
    def waiting_since_ms(self) -> int:
        """Time at which the last checkpoint began, or the first change came; 0 before either."""
        return self._waiting_since_ms

    @property
    def is_unsaved(self) -> bool:
        """True if the next checkpoint has something to save."""
        return self._is_unsaved

    @property
    def is_running(self) -> bool:
        """True if a checkpoint is under way."""
        return self._is_running

    # Changes of the log ---------------------------------------------------------------------------------------------

    def appended(self, size: int) -> bool:
        """The log has grown by a batch of `size` bytes. True when nothing was unsaved before."""
        self._unsaved_bytes += size
        self._unsaved_batches += 1
        if self._is_unsaved:
            return False
        self._is_unsaved = True
        return True

    def changed(self) -> bool:
        """Something other than records has to be saved. True when nothing was unsaved before."""
        was_saved = not self._is_unsaved
        self._is_unsaved = True
        return was_saved

    def rolled(self, offset: int, snapshot: bytes) -> None:
        """A segment begins at `offset`; the producers there are to be saved with it."""
        self._unsaved_snapshots.append((offset, snapshot))

    def drop_snapshots(self, offsets: Collection[int] | None = None) -> None:
        """Forget the snapshots at these offsets, or all of them: their segments are gone, or they are in files."""
        kept = [] if offsets is None else [each for each in self._unsaved_snapshots if each[0] not in offsets]
        self._unsaved_snapshots = kept

    def waits_since(self, elapsed_ms: int) -> None:
        """Start the waiting time of a log that was never saved."""
        self._waiting_since_ms = self._waiting_since_ms or elapsed_ms

    def lower(self, offset: int) -> None:
        """The log is about to lose what lies at or behind `offset`."""
        self._recovery_point = min(self._recovery_point, offset)

    def truncated(self, end_offset: int, size_bytes: int) -> None:
        """The log ends at `end_offset` now, and has `size_bytes`."""
        self._unsaved_snapshots = [each for each in self._unsaved_snapshots if each[0] <= end_offset]
        self._unsaved_bytes = min(self._unsaved_bytes, size_bytes)

    # Loading --------------------------------------------------------------------------------------------------------

    def loaded(self, recovery_point: int) -> None:
        """The checkpoint file holds `recovery_point`, and recovery trusted it."""
        self._recovery_point = self._saved_recovery_point = recovery_point

    def all_unsaved(self, size_bytes: int) -> None:
        """Recovery read the log again: the next checkpoint saves all `size_bytes` of it."""
        self._unsaved_bytes = size_bytes

    # Checkpoints ----------------------------------------------------------------------------------------------------

    def begin(self, elapsed_ms: int) -> None:
        """A checkpoint of everything there is begins."""
        self._is_running = True
        self._waiting_since_ms = elapsed_ms
        self._is_unsaved = False

    def end(self) -> None:
        """The checkpoint has ended, whether it saved anything or not."""
        self._is_running = False

    def saved(self, end_offset: int, *, size: int, batches: int, snapshots: Collection[int]) -> None:
        """Everything below `end_offset`, `size` bytes in so many batches of it new, and the snapshots at these offsets
        are on disk."""
        self.drop_snapshots(snapshots)
        self._unsaved_bytes -= size
        self._unsaved_batches -= batches
        self._recovery_point = max(self._recovery_point, end_offset)

    def recovery_point_saved(self, recovery_point: int) -> None:
        """The checkpoint file holds `recovery_point`, or a lower one, if the log was truncated meanwhile."""
        self._saved_recovery_point = min(recovery_point, self._recovery_point)
