"""Reads topics as a stream from one of two sources: `python` is `txnlog`, `jvm` is Spark's own Kafka source.

Always true: both have the same columns and read only committed records by default, so a pipeline may change its source.
Their checkpoints differ, so the change needs a new checkpoint.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, Literal, get_args

from eosin.pipeline.common.errors import ConflictingSettings, MissingDependency
from eosin.pipeline.common.kafka_connector import connector
from eosin.pipeline.source.txnlog import NAME

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Source = Literal["python", "jvm"]
SOURCES: Final[tuple[str, ...]] = get_args(Source)
COLUMNS: Final = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers")
_JVM_CLASS: Final = "org.apache.spark.sql.kafka010.KafkaSourceProvider"
_JVM_NAMES: Final[Mapping[str, str]] = {
    "bootstrap.servers": "kafka.bootstrap.servers",
    "isolation.level": "kafka.isolation.level",
    "maxRowsPerTrigger": "maxOffsetsPerTrigger",
}


def jvm_packages(spark_version: str) -> dict[str, str]:
    """The setting that makes a session fetch Spark's own Kafka source, which is not part of PySpark. It must be set
    before the session starts: `session(name, conf=jvm_packages(pyspark.__version__))`.

    Set spark.jars.packages yourself for another release than `connector` names."""
    return {"spark.jars.packages": connector(spark_version)}


def read_stream(
    spark: "SparkSession",
    *,
    bootstrap: str,
    topics: str,
    source: Source = "python",
    isolation: str = "read_committed",
    max_rows_per_trigger: int | None = None,
    options: Mapping[str, str] | None = None,
) -> "DataFrame":
    """Topics (names with commas between) as a stream from their earliest records on.

    `options` are those of `txnlog`, or of Spark's source for `jvm`. Raises ConflictingSettings for an unknown source,
    and MissingDependency if the session lacks the `jvm` source.
    """
    if source not in SOURCES:
        raise ConflictingSettings(f"there is no source {source!r}: there are {' and '.join(SOURCES)}")
    wanted = {"bootstrap.servers": bootstrap, "subscribe": topics, "isolation.level": isolation}
    if max_rows_per_trigger is not None:
        wanted["maxRowsPerTrigger"] = str(max_rows_per_trigger)
    if source == "jvm":
        _require_connector(spark)
        wanted = {_JVM_NAMES.get(name, name): value for name, value in wanted.items()}
        wanted |= {"startingOffsets": "earliest", "includeHeaders": "true"}
    format_name = NAME if source == "python" else "kafka"
    return spark.readStream.format(format_name).options(**{**wanted, **(options or {})}).load().select(*COLUMNS)


def _require_connector(spark: "SparkSession") -> None:
    from py4j.protocol import Py4JJavaError

    assert spark._jvm is not None
    loader = spark._jvm.java.lang.Thread.currentThread().getContextClassLoader()
    try:
        loader.loadClass(_JVM_CLASS)
    except Py4JJavaError as error:
        raise MissingDependency(
            "this session lacks Spark's Kafka source: use source python, or start the session with"
            f" spark.jars.packages={connector(spark.version)}"
        ) from error
