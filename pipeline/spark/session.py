"""Starts Spark sessions with the settings that the sink needs, and checks those of existing sessions.

Always true: a wrong setting is refused with a sentence, never changed silently.
"""

import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from eosin.pipeline.common.errors import ConflictingSettings, MissingDependency, require_spark

require_spark()

from pyspark.sql import SparkSession  # noqa: E402

from eosin.pipeline.audit.source import TxnSegments  # noqa: E402
from eosin.pipeline.common.spark_connect import is_connect  # noqa: E402
from eosin.pipeline.source.txnlog import TxnLog  # noqa: E402

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
_WORKER_PYTHON: Final = "PYSPARK_PYTHON"


def session(name: str, master: str = "local[2]", conf: Mapping[str, str] | None = None) -> SparkSession:
    """The running Spark session, or a new one, with the sources of this package registered.

    Workers use this interpreter unless PYSPARK_PYTHON names another. Raises ConflictingSettings for a setting in
    `conf`, or of the running session, that would break exactly-once, and MissingDependency if there is no Java.
    """
    wanted = dict(conf or {})
    for key, value in REQUIRED.items():
        if wanted.get(key, value) != value:
            raise _conflict(key, wanted[key])
    running = SparkSession.getActiveSession()
    if running is None:
        require_java()
        os.environ.setdefault(_WORKER_PYTHON, sys.executable)
        builder = SparkSession.builder.appName(name).master(master)
        settings = {
            **REQUIRED,
            "spark.pyspark.python": os.environ[_WORKER_PYTHON],
            "spark.ui.showConsoleProgress": "false",
        }
        for key, value in {**settings, **wanted}.items():
            builder = builder.config(key, value)
        running = builder.getOrCreate()
    check_session(running)
    running.dataSource.register(TxnLog)
    running.dataSource.register(TxnSegments)
    return running


def check_session(spark: SparkSession) -> None:
    """Raise ConflictingSettings unless a session, wherever it comes from, has the settings that the sink needs."""
    if is_connect(spark):
        raise ConflictingSettings(
            "this is a session of Spark Connect, and the sink needs a classic one: a server would run the sink in its"
            " own process, which does not know the batch, the checkpoint and the attempts of stages"
        )
    context = spark.sparkContext
    settings = context.getConf()
    for key, value in REQUIRED.items():
        found: str | None = settings.get(key, _DEFAULTS[key])
        if found != value:
            raise _conflict(key, str(found))
    if _WORKER_PYTHON not in os.environ:
        raise ConflictingSettings(
            f"{_WORKER_PYTHON} is not set, so workers would run {context.pythonExec!r}, which need not have PySpark and"
            f" Eosin: use eosin.pipeline.session, or set it to {sys.executable}"
        )


def require_java() -> None:
    """Raise MissingDependency if Spark would not find Java."""
    home = os.environ.get("JAVA_HOME")
    if home and not (Path(home) / "bin" / "java").exists():
        raise MissingDependency(f"JAVA_HOME is {home}, and there is no bin/java in it: Spark needs Java 17 or 21")
    if not home and shutil.which("java") is None:
        raise MissingDependency("there is no java on the PATH, and JAVA_HOME is not set: Spark needs Java 17 or 21")


def _conflict(key: str, found: str) -> ConflictingSettings:
    return ConflictingSettings(f"{key} is {found} and must be {REQUIRED[key]}: {_WHY[key]}")
