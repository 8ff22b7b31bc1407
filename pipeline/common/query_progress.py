"""Spark's progress of a query with names and numbers that a reader can use.

Spark describes a source and a sink in Python by the name of a Java object, and tells of -1 rows of `foreachBatch`;
neither can be changed from Python. Always true: every other field is Spark's own.
"""

import json
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

_OF_OUR_SOURCES: Final = re.compile(r".*\.PythonMicroBatchStream\w*@[0-9a-f]+")
_OF_OUR_FORMAT: Final = re.compile(r".*\.PythonTable@[0-9a-f]+")
_PARTITION_OR_ID: Final = re.compile(r"(.+):(?:\d+|id)")
_KEPT: Final = 1000
"""The most batches of a query whose rows are remembered; Spark keeps the progress of 100."""


class RowsOfBatches:
    """The rows that a sink has written in its last batches."""

    def __init__(self) -> None:
        self._rows: dict[int, int] = {}

    def note(self, batch: int, rows: int) -> None:
        """Remember a batch in place of the oldest one."""
        self._rows[batch] = rows
        if len(self._rows) > _KEPT:
            del self._rows[next(iter(self._rows))]

    def of(self, batch: int) -> int | None:
        """The rows of a batch; None if they are not known."""
        return self._rows.get(batch)


def recent_progress(query: "StreamingQuery", written: RowsOfBatches | None = None) -> list[dict[str, Any]]:
    """The progress of the last batches of a query, as Spark's JSON has it, oldest first. `written` has the rows that
    `TxnSink` has written, which Spark does not count: it is `sink.rows_of_batches`."""
    return [readable(json.loads(each.json), written) for each in query.recentProgress]


def readable(progress: Mapping[str, Any], written: RowsOfBatches | None = None) -> dict[str, Any]:
    """The progress of one batch; its sources are described by their topics."""
    sink = dict(progress.get("sink", {}))
    if _OF_OUR_FORMAT.fullmatch(str(sink.get("description"))):
        sink["description"] = "eosin"
    elif written is not None:
        sink["description"] = "eosin TxnSink"
        rows = written.of(int(progress["batchId"]))
        if rows is not None:
            sink["numOutputRows"] = rows
    return {**progress, "sources": [_readable_source(each) for each in progress.get("sources", [])], "sink": sink}


def _readable_source(source: Mapping[str, Any]) -> dict[str, Any]:
    offsets = source.get("endOffset")
    if not (_OF_OUR_SOURCES.fullmatch(str(source.get("description"))) and isinstance(offsets, Mapping)):
        return dict(source)
    topics = sorted({found[1] for name in offsets if (found := _PARTITION_OR_ID.fullmatch(name))})
    return {**source, "description": f"eosin {', '.join(topics)}"}
