"""`txnsegments`: a batch source of Spark for segment files, with one task for each file.

    spark.read.format("txnsegments").load("log-dirs/*")        # a row for each record batch

Options: `path`, or `paths` as a JSON list; `facts` = `true` for the folded facts of the audit instead of batches.
Always true: the driver lists files, tasks open them, and both must see them under the same path.
"""

import json
from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np

from eosin.pipeline.audit.columns import Columns
from eosin.pipeline.audit.coordinator_states import SegmentStateReplay
from eosin.pipeline.audit.headers import UNREADABLE, HeaderProblem, SegmentScan
from eosin.pipeline.audit.segment_facts import SegmentFacts
from eosin.pipeline.audit.segment_files import SegmentFile, find_segments, open_segment
from eosin.pipeline.audit.tables import BATCHES, FACTS, MAX_ROWS, fact_rows
from eosin.pipeline.common.errors import BadPaths, require_spark
from eosin.protocol.names import TRANSACTION_STATE_TOPIC
from eosin.protocol.records.batch import Compression

require_spark()

import pyarrow as pa  # noqa: E402
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition  # noqa: E402
from pyspark.sql.types import StructType  # noqa: E402

NAME: Final = "txnsegments"
_CODECS: Final = np.array([each.name.lower() for each in Compression] + ["unknown"] * (8 - len(Compression)))
_MARKERS: Final = np.array(["abort", "commit", None], dtype=object)
"""By number of the marker; -1, for none, is the last entry."""


class TxnSegments(DataSource):
    """The data source to register with Spark."""

    @classmethod
    def name(cls) -> str:
        """The name for `format`."""
        return NAME

    def schema(self) -> str:
        """A row for each batch, or the facts of the audit."""
        return FACTS if self._facts else BATCHES

    def reader(self, schema: StructType) -> "SegmentReader":
        """For `spark.read`."""
        return SegmentReader(self._paths(), schema, facts=self._facts)

    @property
    def _facts(self) -> bool:
        return str(self.options.get("facts", "false")).lower() == "true"

    def _paths(self) -> list[str]:
        if "paths" in self.options:
            return [str(each) for each in json.loads(self.options["paths"])]
        if "path" not in self.options:
            raise BadPaths("txnsegments needs the option path, or paths as a JSON list")
        return [self.options["path"]]


class OneSegment(InputPartition):
    """The file that one task reads."""

    def __init__(self, file: SegmentFile) -> None:
        self.file = file


class SegmentReader(DataSourceReader):
    """Reads whole segments."""

    def __init__(self, paths: list[str], schema: StructType, *, facts: bool) -> None:
        self._paths = paths
        self._columns = schema
        self._facts = facts

    def partitions(self) -> Sequence[InputPartition]:
        """A task for each file, the largest file first, since it decides when the last task ends."""
        files = sorted(find_segments(self._paths), key=lambda each: -each.size)
        return [OneSegment(each) for each in files]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """The Arrow batches of one file. A file that cannot be read becomes a row with the problem."""
        from pyspark.sql.pandas.types import to_arrow_schema

        assert isinstance(partition, OneSegment)
        schema = to_arrow_schema(self._columns, timezone="UTC")
        read_one = read_facts if self._facts else read_batches
        yield from read_one(partition.file, schema)


def read_facts(file: SegmentFile, schema: Any) -> Iterator[Any]:
    """The facts of one segment as rows."""
    common = {"topic": file.topic, "partition": file.partition, "path": file.path}
    replay = SegmentStateReplay() if file.topic == TRANSACTION_STATE_TOPIC else None
    try:
        read, size = open_segment(file.path)
        facts = SegmentFacts.of(
            read,
            size,
            base_offset=file.base_offset,
            is_last=file.is_last,
            watch=None if replay is None else replay.apply,
        )
    except OSError as error:
        problem = HeaderProblem(UNREADABLE, 0, file.base_offset, str(error))
        yield from fact_rows(schema, common, "problem", [problem._asdict()])
        return
    states = [] if replay is None else [each._asdict() for each in replay.states()]
    problems = facts.problems + ([] if replay is None else replay.problems)
    scan = facts.scan
    told = {
        "segment": file.base_offset,
        "first_offset": scan.first_offset,
        "next_offset": scan.next_offset,
        "holes": scan.holes,
        "batches": scan.batches,
        "records": scan.records,
        "bytes": size,
        "newest_ms": scan.newest_ms,
    }
    yield from fact_rows(schema, common, "scan", [told])
    yield from fact_rows(schema, common, "piece", facts.pieces)
    yield from fact_rows(schema, common, "fault", facts.faults)
    yield from fact_rows(schema, common, "problem", [each._asdict() for each in problems])
    yield from fact_rows(schema, common, "state", states)


def read_batches(file: SegmentFile, schema: Any) -> Iterator[Any]:
    """One segment, batch by batch."""
    problems: list[HeaderProblem] = []
    try:
        read, size = open_segment(file.path)
        scan = SegmentScan(read, size, base_offset=file.base_offset, is_last=file.is_last)
        for columns, _, _ in scan:
            yield from _batch_rows(columns, file, schema)
        problems = scan.problems
    except OSError as error:
        problems = [HeaderProblem(UNREADABLE, 0, file.base_offset, str(error))]
    rows = [_problem_row(each, file) for each in problems]
    if rows:
        yield pa.RecordBatch.from_pylist(rows, schema=schema)


def _batch_rows(columns: Columns, file: SegmentFile, schema: Any) -> Iterator[Any]:
    count = len(columns["position"])
    shown = {
        **columns,
        "topic": [file.topic] * count,
        "partition": [file.partition] * count,
        "segment": [file.base_offset] * count,
        "records": columns["records_count"],
        "leader_epoch": columns["partition_leader_epoch"],
        "codec": _CODECS[columns["codec"]],
        "marker": _MARKERS[columns["marker"]],
        "problem": [None] * count,
    }
    arrays = [pa.array(shown[field.name], type=field.type) for field in schema]
    whole = pa.RecordBatch.from_arrays(arrays, schema=schema)
    for start in range(0, count, MAX_ROWS):
        yield whole.slice(start, MAX_ROWS)


def _problem_row(problem: HeaderProblem, file: SegmentFile) -> dict[str, Any]:
    return {
        "topic": file.topic,
        "partition": file.partition,
        "segment": file.base_offset,
        "position": problem.position,
        "base_offset": problem.offset,
        "problem": f"{problem.what}: {problem.detail}",
    }
