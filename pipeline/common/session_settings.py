"""The settings of a Spark session that `TxnSink` needs.

Always true: wrong settings are refused, never changed silently, and all of them in one sentence.
"""

import os
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from eosin.pipeline.common.errors import ConflictingSettings
from eosin.pipeline.common.spark_connect import is_connect

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

REQUIRED: Final[Mapping[str, str]] = {
    # A second attempt of a task or stage would reuse sequence numbers: the broker would drop its rows as duplicates,
    # although they may be different rows.
    "spark.speculation": "false",
    "spark.stage.maxConsecutiveAttempts": "1",
}
"""Settings that the sink needs. Spark may still retry a task; the second attempt fails the batch."""

_WHY: Final[Mapping[str, str]] = {
    "spark.speculation": "copies of a task would write into the same transaction",
    "spark.stage.maxConsecutiveAttempts": "a retried stage would write into the same transaction",
}
_DEFAULTS: Final[Mapping[str, str]] = {
    "spark.speculation": "false",
    "spark.stage.maxConsecutiveAttempts": "4 (the default)",
}
WORKER_PYTHON: Final = "PYSPARK_PYTHON"


def check_session(spark: "SparkSession") -> None:
    """Raise ConflictingSettings unless a session, wherever it comes from, has the settings that the sink needs."""
    if is_connect(spark):
        raise ConflictingSettings(
            "this is a session of Spark Connect, and the sink needs a classic one: a server would run the sink in its"
            " own process, which does not know the batch, the checkpoint and the attempts of stages"
        )
    context = spark.sparkContext
    settings = context.getConf()
    problems = problems_of({key: settings.get(key, _DEFAULTS[key]) or "" for key in REQUIRED})
    if WORKER_PYTHON not in os.environ:
        problems.append(
            f"{WORKER_PYTHON} is not set, so workers would run {context.pythonExec!r}, which need not have PySpark and"
            f" Eosin: use eosin.pipeline.session, or set it to {sys.executable}"
        )
    refuse(problems)


def problems_of(settings: Mapping[str, str]) -> list[str]:
    """A clause for each setting of Spark that has another value than the sink needs. Settings that are left out are
    right."""
    return [
        f"{key} is {settings[key]} and must be {value}: {_WHY[key]}"
        for key, value in REQUIRED.items()
        if settings.get(key, value) != value
    ]


def refuse(problems: Sequence[str]) -> None:
    """Raise ConflictingSettings with all problems, if there are any."""
    if problems:
        raise ConflictingSettings("; ".join(problems))
