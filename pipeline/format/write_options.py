"""The options of a write by `format("eosin")`.

Always true: what is not understood is refused before a row is written.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Self

from eosin.client.connection import REQUEST_TIMEOUT_MS
from eosin.client.producer import TRANSACTION_TIMEOUT_MS
from eosin.client.security.settings import SecuritySettings
from eosin.pipeline.common.security import PLAIN
from eosin.pipeline.common.task_timeouts import RETRY_BACKOFF_MS, TASK_TIMEOUT_MS
from eosin.pipeline.format.given_options import GivenOptions
from eosin.protocol.records.compression import Compression

_ACKS: Final = "kafka.acks"
_IDEMPOTENCE: Final = "kafka.enable.idempotence"
_COMPRESSION: Final = "kafka.compression.type"
_TRANSACTION_TIMEOUT: Final = "kafka.transaction.timeout.ms"
_BATCH_SIZE: Final = "kafka.batch.size"
_KNOWN: Final = (
    "topic",
    "pipeline",
    "progressTopic",
    "adoptCheckpoint",
    _ACKS,
    _IDEMPOTENCE,
    _COMPRESSION,
    _TRANSACTION_TIMEOUT,
    _BATCH_SIZE,
)
_COMMIT_ORDER: Final = "it lets Spark replay more than its last batch, and exactly-once needs that it does not"
_WITHOUT: Final = {
    "kafka.transactional.id": "the option pipeline names the transactional id",
    "kafka.client.id": "leave it out",
    "kafka.key.serializer": "keys are binary or strings; cast them in the frame",
    "kafka.value.serializer": "values are binary or strings; cast them in the frame",
    "kafka.linger.ms": "leave it out, since rows never wait for others",
    "kafka.retries": "leave it out, since task.timeout.ms limits how long a request is repeated",
    "kafka.delivery.timeout.ms": "use task.timeout.ms, which limits how long a request is repeated",
    "kafka.max.in.flight.requests.per.connection": "leave it out",
    "kafka.buffer.memory": "leave it out",
    "kafka.max.block.ms": "use task.timeout.ms, which limits how long a request is repeated",
    "kafka.partitioner.class": "rows go by the hash of their key; a column partition sets another",
    "includeHeaders": "leave it out, since a column headers is always written",
    "asyncProgressTrackingEnabled": _COMMIT_ORDER,
    "asyncProgressTrackingCheckpointIntervalMs": _COMMIT_ORDER,
}
_CODECS: Final = {
    "none": Compression.NONE,
    "gzip": Compression.GZIP,
    "snappy": Compression.SNAPPY,
    "lz4": Compression.LZ4,
    "zstd": Compression.ZSTD,
}
_BOOL: Final = {"true": True, "false": False}


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """The options of one writer."""

    bootstrap: str
    topic: str | None = None
    """For every row, as with Spark's own sink; None takes the topic of each row from the column `topic`."""
    pipeline: str | None = None
    """The transactional id; None is the query's name, or its id."""
    query_name: str | None = None
    checkpoint: str | None = None
    """The folder of the query, as Spark was given it."""
    progress_topic: str | None = None
    adopt_checkpoint: bool = False
    compression: Compression = Compression.NONE
    batch_bytes: int | None = None
    """The most bytes of records in one batch of the log; None is Eosin's own choice."""
    transaction_timeout_ms: int = TRANSACTION_TIMEOUT_MS
    task_timeout_ms: int = TASK_TIMEOUT_MS
    retry_backoff_ms: int = RETRY_BACKOFF_MS
    request_timeout_ms: int = REQUEST_TIMEOUT_MS
    security: SecuritySettings = PLAIN

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> Self:
        """From the options of a Spark writer, whose names may have any case. Raises ConflictingSettings with all that
        is wrong."""
        lower = {name.lower(): value for name, value in options.items()}
        is_off = lower.get("asyncprogresstrackingenabled", "").strip().lower() == "false"
        without = {name: why for name, why in _WITHOUT.items() if not (is_off and name.startswith("asyncProgress"))}
        known = (*_KNOWN, *(_WITHOUT.keys() - without.keys()))
        given = GivenOptions("sink", options, known, without)
        # Transactions need both anyway, so an existing job may keep its lines.
        given.choice(_ACKS, {"all": True, "-1": True}, default=True)
        given.choice(_IDEMPOTENCE, {"true": True}, default=True)
        found = cls(
            bootstrap=given.bootstrap(),
            topic=given.text("topic"),
            pipeline=given.text("pipeline"),
            query_name=lower.get("queryname", "").strip() or None,
            checkpoint=lower.get("checkpointlocation", "").strip() or None,
            progress_topic=given.text("progressTopic"),
            adopt_checkpoint=given.choice("adoptCheckpoint", _BOOL, default=False),
            compression=given.choice(_COMPRESSION, _CODECS, default=Compression.NONE),
            batch_bytes=given.number(_BATCH_SIZE, None, least=1),
            transaction_timeout_ms=given.number(_TRANSACTION_TIMEOUT, TRANSACTION_TIMEOUT_MS, least=1),
            task_timeout_ms=given.number("task.timeout.ms", TASK_TIMEOUT_MS, least=0),
            retry_backoff_ms=given.number("kafka.retry.backoff.ms", RETRY_BACKOFF_MS, least=0),
            request_timeout_ms=given.number("kafka.request.timeout.ms", REQUEST_TIMEOUT_MS, least=1),
            security=given.security(),
        )
        given.check()
        return found

    def pipeline_of(self, query: str | None) -> str | None:
        """The transactional id for a query with this id; None if nothing names it."""
        return self.pipeline or self.query_name or (None if query is None else pipeline_of_query(query))


def pipeline_of_query(query: str) -> str:
    """The pipeline of a query that has no name, by its id."""
    return f"eosin-{query}"
