"""A share group (KIP-932) on a broker that is killed: a member that accepts numbers, and rejects some.

It reads the feeder's topic, in which a number's offset is that number. It keeps what the broker has answered, and
raises an AssertionError as soon as the broker contradicts it: a number whose acknowledgement was answered is not
delivered again, none is left out, and each rejected one has a dead letter (KIP-1191).
"""

import contextlib
from collections.abc import Iterator
from typing import Any, Final

from crash_load import until
from wire import Wire, unique
from wire_share_fetcher import NONE, Fetcher
from wire_share_group import ShareMember, where

from eosin.client.errors import ClientError
from eosin.protocol.names import TopicPartition
from eosin.protocol.records.batch import batches, iter_records
from eosin.protocol.schemas.metadata import MetadataRequest, MetadataRequestTopic
from eosin.protocol.schemas.share_fetch import PartitionData

SETTINGS: Final = {
    "group.share.delivery.count.limit": "10",
    "group.share.assignment.interval.ms": "0",
    "group.share.min.assignment.interval.ms": "0",
}
"""Of the broker: each kill may deliver a number once more."""
ACCEPT, REJECT = 1, 3
REJECTED_OF: Final = 40
"""One of so many numbers is rejected."""
WAIT_MS: Final = 20
"""Of each fetch: so long nothing is asked while there is nothing to read."""
_BROKEN: Final = (ClientError, OSError)


