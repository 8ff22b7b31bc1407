"""`eosin pipeline run MODULE:FUNC ...` runs a pipeline on Spark, and restarts it when a batch fails.

FUNC takes the input as a streaming frame with the columns of `txnlog`, and returns the frame to write.
"""

import argparse
import asyncio
import logging
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from eosin.client.addresses import parse_bootstrap
from eosin.client.client import Client
from eosin.client.errors import AuthenticationFailed, ClientError
from eosin.client.security.settings import SecuritySettings
from eosin.pipeline.cli.arguments import PipelineParser, at_least, fail, pairs, trigger
from eosin.pipeline.cli.interrupts import held_back
from eosin.pipeline.common.errors import ConflictingSettings, PipelineError
from eosin.pipeline.common.security import carried_settings, connection_security
from eosin.pipeline.common.settings import PipelineSettings
from eosin.pipeline.common.topic_partitions import topic_partitions
from eosin.pipeline.job.functions import load

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from eosin.pipeline.common.progress_reports import BatchProgress

_CHECK_MS: Final = 5000
MODES: Final = ("append", "update", "complete")


def main(arguments: Sequence[str]) -> int:
    """Run until the query ends. Exit code 0 for its regular end, 1 for a failure that a restart cannot mend."""
    options = _parser().parse_args(arguments)
    logging.basicConfig(format="%(levelname)s %(message)s", level=logging.WARNING, stream=sys.stderr)
    try:
        parse_bootstrap(options.bootstrap_server)
        conf, given = pairs(options.conf, "--conf"), pairs(options.set, "--set")
        transform = load(options.function)
        settings = PipelineSettings.parse(given)
    except (ConflictingSettings, ValueError) as error:
        return fail("run", str(error))
    try:
        return _run(options, transform, conf, settings)
    except ClientError as error:
        return fail("run", str(error), code=1)
    except PipelineError as error:
        return fail("run", str(error), code=2 if isinstance(error, ConflictingSettings) else 1)


def _run(
    options: argparse.Namespace,
    transform: "Callable[[DataFrame], DataFrame]",
    conf: dict[str, str],
    settings: PipelineSettings,
) -> int:
    from eosin.pipeline.job.pipeline import Pipeline
    from eosin.pipeline.source.streams import jvm_packages
    from eosin.pipeline.spark.session import session

    if options.source == "jvm" and not conf.keys() & {"spark.jars", "spark.jars.packages"}:
        import pyspark

        conf = {**jvm_packages(pyspark.__version__), **conf}
    name = options.name or options.function.replace(":", "-")
    pipeline = Pipeline(
        name,
        transform,
        bootstrap=options.bootstrap_server,
        topics=options.input,
        output=options.output,
        checkpoint=options.checkpoint,
        route=options.route,
        source=options.source,
        trigger=options.trigger,
        mode=options.mode,
        max_rows_per_trigger=options.max_rows,
        settings=settings,
        adopt_checkpoint=options.adopt_checkpoint,
        max_failures=options.max_failures,
        command_config=options.command_config,
    )

    def print_progress(progress: "BatchProgress") -> None:
        print(progress.json() if options.json else progress.line(), flush=True)

    topics = [*options.input.split(","), options.output]
    asyncio.run(_require_topics(options.bootstrap_server, topics, carried_settings(options.command_config)))
    with held_back():
        spark = session(name, options.master, conf)
    spark.sparkContext.setLogLevel("ERROR")
    try:
        pipeline.run(spark, print_progress)
    finally:
        spark.stop()
    return 0


async def _require_topics(bootstrap: str, topics: Sequence[str], settings: SecuritySettings) -> None:
    """Raise MissingTopic, or AuthenticationFailed, before Spark starts, since Spark reports it in many lines. If
    brokers do not answer now, the pipeline waits for them later."""
    security = connection_security(settings)
    try:
        async with Client(
            bootstrap, request_timeout_ms=_CHECK_MS, retry_timeout_ms=_CHECK_MS, security=security
        ) as client:
            await topic_partitions(client, [each.strip() for each in topics])
    except AuthenticationFailed:
        raise
    except (ClientError, TimeoutError):
        pass


def _parser() -> PipelineParser:
    parser = PipelineParser(prog="eosin pipeline run", description=__doc__)
    parser.add_argument("function", metavar="MODULE:FUNC", help="function from the input frame to the output frame")
    parser.add_argument("--bootstrap-server", required=True, metavar="HOST:PORT[,...]", help="brokers of the cluster")
    parser.add_argument(
        "--command-config", metavar="FILE", help="settings of a Kafka client: TLS and login (security.protocol, ...)"
    )
    parser.add_argument("--checkpoint", required=True, metavar="DIR", help="folder of this query, kept between runs")
    parser.add_argument("--input", required=True, metavar="TOPIC[,TOPIC...]", help="topics to read")
    parser.add_argument("--output", required=True, metavar="TOPIC", help="topic for rows without a topic column")
    parser.add_argument("--name", metavar="PIPELINE", help="the transactional id (default: MODULE-FUNC)")
    parser.add_argument(
        "--route", choices=("driver", "executors"), default="driver", help="how rows reach the broker (default: driver)"
    )
    parser.add_argument(
        "--source", choices=("python", "jvm"), default="python", help="jvm: Spark's own Kafka source (default: python)"
    )
    parser.add_argument(
        "--trigger",
        type=trigger,
        metavar="2s|available-now",
        help="time between batches (default: none), or stop at the end",
    )
    parser.add_argument("--mode", choices=MODES, default="append", help="Spark's output mode (default: append)")
    parser.add_argument("--max-rows", type=at_least(1), metavar="N", help="offsets per batch (default: no limit)")
    parser.add_argument("--master", default="local[2]", help="Spark's master (default: local[2])")
    parser.add_argument("--conf", action="append", default=[], metavar="K=V", help="a setting of Spark")
    parser.add_argument(
        "--set", action="append", default=[], metavar="K=V", help="a setting of the pipeline, such as task.timeout.ms"
    )
    parser.add_argument(
        "--max-failures",
        type=at_least(0),
        default=10,
        metavar="N",
        help="failures in a row before the command ends (default: 10)",
    )
    parser.add_argument(
        "--adopt-checkpoint",
        action="store_true",
        help="continue from this checkpoint although the progress marker contradicts it",
    )
    parser.add_argument("--json", action="store_true", help="one JSON object for each batch")
    return parser
