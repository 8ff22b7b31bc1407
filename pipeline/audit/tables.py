"""The tables between the steps of the audit, declared for Spark; several kinds of rows share a table.

Always true: only the struct column that `kind` names is set in a row of facts; the others are null.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from eosin.pipeline.audit.columns import Columns, length, struct_array
from eosin.pipeline.audit.merging import BLOCK
from eosin.pipeline.audit.pieces import PIECE
from eosin.pipeline.audit.sequences import FAULT

MAX_ROWS: Final = 100_000
"""The most rows of one Arrow batch."""


def _numbers(names: Sequence[str]) -> str:
    return ", ".join(f"{name}: {'boolean' if name == 'transactional' else 'bigint'}" for name in names)


PROBLEM: Final = "what: string, position: bigint, offset: bigint, detail: string"
STATE: Final = (
    "transactional_id: string, offset: bigint, state: string, producer_id: bigint, producer_epoch: int, "
    "timeout_ms: bigint, start_ms: bigint, update_ms: bigint, partitions: array<string>"
)
SCAN_COLUMNS: Final = ("segment", "first_offset", "next_offset", "holes", "batches", "records", "bytes", "newest_ms")

FACTS: Final = (
    f"kind string, topic string, partition int, path string, piece struct<{_numbers(PIECE)}>,"
    f" fault struct<{_numbers(FAULT)}>, problem struct<{PROBLEM}>, state struct<{STATE}>,"
    f" scan struct<{_numbers(SCAN_COLUMNS)}>"
)
"""The facts of segments."""
MERGED: Final = (
    f"kind string, topic string, partition int, run struct<{_numbers(PIECE)}>, fault struct<{_numbers(FAULT)}>,"
    f" block struct<{_numbers(BLOCK)}>"
)
"""The merged segments of a partition."""
TRANSACTIONS: Final = (
    "producer_id bigint, producer_epoch int, outcome string, partitions array<struct<topic: string, partition: int,"
    " first_offset: bigint, last_offset: bigint, marker_offset: bigint>>, batches bigint, records bigint, bytes bigint,"
    " begin_ms bigint, end_ms bigint, duration_ms bigint, coordinator_epoch int"
)
BATCHES: Final = (
    "topic string, partition int, segment bigint, position bigint, base_offset bigint, last_offset bigint, size bigint,"
    " records bigint, leader_epoch int, base_timestamp bigint, max_timestamp bigint, codec string,"
    " transactional boolean, control boolean, producer_id bigint, producer_epoch int, base_sequence int, marker string,"
    " coordinator_epoch int, problem string"
)
"""The columns of `txnsegments`: a row for each sound batch, and a row with the place of each problem."""


def fact_rows(schema: Any, common: Mapping[str, Any], kind: str, rows: Columns | Sequence[Any]) -> Iterator[Any]:
    """Arrow batches with rows of one kind, from columns or a list of dicts. All rows share the values in `common`."""
    struct = schema.field(kind).type
    array = struct_array(rows, struct) if isinstance(rows, dict) else pa.array(rows, type=struct)
    count = length(rows) if isinstance(rows, dict) else len(rows)
    for start in range(0, count, MAX_ROWS):
        part = array.slice(start, MAX_ROWS)
        shared = {"kind": kind, **common}
        columns = [
            part
            if field.name == kind
            else pa.array([shared[field.name]] * len(part), type=field.type)
            if field.name in shared
            else pa.nulls(len(part), field.type)
            for field in schema
        ]
        yield pa.RecordBatch.from_arrays(columns, schema=schema)


def rows_of_kind(table: Any, kind: str) -> Any:
    """The struct column `kind` of the rows that have it, as one Arrow array."""
    mask = np.asarray(table.column("kind").to_pandas() == kind)
    return table.column(kind).filter(pa.array(mask)).combine_chunks()
