"""`DiskSpace`: a data directory whose file system is full, and the reserve for that time.

Deleting needs room, too: a log start must be durable before segments go, and that a topic is deleted is a record in the
metadata log. So a reserve file holds room back while there is some, and gives it piece by piece to writes that cannot
do without once there is none. Always true: records of clients never get any of it, and none are taken while some of it
is gone; upkeep leaves half of it, a stop an eighth, to what frees space and to the next start; each change of state is
one log line.
"""

import errno
import logging
import threading
from collections.abc import Callable
from enum import IntEnum
from typing import Final, ParamSpec, TypeVar

from eosin.storage.disk.interfaces import Disk, TornWrite

_LOG: Final = logging.getLogger("eosin.storage")
_P = ParamSpec("_P")
_T = TypeVar("_T")

RESERVE: Final = ".eosin_reserve"
TELL_INTERVAL_MS: Final = 60_000
"""Interval between log lines about a disk that stays full."""
CHECK_INTERVAL_MS: Final = 10_000
"""Interval between two checks of an incomplete reserve while the disk is not full."""
MIN_MARGIN_BYTES: Final = 1024 * 1024
_PIECES: Final = 16
_SHARE: Final = 32
"""The reserve, and the room that must be free before records are taken again, are at most this part of the disk."""
_NO_SPACE: Final = frozenset({errno.ENOSPC, errno.EDQUOT})


def is_no_space(error: BaseException) -> bool:
    """True if a call failed, and changed nothing, for want of space."""
    return isinstance(error, OSError) and error.errno in _NO_SPACE and not isinstance(error, TornWrite)


class WritePurpose(IntEnum):
    """The purpose of a write: how much of the reserve it may use up."""

    RECORDS = 0
    """Records of clients, committed offsets: none."""
    UPKEEP = 1
    """Checkpoints, markers, states of transactions: the first half."""
    STOP = 2
    """Saving logs at a stop: all but an eighth."""
    VITAL = 3
    """Metadata, log starts, recovery points: all of it."""


_KEPT: Final = {WritePurpose.RECORDS: 1.0, WritePurpose.UPKEEP: 0.5, WritePurpose.STOP: 0.125, WritePurpose.VITAL: 0.0}


