"""`AuditReport` holds the tables of an audit as Spark frames, and plans the steps that compute them.

    segments --one task each--> facts --one group per partition--> runs --one group per producers--> transactions

Always true: facts and runs are computed once and kept until `close`; tables are computed from them on first use.
"""

import json
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Final, Self

from eosin.pipeline.audit.columns import from_struct
from eosin.pipeline.audit.coordinator_states import ONGOING
from eosin.pipeline.audit.headers import TORN_TAIL
from eosin.pipeline.audit.joining import join
from eosin.pipeline.audit.merging import merge
from eosin.pipeline.audit.segment_files import find_segments
from eosin.pipeline.audit.sequences import NAMES
from eosin.pipeline.audit.source import NAME, TxnSegments
from eosin.pipeline.audit.summary import summarize
from eosin.pipeline.audit.tables import MERGED, TRANSACTIONS, fact_rows, rows_of_kind
from eosin.pipeline.common.errors import require_spark
from eosin.pipeline.common.spark_connect import parallelism
from eosin.protocol.names import TRANSACTION_STATE_TOPIC
from eosin.runtime.clock import SystemClock

require_spark()

import pyarrow as pa  # noqa: E402
from pyspark.sql import Column, DataFrame, SparkSession  # noqa: E402
from pyspark.sql import functions as f  # noqa: E402

TABLES: Final = ("transactions", "summary", "hanging", "lso_blocked", "sequence_faults", "problems")
COORDINATOR_KNOWS: Final = "coordinator_knows"
ORPHAN: Final = "orphan"
UNKNOWN: Final = "unknown"
_GROUPS_PER_CORE: Final = 4


class AuditReport:
    """The tables of an audit. Close it when they are no longer needed."""

    def __init__(
        self, facts: DataFrame, *, max_transaction_timeout_ms: int, as_of_ms: int, has_coordinator: bool
    ) -> None:
        self.facts = facts.persist()
        """The facts of all segments."""
        self._max_timeout_ms = max_transaction_timeout_ms
        self._has_coordinator = has_coordinator
        self.as_of_ms = as_of_ms
        """The moment for the ages of open transactions, ms since 1970."""
        pieces = self.facts.where(f.col("kind").isin("piece", "scan"))
        self.merged = pieces.groupBy("topic", "partition").applyInArrow(_merging(), MERGED).persist()
        """The merged segments of each partition."""

    @classmethod
    def of(
        cls,
        spark: SparkSession,
        paths: str | Sequence[str],
        *,
        max_transaction_timeout_ms: int,
        as_of_ms: int | None = None,
    ) -> Self:
        """Plan the audit of these paths; nothing is read yet. Raises BadPaths."""
        wanted = [paths] if isinstance(paths, str) else list(paths)
        segments = find_segments(wanted)
        spark.dataSource.register(TxnSegments)
        absolute = [each if "://" in each else str(Path(each).absolute()) for each in wanted]
        facts = spark.read.format(NAME).options(facts="true", paths=json.dumps(absolute)).load()
        return cls(
            facts,
            max_transaction_timeout_ms=max_transaction_timeout_ms,
            as_of_ms=SystemClock().now_ms() if as_of_ms is None else as_of_ms,
            has_coordinator=any(each.topic == TRANSACTION_STATE_TOPIC for each in segments),
        )

    @cached_property
    def runs(self) -> DataFrame:
        """The part of each transaction in each partition; markers without data are runs without batches."""
        return self.merged.where("kind = 'run'").select("topic", "partition", "run.*")

    @cached_property
    def transactions(self) -> DataFrame:
        """A row for each transaction that has data."""
        groups = _GROUPS_PER_CORE * parallelism(self.facts.sparkSession)
        runs = self.runs.where("batches > 0").groupBy(f.pmod("producer_id", f.lit(groups)).alias("group"))
        joined = runs.applyInArrow(_joining(), TRANSACTIONS)
        return _with_times(joined, begin_time="begin_ms", end_time="end_ms").persist()

    @cached_property
    def segments(self) -> DataFrame:
        """The counts of each segment file."""
        return self.facts.where("kind = 'scan'").select("topic", "partition", "path", "scan.*")

    @cached_property
    def problems(self) -> DataFrame:
        """Places that are not as a broker wrote them: torn tails, which a crash leaves and are no error, and damage."""
        severity = f.when(f.col("what") == TORN_TAIL, "warning").otherwise("error").alias("severity")
        found = self.facts.where("kind = 'problem'").select("topic", "partition", "path", "problem.*")
        return found.select("*", severity)

    @cached_property
    def sequence_faults(self) -> DataFrame:
        """Batches whose sequence number or epoch does not follow the producer's batch before."""
        columns = ("topic", "partition", "fault.*")
        inside = self.facts.where("kind = 'fault'").select(*columns)
        across = self.merged.where("kind = 'fault'").select(*columns)
        what = f.element_at(f.array(*map(f.lit, NAMES)), f.col("what").cast("int") + 1)
        return inside.unionAll(across).withColumn("what", what)

    @cached_property
    def lso_blocked(self) -> DataFrame:
        """Intervals in which an open transaction, the oldest of its partition, held the last stable offset back."""
        blocks = self.merged.where("kind = 'block'").select("topic", "partition", "block.*")
        until = f.when(f.col("until_ms") >= 0, f.col("until_ms"))
        timed = blocks.withColumn("until_ms", until)
        duration = f.greatest(f.lit(0), f.coalesce("until_ms", f.lit(self.as_of_ms)) - f.col("since_ms"))
        return _with_times(timed.withColumn("duration_ms", duration), since_time="since_ms", until_time="until_ms")

    @cached_property
    def coordinator(self) -> DataFrame:
        """The last record of each transactional id, if `__transaction_state` was among the paths."""
        states = self.facts.where("kind = 'state'").select("partition", "state.*")
        return states.groupBy("transactional_id").agg(
            *(f.max_by(name, "offset").alias(name) for name in states.columns if name != "transactional_id")
        )

    def is_hanging(self, where: str = "") -> Column:
        """A column that is true for a run that is open for too long. `where` is the prefix of its column names."""
        is_open = (f.col(where + "batches") > 0) & (f.col(where + "marker") < 0)
        return is_open & (f.lit(self.as_of_ms) - f.col(where + "begin_ms") > self._max_timeout_ms)

    @cached_property
    def hanging(self) -> DataFrame:
        """Runs that are open for longer than any transaction may be, and whether the coordinator knows them."""
        age = f.lit(self.as_of_ms) - f.col("begin_ms")
        old = self.runs.where(self.is_hanging()).withColumn("age_ms", age)
        ongoing = (
            self.coordinator.where(f.col("state").isin(*ONGOING))
            .select("transactional_id", "state", "timeout_ms", "producer_id", f.explode("partitions").alias("place"))
            .withColumnRenamed("producer_id", "known_id")
        )
        place = f.concat_ws("-", "topic", f.col("partition").cast("string"))
        joined = old.join(ongoing, (f.col("known_id") == f.col("producer_id")) & (f.col("place") == place), "left")
        unknown = f.lit(ORPHAN if self._has_coordinator else UNKNOWN)
        coordinator = f.when(f.col("known_id").isNotNull(), COORDINATOR_KNOWS).otherwise(unknown)
        return _with_times(joined, begin_time="begin_ms").select(
            "topic",
            "partition",
            "producer_id",
            f.col("last_epoch").alias("producer_epoch"),
            "first_offset",
            "last_offset",
            "records",
            "begin_time",
            "age_ms",
            coordinator.alias("coordinator"),
            "transactional_id",
            "state",
            "timeout_ms",
        )

    @cached_property
    def summary(self) -> DataFrame:
        """One row: counts, shares and durations."""
        return summarize(self)

    def write(self, folder: str) -> None:
        """Write every table as parquet into a folder of its name; existing tables are replaced."""
        for name in TABLES:
            getattr(self, name).write.mode("overwrite").parquet(f"{folder.rstrip('/')}/{name}")

    def close(self) -> None:
        """Free the memory of the tables."""
        for frame in (self.merged, self.facts, self.__dict__.get("transactions")):
            if frame is not None:
                frame.unpersist()


