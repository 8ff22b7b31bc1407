"""Facts from the data directory of a stopped broker: what `__transaction_state` still says, and the notable events
that were kept (console.md 2.4 and 3).

Always true: nothing is changed, and the directory's lock is held meanwhile; at most `MOST_BYTES` are read, and it is
said where that was not all. What is from the log names nobody: the log does not know who asked.
"""

from typing import Final

from eosin.broker.explain.facts import TransactionFacts
from eosin.broker.recorder.events import History, HistoryEvent
from eosin.broker.recorder.notable_file import NotableFile
from eosin.coordinator.transactions.log.records import Change, CorruptTransactionLog, changes
from eosin.coordinator.transactions.rules.state import NO_TIMESTAMP, STATE_NAMES, TransactionState, Txn
from eosin.protocol.names import TRANSACTION_STATE_TOPIC
from eosin.protocol.records.batch import CorruptRecords, batches
from eosin.storage.disk.interfaces import Disk
from eosin.storage.inspection.directory import lock, look_at
from eosin.storage.inspection.segment_files import log_files

MOST_BYTES: Final = 64 * 1024 * 1024
FROM_THE_LOG: Final = "from the log"
_AT_REST: Final = (TransactionState.EMPTY, TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT)


def stored_transaction(disk: Disk, path: str, transactional_id: str, now_ms: int) -> TransactionFacts:
    """What a data directory says of one id. Raises UnusableDirectory, DirectoryInUse and OSError."""
    held = lock(disk, path)
    try:
        found, stopped = _changes(disk, path, transactional_id)
        kept = [each.event for each in NotableFile(disk, path).read() if each.id == transactional_id]
    finally:
        held.release()
    history = None
    if kept or found:
        history = History(since_ms=now_ms, notable=tuple(kept), events=tuple(map(_event, found)))
    sources = (f"the files in {path}{stopped}",)
    txn = found[-1].txn if found else None
    if txn is None:
        return TransactionFacts(transactional_id, now_ms, "", history=history, sources=sources)
    return TransactionFacts(
        transactional_id,
        now_ms,
        STATE_NAMES[txn.state],
        producer_id=txn.producer_id,
        producer_epoch=txn.producer_epoch,
        timeout_ms=txn.timeout_ms,
        start_ms=NO_TIMESTAMP if txn.state in _AT_REST else txn.start_ms,
        updated_ms=txn.updated_ms,
        never_times_out=txn.never_times_out,
        partitions=tuple(sorted(str(each) for each in txn.partitions)),
        history=history,
        sources=sources,
    )


def _changes(disk: Disk, path: str, transactional_id: str) -> tuple[list[Change], str]:
    """What the log says of the id, in order, and where reading stopped, in words."""
    found: list[Change] = []
    left = MOST_BYTES
    for partition in look_at(disk, path).partitions:
        if partition.topic != TRANSACTION_STATE_TOPIC:
            continue
        for segment in log_files(disk, f"{path}/{partition}").segments:
            data = disk.read_whole(segment.log.path)
            left -= len(data)
            if left < 0:
                return found, f", of which {partition} was not read: more than {MOST_BYTES >> 20} MiB"
            try:
                for position, header in batches(data):
                    if not header.is_control:
                        batch = memoryview(data)[position : position + header.size]
                        found += [each for each in changes(batch) if each.transactional_id == transactional_id]
            except (CorruptRecords, CorruptTransactionLog):
                continue  # the torn end of a crash; `eosin check` tells of real damage
    return found, ""


def _event(change: Change) -> HistoryEvent:
    txn = change.txn or Txn(change.transactional_id)
    state = "forgotten" if change.txn is None else STATE_NAMES[txn.state]
    what = f"{state}, {FROM_THE_LOG}"
    return HistoryEvent(txn.updated_ms, "state", txn.producer_id, txn.producer_epoch, what, len(txn.partitions))
