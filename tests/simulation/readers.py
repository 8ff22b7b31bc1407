"""Readers: consumers that follow partitions, and what a consumer's library does with an answer to Fetch."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.names import TopicPartition
from eosin.protocol.records.batch import BatchHeader, batches, iter_records, read_control_record
from eosin.protocol.schemas.fetch import (
    AbortedTransaction,
    FetchPartition,
    FetchRequest,
    FetchTopic,
    PartitionData,
)
from eosin.protocol.schemas.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from eosin.protocol.schemas.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from eosin.protocol.schemas.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from simulation.client import Session, World
from simulation.history import Fetched, Isolation, LoggedBatch, OffsetsCommitted, OffsetsRead, Seen
from simulation.values import text_of

COMMIT = 1
EARLIEST = -2


class Slice(NamedTuple):
    """An answer to Fetch, opened."""

    batches: tuple[LoggedBatch, ...]
    visible: tuple[Seen, ...]
    next_offset: int
    last_epoch: int
    """The leader epoch of the last batch, -1 without one."""


def opened(answer: PartitionData, offset: int) -> Slice:
    """What is in an answer to a fetch from `offset` on, and what of it the application sees."""
    logged: list[LoggedBatch] = []
    visible: list[Seen] = []
    next_offset, last_epoch = offset, -1
    aborted = _Aborted(answer.aborted_transactions or ())
    for header, data in _batches(answer):
        next_offset, last_epoch = header.next_offset, header.partition_leader_epoch
        marker = ""
        values: tuple[str, ...] = ()
        offsets: tuple[int, ...] = ()
        if header.is_control:
            control = read_control_record(data)
            marker = "empty" if control is None else "commit" if control.type == COMMIT else "abort"
            aborted.marker(header, marker)
        else:
            records = [Seen(record.offset, text_of(record)) for record in iter_records(data)]
            values = tuple(record.value for record in records)
            offsets = tuple(record.offset for record in records)
            if not aborted.covers(header):
                visible += [record for record in records if record.offset >= offset]
        logged.append(
            LoggedBatch(
                header.base_offset,
                header.next_offset,
                header.producer_id,
                header.producer_epoch,
                header.base_sequence,
                header.is_transactional,
                marker,
                values,
                offsets,
            )
        )
    return Slice(tuple(logged), tuple(visible), next_offset, last_epoch)


def _batches(answer: PartitionData) -> Iterator[tuple[BatchHeader, memoryview]]:
    if answer.records:
        data = memoryview(answer.records)
        for position, header in batches(data):
            yield header, data[position : position + header.size]


class _Aborted:
    """The transactions that a consumer's library drops, while it goes through an answer."""

    def __init__(self, told: Sequence[AbortedTransaction]) -> None:
        self._told = sorted(told, key=lambda each: each.first_offset)
        self._dropping: set[int] = set()

    def covers(self, header: BatchHeader) -> bool:
        """Whether a data batch belongs to an aborted transaction."""
        while self._told and self._told[0].first_offset <= header.last_offset:
            self._dropping.add(self._told.pop(0).producer_id)
        return header.is_transactional and header.producer_id in self._dropping

    def marker(self, header: BatchHeader, marker: str) -> None:
        """A transaction ends here."""
        self.covers(header)
        if marker == "abort":
            self._dropping.discard(header.producer_id)


class Consumer:
    """Reads partitions and keeps a group's offsets."""

    def __init__(self, world: World, name: str, *, group: str = "") -> None:
        # A plain commit that comes late takes the group back: the protocol has nothing against it.
        self.session = Session(world, name, punctual=frozenset({"coordinator"}))
        self.world = world
        self.name = name
        self.group = group

    async def fetch(
        self,
        partition: TopicPartition,
        offset: int,
        isolation: Isolation,
        *,
        max_wait_ms: int = 0,
        max_bytes: int = 1 << 20,
        is_final: bool = False,
    ) -> tuple[Fetched, Slice]:
        """One answer from `offset` on."""
        history = self.world.history
        wanted = FetchPartition(partition.partition, fetch_offset=offset, partition_max_bytes=max_bytes)
        request = FetchRequest(
            max_wait_ms=max_wait_ms,
            min_bytes=1,
            max_bytes=max_bytes,
            isolation_level=isolation.value,
            topics=(FetchTopic(partition.topic, partitions=(wanted,)),),
        )
        asked = history.moment()
        response = await self.session.insist(
            ApiKey.FETCH, 11, request, lambda response: ErrorCode(response.responses[0].partitions[0].error_code)
        )
        answer = response.responses[0].partitions[0]
        piece = opened(answer, offset)
        fetched = Fetched(
            self.name,
            isolation,
            partition,
            asked,
            history.moment(),
            offset,
            piece.next_offset,
            piece.visible,
            answer.high_watermark,
            answer.last_stable_offset,
        )
        history.fetches.append(fetched)
        return fetched, piece

    async def earliest(self, partition: TopicPartition) -> int:
        """Where a log begins."""
        wanted = ListOffsetsPartition(partition.partition, timestamp=EARLIEST)
        response = await self.session.insist(
            ApiKey.LIST_OFFSETS,
            5,
            ListOffsetsRequest(-1, topics=(ListOffsetsTopic(partition.topic, (wanted,)),)),
            lambda response: ErrorCode(response.topics[0].partitions[0].error_code),
        )
        offset: int = response.topics[0].partitions[0].offset
        return offset

    async def committed(self, partition: TopicPartition) -> int:
        """The group's offset, -1 if it has none."""
        history = self.world.history
        asked = history.moment()
        topic = OffsetFetchRequestTopic(partition.topic, (partition.partition,))
        response = await self.session.insist(
            ApiKey.OFFSET_FETCH,
            7,
            OffsetFetchRequest(self.group, (topic,), require_stable=True),
            lambda response: ErrorCode(response.error_code or response.topics[0].partitions[0].error_code),
            lane="coordinator",
        )
        offset: int = response.topics[0].partitions[0].committed_offset
        history.offset_reads.append(OffsetsRead(self.group, partition, offset, asked, history.moment()))
        return offset

    async def commit(self, partition: TopicPartition, offset: int) -> None:
        """Commit an offset outside of any transaction."""
        history = self.world.history
        asked = OffsetsCommitted(self.group, partition, offset, history.moment())
        history.commits.append(asked)
        topic = OffsetCommitRequestTopic(
            partition.topic, partitions=(OffsetCommitRequestPartition(partition.partition, offset),)
        )
        response = await self.session.insist(
            ApiKey.OFFSET_COMMIT,
            8,
            OffsetCommitRequest(self.group, topics=(topic,)),
            lambda response: ErrorCode(response.topics[0].partitions[0].error_code),
            lane="coordinator",
        )
        error = response.topics[0].partitions[0].error_code
        asked.answered = history.moment()
        asked.acknowledged = not error
        if error:
            asked.error = ErrorCode(error).name
