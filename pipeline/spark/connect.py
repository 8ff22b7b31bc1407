"""Spark Connect: a session that is a client of Spark, without a driver of its own."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def is_connect(spark: "SparkSession") -> bool:
    """Whether a session is Spark Connect's. Asked by name: its module needs packages that few have installed."""
    return type(spark).__module__.startswith("pyspark.sql.connect.")


def parallelism(spark: "SparkSession") -> int:
    """How many tasks are worth having at once: Spark's default, or what a client can see of it."""
    if is_connect(spark):
        return int(spark.conf.get("spark.sql.shuffle.partitions") or 1)
    return spark.sparkContext.defaultParallelism
