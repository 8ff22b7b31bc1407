"""A batch around records that are encoded already: what coordinators write.

Always true: it is no producer's, and all its records have one timestamp, so nothing about the records but their number
is needed to make its header.
"""

from eosin.protocol.records.compression import BytesLike
from eosin.protocol.records.header import NO_LEADER_EPOCH, NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE, assemble


def plain_batch(
    payload: BytesLike,
    *,
    count: int,
    timestamp: int,
    base_offset: int = 0,
    partition_leader_epoch: int = NO_LEADER_EPOCH,
) -> bytearray:
    """A batch of no producer's, with `count` uncompressed records that all have the same `timestamp` (ms)."""
    return assemble(
        payload,
        base_offset=base_offset,
        partition_leader_epoch=partition_leader_epoch,
        attributes=0,
        last_offset_delta=count - 1,
        base_timestamp=timestamp,
        max_timestamp=timestamp,
        producer_id=NO_PRODUCER_ID,
        producer_epoch=NO_PRODUCER_EPOCH,
        base_sequence=NO_SEQUENCE,
        records_count=count,
    )
