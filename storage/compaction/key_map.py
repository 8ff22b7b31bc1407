"""`KeyMap`: the offset of the latest record of each key in a stretch of the log: what pass 1 finds out (storage.md
14.2).

Exact: keyed by the keys themselves. Always true: it knows every key of the records below `end_offset` that pass 1 has
met; about what lies behind that, it says nothing.
"""

from typing import Final

ENTRY_BYTES: Final = 150
"""What an entry costs beside its key: a slot, two object headers, the number."""


class KeyMap:
    """Key to largest offset, in bounded memory."""

    __slots__ = ("_key_bytes", "_limit_bytes", "end_offset", "latest")

    def __init__(self, *, first_offset: int, limit_bytes: int) -> None:
        """`limit_bytes`: about what it may take up (`log.cleaner.dedupe.buffer.size`)."""
        self.latest: dict[bytes, int] = {}
        """For readers. Filled by `put`."""
        self.end_offset = first_offset
        """The offset after the last record taken in."""
        self._limit_bytes = limit_bytes
        self._key_bytes = 0

    def __len__(self) -> int:
        return len(self.latest)

    @property
    def is_full(self) -> bool:
        """Whether the next batch has to wait for another round. A first batch always fits."""
        return len(self.latest) * ENTRY_BYTES + self._key_bytes >= self._limit_bytes and bool(self.latest)

    def put(self, key: bytes, offset: int) -> None:
        """A record with `key` stands at `offset`, behind all those before."""
        if key not in self.latest:
            self._key_bytes += len(key)
        self.latest[key] = offset
