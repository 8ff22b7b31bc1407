"""Starts Spark sessions with the settings that the sink needs.

Always true: a wrong setting is refused with a sentence, never changed silently.
"""

import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

from eosin.pipeline.common.errors import MissingDependency, require_spark

require_spark()

from pyspark.sql import SparkSession  # noqa: E402

from eosin.pipeline.audit.source import TxnSegments  # noqa: E402
from eosin.pipeline.common.session_settings import (  # noqa: E402
    REQUIRED,
    WORKER_PYTHON,
    check_session,
    problems_of,
    refuse,
)
from eosin.pipeline.format.data_source import register  # noqa: E402
from eosin.pipeline.source.txnlog import TxnLog  # noqa: E402


def session(name: str, master: str = "local[2]", conf: Mapping[str, str] | None = None) -> SparkSession:
    """The running Spark session, or a new one, with the sources of this package registered.

    Workers use this interpreter unless PYSPARK_PYTHON names another. Raises ConflictingSettings for a setting in
    `conf`, or of the running session, that would break exactly-once, and MissingDependency if there is no Java.
    """
    wanted = dict(conf or {})
    refuse(problems_of(wanted))
    running = SparkSession.getActiveSession()
    if running is None:
        require_java()
        os.environ.setdefault(WORKER_PYTHON, sys.executable)
        builder = SparkSession.builder.appName(name).master(master)
        settings = {
            **REQUIRED,
            "spark.pyspark.python": os.environ[WORKER_PYTHON],
            "spark.ui.showConsoleProgress": "false",
        }
        for key, value in {**settings, **wanted}.items():
            builder = builder.config(key, value)
        running = builder.getOrCreate()
    check_session(running)
    register(running)
    running.dataSource.register(TxnLog)
    running.dataSource.register(TxnSegments)
    return running


def require_java() -> None:
    """Raise MissingDependency if Spark would not find Java."""
    home = os.environ.get("JAVA_HOME")
    if home and not (Path(home) / "bin" / "java").exists():
        raise MissingDependency(f"JAVA_HOME is {home}, and there is no bin/java in it: Spark needs Java 17 or 21")
    if not home and shutil.which("java") is None:
        raise MissingDependency("there is no java on the PATH, and JAVA_HOME is not set: Spark needs Java 17 or 21")
