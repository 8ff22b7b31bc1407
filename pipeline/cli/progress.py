"""`eosin pipeline progress PIPELINE` shows the last committed batch of a pipeline and the state of its producer; of one
in real time, the positions, and where a new checkpoint has to begin."""

import asyncio
import datetime
import json
from collections.abc import Sequence
from typing import Any

from eosin.client.addresses import parse_bootstrap
from eosin.client.client import Client
from eosin.client.errors import BrokerError, ClientError
from eosin.client.security.settings import SecuritySettings
from eosin.client.transactions import TransactionAdmin
from eosin.pipeline.cli.arguments import PipelineParser, fail
from eosin.pipeline.common.errors import ConflictingSettings
from eosin.pipeline.common.progress_marker import progress_topic, read_marker
from eosin.pipeline.common.security import carried_settings, connection_security
from eosin.pipeline.format.checkpoint_folder import CheckpointFolder
from eosin.pipeline.format.write_options import pipeline_of_query
from eosin.pipeline.realtime.positions import starting_offsets
from eosin.pipeline.realtime.takeover import read_markers, read_positions
from eosin.protocol.errors import ErrorCode

FORMAT = 'format("eosin")'
_TIMEOUT_MS = 10_000


def main(arguments: Sequence[str]) -> int:
    """Print the marker and the producer's state. Exit code 1 if there is no such pipeline."""
    parser = PipelineParser(prog="eosin pipeline progress", description=__doc__)
    parser.add_argument(
        "pipeline", metavar="PIPELINE", nargs="?", help="name of the pipeline, which is its transactional id"
    )
    parser.add_argument(
        "--checkpoint",
        metavar="DIR",
        help='in place of a name: the checkpoint of a nameless query of format("eosin")',
    )
    parser.add_argument("--bootstrap-server", required=True, metavar="HOST:PORT[,...]", help="brokers of the cluster")
    parser.add_argument(
        "--command-config", metavar="FILE", help="settings of a Kafka client: TLS and login (security.protocol, ...)"
    )
    parser.add_argument("--topic", metavar="TOPIC", help="topic of the marker (default: PIPELINE-progress)")
    parser.add_argument("--json", action="store_true", help="one JSON object")
    options = parser.parse_args(arguments)
    try:
        parse_bootstrap(options.bootstrap_server)
        settings = carried_settings(options.command_config)
        pipeline = _pipeline(options.pipeline, options.checkpoint)
    except (ConflictingSettings, ValueError) as error:
        return fail("progress", str(error))
    topic = options.topic or progress_topic(pipeline)
    try:
        found = asyncio.run(_read_progress(options.bootstrap_server, pipeline, topic, settings))
    except (ClientError, TimeoutError) as error:
        return fail("progress", str(error), code=1)
    if found is None:
        return fail("progress", f"there is no pipeline {pipeline!r}: topic {topic} has no marker of it", code=1)
    print(json.dumps(found) if options.json else text_of(found))
    return 0


def _pipeline(name: str | None, checkpoint: str | None) -> str:
    """The name of the pipeline. Raises ConflictingSettings unless exactly one of the two tells it."""
    if (name is None) == (checkpoint is None):
        raise ConflictingSettings("give either the name of the pipeline or --checkpoint DIR")
    if name is not None:
        return name
    try:
        query = CheckpointFolder(checkpoint).query_id()
    except (OSError, ValueError, KeyError):
        query = None
    if query is None:
        raise ConflictingSettings(f"{checkpoint} is no checkpoint of a query on this machine: it has no file metadata")
    return pipeline_of_query(query)


async def _read_progress(
    bootstrap: str, pipeline: str, topic: str, settings: SecuritySettings
) -> dict[str, Any] | None:
    security = connection_security(settings)
    async with Client(
        bootstrap, request_timeout_ms=_TIMEOUT_MS, retry_timeout_ms=_TIMEOUT_MS, security=security
    ) as client:
        return await progress_of(client, pipeline, topic)


async def progress_of(client: Client, pipeline: str, topic: str) -> dict[str, Any] | None:
    """The progress of a pipeline by the names of `--json`; None if there is no such pipeline. Raises a ClientError,
    BadProgressTopic or TimeoutError."""
    metadata = await client.retry(lambda: client.fetch_metadata([topic]))
    if metadata.topics[topic].error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        return None
    marker = await read_marker(client, pipeline, topic, timeout_ms=_TIMEOUT_MS)
    producer = None
    try:
        described = await TransactionAdmin(client).describe(pipeline)
        producer = {
            "state": described.state,
            "producer_id": described.producer_id,
            "producer_epoch": described.producer_epoch,
            "transaction_start_ms": described.start_ms if described.is_open else None,
        }
    except BrokerError as error:
        if error.code != ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
            raise
    positions = await _positions(client, pipeline, topic)
    if marker is None and producer is None and positions is None:
        return None
    known: dict[str, Any] = {"pipeline": pipeline, "batch": None, "producer": producer}
    if marker is not None:
        known |= {
            "query": marker.query,
            "batch": marker.batch,
            "rows": marker.rows,
            "committed_ms": marker.committed_ms,
            "run": marker.run or None,
            "written_by": "TxnSink" if marker.is_noted else FORMAT,
        }
    return known | (positions or {})


async def _positions(client: Client, pipeline: str, topic: str) -> dict[str, Any] | None:
    """Of a pipeline in real time, None of any other."""
    markers = await read_markers(client, pipeline, topic, timeout_ms=_TIMEOUT_MS)
    if not markers:
        return None
    found = await read_positions(client, pipeline, list(markers))
    return {
        "positions": {str(each): None if each not in found else found[each].next_offset for each in sorted(markers)},
        "starting_offsets": starting_offsets(found),
    }


def text_of(found: dict[str, Any]) -> str:
    """The lines for a person."""
    lines = [f"pipeline  {found['pipeline']}"]
    if "positions" in found:
        lines += [
            f"position  {name} {'lost' if offset is None else offset}" for name, offset in found["positions"].items()
        ]
        return "\n".join([*lines, f"starting  {found['starting_offsets']}"])
    if found["batch"] is None:
        lines.append("batch     none committed yet")
    else:
        at = datetime.datetime.fromtimestamp(found["committed_ms"] / 1000, datetime.UTC)
        lines += [
            f"batch     {found['batch']}, {found['rows']} rows, {at:%Y-%m-%d %H:%M:%S} UTC",
            f"query     {found['query']}",
            f"written   by {found['written_by']}" + (f", run {found['run']}" if found["run"] else ""),
        ]
    producer = found["producer"]
    if producer is None:
        lines.append("producer  unknown to the coordinator")
    else:
        lines.append(f"producer  {producer['state']}, id {producer['producer_id']}, epoch {producer['producer_epoch']}")
    return "\n".join(lines)
