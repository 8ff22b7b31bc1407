"""`KeyMap`: the offset of the latest record of each key in a stretch of the log: what pass 1 finds out (storage.md
14.2).

Exact: keyed by the keys themselves. Always true: it knows every key of the records below `end_offset` that pass 1 has
met; it knows nothing about records behind that.
"""

from typing import Final

from eosin.protocol.records.batch import HEADER_BYTES, CorruptRecords
from eosin.protocol.records.scan import plain_record
from eosin.storage.compaction.record_spans import KEY, OFFSET, read_spans

ENTRY_BYTES: Final = 150
"""The cost of an entry beside its key: a slot, two object headers, the number."""
FEW_KEYS: Final = 50_000
"""Up to here it takes only some milliseconds to turn the map round."""


class KeyMap:
    """Key to largest offset, in bounded memory."""

    __slots__ = (
        "_limit_bytes",
        "_put",
        "_size_bytes",
        "end_offset",
        "first_offset",
        "is_full",
        "latest",
        "offsets",
        "special",
    )

    def __init__(self, *, first_offset: int, limit_bytes: int) -> None:
        """`limit_bytes`: about the most that it may take up (`log.cleaner.dedupe.buffer.size`)."""
        self.latest: dict[bytes, int] = {}
        """For readers. Filled by `put`."""
        self.first_offset = first_offset
        """The first offset that it knows."""
        self.end_offset = first_offset
        """The offset after the last record taken in."""
        self.is_full = False
        """True if the next batch has to wait for another round. A first batch always fits."""
        self.offsets: frozenset[int] | None = None
        """For readers, when it is finished: those of `latest`, if they are few."""
        self.special: set[int] = set()
        """For readers: offsets of plain batches whose record is none that simply stays, a tombstone for instance."""
        self._limit_bytes = limit_bytes
        self._size_bytes = 0
        self._put = 0

    def __len__(self) -> int:
        return len(self.latest)

    @property
    def is_distinct(self) -> bool:
        """True if every record that was put in simply stays: none is followed by another of its key, none is special.
        Records that were not put in do not count."""
        return self._put == len(self.latest) and not self.special

    def put(self, key: bytes, offset: int) -> None:
        """A record with `key` stands at `offset`, behind all those before."""
        self._put += 1
        if key not in self.latest:
            self._size_bytes += ENTRY_BYTES + len(key)
            self.is_full = self._size_bytes >= self._limit_bytes
        self.latest[key] = offset

    def put_plain(self, base_offset: int, batch: memoryview) -> None:
        """The only record of a plain batch, if it has a key. Raises CorruptRecords."""
        payload = bytes(batch[HEADER_BYTES:])
        record = plain_record(payload)
        if record is not None:
            self.put(record[0], base_offset)
            return
        spans, end = read_spans(payload, 0, 1)
        if not spans or end != len(payload):
            raise CorruptRecords(f"the batch at offset {base_offset} does not hold what it claims")
        self.special.add(base_offset)
        key = spans[0][KEY]
        if key is not None:
            self.put(key, base_offset + spans[0][OFFSET])

    def finish(self) -> None:
        """Nothing more will be put in."""
        if len(self.latest) <= FEW_KEYS:
            self.offsets = frozenset(self.latest.values())

    def spans(self, first: int, last: int) -> bool:
        """True if pass 1 has read all of [first, last]."""
        return self.first_offset <= first and last < self.end_offset

    def has_none_of(self, first: int, last: int) -> bool:
        """True if no record in [first, last] can be the latest of its key, as far as that is known without looking:
        this spares most of the work where the same few keys are written again and again."""
        known = self.offsets
        if known is None or not self.spans(first, last):
            return False
        return known.isdisjoint(range(first, last + 1)) if first != last else first not in known
