"""Finishes or undoes the compactions that a stop left half-done in a partition directory (storage.md 12).

Always true: afterwards the directory holds only files under their final names, and every index has its log; and, until
the log start is saved, the files that retention has renamed: they show that nothing else is missing there.
"""

from eosin.storage.disk.interfaces import Disk
from eosin.storage.log.batch_scan import scan_headers
from eosin.storage.log.segment import INDEX_SUFFIX, INDEX_SUFFIXES, LOG_SUFFIX, SEGMENT_SUFFIXES

_CLEANED = ".cleaned"
_SWAP = ".swap"


def settle(disk: Disk, directory: str) -> list[str]:
    """Finish or undo it all; the names that remain. Raises OSError, CorruptRecords."""
    names = disk.list(directory)
    unfinished = [name for name in names if name.endswith((_CLEANED, _SWAP, ".tmp"))]
    if unfinished:
        _settle_unfinished(disk, directory, unfinished)
        names = disk.list(directory)
    logs = {name.removesuffix(LOG_SUFFIX) for name in names if name.endswith(LOG_SUFFIX)}
    orphans = [name for name in names if name.endswith(INDEX_SUFFIXES) and name.partition(".")[0] not in logs]
    for name in orphans:
        disk.unlink(f"{directory}/{name}")
    return [name for name in names if name not in orphans]


def _settle_unfinished(disk: Disk, directory: str, names: list[str]) -> None:
    cleaned = [_base(name) for name in names if name.endswith(_CLEANED)]
    swaps = []
    for name in names:
        # A swap file beside a cleaned one of a lower base belongs to work that had not begun to replace anything.
        if name.endswith(_SWAP) and (not cleaned or _base(name) < min(cleaned)):
            swaps.append(name)
        else:
            disk.unlink(f"{directory}/{name}")
    _finish_swap(disk, directory, swaps)


def _finish_swap(disk: Disk, directory: str, swaps: list[str]) -> None:
    logs = [name for name in swaps if name.endswith(LOG_SUFFIX + _SWAP)]
    if logs:
        first = min(_base(name) for name in logs)
        end = max(_end_offset(disk, f"{directory}/{name}", _base(name)) for name in logs)
        for name in disk.list(directory):
            if name.endswith(SEGMENT_SUFFIXES) and first <= _base(name) < end:
                disk.unlink(f"{directory}/{name}")
        disk.sync_directory(directory)  # a log put in place must never meet one that it replaces
    names = disk.list(directory)
    for name in swaps:
        proper = name.removesuffix(_SWAP)
        if name in logs or _is_missing_its_index(proper, names, logs):
            disk.rename(f"{directory}/{name}", f"{directory}/{proper}")
        else:
            disk.unlink(f"{directory}/{name}")
    if swaps:
        disk.sync_directory(directory)


def _is_missing_its_index(name: str, names: list[str], swapped_logs: list[str]) -> bool:
    """True if the index file `name` belongs to a log that is put in place now, or was right before the stop. Otherwise
    it is left over from a compaction that was given up, and the log still has indexes of its own."""
    stem = name.partition(".")[0]
    return stem + LOG_SUFFIX + _SWAP in swapped_logs or stem + INDEX_SUFFIX not in names


def _end_offset(disk: Disk, path: str, base_offset: int) -> int:
    file = disk.open(path)
    try:
        end = base_offset
        for _, header in scan_headers(file.read, 0, file.size):
            end = header.next_offset
        return end
    finally:
        file.close()


def _base(name: str) -> int:
    return int(name.partition(".")[0])
