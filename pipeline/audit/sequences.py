"""Sequence faults: neighbouring batches of a producer whose sequence numbers or epochs do not follow each other.

Always true: each pair of neighbours is judged by itself, so faults inside of a segment are found where it is read, and
faults across a border where pieces are joined. A gap is no fault if the log has a hole between the two batches:
compaction, or damage that is reported on its own, has removed batches there. A sequence must begin at 0 in a new epoch;
the first batch of a producer that the log still has may have any number.
"""

from typing import Final

import numpy as np

from eosin.pipeline.audit.columns import Array, Columns, concatenate, length, select
from eosin.pipeline.audit.pieces import in_order

FAULT: Final = ("producer_id", "producer_epoch", "offset", "what", "expected", "found")
"""The columns of a fault; `offset` is that of the batch or marker that does not follow."""
GAP: Final = 0
REPEAT: Final = 1
EPOCH: Final = 2
NAMES: Final = ("gap", "repeat", "epoch going back")

_MAX_SEQUENCE: Final = 2**31 - 1
_HALF: Final = 2**30


def faults(pieces: Columns, *, across_segments: bool = False) -> Columns:
    """The faults between pieces of one partition; with `across_segments` only those between different segments."""
    if not length(pieces):
        return {name: np.empty(0, np.int64) for name in FAULT}
    rows = in_order(pieces)
    return concatenate([_epochs(rows, across_segments), _sequences(rows, across_segments)])


def _neighbours(rows: Columns, across_segments: bool) -> tuple[Columns, Columns]:
    before = {name: column[:-1] for name, column in rows.items()}
    after = {name: column[1:] for name, column in rows.items()}
    same = before["producer_id"] == after["producer_id"]
    if across_segments:
        same &= before["segment"] != after["segment"]
    return select(before, same), select(after, same)


def _epochs(rows: Columns, across_segments: bool) -> Columns:
    before, after = _neighbours(rows, across_segments)
    known = np.where(before["marker"] >= 0, before["marker_epoch"], before["last_epoch"])
    shown = np.where(after["batches"] > 0, after["first_epoch"], after["marker_epoch"])
    wrong = shown < known
    what = np.full(int(wrong.sum()), EPOCH, np.int64)
    return _table(select(after, wrong), what, epoch=shown[wrong], expected=known[wrong], found=shown[wrong])


def _sequences(rows: Columns, across_segments: bool) -> Columns:
    before, after = _neighbours(select(rows, rows["batches"] > 0), across_segments)
    same_epoch = after["first_epoch"] == before["last_epoch"]
    expected = np.where(same_epoch, (before["last_sequence"] + 1) & _MAX_SEQUENCE, 0)
    found = after["first_sequence"]
    ahead = (found - expected) & _MAX_SEQUENCE
    known = (
        (found >= 0) & (~same_epoch | (before["last_sequence"] >= 0)) & (after["first_epoch"] >= before["last_epoch"])
    )
    repeats = known & same_epoch & (ahead >= _HALF)
    gaps = known & (ahead > 0) & ~repeats & (after["first_holes"] == before["last_holes"])
    wrong = repeats | gaps
    what = np.where(repeats, REPEAT, GAP)[wrong]
    rows = select(after, wrong)
    return _table(rows, what, epoch=rows["first_epoch"], expected=expected[wrong], found=found[wrong])


def _table(rows: Columns, what: Array, *, epoch: Array, expected: Array, found: Array) -> Columns:
    return {
        "producer_id": rows["producer_id"],
        "producer_epoch": epoch,
        "offset": rows["first_offset"],
        "what": what,
        "expected": expected,
        "found": found,
    }
