"""The marker of a runner: the partitions that its application has read before, and the last run that wrote it.

Group offsets expire; this record in the compacted topic `<application>-progress` does not. Always true: the marker is
written in the transaction that commits the offsets of the partitions it names; every run writes its own marker before
anything else; and a topic that was read once stays in the marker.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Self

from eosin.client.client import Client
from eosin.pipeline.common.progress_marker import last_record, marker_fields, progress_topic, unreadable
from eosin.protocol.names import TopicPartition
from eosin.protocol.records.batch import NewRecord
from eosin.runtime.clock import Clock

VERSION: Final = 1
_NOT_ALLOWED_IN_TOPICS: Final = re.compile(r"[^a-zA-Z0-9._-]")
_LONGEST_NAME: Final = 200


@dataclass(frozen=True, slots=True)
class ReadTopic:
    """A topic that was read, and how many of its partitions."""

    topic_id: str
    """Empty if brokers give no ids (before KIP-516)."""
    partitions: int
    """Every partition below this number has had an offset of the group."""


@dataclass(frozen=True, slots=True)
class InputMarker:
    """The topics that an application has read before."""

    run: str
    """The run that wrote it."""
    topics: Mapping[str, ReadTopic] = field(default_factory=dict)

    def has_read(self, partition: TopicPartition, topic_id: str) -> bool:
        """True if an offset was committed for this partition of the topic with this id (empty: not known)."""
        read = self.topics.get(partition.topic)
        if read is None or partition.partition >= read.partitions:
            return False
        return not topic_id or not read.topic_id or topic_id == read.topic_id

    def record(self, application: str) -> NewRecord:
        """The record with this marker."""
        topics = {name: {"id": each.topic_id, "partitions": each.partitions} for name, each in self.topics.items()}
        fields = {"v": VERSION, "run": self.run, "read": topics}
        return NewRecord(application.encode(), json.dumps(fields, separators=(",", ":")).encode())

    @classmethod
    def parse(cls, value: bytes) -> Self:
        """The marker in the value of a record. Raises ValueError with a sentence."""
        with marker_fields(value, VERSION, kind="marker of a runner") as fields:
            topics = {
                str(name): ReadTopic(str(each["id"]), int(each["partitions"])) for name, each in fields["read"].items()
            }
            return cls(str(fields["run"]), topics)


def marker_topic(application: str) -> str:
    """The topic of the marker. Applications may share a topic: the key of the record is the whole application id."""
    return progress_topic(_NOT_ALLOWED_IN_TOPICS.sub("_", application)[:_LONGEST_NAME])


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
