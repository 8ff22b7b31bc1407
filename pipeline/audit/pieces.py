"""Pieces: the sums over the batches of one producer in one partition between two markers.

A batch is a piece, and neighbouring pieces fold into one. So each segment can be folded where it is read, and the
results folded again: `fold(fold(a) + fold(b)) == fold(a + b)`, wherever the log is cut. A marker completes a piece; at
the end of the log a piece of transactional batches without a marker is an open transaction.
"""

from collections.abc import Iterable
from typing import Final

import numpy as np

from eosin.pipeline.audit.columns import NONE, Array, Columns, concatenate, length, select

PIECE: Final = (
    "segment", "producer_id", "transactional", "first_offset", "last_offset", "first_epoch", "last_epoch",
    "first_sequence", "last_sequence", "first_holes", "last_holes", "batches", "records", "bytes", "begin_ms", "end_ms",
    "marker", "marker_offset", "marker_ms", "marker_epoch", "coordinator_epoch",
)  # fmt: skip
"""The columns of a piece. `batches` counts data batches: a marker alone is a piece without batches, at its own offset.
`segment` is the segment in which the piece begins, `begin_ms` and `end_ms` are timestamps of its records, and the holes
are counted up to its first and last batch."""

_MAX_SEQUENCE: Final = 2**31 - 1
_LATEST: Final = np.int64(2**63 - 1)


def none() -> Columns:
    """A table without pieces."""
    return {name: np.empty(0, bool if name == "transactional" else np.int64) for name in PIECE}


def of_batches(headers: Columns, segment: int) -> Columns:
    """A piece for each batch with a producer id. Control batches without a marker are left out."""
    ends = headers["marker"] >= 0
    chosen = (headers["producer_id"] >= 0) & (ends | ~headers["control"])
    rows = select(headers, chosen)
    ends = ends[chosen]
    data = ~ends
    count = length(rows)
    missing = np.full(count, NONE, np.int64)
    # With log append time or a delete horizon, the base timestamp does not belong to a record.
    moved = rows["log_append_time"] | rows["delete_horizon"]
    begin = np.where(moved, rows["max_timestamp"], rows["base_timestamp"])
    last_sequence = (rows["base_sequence"] + rows["last_offset_delta"]) & _MAX_SEQUENCE
    numbered = data & (rows["base_sequence"] >= 0)
    return {
        "segment": np.full(count, segment, np.int64),
        "producer_id": rows["producer_id"],
        "transactional": rows["transactional"],
        "first_offset": rows["base_offset"],
        "last_offset": rows["last_offset"],
        "first_epoch": np.where(data, rows["producer_epoch"], missing),
        "last_epoch": np.where(data, rows["producer_epoch"], missing),
        "first_sequence": np.where(numbered, rows["base_sequence"], missing),
        "last_sequence": np.where(numbered, last_sequence, missing),
        "first_holes": rows["holes"],
        "last_holes": rows["holes"],
        "batches": data.astype(np.int64),
        "records": np.where(data, rows["records_count"], 0),
        "bytes": np.where(data, rows["size"], 0),
        "begin_ms": np.where(data, begin, missing),
        "end_ms": np.where(data, rows["max_timestamp"], missing),
        "marker": rows["marker"],
        "marker_offset": np.where(ends, rows["base_offset"], missing),
        "marker_ms": np.where(ends, rows["max_timestamp"], missing),
        "marker_epoch": np.where(ends, rows["producer_epoch"], missing),
        "coordinator_epoch": rows["coordinator_epoch"],
    }


def in_order(pieces: Columns) -> Columns:
    """Pieces sorted by producer, and within a producer by offset."""
    return select(pieces, np.lexsort((pieces["first_offset"], pieces["producer_id"])))


def fold(tables: Iterable[Columns]) -> Columns:
    """Pieces of one partition, with neighbours that belong together folded into one. Sorted as by `in_order`."""
    rows = concatenate(tables)
    if not length(rows):
        return none()
    rows = in_order(rows)
    begins = np.ones(length(rows), bool)
    producer, transactional = rows["producer_id"], rows["transactional"]
    begins[1:] = (
        (producer[1:] != producer[:-1]) | (rows["marker"][:-1] >= 0) | (transactional[1:] != transactional[:-1])
    )
    first = np.flatnonzero(begins)
    last = np.append(first[1:], len(begins)) - 1
    # A marker is the last row of its piece, or its only row.
    last_data = np.where((rows["batches"][last] == 0) & (last > first), last - 1, last)
    folded = {name: rows[name][first] for name in PIECE}
    for name in ("last_offset", "last_epoch", "last_sequence", "last_holes"):
        folded[name] = rows[name][last_data]
    for name in ("marker", "marker_offset", "marker_ms", "marker_epoch", "coordinator_epoch"):
        folded[name] = rows[name][last]
    for name in ("batches", "records", "bytes"):
        folded[name] = np.add.reduceat(rows[name], first)
    folded["end_ms"] = np.maximum.reduceat(rows["end_ms"], first)
    folded["begin_ms"] = _earliest(rows["begin_ms"], first)
    return folded


def _earliest(times: Array, first: Array) -> Array:
    """The smallest time of each piece; -1 means that it has none."""
    found = np.minimum.reduceat(np.where(times < 0, _LATEST, times), first)
    return np.where(found == _LATEST, NONE, found)
