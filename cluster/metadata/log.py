"""`MetadataLog`: cluster metadata as records in `__eosin_metadata-0`, one record per change.

It is a partition log like any other: Kafka's format, the same recovery, compacted, so that the latest record of each
key is the truth and a null value means that the thing is gone.
"""

import asyncio
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from eosin.model.cluster import METADATA_PARTITION
from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import Uuid
from eosin.protocol.records.batch import NewRecord, build_batch, iter_records
from eosin.protocol.records.internal import decode_key, decode_value, encode_key, encode_value
from eosin.protocol.schemas.records import cluster_metadata
from eosin.protocol.types import DecodeError, Message
from eosin.runtime.clock import Clock
from eosin.storage.log.config import LogConfig
from eosin.storage.results.log_results import AppendOrigin, Refused

if TYPE_CHECKING:
    from eosin.storage.log.partition_log import PartitionLog

METADATA_TOPIC_ID: Final[Uuid] = bytes(15) + b"\x01"
"""Fixed, as Kafka's own metadata topic has a fixed id."""
METADATA_LOG_CONFIG: Final = LogConfig(cleanup_policy=frozenset({"compact"}), max_message_bytes=33_554_432)
"""A request with 10,000 access control entries is one batch."""

_VALUE_VERSION: Final = 0
_VALUES: Final = {kind.key.struct: kind.value.struct for kind in cluster_metadata.KINDS}


class UnreadableMetadata(Exception):
    """The metadata log holds something that this version cannot read; serving without it would lose topics."""


class MetadataLog:
    """Reads all records once, at start; then writes."""

    def __init__(self, log: "PartitionLog", clock: Clock) -> None:
        self._log = log
        self._clock = clock

    @property
    def log_end_offset(self) -> int:
        """The next offset to be written."""
        return self._log.log_end_offset

    @property
    def high_watermark(self) -> int:
        """Everything below is as durable as configured."""
        return self._log.high_watermark

    def records(self) -> Iterator[tuple[Message, Message | None]]:
        """Every (key, value) in the order written; a value of None is a tombstone. Raises `UnreadableMetadata`."""
        for batch in self._log.batches():
            for record in iter_records(batch):
                assert record.key is not None, "every metadata record has a key"
                try:
                    yield _decoded(record.key, record.value)
                except DecodeError as error:
                    raise UnreadableMetadata(f"{METADATA_PARTITION}, offset {record.offset}: {error}") from error

    def put(self, records: Sequence[tuple[Message, Message | None]]) -> "asyncio.Future[ErrorCode]":
        """Write records by key, now, as one batch: all of them survive, or none. The future is done with NONE when they
        are durable, else with KAFKA_STORAGE_ERROR."""
        now_ms = self._clock.now_ms()
        written = [
            NewRecord(encode_key(key), None if value is None else encode_value(value, _VALUE_VERSION))
            for key, value in records
        ]
        batch = build_batch(written, timestamp=now_ms)
        result = self._log.append(batch, now_ms=now_ms, origin=AppendOrigin.COORDINATOR)
        if isinstance(result, Refused):
            failed: asyncio.Future[ErrorCode] = asyncio.get_running_loop().create_future()
            failed.set_result(ErrorCode.KAFKA_STORAGE_ERROR)
            return failed
        return self._log.durable(result.last_offset + 1)


def _decoded(key_bytes: bytes, value_bytes: bytes | None) -> tuple[Message, Message | None]:
    key = decode_key(cluster_metadata.KINDS, key_bytes)
    if key is None:
        raise DecodeError("a kind of record that this version does not know")
    return key, None if value_bytes is None else decode_value(_VALUES[type(key)], value_bytes)