def _merging() -> Callable[[tuple[Any, ...], Any], Any]:
    schema = _arrow_schema(MERGED)

    def merge_partition(key: tuple[Any, ...], facts: Any) -> Any:
        """In a task: the facts of one partition, merged."""
        pieces, scans = rows_of_kind(facts, "piece"), rows_of_kind(facts, "scan")
        merged = merge(from_struct(pieces), from_struct(scans))
        topic, partition = (each.as_py() for each in key)
        common = {"topic": topic, "partition": partition}
        batches: list[Any] = []
        for kind, rows in (("run", merged.runs), ("fault", merged.faults), ("block", merged.blocks)):
            batches += fact_rows(schema, common, kind, rows)
        return pa.Table.from_batches(batches, schema=schema)

    return merge_partition


def _joining() -> Callable[[Any], Any]:
    schema = _arrow_schema(TRANSACTIONS)

    def join_producers(runs: Any) -> Any:
        """In a task: the runs of some producers, as transactions."""
        return pa.Table.from_pylist(list(join(runs.to_pylist())), schema=schema)

    return join_producers


def _arrow_schema(ddl: str) -> Any:
    """The schema of the results of tasks. Only the driver can parse the declaration."""
    from pyspark.sql.pandas.types import to_arrow_schema
    from pyspark.sql.types import StructType

    declared = StructType.fromDDL(ddl)
    assert isinstance(declared, StructType)
    return to_arrow_schema(declared, timezone="UTC")


def _with_times(frame: DataFrame, **columns: str) -> DataFrame:
    for name, milliseconds in columns.items():
        frame = frame.withColumn(name, f.timestamp_millis(f.col(milliseconds)))
    return frame
