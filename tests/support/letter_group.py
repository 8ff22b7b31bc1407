"""A share group with dead letters on a broker process, for tests that take the broker or its disk away."""

from collections import Counter
from typing import Final

from wire import Wire, now_ms, unique
from wire_share_fetcher import NONE, Fetcher
from wire_share_group import ShareMember

from eosin.client.errors import ClientError
from eosin.protocol.names import TopicPartition
from eosin.protocol.records.batch import NewRecord, batches, build_batch, iter_records

SETTINGS: Final = {
    "group.share.assignment.interval.ms": "0",
    "group.share.min.assignment.interval.ms": "0",
    "offsets.topic.num.partitions": "2",
    "share.coordinator.state.topic.num.partitions": "2",
}


class LetterGroup:
    """A topic, a group that reads it, and the topic of the group's dead letters."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.group, self.topic = unique("group"), unique("orders")
        self.to = f"dlq.{self.topic}"
        self._made: Wire | None = None

    async def connected(self) -> Wire:
        """A new connection, which knows the topics."""
        wire = await Wire.open(self.address)
        if self._made is not None:
            wire.know(self._made)
        return wire

    async def begin(self, wire: Wire, records: int, *, size: int = 10) -> None:
        """Make both topics and the group, and write so many records."""
        self._made = wire
        await wire.create_topic(self.topic)
        await wire.create_topic(self.to, errors_deadletterqueue_group_enable="true")
        settings = {
            "share.auto.offset.reset": "earliest",
            "errors.deadletterqueue.topic.name": self.to,
            "errors.deadletterqueue.copy.record.enable": "true",
        }
        assert await wire.configure_group(self.group, settings) is NONE
        await ShareMember(wire, self.group).joined(self.topic)
        batch = build_batch([NewRecord(None, b"%0*d" % (size, each)) for each in range(records)], timestamp=now_ms())
        assert (await wire.produce(TopicPartition(self.topic, 0), batch)).error_code == NONE

    async def fetcher(self) -> Fetcher:
        """A new member, on a connection of its own."""
        wire = await self.connected()
        return Fetcher(wire, self.group, wire.topic_id(self.topic))

    async def letters(self, wire: Wire) -> Counter[int]:
        """The offsets of the records that have dead letters, each as often as it has one; each is a true copy."""
        found: Counter[int] = Counter()
        at, partition = 0, TopicPartition(self.to, 0)
        end = await wire.end_offset(partition)
        while at < end:
            data = bytes((await wire.fetch(partition, at)).records or b"")
            for position, header in batches(data):
                for each in iter_records(data[position : position + header.size]):
                    offset = int(dict(each.headers)["__dlq.errors.offset"] or b"")
                    assert int(each.value or b"-1") == offset
                    found[offset] += 1
                at = header.last_offset + 1
        return found


BROKEN: Final = (ClientError, OSError)
"""Of a request whose broker goes away."""
