"""`OffsetTable`: the lines of one offset checkpoint, kept so that a change of one costs nothing for the others.

Always true: `encode` has the offsets that were put last, and takes a few milliseconds for 100,000 lines: they are made
once each.
"""

from eosin.protocol.names import TopicPartition
from eosin.storage.disk.checkpoint_formats import encode_lines, offset_line


class OffsetTable:
    """Offsets by partition, as they stand in a file."""

    __slots__ = ("_lines", "_offsets", "version")

    def __init__(self) -> None:
        self._offsets: dict[TopicPartition, int] = {}
        self._lines: dict[TopicPartition, bytes] = {}
        self.version = 0
        """Grows with every change."""

    def put(self, partition: TopicPartition, offset: int) -> None:
        """Tell this offset of a partition."""
        if self._offsets.get(partition) != offset:
            self._offsets[partition] = offset
            self._lines[partition] = offset_line(partition, offset)
            self.version += 1

    def drop(self, partition: TopicPartition) -> None:
        """Tell nothing of a partition any more."""
        if self._offsets.pop(partition, None) is not None:
            del self._lines[partition]
            self.version += 1

    def encode(self) -> bytes:
        """The file."""
        return encode_lines(self._lines.values())
