"""Spark's own Kafka source, from its published jars, in place of `txnlog`: the same rows (S8)."""

from typing import TYPE_CHECKING, Any

import maven
import pytest
from pipeline_copier import Copier
from toolchains import skipped_without

from eosin.pipeline.common.errors import MissingDependency

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.long
@pytest.mark.timeout(600)
def test_the_jvm_source_reads_the_same_rows_with_the_same_offsets(copier: Copier) -> None:
    with skipped_without():
        jars = maven.jars("spark-kafka")
    code, _ = copier.run("driver", "--source", "jvm", "--jars", ",".join(str(jar) for jar in jars.glob("*.jar")))
    assert code == 0, copier.log
    copier.assert_complete()
    by_jvm = copier.sources()
    assert by_jvm == copier.expected_sources()


def test_a_session_without_the_kafka_jars_names_the_missing_package(spark: "SparkSession") -> None:
    from eosin.pipeline.source.streams import read_stream

    jvm: Any = spark._jvm
    thread = jvm.java.lang.Thread.currentThread()
    loader = thread.getContextClassLoader()
    thread.setContextClassLoader(loader.getParent())  # other tests may have added the jars to its child
    try:
        with pytest.raises(MissingDependency, match=r"spark\.jars\.packages=org\.apache\.spark:spark-sql-kafka"):
            read_stream(spark, bootstrap="localhost:9092", topics="t", source="jvm")
    finally:
        thread.setContextClassLoader(loader)
