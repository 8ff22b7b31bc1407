"""Recognises sessions of Spark Connect, which are clients of Spark without a driver of their own."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def is_connect(spark: "SparkSession") -> bool:
    """True if this is a session of Spark Connect. Compares names: importing its module needs optional packages."""
    return type(spark).__module__.startswith("pyspark.sql.connect.")


def parallelism(spark: "SparkSession") -> int:
    """The number of tasks to run at once: Spark's default, or a setting that clients of Spark Connect can see."""
    if is_connect(spark):
        return int(spark.conf.get("spark.sql.shuffle.partitions") or 1)
    return spark.sparkContext.defaultParallelism
