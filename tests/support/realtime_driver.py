"""A query in Real-time Mode as a program of its own, to be killed: `realtime_kills.py` and tests start it.

    python tests/support/realtime_driver.py BOOTSTRAP FOLDER [--master M] [--checkpoint NAME] [--batch "5 seconds"]

Copies topic `orders` into the same partitions of `copied`, two rows for each record. Starts the query again when it
fails, as a supervisor would, unless another driver has taken it over; with a new checkpoint if the old one is broken.
Prints a line for each start, each batch and each failure; ends with code 3 when it was taken over.
"""

import argparse
import sys
from typing import TYPE_CHECKING

import maven
from pyspark.errors import StreamingQueryException
from pyspark.sql import functions as f

from eosin.client.errors import ClientError
from eosin.pipeline import TxnSink, session
from eosin.pipeline.common.errors import BrokenCheckpoint

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

INPUT = "orders"
OUTPUT = "copied"
PIPELINE = "realtime"
PARTITIONS = 3
COPIES = 2
TAKEN_OVER = 3
_FENCED = "was taken over by another driver"


def main() -> int:
    """Run until somebody kills this process; the exit code."""
    options = arguments()
    jars = maven.jars("spark-kafka")
    spark = session(
        PIPELINE,
        options.master,
        {
            "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
            "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
            "spark.ui.enabled": "false",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.sql.warehouse.dir": f"{options.folder}/warehouse",
            "spark.jars": ",".join(str(jar) for jar in jars.glob("*.jar")),
            "spark.executor.memory": "600m",
            "spark.network.timeout": "10s",
            "spark.network.timeoutInterval": "5s",
            "spark.executor.heartbeatInterval": "2s",
        },
    )
    spark.sparkContext.setLogLevel("ERROR")
    while True:
        sink = TxnSink(PIPELINE, options.bootstrap, OUTPUT, transaction_timeout_ms=20_000)
        try:
            query = sink.start(
                copied(spark, options.bootstrap),
                checkpoint=f"{options.folder}/{options.checkpoint}",
                trigger="real-time",
                real_time_batch=options.batch,
            )
            print("started", flush=True)
            follow(query)
        except BrokenCheckpoint as error:
            print(f"failed {error}", flush=True)
            options.checkpoint += "-anew"
        except StreamingQueryException as error:
            print(f"failed {str(error).splitlines()[0][:300]}", flush=True)
            if options.yields and _FENCED in str(error):
                return TAKEN_OVER
        except (ClientError, TimeoutError) as error:
            print(f"failed {error}", flush=True)
        finally:
            sink.close()


def follow(query: "StreamingQuery") -> None:
    """Tell of each batch until the query ends. Raises what it ends with."""
    told = -1
    while not query.awaitTermination(1):
        last = query.lastProgress
        if last is not None and last.batchId != told:
            told = last.batchId
            print(f"batch {told}: {last.numInputRows} records, {dict(last.durationMs)} ms", flush=True)


def copied(spark: "SparkSession", bootstrap: str) -> "DataFrame":
    """Two rows of each record: its place and the number of the row as key."""
    stream = spark.readStream.format("kafka").option("kafka.bootstrap.servers", bootstrap).option("subscribe", INPUT)
    stream = stream.option("startingOffsets", "earliest").option("kafka.isolation.level", "read_committed")
    text = f.col("value").cast("string")
    rows = stream.load().select(
        f.struct("topic", "partition", "offset").alias("source"),
        "partition",
        "value",
        f.explode(f.array(*(f.concat(text, f.lit(f"/{copy}")) for copy in range(COPIES)))).alias("key"),
    )
    return rows


def arguments() -> argparse.Namespace:
    options = argparse.ArgumentParser()
    options.add_argument("bootstrap")
    options.add_argument("folder")
    options.add_argument("--master", default=f"local[{PARTITIONS}]")
    options.add_argument("--checkpoint", default="checkpoint")
    options.add_argument("--batch", default="5 seconds")
    options.add_argument("--yields", action="store_true", help="end when another driver has taken the pipeline over")
    return options.parse_args()


if __name__ == "__main__":
    sys.exit(main())
