"""The batches that a leader sends to its follower: which of them may be appended, before any of them is. Pure.

They have passed every check at the leader, so size, timestamps and sequences are not looked at again (cluster.md 4.6).
Always true: what comes back is whole, has the right checksums, and lies in order at or behind the log's end; gaps are
legal, since the leader's cleaner leaves them.
"""

from typing import Final, NamedTuple

from eosin.protocol.errors import ErrorCode
from eosin.protocol.records.batch import (
    HEADER_BYTES,
    MAGIC,
    BatchHeader,
    CorruptRecords,
    peek_magic,
    read_header,
    verify_crc,
)
from eosin.storage.disk.interfaces import Buffer
from eosin.storage.results.log_results import Refused

_OLD_FORMATS: Final = (0, 1)


class LeaderBatches(NamedTuple):
    """Batches that may be appended, one behind the other."""

    headers: list[BatchHeader]
    """Back to back from the first byte on."""
    size: int
    """Bytes of them all."""
    stopped_at_epoch: int | None
    """The leader epoch of the batch before which they end, if it is later than the one that was asked for: the leader
    has changed while it sent (KAFKA-18723)."""


def leader_batches(data: Buffer, *, log_end_offset: int, is_empty: bool, max_epoch: int) -> LeaderBatches | Refused:
    """The whole batches in `data`, for a log that ends at `log_end_offset`. A log that `is_empty` may begin with a
    batch that reaches back behind its end. Batches of an epoch above `max_epoch` are left out. Refused, all of them:
    with CORRUPT_MESSAGE for what is damaged, INVALID_RECORD for a batch below the log's end,
    UNSUPPORTED_FOR_MESSAGE_FORMAT for record formats that Eosin does not keep."""
    headers: list[BatchHeader] = []
    position = 0
    next_offset = log_end_offset
    while (magic := peek_magic(data, position)) >= 0:
        if magic in _OLD_FORMATS:
            return Refused(ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, _old_format(magic))
        if len(data) - position < HEADER_BYTES:
            break
        try:
            header = read_header(data, position)
        except CorruptRecords as error:
            return Refused(ErrorCode.CORRUPT_MESSAGE, f"behind offset {next_offset} the leader sent no batch: {error}")
        if position + header.size > len(data):
            break
        if header.partition_leader_epoch > max_epoch:
            return LeaderBatches(headers, position, header.partition_leader_epoch)
        if fault := _fault(data, position, header):
            return Refused(ErrorCode.CORRUPT_MESSAGE, f"the batch at offset {header.base_offset} {fault}")
        if header.base_offset < next_offset and (headers or not is_empty):
            where = f"the leader sent offset {header.base_offset} to a log that ends at {next_offset}"
            return Refused(ErrorCode.INVALID_RECORD, where)
        headers.append(header)
        next_offset = header.next_offset
        position += header.size
    return LeaderBatches(headers, position, None)


def _fault(data: Buffer, position: int, header: BatchHeader) -> str | None:
    if header.magic != MAGIC:
        return f"has record format {header.magic}"
    if header.last_offset_delta < 0 or header.base_offset < 0:
        return "has impossible offsets"
    return None if verify_crc(data, position, header) else "has a wrong checksum"


def _old_format(magic: int) -> str:
    return (
        f"the leader has batches of record format {magic} and Eosin keeps format 2 only: let Apache Kafka rewrite the"
        " topic, or keep its replicas on brokers of Apache Kafka"
    )
