"""A pipeline as a program of its own, to be killed: copies a topic into another with `txnlog` and the sink.

    python tests/support/pipeline_driver.py BOOTSTRAP FOLDER ROUTE [--die-after-batch] [--master M] ...

Prints one JSON object per batch on stdout. Exits with 0 when everything was copied.
"""

import argparse
import asyncio
import json
import os
import signal
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.errors import StreamingQueryException

from eosin.pipeline import TxnSink, session
from eosin.pipeline.common.progress_reports import BatchReport
from eosin.pipeline.format.data_source import register
from eosin.pipeline.sink.batch_transactions import BatchTransactions
from eosin.pipeline.source.streams import read_stream

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

INPUT = "orders"
OUTPUT = "copied"
PIPELINE = "copier"
FORMAT = "format"
"""The route of `format("eosin")`, in place of one of `TxnSink`."""


def main() -> int:
    options = arguments()
    settings = {
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",  # a short life
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": f"{options.folder}/warehouse",
        "spark.jars": options.jars,
        "spark.executor.memory": "700m",
        "spark.executor.cores": "1",
        **dict(each.split("=", 1) for each in options.conf),
    }
    spark = speculating(options.master, settings) if options.twice else session(PIPELINE, options.master, settings)
    spark.sparkContext.setLogLevel("ERROR")

    def told(report: BatchReport) -> None:
        print(json.dumps({"batch": report.batch, "skipped": report.skipped, "rows": report.rows}), flush=True)
        if options.die_after_batch and not report.skipped:
            os.killpg(0, signal.SIGKILL)  # the batch is committed, and Spark has not noted it

    if options.hold:
        hold_the_first_commit(options.hold)
    if options.route == FORMAT:
        return copy_by_format(spark, options)
    sink = TxnSink(PIPELINE, options.bootstrap, OUTPUT, options.route, on_batch=told)
    query = sink.start(rows(spark, options), checkpoint=f"{options.folder}/checkpoint", trigger="available-now")
    try:
        query.awaitTermination()
    except StreamingQueryException as error:
        print(json.dumps({"failure": type(sink.failure).__name__, "said": str(sink.failure or error)}), flush=True)
        return 1
    finally:
        spark.stop()  # executors of a cluster would outlive this process
    return 0


def speculating(master: str, settings: Mapping[str, str]) -> "SparkSession":
    """A session that copies a task as soon as another one has ended. Those of `session` have no copies."""
    from pyspark.sql import SparkSession

    copies = {"interval": "100ms", "quantile": "0.5", "multiplier": "1.01", "efficiency.enabled": "false"}
    builder = SparkSession.builder.appName(PIPELINE).master(master).config("spark.speculation", "true")
    for name, value in {**settings, **{f"spark.speculation.{each}": copies[each] for each in copies}}.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    register(spark)
    return spark


def copy_by_format(spark: "SparkSession", options: argparse.Namespace) -> int:
    """Copy with `format("eosin")` on both sides; a batch is told once Spark has noted it."""
    writer = rows(spark, options).writeStream.format("eosin").option("kafka.bootstrap.servers", options.bootstrap)
    writer = writer.options(topic=OUTPUT, pipeline=PIPELINE, checkpointLocation=f"{options.folder}/checkpoint")
    query = writer.trigger(availableNow=True).start()
    try:
        query.awaitTermination()
    except StreamingQueryException as error:
        print(json.dumps({"failure": "StreamingQueryException", "said": str(error)}), flush=True)
        return 1
    finally:
        spark.stop()
    return 0


def hold_the_first_commit(file: str) -> None:
    """Before the first EndTxn, when rows and marker are written, create a file and wait until somebody removes it."""
    commit, held = BatchTransactions.commit, []

    async def commit_when_let(transactions: BatchTransactions) -> None:
        if not held:
            held.append(True)
            await asyncio.to_thread(wait_until_removed, Path(file))
        await commit(transactions)

    BatchTransactions.commit = commit_when_let  # type: ignore[method-assign]


def wait_until_removed(file: Path) -> None:
    file.touch()
    while file.exists():
        time.sleep(0.02)


def rows(spark: "SparkSession", options: argparse.Namespace) -> "DataFrame":
    from pyspark.sql import functions as f

    if options.route == FORMAT:
        names = {"subscribe": INPUT, "startingOffsets": "earliest", "maxOffsetsPerTrigger": str(options.rows)}
        frame = (
            spark.readStream.format("eosin").options(**names, **{"kafka.bootstrap.servers": options.bootstrap}).load()
        )
    else:
        frame = read_stream(
            spark, bootstrap=options.bootstrap, topics=INPUT, source=options.source, max_rows_per_trigger=options.rows
        )
    source = f.concat_ws(":", "topic", "partition", "offset")
    copied = frame.select(source.alias("key"), f.col("value").cast("string").alias("value"))
    if options.twice:
        return copied.mapInArrow(WaitForCopy(options.twice), copied.schema)
    return copied.mapInArrow(Poison(options.poison), copied.schema) if options.poison else copied


class WaitForCopy:
    """Lets the first attempt of partition 0 wait until a copy of it has begun: then both give all their rows. A folder
    gets a file for each attempt of it, by its stage and its number."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def __call__(self, batches):  # type: ignore[no-untyped-def]
        from pyspark import TaskContext

        task = TaskContext.get()
        assert task is not None
        if task.partitionId() == 0:
            place = Path(self.folder) / str(task.stageId())
            Path(f"{place}.{task.attemptNumber()}").touch()
            while not Path(f"{place}.1").exists():
                time.sleep(0.02)
        yield from batches


class Poison:
    """Fails once, in the middle of the rows that it is given, when it meets a value; a file remembers that it did."""

    def __init__(self, value_and_file: str) -> None:
        self.value, self.file = value_and_file.split("@")

    def __call__(self, batches):  # type: ignore[no-untyped-def]
        for batch in batches:
            if self.value in batch.column("value").to_pylist() and not os.path.exists(self.file):
                os.close(os.open(self.file, os.O_CREAT))
                raise RuntimeError("this task fails once")
            yield batch


def arguments() -> argparse.Namespace:
    options = argparse.ArgumentParser()
    options.add_argument("bootstrap")
    options.add_argument("folder")
    options.add_argument("route")
    options.add_argument("--master", default="local[2]")
    options.add_argument("--rows", type=int, default=8)
    options.add_argument("--source", default="python")
    options.add_argument("--jars", default="", metavar="JAR,JAR")
    options.add_argument("--die-after-batch", action="store_true")
    options.add_argument("--conf", action="append", default=[], metavar="K=V")
    options.add_argument("--hold", metavar="FILE")
    options.add_argument("--poison", metavar="VALUE@FILE")
    options.add_argument("--twice", metavar="FOLDER")
    return options.parse_args()


if __name__ == "__main__":
    sys.exit(main())
