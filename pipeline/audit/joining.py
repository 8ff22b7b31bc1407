"""Joins the runs of one producer in several partitions to transactions.

A producer has one transaction at a time, and all its markers are written before the next one begins. Brokers that bump
the epoch with each transaction (KIP-890) name it exactly by producer id and epoch. For older brokers the runs of an
epoch are read in the order of their markers; a transaction ends where the outcome changes, where a partition occurs
again, or where a run begins after all markers so far. Two transactions that follow each other within a ms, in different
partitions and the same epoch, look like one in the headers: they count as one.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from eosin.pipeline.audit.headers import COMMIT

COMMITTED: Final = "committed"
ABORTED: Final = "aborted"
OPEN: Final = "open"

Run = Mapping[str, Any]
"""A row of the table of runs, with `topic` and `partition`."""


def join(runs: Iterable[Run]) -> Iterator[dict[str, Any]]:
    """The transactions of these runs, of one or many producers, as dicts with the columns of the table."""
    by_producer: dict[int, list[Run]] = {}
    for run in runs:
        if run["batches"]:
            by_producer.setdefault(run["producer_id"], []).append(run)
    for each in by_producer.values():
        for together in _groups(each):
            yield _transaction(together)


def _groups(runs: list[Run]) -> Iterator[list[Run]]:
    ended = sorted((run for run in runs if run["marker"] >= 0), key=_by_marker)
    # If a record has a later time than its own marker, the clocks differ and their times cannot be compared.
    comparable = all(run["end_ms"] <= run["marker_ms"] for run in ended)
    group: list[Run] = []
    last_ms = 0
    for run in ended:
        if group and (_differs(run, group) or (comparable and run["begin_ms"] > last_ms)):
            yield group
            group = []
        last_ms = max(last_ms, run["marker_ms"]) if group else run["marker_ms"]
        group.append(run)
    if group:
        yield group
    still_open: dict[int, list[Run]] = {}
    for run in runs:
        if run["marker"] < 0:
            still_open.setdefault(run["last_epoch"], []).append(run)
    yield from still_open.values()


def _by_marker(run: Run) -> tuple[int, int, str, int, int]:
    return run["marker_epoch"], run["marker_ms"], run["topic"], run["partition"], run["marker_offset"]


def _differs(run: Run, group: list[Run]) -> bool:
    first = group[0]
    if (run["marker_epoch"], run["last_epoch"], run["marker"]) != (
        first["marker_epoch"],
        first["last_epoch"],
        first["marker"],
    ):
        return True
    return any((run["topic"], run["partition"]) == (each["topic"], each["partition"]) for each in group)


def _transaction(runs: list[Run]) -> dict[str, Any]:
    runs = sorted(runs, key=lambda run: (run["topic"], run["partition"]))
    marker = runs[0]["marker"]
    begin_ms = min(run["begin_ms"] for run in runs)
    end_ms = max(run["marker_ms"] for run in runs) if marker >= 0 else None
    return {
        "producer_id": runs[0]["producer_id"],
        "producer_epoch": runs[0]["last_epoch"],
        "outcome": OPEN if marker < 0 else COMMITTED if marker == COMMIT else ABORTED,
        "partitions": [
            {
                "topic": run["topic"],
                "partition": run["partition"],
                "first_offset": run["first_offset"],
                "last_offset": run["last_offset"],
                "marker_offset": run["marker_offset"] if marker >= 0 else None,
            }
            for run in runs
        ],
        "batches": sum(run["batches"] for run in runs),
        "records": sum(run["records"] for run in runs),
        "bytes": sum(run["bytes"] for run in runs),
        "begin_ms": begin_ms,
        "end_ms": end_ms,
        # The producer stamps records and the broker stamps markers; their clocks may differ.
        "duration_ms": None if end_ms is None else max(0, end_ms - begin_ms),
        "coordinator_epoch": max(run["coordinator_epoch"] for run in runs) if marker >= 0 else None,
    }
