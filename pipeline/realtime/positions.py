"""The position of a Real-time Mode pipeline in each partition that it reads, and the marker of each.

Both are written by `TxnWriter.java`, in the transaction of the rows. Always true: a position is an offset of the
pipeline's group, so that tools show its lag and an operator can set it; its metadata counts the rows that were written
of the last offset, since one record may become several rows; and a marker, which does not expire as offsets do, names
each partition that has ever had a position.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Self

from eosin.pipeline.common.progress_marker import marker_fields
from eosin.protocol.names import TopicPartition

VERSION: Final = 1
_ALL: Final = (1 << 63) - 1
_DRIVER: Final = "driver"


@dataclass(frozen=True, slots=True)
class WrittenPosition:
    """The last row that was written of one partition of the source."""

    offset: int
    """Of the record that the row came from."""
    rows: int
    """The number of rows of that record that were written."""
    topic_id: str = ""
    """As text; empty for an offset that a tool has set."""

    @classmethod
    def of(cls, committed: int, metadata: str) -> Self:
        """From a committed offset. Everything before an offset that a tool has set counts as written."""
        try:
            fields = json.loads(metadata)
            found = cls(int(fields["offset"]), int(fields["rows"]), str(fields["topic_id"]))
            if fields["v"] == VERSION and found.offset + 1 == committed:
                return found
        except (KeyError, TypeError, ValueError):
            pass
        return cls(committed - 1, _ALL)

    @property
    def committed(self) -> int:
        """The offset to commit, which is the next one to read as tools see it."""
        return self.offset + 1

    @property
    def next_offset(self) -> int:
        """The first offset of which rows may be missing. It is the last one, unless a tool has set the position."""
        return self.committed if self.rows == _ALL else self.offset

    def metadata(self, at_ms: int) -> str:
        """The text to commit with the offset when the driver commits it again. The time shows others that it does."""
        fields: dict[str, object] = {"v": VERSION}
        if self.rows != _ALL:
            fields |= {"offset": self.offset, "rows": self.rows, "topic_id": self.topic_id}
        return json.dumps({**fields, "owner": _DRIVER, "at": at_ms}, separators=(",", ":"))


@dataclass(frozen=True, slots=True)
class PartitionMarker:
    """A partition of the source that has had a position."""

    partition: TopicPartition
    topic_id: str

    @classmethod
    def parse(cls, value: bytes) -> Self:
        """The marker in the value of a record. Raises ValueError with a sentence."""
        with marker_fields(value, VERSION, kind="marker of a partition") as fields:
            return cls(TopicPartition(str(fields["topic"]), int(fields["partition"])), str(fields["topic_id"]))


def transactional_id(pipeline: str, partition: TopicPartition) -> str:
    """The transactional id for one partition of the source. No topic has a colon in its name, so ids never collide."""
    return f"{pipeline}:{partition.topic}:{partition.partition}"


def is_of(pipeline: str, key: str) -> bool:
    """True if a key of the progress topic is a transactional id of this pipeline."""
    name, colon, rest = key.rpartition(":")[0].rpartition(":")
    return bool(colon and rest) and name == pipeline


def starting_offsets(positions: Mapping[TopicPartition, WrittenPosition]) -> str:
    """The value of Spark's option `startingOffsets` with which a new checkpoint goes on exactly."""
    by_topic: dict[str, dict[str, int]] = {}
    for each in sorted(positions):
        by_topic.setdefault(each.topic, {})[str(each.partition)] = positions[each].next_offset
    return json.dumps(by_topic)
