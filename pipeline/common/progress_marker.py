"""The progress marker: a record that names the last committed batch of a pipeline.

Owns the marker's bytes and its topic. Always true: a marker is written in the transaction of its batch, so it exists
exactly when the batch does; it is read after the transactional id was initialised, when the pipeline has no undecided
transaction; and a reader waits until every earlier record of the topic is decided, also those of other pipelines.
"""

import contextlib
import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, Self

from eosin.client.admin import Admin
from eosin.client.client import Client
from eosin.client.consumer import EARLIEST, LATEST, Consumer
from eosin.client.errors import BrokerError
from eosin.client.metadata import TopicInfo
from eosin.pipeline.common.errors import BadProgressTopic
from eosin.pipeline.common.task_timeouts import TASK_TIMEOUT_MS
from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import IsolationLevel, TopicPartition
from eosin.protocol.records.batch import NewRecord
from eosin.runtime.clock import Clock, SystemClock

VERSION: Final = 1
TOPIC_SETTINGS: Final = {
    "cleanup.policy": "compact",
    # Each batch writes one record and only the last one counts. Early cleaning keeps a start short.
    "min.cleanable.dirty.ratio": "0.1",
    "segment.bytes": "1048576",
}
_POLL_MS: Final = 200
_HASH_DIGITS: Final = 32


def range_hash_of(entry: bytes) -> str:
    """The hash of a batch's entry in the offset log, as markers have it, whichever sink wrote them."""
    return hashlib.sha256(entry).hexdigest()[:_HASH_DIGITS]


@dataclass(frozen=True, slots=True)
class ProgressMarker:
    """The last committed batch of a pipeline."""

    query: str
    """The id of the Spark query, from its checkpoint."""
    batch: int
    range: str
    """A hash of the batch's input range in the checkpoint."""
    rows: int
    run: str = ""
    """The id of the run of the query that wrote the batch; empty where it is not known."""
    is_noted: bool = True
    """True if the checkpoint notes that the batch was handed over, as `TxnSink` does."""
    committed_ms: int = -1
    """The time of the record, ms since 1970; -1 before it was written."""

    def record(self, pipeline: str) -> NewRecord:
        """The record with this marker."""
        fields = {"v": VERSION, "query": self.query, "batch": self.batch, "range": self.range, "rows": self.rows}
        if self.run:
            fields["run"] = self.run
        if not self.is_noted:
            fields["noted"] = False
        return NewRecord(pipeline.encode(), json.dumps(fields, separators=(",", ":")).encode())

    @classmethod
    def parse(cls, value: bytes, *, committed_ms: int = -1) -> Self:
        """The marker in the value of a record. Raises ValueError with a sentence."""
        with marker_fields(value, VERSION, kind="progress marker") as fields:
            return cls(
                str(fields["query"]),
                int(fields["batch"]),
                str(fields["range"]),
                int(fields["rows"]),
                str(fields.get("run", "")),
                bool(fields.get("noted", True)),
                committed_ms,
            )


@contextlib.contextmanager
def marker_fields(value: bytes, version: int, *, kind: str) -> Iterator[dict[str, Any]]:
    """The fields of a marker in the value of a record, for as long as they are read: those of another version, and
    missing or wrong ones, are a ValueError with a sentence."""
    try:
        fields = json.loads(value)
        if fields["v"] != version:
            raise ValueError(f"it has version {fields['v']}, and this release of Eosin knows version {version}")
        yield fields
    except (KeyError, TypeError, AttributeError, json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"it is no {kind}: {value[:80]!r}") from error


def progress_topic(pipeline: str) -> str:
    """The default topic for the marker of a pipeline."""
    return f"{pipeline}-progress"


async def create_topic(client: Client, topic: str) -> None:
    """Create the marker's topic, or find it where this user may not create it. Raises BrokerError,
    TOPIC_ALREADY_EXISTS among others."""
    try:
        await Admin(client).create_topic(topic, 1, configs=TOPIC_SETTINGS)
    except BrokerError as error:
        if error.code != ErrorCode.TOPIC_AUTHORIZATION_FAILED:
            raise
        if (await client.retry(lambda: client.fetch_metadata([topic]))).topics[topic].error:
            raise


