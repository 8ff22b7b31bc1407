"""Takes batches that are in the log into the state of their producers: for replays and for followers.

Nothing is refused here: the log is the authority (storage.md 5.4, cluster.md 4.13).
"""

import logging
from typing import Final

from eosin.protocol.records.batch import BatchHeader, CorruptRecords
from eosin.protocol.records.scan import marker_of
from eosin.storage.disk.interfaces import Buffer
from eosin.storage.producers.state import EndedTransaction, ProducerState

_LOG: Final = logging.getLogger("eosin.storage")


def apply_batch(
    state: ProducerState, header: BatchHeader, batch: Buffer, *, log_name: object, now_ms: int
) -> EndedTransaction | None:
    """Take a producer's batch into `state`; the transaction that it ended, if it is a marker. Of a batch of data only
    the header is looked at. `log_name` is for the log file."""
    if not header.is_control:
        state.data_appended(header, header.base_offset, max_timestamp=header.max_timestamp, now_ms=now_ms)
        return None
    try:
        marker = marker_of(batch, header)
    except CorruptRecords as error:
        _LOG.warning("%s: the control batch at offset %d: %s", log_name, header.base_offset, error)
        return None
    if marker is None:  # of a kind that says nothing about transactions, or emptied by compaction
        if not header.records_count:
            state.empty_marker_found(header, now_ms)
        return None
    return state.marker_appended(
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        coordinator_epoch=marker.coordinator_epoch,
        commit=marker.is_commit,
        offset=header.last_offset,
        timestamp=header.max_timestamp,
        now_ms=now_ms,
    )
