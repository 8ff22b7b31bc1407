"""The release of Spark's own Kafka source, which is not part of PySpark."""

import re
from typing import Final

_ARTIFACT: Final = "org.apache.spark:spark-sql-kafka-0-10_2.13"
_NEWEST: Final = (4, 2, 0)
"""The newest release on Maven Central, which runs on Spark 4.3 as well."""


def connector(spark_version: str) -> str:
    """The Maven coordinates of the source for a version of Spark. Spark publishes it later than itself: a newer Spark
    gets the newest release that is known to exist."""
    found = re.match(r"(\d+)\.(\d+)\.(\d+)", spark_version)
    wanted = tuple(int(each) for each in found.groups()) if found else _NEWEST
    release = spark_version if wanted <= _NEWEST else ".".join(map(str, _NEWEST))
    return f"{_ARTIFACT}:{release}"
