"""`bootstrap.checkpoint`: what the first controller of a quorum writes into its empty metadata log (cluster.md 1.9).

`kafka-storage format` makes the file: a snapshot of feature levels. Always true: what Apache Kafka's tool has put into
it stays in it, in its order.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from eosin.cluster.quorum.rules.batches import LogBatch, control_records, data_records, is_whole_snapshot, whole_batches
from eosin.cluster.quorum.rules.errors import QuorumUnreadable
from eosin.protocol.records.batch import CONTROL, CorruptRecords, NewRecord, build_batch
from eosin.protocol.records.fields import encode_record
from eosin.protocol.records.header import assemble
from eosin.protocol.records.metadata import encode_metadata_record, encode_quorum_control
from eosin.protocol.schemas.records import metadata, quorum
from eosin.protocol.types import Message

FILE_NAME: Final = "bootstrap.checkpoint"
FIRST_CHECKPOINT: Final = "00000000000000000000-0000000000.checkpoint"
"""In the metadata log's folder: who votes, as `kafka-storage format --standalone` writes it."""

_NEWEST: Final = {schema.struct: schema.versions[-1] for schema in metadata.TYPES.values()}
_RECORDS_PER_BATCH: Final = 500


def metadata_records(data: bytes) -> list[Message]:
    """The metadata records of a snapshot. Raises QuorumUnreadable."""
    return [each.record for batch in _batches(data) if not batch.is_control for each in data_records(batch)]


def voters(data: bytes) -> tuple[int, ...]:
    """The ids of the voters that a snapshot names, in its last VotersRecord. Raises QuorumUnreadable."""
    found: tuple[int, ...] = ()
    for batch in _batches(data):
        for each in control_records(batch) if batch.is_control else ():
            if isinstance(each.record, quorum.VotersRecord):
                found = tuple(voter.voter_id for voter in each.record.voters)
    return found


def snapshot(records: Sequence[Message], *, now_ms: int) -> bytes:
    """A snapshot of metadata records, each at its newest version."""
    return b"".join(_encoded(records, now_ms))


def _encoded(records: Sequence[Message], now_ms: int) -> Iterator[bytes]:
    yield _control(quorum.SnapshotHeaderRecord(now_ms), base_offset=0, now_ms=now_ms)
    for first in range(0, len(records), _RECORDS_PER_BATCH):
        some = records[first : first + _RECORDS_PER_BATCH]
        values = [NewRecord(None, encode_metadata_record(record, _NEWEST[type(record)])) for record in some]
        yield bytes(build_batch(values, timestamp=now_ms, base_offset=1 + first, partition_leader_epoch=1))
    yield _control(quorum.SnapshotFooterRecord(), base_offset=1 + len(records), now_ms=now_ms)


def _control(record: Message, *, base_offset: int, now_ms: int) -> bytes:
    key, value = encode_quorum_control(record, 0)
    return bytes(
        assemble(
            encode_record(offset_delta=0, timestamp_delta=0, key=key, value=value),
            base_offset=base_offset,
            partition_leader_epoch=1,
            attributes=CONTROL,
            last_offset_delta=0,
            base_timestamp=now_ms,
            max_timestamp=now_ms,
            producer_id=-1,
            producer_epoch=-1,
            base_sequence=-1,
            records_count=1,
        )
    )


def _batches(data: bytes) -> list[LogBatch]:
    try:
        found = whole_batches(data)
    except CorruptRecords as error:
        raise QuorumUnreadable(str(error)) from error
    if not is_whole_snapshot(found):
        raise QuorumUnreadable("it is no whole snapshot")
    return found
