"""Records that a cleaner may have taken out of a partition: `ReplacedRecords` has seen every batch of a replica.

A replica that follows a leader whose log is compacted already never gets what was taken out there, and no checkpoint of
its own says so. Always true: nothing is called replaced unless a later committed record of its key is there, or it is
a tombstone, a marker or a record of an aborted transaction, which a cleaner takes out as well (storage.md 14).
"""

from collections.abc import Iterable

from eosin.protocol.records.batch import BatchHeader, CorruptRecords, iter_records, read_control_record
from eosin.protocol.records.fields import Record


class ReplacedRecords:
    """Give it the batches of each replica in the order of their offsets."""

    def __init__(self) -> None:
        self._latest: dict[bytes, int] = {}
        """Of each key the last committed offset."""
        self._aborted: set[int] = set()
        """First offsets of batches."""

    def see(self, batches: Iterable[tuple[BatchHeader, bytes]]) -> None:
        """Take in one replica. Damaged batches count for nothing."""
        undecided: dict[int, list[tuple[int, dict[bytes, int]]]] = {}
        for header, data in batches:
            try:
                if header.is_control:
                    marker = read_control_record(data)
                    for base_offset, keys in undecided.pop(header.producer_id, ()) if marker is not None else ():
                        if marker is not None and marker.is_commit:
                            self._replace(keys)
                        else:
                            self._aborted.add(base_offset)
                    continue
                keys = {record.key: record.offset for record in iter_records(data) if record.key is not None}
            except CorruptRecords:
                continue
            if header.is_transactional:
                undecided.setdefault(header.producer_id, []).append((header.base_offset, keys))
            else:
                self._replace(keys)

    def _replace(self, keys: dict[bytes, int]) -> None:
        for key, offset in keys.items():
            self._latest[key] = max(offset, self._latest.get(key, -1))

    def may_lack(self, header: BatchHeader, records: Iterable[Record]) -> bool:
        """True if a replica may be without these records of a batch."""
        return (
            header.is_control
            or header.base_offset in self._aborted
            or all(
                record.value is None or (record.key is not None and self._latest.get(record.key, -1) > record.offset)
                for record in records
            )
        )
