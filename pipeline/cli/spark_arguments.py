"""The options of commands that work on Spark without being pipelines, and the session that they get."""

import argparse
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from eosin.pipeline.cli.interrupts import held_back
from eosin.pipeline.common.errors import ConflictingSettings, PipelineError

_SETTINGS: Final = {"spark.ui.enabled": "false", "spark.log.level": "ERROR"}
_LOCAL: Final = {"spark.sql.shuffle.partitions": "4", "spark.driver.host": "127.0.0.1"}
"""On one machine: Spark's 200 shuffle partitions are for clusters."""
_OURS: Final = re.compile(r"eosin\.(?:pipeline\.common|client)\.errors\.\w+: ([^\n]*)")


def add_spark(parser: argparse.ArgumentParser) -> None:
    """Add --master and --conf."""
    parser.add_argument("--master", default="local[*]", metavar="MASTER", help="Spark master (default %(default)s)")
    parser.add_argument("--conf", action="append", default=[], metavar="KEY=VALUE", help="setting of Spark; repeatable")


@contextmanager
def open_session(name: str, options: Any) -> Iterator[Any]:
    """A session as the options say, stopped at the end unless it was there before.

    Raises PipelineError, also with the sentence of an error of ours that Spark brings back from a worker.
    """
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    from eosin.pipeline.spark.session import session

    given = dict(_pair(each) for each in options.conf)
    local = _LOCAL if options.master.startswith("local") else {}
    was_there = SparkSession.getActiveSession() is not None
    with held_back():
        spark = session(f"eosin {name}", master=options.master, conf={**_SETTINGS, **local, **given})
    try:
        yield spark
    except PySparkException as error:
        raised = _OURS.search(str(error))
        if raised is None:
            raise
        raise PipelineError(raised[1]) from error
    finally:
        if not was_there:
            spark.stop()


def _pair(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise ConflictingSettings(f"--conf takes KEY=VALUE, and not {text!r}")
    return key, value