async def ensure_topic(client: Client, topic: str) -> None:
    """Create the marker's topic if it is missing. Raises BadProgressTopic for one that would not keep the marker."""
    admin = Admin(client)
    try:
        await create_topic(client, topic)
    except BrokerError as error:
        if error.code != ErrorCode.TOPIC_ALREADY_EXISTS:
            raise

    async def describe() -> TopicInfo:
        return (await client.metadata(topic)).topic(topic)  # not all brokers know a new topic at once

    found = await client.retry(describe)
    if len(found.partitions) != 1:
        raise BadProgressTopic(
            f"topic {topic} holds progress markers and has {len(found.partitions)} partitions, not 1"
        )
    policy = (await admin.describe_configs(topic, keys=["cleanup.policy"]))["cleanup.policy"].value or ""
    if policy.split(",") != ["compact"]:
        raise BadProgressTopic(
            f"topic {topic} holds progress markers and would lose them: cleanup.policy is {policy!r}"
        )


async def read_marker(
    client: Client,
    pipeline: str,
    topic: str,
    *,
    timeout_ms: int = TASK_TIMEOUT_MS,
    clock: Clock | None = None,
) -> ProgressMarker | None:
    """The committed marker of a pipeline, None if it has none. Raises BadProgressTopic, ClientError, TimeoutError."""
    found = await last_record(client, pipeline, topic, timeout_ms=timeout_ms, clock=clock)
    if found is None:
        return None
    try:
        return ProgressMarker.parse(found[0], committed_ms=found[1])
    except ValueError as error:
        raise unreadable(pipeline, topic, error) from error


def unreadable(name: str, topic: str, error: ValueError) -> BadProgressTopic:
    """The error for a marker that cannot be parsed."""
    return BadProgressTopic(f"the last record of {name!r} in topic {topic} is unreadable: {error}")


async def last_record(
    client: Client,
    name: str,
    topic: str,
    *,
    timeout_ms: int = TASK_TIMEOUT_MS,
    clock: Clock | None = None,
) -> tuple[bytes, int] | None:
    """The value and the time of the last committed record whose key is `name`; None if there is none.

    Raises ClientError or TimeoutError.
    """
    return (await last_records(client, topic, timeout_ms=timeout_ms, clock=clock)).get(name)


async def last_records(
    client: Client,
    topic: str,
    *,
    timeout_ms: int = TASK_TIMEOUT_MS,
    clock: Clock | None = None,
    waits_for_undecided: bool = True,
) -> dict[str, tuple[bytes, int]]:
    """The value and the time of the last committed record of each key that has a value.

    Waits for the undecided transactions of others in the topic, since a record could lie behind one of them; or else
    leaves out what lies behind the first of them. Raises ClientError or TimeoutError.
    """
    clock = clock or SystemClock()
    deadline_ms = clock.elapsed_ms() + timeout_ms
    partition = TopicPartition(topic, 0)
    consumer = Consumer(client, isolation=IsolationLevel.READ_COMMITTED)
    whole = Consumer(client, isolation=IsolationLevel.READ_UNCOMMITTED) if waits_for_undecided else consumer
    end = (await whole.list_offset(partition, LATEST)).offset
    await consumer.assign_from([partition], EARLIEST)
    found: dict[str, tuple[bytes, int]] = {}
    while consumer.position(partition) < end:
        for each in await consumer.poll(_POLL_MS):
            key = (each.record.key or b"").decode(errors="replace")
            if each.record.value is None:
                found.pop(key, None)
            else:
                found[key] = (each.record.value, each.record.timestamp)
        if clock.elapsed_ms() > deadline_ms:
            raise TimeoutError(f"an undecided transaction in topic {topic} hides what comes after it")
    return found
