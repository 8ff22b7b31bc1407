"""The marker of a runner: which partitions its application has read before, and which run of it was the last.

Group offsets expire, this record does not: it lies in the compacted topic `<application>-progress`. Always true: it is
written in the transaction that commits the offsets of what it names; every run writes one of its own before it does
anything else; and a topic that was read once stays in it.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Self

from eosin.client.client import Client
from eosin.pipeline.common.progress_marker import last_record, progress_topic, unreadable
from eosin.protocol.names import TopicPartition
from eosin.protocol.records.batch import NewRecord
from eosin.runtime.clock import Clock

VERSION: Final = 1
_NO_LETTER_OF_A_TOPIC: Final = re.compile(r"[^a-zA-Z0-9._-]")
_LONGEST_NAME: Final = 200


@dataclass(frozen=True, slots=True)
class ReadTopic:
    """A topic that was read, and how much of it."""

    topic_id: str
    """Empty when brokers gave none."""
    partitions: int
    """Those from 0 on, below this, have had an offset of the group."""


@dataclass(frozen=True, slots=True)
class InputMarker:
    """What an application has read before."""

    run: str
    """The run that wrote it."""
    topics: Mapping[str, ReadTopic] = field(default_factory=dict)

    def has_read(self, partition: TopicPartition, topic_id: str) -> bool:
        """Whether an offset was committed for this partition of the topic with this id (empty: not known)."""
        read = self.topics.get(partition.topic)
        if read is None or partition.partition >= read.partitions:
            return False
        return not topic_id or not read.topic_id or topic_id == read.topic_id

    def record(self, application: str) -> NewRecord:
        """The record that holds it."""
        topics = {name: {"id": each.topic_id, "partitions": each.partitions} for name, each in self.topics.items()}
        fields = {"v": VERSION, "run": self.run, "read": topics}
        return NewRecord(application.encode(), json.dumps(fields, separators=(",", ":")).encode())

    @classmethod
    def parse(cls, value: bytes) -> Self:
        """The marker that a record's value is. Raises ValueError with a sentence."""
        try:
            fields = json.loads(value)
            if fields["v"] != VERSION:
                raise ValueError(f"it has version {fields['v']}, and this release of Eosin knows version {VERSION}")
            topics = {
                str(name): ReadTopic(str(each["id"]), int(each["partitions"])) for name, each in fields["read"].items()
            }
            return cls(str(fields["run"]), topics)
        except (KeyError, TypeError, AttributeError, json.JSONDecodeError, UnicodeDecodeError) as error:
            raise ValueError(f"it is no marker of a runner: {value[:80]!r}") from error


def marker_topic(application: str) -> str:
    """The topic of the marker. Two applications may share one: the key of the record is the whole name."""
    return progress_topic(_NO_LETTER_OF_A_TOPIC.sub("_", application)[:_LONGEST_NAME])


async def read_input_marker(client: Client, application: str, *, timeout_ms: int, clock: Clock) -> InputMarker | None:
    """The committed marker, None if there is none. Raises BadProgressTopic, ClientError, TimeoutError."""
    topic = marker_topic(application)
    found = await last_record(client, application, topic, timeout_ms=timeout_ms, clock=clock)
    if found is None:
        return None
    try:
        return InputMarker.parse(found[0])
    except ValueError as error:
        raise unreadable(application, topic, error) from error
