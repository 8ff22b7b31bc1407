"""The options and the Spark session of commands that use Spark and are not pipelines."""

import argparse
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from eosin.pipeline.cli.arguments import pairs
from eosin.pipeline.cli.interrupts import held_back
from eosin.pipeline.common.errors import PipelineError

_SETTINGS: Final = {"spark.ui.enabled": "false", "spark.log.level": "ERROR"}
_LOCAL: Final = {"spark.sql.shuffle.partitions": "4", "spark.driver.host": "127.0.0.1"}
"""Settings for one machine: the default of 200 shuffle partitions is for clusters."""
_OURS: Final = re.compile(r"eosin\.(?:pipeline\.common|client)\.errors\.\w+: ([^\n]*)")


def add_spark(parser: argparse.ArgumentParser) -> None:
    """Add --master and --conf."""
    parser.add_argument("--master", default="local[*]", metavar="MASTER", help="Spark master (default %(default)s)")
    parser.add_argument(
        "--conf", action="append", default=[], metavar="NAME=VALUE", help="a setting of Spark; repeatable"
    )


@contextmanager
def open_session(name: str, options: Any) -> Iterator[Any]:
    """A session with the given options, stopped at the end unless it existed before.

    Raises PipelineError, also for an error of ours inside an error that Spark raises for a worker.
    """
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    from eosin.pipeline.spark.session import session

    given = pairs(options.conf, "--conf")
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
