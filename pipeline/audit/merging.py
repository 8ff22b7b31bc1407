"""Merges the segments of a partition: its runs, faults at segment borders, and blocks of its last stable offset.

A run is the part of a transaction in one partition: the data of one producer up to its marker, or up to the end of the
log while the transaction is open. A marker without data is a run without batches.
"""

from typing import Final, NamedTuple

import numpy as np

from eosin.pipeline.audit.columns import NONE, Columns, length, select
from eosin.pipeline.audit.pieces import fold
from eosin.pipeline.audit.sequences import faults

BLOCK: Final = ("producer_id", "producer_epoch", "held_offset", "until_offset", "since_ms", "until_ms", "offsets")
"""The columns of an interval in which the oldest open transaction held the last stable offset. While it still does,
`until_ms` is -1 and `until_offset` is the end of the log. `offsets` is the distance of the two offsets."""
_NEVER: Final = np.int64(2**63 - 1)


class Merged(NamedTuple):
    """The merged segments of one partition."""

    runs: Columns
    faults: Columns
    blocks: Columns


def merge(pieces: Columns, segments: Columns) -> Merged:
    """Join the pieces of all segments of one partition, which may come in any order."""
    segments = select(segments, np.argsort(segments["segment"], kind="stable"))
    pieces = _counted_from_the_start(pieces, segments)
    runs = fold([pieces])
    end = int(segments["next_offset"].max(initial=0))
    transactional = select(runs, runs["transactional"])
    return Merged(transactional, faults(pieces, across_segments=True), blocks(transactional, end))


def _counted_from_the_start(pieces: Columns, segments: Columns) -> Columns:
    """The pieces, with holes counted from the first segment on instead of from their own."""
    border = np.zeros(length(segments), np.int64)
    border[1:] = segments["first_offset"][1:] != segments["next_offset"][:-1]
    before = np.cumsum(border) + np.cumsum(segments["holes"]) - segments["holes"]
    of_piece = before[np.searchsorted(segments["segment"], pieces["segment"])] if length(pieces) else 0
    return {
        **pieces,
        "first_holes": pieces["first_holes"] + of_piece,
        "last_holes": pieces["last_holes"] + of_piece,
    }


def blocks(runs: Columns, end: int) -> Columns:
    """The intervals in which one of these runs held the last stable offset back. `end` is the next offset of the log.

    A run is the oldest open one from its beginning, or from the end of the last older run, up to its own end.
    """
    if not length(runs) or not (runs["batches"] > 0).any():
        return {name: np.empty(0, np.int64) for name in BLOCK}
    rows = select(runs, runs["batches"] > 0)
    rows = select(rows, np.argsort(rows["first_offset"], kind="stable"))
    is_open = rows["marker"] < 0
    until = np.where(is_open, _NEVER, rows["marker_offset"])
    latest = np.maximum.accumulate(until)
    holds = np.concatenate(([True], until[1:] > latest[:-1]))
    rows, until, is_open = select(rows, holds), until[holds], is_open[holds]
    # Each remaining run outlasts the one before it.
    after = np.concatenate(([False], until[:-1] > rows["first_offset"][1:]))
    ended_ms = np.concatenate(([NONE], rows["marker_ms"][:-1]))
    until_offset = np.where(is_open, end, until)
    return {
        "producer_id": rows["producer_id"],
        "producer_epoch": rows["last_epoch"],
        "held_offset": rows["first_offset"],
        "until_offset": until_offset,
        "since_ms": np.where(after, ended_ms, rows["begin_ms"]),
        "until_ms": np.where(is_open, NONE, rows["marker_ms"]),
        "offsets": until_offset - rows["first_offset"],
    }