class DiskSpace:
    """The reserve of one data directory, and whether its disk is full. `makes_room` and `attempt` may be called from
    any thread, everything else from one at a time."""

    def __init__(
        self,
        disk: Disk,
        data_dir: str,
        *,
        reserve_bytes: int,
        elapsed_ms: Callable[[], int],
        on_full: Callable[[], object] = lambda: None,
    ) -> None:
        """`elapsed_ms` never goes back. `on_full` is called by any thread when the disk becomes full. Nothing is
        touched before the directory is locked and `fill` is called."""
        self.is_full = False
        """True if a write has found no space, and there was none since."""
        self.refuses_records = False
        """True if records of clients must wait: some of the reserve has been given away."""
        self._disk = disk
        self._data_dir = data_dir
        self._path = f"{data_dir}/{RESERVE}"
        self._setting_bytes = self._wanted_bytes = reserve_bytes
        self._elapsed_ms = elapsed_ms
        self._on_full = on_full
        self._held: int | None = None
        self._lock = threading.Lock()
        self._full_since_ms = 0
        self._told_ms = 0
        self._looked_ms = 0
        self._refused = 0
        self._refused_in_all = 0

    # A write that finds no space ------------------------------------------------------------------------------------

    def attempt(self, purpose: WritePurpose, function: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
        """Call `function`, again as often as there was no space and the reserve has some for `purpose`. Blocks. Raises
        OSError."""
        while True:
            try:
                return function(*args, **kwargs)
            except OSError as error:
                if not self.makes_room(error, purpose):
                    raise

    def makes_room(self, error: OSError, purpose: WritePurpose) -> bool:
        """True if a call that failed with `error` may be retried: it found no space, and there is a little more now."""
        if not is_no_space(error):
            return False
        with self._lock:
            if not self.is_full:
                self._enter(error)
            if self._give(purpose):
                return True
            self._refused += 1
            self._refused_in_all += 1
            return False

    def refused_records(self) -> None:
        """Records were refused because `refuses_records`."""
        self._refused += 1
        self._refused_in_all += 1

    def _enter(self, error: OSError) -> None:
        self.is_full = True
        self._full_since_ms = self._told_ms = self._elapsed_ms()
        self._refused = self._refused_in_all = 0
        _LOG.error(
            "no space left on the file system of %s (%s): records are refused until there is room. Retention and"
            " deleted topics free some; if they do not, free some by hand (docs/operations.md, Full disk)",
            self._data_dir,
            error.strerror,
        )
        self._on_full()

    def _give(self, purpose: WritePurpose) -> bool:
        held = self._held_bytes()
        left = max(held - max(self._wanted_bytes // _PIECES, 1), int(self._wanted_bytes * _KEPT[purpose]))
        if left >= held:
            return False
        try:
            if left > 0:
                file = self._disk.open(self._path)
                try:
                    file.truncate(left)
                finally:
                    file.close()
            else:
                self._disk.unlink(self._path)
        except OSError:
            return False
        self._held = left
        self.refuses_records = True
        return True

    def _held_bytes(self) -> int:
        if self._held is None:
            self._held = self._disk.size(self._path) or 0
        return self._held

    # Room again -----------------------------------------------------------------------------------------------------

    def fill(self) -> bool:
        """Bring the reserve to its size; whether there is that much room and as much again. Blocks. Raises OSError when
        that failed for other reasons than space."""
        free = self._disk.free_bytes(self._data_dir)
        if free is None or not self._setting_bytes:
            self._drop()
            return free is None or free.free >= min(MIN_MARGIN_BYTES, free.total // _SHARE)
        self._wanted_bytes = wanted = max(min(self._setting_bytes, free.total // _SHARE), 1)
        missing = wanted - self._held_bytes()
        if missing < 0:  # the setting is smaller than it was
            self._allocate(wanted)
        if free.free < max(missing, 0) + wanted:
            return False
        # Free bytes are no promise where there is a quota: the room beyond the reserve is tried as well.
        return (missing <= 0 and not self.is_full) or (self._allocate(2 * wanted) and self._allocate(wanted))

    def _drop(self) -> None:
        if self._held_bytes():
            self._disk.unlink(self._path)
            self._held = 0

    def _allocate(self, size: int) -> bool:
        """Have the reserve hold `size` bytes; whether there was room."""
        with self._lock:
            held = self._held_bytes()
            file = None
            try:
                file = self._disk.open(self._path, create=True)
                file.allocate(size)
            except OSError as error:
                if not is_no_space(error):
                    raise
                if file is not None:
                    file.truncate(held)
                return False
            finally:
                if file is not None:
                    file.close()
            self._held = size
            return True

    @property
    def needs_check(self) -> bool:
        """True if `check` has something to do."""
        if self.is_full:
            return True
        return not self.is_at_rest and self._elapsed_ms() - self._looked_ms >= CHECK_INTERVAL_MS

    @property
    def is_at_rest(self) -> bool:
        """True if `check` has nothing to do until the disk is full."""
        return not self.is_full and (self._held is None or self._held >= self._wanted_bytes)

    def check(self) -> None:
        """Check whether there is room again; while there is none, log that now and then. Blocks."""
        now_ms = self._looked_ms = self._elapsed_ms()
        try:
            has_room = self.fill()
        except OSError as error:
            _LOG.warning("the reserve %s cannot be made: %s", self._path, error)
            has_room = True
        if has_room:
            self.refuses_records = False
            if self.is_full:
                self.is_full = False
                took_s = (now_ms - self._full_since_ms) // 1000
                _LOG.warning(
                    "there is room again on the file system of %s after %d s, in which %d writes were refused",
                    self._data_dir,
                    took_s,
                    self._refused_in_all,
                )
        elif self.is_full and now_ms - self._told_ms >= TELL_INTERVAL_MS:
            _LOG.error(
                "still no space left on the file system of %s: %d writes refused in %d s",
                self._data_dir,
                self._refused,
                (now_ms - self._told_ms) // 1000,
            )
            self._told_ms, self._refused = now_ms, 0