class Sharer:
    """One member after the other: a connection that fails ends it."""

    def __init__(self, address: str, topic: str, partitions: int) -> None:
        self.group = unique("sharing")
        self.topic = topic
        self.letters_to = f"dlq.{topic}"
        self.settled: list[set[int]] = [set() for _ in range(partitions)]
        """The numbers whose acknowledgements were answered."""
        self.rejected: list[set[int]] = [set() for _ in range(partitions)]
        """Those of them that were rejected."""
        self.delivered: list[set[int]] = [set() for _ in range(partitions)]
        self._address = address
        self._partitions = range(partitions)
        self._started = [0] * partitions
        """Where the group was seen to start: everything before is done for good."""
        self._left = [-1] * partitions
        """The numbers that it was seen to have before it. (The start may lag behind what is done: it is stored with the
        next write.)"""

    async def begin(self) -> None:
        """Make the group and the topic of its dead letters. The topic that it reads is there."""
        async with self._wire() as wire:
            await wire.create_topic(self.letters_to, errors_deadletterqueue_group_enable="true")
            settings = {"share.auto.offset.reset": "earliest", "errors.deadletterqueue.topic.name": self.letters_to}
            assert await wire.configure_group(self.group, settings) is NONE
            await ShareMember(wire, self.group).joined(self.topic, partitions=len(self._partitions))

    async def run(self) -> None:
        """Acknowledge for ever."""
        while True:
            await until(self._looks)  # the broker is there, and its coordinators are
            with contextlib.suppress(*_BROKEN):
                async with self._wire() as wire:
                    await self._live(wire)

    async def finish(self, length: int) -> None:
        """Wait until the group is done with so many numbers of each partition, and its letters are there. `run` must be
        running, and the caller has a limit."""
        await until(self._is_done, every_s=0.2)
        assert all(each == set(range(length)) for each in self.delivered), "a number was never delivered"
        await until(self._has_letters, every_s=0.2)

    @property
    def progress(self) -> str:
        """How far the group is, in a sentence."""
        rejected = sum(map(len, self.rejected))
        return f"the share group starts at {self._started}, {self._left} are left, {rejected} were rejected"

    async def look(self) -> None:
        """Check that the group starts nowhere before it did."""
        before = list(self._started)
        await until(self._looks)
        assert all(now >= then for now, then in zip(self._started, before, strict=True)), (before, self._started)

    # --- what a member does

    async def _live(self, wire: Wire) -> None:
        """Be a member as long as the connection lasts, or a session of it."""
        member = ShareMember(wire, self.group)
        if (await member.join(self.topic)).error_code:
            return  # the group is being loaded
        topic_id = await self._topic_id(wire)
        fetchers = [Fetcher(wire, self.group, topic_id, each) for each in self._partitions]
        while True:
            if (await member.heartbeat()).error_code:
                return
            for each in fetchers:
                answer = await each.response(max_wait_ms=WAIT_MS)
                if answer.error_code:
                    return
                for data in (part for topic in answer.responses for part in topic.partitions):
                    await self._settle(each, data)

    async def _settle(self, fetcher: Fetcher, data: PartitionData) -> None:
        number = fetcher.partition
        for acquired in data.acquired_records:
            offsets = range(acquired.first_offset, acquired.last_offset + 1)
            values = dict(_values(data, offsets))
            assert values == {each: each for each in offsets}, f"{self.topic}-{number}: {values} at {offsets}"
            again = self.settled[number].intersection(offsets)
            assert not again, f"{self.topic}-{number}: {sorted(again)} are delivered again, and were acknowledged"
            self.delivered[number].update(offsets)
            types = tuple(REJECT if each % REJECTED_OF == 0 else ACCEPT for each in offsets)
            if await fetcher.acknowledge((offsets.start, offsets.stop - 1, types)) is NONE:
                self.settled[number].update(offsets)
                self.rejected[number].update(each for each in offsets if each % REJECTED_OF == 0)

    # --- what is asked of the group

    async def _is_done(self) -> bool:
        return await self._looks() and not any(self._left)

    async def _looks(self) -> bool:
        """Ask where the group starts; False if nobody can tell now."""
        with contextlib.suppress(*_BROKEN):
            async with self._wire() as wire:
                found = await where(wire, self.group, self.topic, *self._partitions)
                parts = [part for topic in found.topics for part in topic.partitions]
                if (
                    not found.error_code
                    and len(parts) == len(self._partitions)
                    and not any(e.error_code for e in parts)
                ):
                    parts.sort(key=lambda each: each.partition_index)
                    self._started = [each.start_offset for each in parts]
                    self._left = [each.lag for each in parts]
                    return True
        return False

    async def _has_letters(self) -> bool:
        with contextlib.suppress(*_BROKEN):
            async with self._wire() as wire:
                return await self._letters(wire) >= {(n, each) for n in self._partitions for each in self.rejected[n]}
        return False

    async def _letters(self, wire: Wire) -> set[tuple[int, int]]:
        """The partitions and offsets of the records that have dead letters."""
        found, at, partition = set(), 0, TopicPartition(self.letters_to, 0)
        end = await wire.end_offset(partition)
        while at < end:
            data = bytes((await wire.fetch(partition, at)).records or b"")
            for position, header in batches(data):
                for each in iter_records(data[position : position + header.size]):
                    told = {name: int(value or b"-1") for name, value in each.headers if name.endswith(_PLACE)}
                    found.add((told["__dlq.errors.partition"], told["__dlq.errors.offset"]))
                at = header.last_offset + 1
        return found

    async def _topic_id(self, wire: Wire) -> bytes:
        topics = (MetadataRequestTopic(name=self.topic),)
        answer = await wire.ask(MetadataRequest(topics=topics, allow_auto_topic_creation=False), 12)
        found: bytes = answer.topics[0].topic_id
        return found

    @contextlib.asynccontextmanager
    async def _wire(self) -> Any:
        wire = await Wire.open(self._address)
        try:
            yield wire
        finally:
            await wire.close()


_PLACE: Final = (".errors.offset", ".errors.partition")


def _values(data: PartitionData, offsets: range) -> Iterator[tuple[int, int]]:
    """The offsets and numbers of the records that were acquired; whole batches come along."""
    content = bytes(data.records or b"")
    for position, header in batches(content):
        for each in iter_records(content[position : position + header.size]):
            if each.offset in offsets:
                yield each.offset, int(each.value or b"-1")
