"""`Operations`: everything that a test asks of a broker, each a coroutine in the loop that has the client.

Always true: what Kafka's protocol tells is asked over it, so that it can be asked of any broker; `inside` is the broker
itself where it is one of the lab, and what only that knows raises NotToldError elsewhere. Readers of committed records
wait until markers that are under way are written, so that a test that reads after its commit reads what it committed.
"""

from collections.abc import AsyncIterator, Sequence
from typing import Final, Protocol

from eosin.client.admin import Admin
from eosin.client.client import Client
from eosin.client.consumer import EARLIEST, LATEST, ConsumedRecord, Consumer
from eosin.client.errors import BrokerError, check
from eosin.client.features import FeatureAdmin
from eosin.client.offsets import list_offsets
from eosin.client.partitioning import partition_of_key
from eosin.client.producer import Producer
from eosin.client.transactions import DescribedTransaction, TransactionAdmin
from eosin.lab.clock_operations import ClockOperations
from eosin.lab.common.errors import LabError, NotToldError, unknown
from eosin.lab.common.values import (
    AbortedRange,
    ConnectionInWork,
    OpenInPartition,
    PartitionName,
    ReadRecord,
    StoredBatch,
    TransactionSeen,
    TransactionStep,
)
from eosin.lab.crash.instances import InstanceOperations
from eosin.lab.crash.life import Life, LifeOperations
from eosin.lab.disk.disk_operations import DiskOperations, HasDisk
from eosin.lab.faults.operations import FaultOperations
from eosin.lab.group_operations import GroupOperations
from eosin.lab.history.operations import HistoryOperations
from eosin.lab.inside import Inside
from eosin.lab.network.operations import NetworkOperations
from eosin.lab.nodes.operations import NodeOperations
from eosin.lab.verdict.operations import VerdictOperations
from eosin.observe.explain.cluster_facts import ClusterFacts
from eosin.observe.explain.subjects import find
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.names import IsolationLevel, TopicPartition
from eosin.protocol.records.batch import NewRecord, batches, read_control_record
from eosin.protocol.schemas.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData
from eosin.runtime.clock import SystemClock

ISOLATIONS: Final = {
    "read_committed": IsolationLevel.READ_COMMITTED,
    "read_uncommitted": IsolationLevel.READ_UNCOMMITTED,
}
Text = str | bytes | None
"""A key or a value: text is written as UTF-8, None is a tombstone."""

_READ_MS: Final = 30_000
_FETCH_BYTES: Final = 8 * 1024 * 1024
_POLL_MS: Final = 50
_NO_SESSION_EPOCH: Final = -1
_AT_REST: Final = frozenset({"Empty", "CompleteCommit", "CompleteAbort", "Dead", "PrepareCommit", "PrepareAbort"})


class WholeBroker(Life, HasDisk, Protocol):
    """A broker of the lab, from its start to its close."""


class Operations(
    HistoryOperations,
    VerdictOperations,
    FaultOperations,
    ClockOperations,
    GroupOperations,
    LifeOperations,
    DiskOperations,
    InstanceOperations,
    NetworkOperations,
    NodeOperations,
):
    """The requests that tests make of one broker."""

    def __init__(
        self,
        client: Client,
        inside: Inside | None = None,
        *,
        timeout_ms: int = 10_000,
        life: WholeBroker | None = None,
    ) -> None:
        self._client = client
        self._inside = inside
        self.recording = None if inside is None else inside.recording
        self._timeout_ms = timeout_ms
        self._life = self._has_disk = life
        self._instances = []

    @property
    def client(self) -> Client:
        """The client that asks."""
        return self._client

    def follow(self, inside: Inside) -> None:
        """The broker has begun another life, and the client has followed."""
        self._inside = inside

    async def close(self) -> None:
        """Close the client."""
        await self._client.close()

    def _inside_for(self, what: str) -> Inside:
        if self._inside is None:
            raise NotToldError(f"only a broker of the lab tells {what}")
        return self._inside

    # Topics ---------------------------------------------------------------------------------------------------------

    async def create_topic(self, name: str, partitions: int, configs: dict[str, str]) -> None:
        """Create a topic."""
        await Admin(self._client).create_topic(name, partitions, configs=dict(configs))
        await self._client.fetch_metadata([name])

    async def create_topics(self, topics: dict[str, int]) -> None:
        """Create topics of so many partitions."""
        for name, partitions in topics.items():
            await Admin(self._client).create_topic(name, partitions)

    async def delete_topic(self, name: str) -> None:
        """Delete a topic."""
        await self._partitions(name)
        await Admin(self._client).delete_topics([name])

    async def topic_names(self) -> list[str]:
        """The topics, without internal ones."""
        topics = (await self._client.fetch_metadata()).topics
        return sorted(name for name, each in topics.items() if not each.is_internal)

    async def partition_count(self, name: str) -> int:
        """The number of partitions of a topic."""
        return len(await self._partitions(name))

    async def read(self, name: str, isolation: str, partition: int | None) -> list[ReadRecord]:
        """The records of a topic, by partition and offset."""
        chosen = _isolation(isolation)
        await self._markers_written()
        partitions = await self._partitions(name, partition)
        consumer = Consumer(self._client, isolation=chosen)
        await consumer.assign_from(partitions)
        return _by_place(await consumer.read_to_end(_READ_MS))

    async def read_some(
        self, name: str, count: int, isolation: str, partition: int | None, timeout_ms: int
    ) -> list[ReadRecord]:
        """The first `count` records of a topic or more, as soon as they can be read. Raises LabError."""
        chosen = _isolation(isolation)
        partitions = await self._partitions(name, partition)
        consumer = Consumer(self._client, isolation=chosen)
        await consumer.assign_from(partitions)
        found: list[ConsumedRecord] = []
        clock = SystemClock()
        deadline = clock.elapsed_ms() + timeout_ms
        while True:
            left_ms = deadline - clock.elapsed_ms()
            found += await consumer.poll(max(0, min(_POLL_MS, left_ms)))
            if len(found) >= count:
                return _by_place(found)
            if left_ms <= 0:
                why = await self.explain(name)
                raise LabError(f"{name} has {len(found)} of {count} records after {timeout_ms / 1000:g} s: {why}")

    async def batches(self, name: str, partition: int | None) -> list[StoredBatch]:
        """The batches of a topic, markers too."""
        await self._markers_written()
        found = []
        for each in await self._partitions(name, partition):
            async for data in self._fetched(each, IsolationLevel.READ_UNCOMMITTED):
                for position, header in batches(data.records or b""):
                    bytes_of = memoryview(data.records or b"")[position : position + header.size]
                    control = read_control_record(bytes_of) if header.is_control else None
                    found.append(
                        StoredBatch(
                            each.partition,
                            header.base_offset,
                            header.last_offset,
                            header.records_count,
                            header.producer_id,
                            header.producer_epoch,
                            header.base_sequence,
                            header.is_transactional,
                            None if control is None else "commit" if control.is_commit else "abort",
                        )
                    )
        return found

    async def aborted(self, name: str, partition: int) -> list[AbortedRange]:
        """The aborted transactions of a partition that a committed reader is told of."""
        await self._markers_written()
        (each,) = await self._partitions(name, partition)
        found: dict[AbortedRange, None] = {}
        async for data in self._fetched(each, IsolationLevel.READ_COMMITTED):
            for aborted in data.aborted_transactions or ():
                found[AbortedRange(aborted.producer_id, aborted.first_offset)] = None
        return sorted(found, key=lambda one: one.first_offset)

    async def open_in(self, name: str, partition: int) -> list[OpenInPartition]:
        """The transactions that a partition holds open, by offset."""
        await self._markers_written()
        found = await TransactionAdmin(self._client).open_transactions(await self._partitions(name, partition))
        return [
            OpenInPartition(each.producer.producer_id, each.producer.producer_epoch, each.start_offset)
            for each in found
        ]

    async def end_offset(self, name: str, partition: int, isolation: str) -> int:
        """The high watermark, or for committed readers the last stable offset."""
        chosen = _isolation(isolation)
        await self._markers_written()
        (each,) = await self._partitions(name, partition)
        return (await list_offsets(self._client, {each: LATEST}, isolation=chosen))[each]

    async def _fetched(self, partition: TopicPartition, isolation: IsolationLevel) -> AsyncIterator[PartitionData]:
        """All batches of a partition."""
        ends = await list_offsets(self._client, {partition: LATEST}, isolation=isolation)
        position = (await list_offsets(self._client, {partition: EARLIEST}))[partition]
        while position < ends[partition]:
            metadata = await self._client.metadata(partition.topic)
            asked = FetchPartition(partition.partition, fetch_offset=position, partition_max_bytes=_FETCH_BYTES)
            topic = FetchTopic(partition.topic, metadata.topic_id(partition.topic), (asked,))
            request = FetchRequest(
                max_wait_ms=0,
                min_bytes=0,
                max_bytes=_FETCH_BYTES,
                isolation_level=isolation,
                session_epoch=_NO_SESSION_EPOCH,
                topics=(topic,),
            )
            answer: FetchResponse = await self._client.request(ApiKey.FETCH, request, node=metadata.leader(partition))
            check(answer.error_code, f"fetching from {partition}")
            ((data,),) = (each.partitions for each in answer.responses)
            check(data.error_code, f"fetching from {partition}")
            before = position
            for _, header in batches(data.records or b""):
                position = header.next_offset
            if position == before:
                return
            yield data

    async def _partitions(self, name: str, partition: int | None = None) -> list[TopicPartition]:
        """The partitions of a topic, or the one of them that is named. Raises LabError."""
        found = (await self._client.fetch_metadata([name])).topics.get(name)
        if found is None or found.error:
            raise unknown("topic", name, await self.topic_names())
        if partition is None:
            return [TopicPartition(name, index) for index in sorted(found.partitions)]
        if partition not in found.partitions:
            raise LabError(f"topic {name} has the partitions 0 to {len(found.partitions) - 1}, and no {partition}")
        return [TopicPartition(name, partition)]

    async def set_features(self, levels: dict[str, int]) -> None:
        """Bring features of the cluster to these levels, up or down."""
        admin = FeatureAdmin(self._client)
        known = {each.name: each for each in await admin.describe()}
        for name in levels:
            if name not in known:
                raise unknown("feature", name, known)
        raised = {name: level for name, level in levels.items() if level > known[name].level}
        lowered = {name: level for name, level in levels.items() if level < known[name].level}
        if raised:
            await admin.upgrade(raised)
        if lowered:
            await admin.downgrade(lowered)

    # Writing --------------------------------------------------------------------------------------------------------

    async def produce(
        self,
        name: str,
        values: Sequence[Text],
        key: Text,
        headers: dict[str, Text],
        timestamp: int | None,
        partition: int | None,
        transactional_id: str | None,
        commit: bool,
    ) -> list[int]:
        """Write records, in a transaction if an id is given; their offsets. A topic that is not there is created."""
        metadata = await self._client.fetch_metadata([name])
        if name not in metadata.topics or metadata.topics[name].error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            await self.create_topic(name, 1, {})
        partitions = await self._partitions(name)
        key_bytes = _bytes_of(key)
        if partition is not None:
            (place,) = await self._partitions(name, partition)
        else:
            place = partitions[0 if key_bytes is None else partition_of_key(key_bytes, len(partitions))]
        pairs = tuple((each, _bytes_of(value)) for each, value in headers.items())
        now_ms = SystemClock().now_ms() if timestamp is None else timestamp
        records = [NewRecord(key_bytes, _bytes_of(value), now_ms, pairs) for value in values]
        if transactional_id is None and not commit:
            raise LabError("commit=False leaves a transaction open: name its transactional_id")
        if not records:
            return []
        producer = Producer(self._client, transactional_id)
        if transactional_id is not None:
            await producer.init()
            producer.begin()
        first = await producer.send(place, records)
        if transactional_id is not None and commit:
            await producer.commit()
        return list(range(first, first + len(records)))

    # Transactions ---------------------------------------------------------------------------------------------------

    async def transaction(self, transactional_id: str) -> TransactionSeen | None:
        """One transactional id; None if it has not been used."""
        try:
            found = await TransactionAdmin(self._client).describe(transactional_id)
        except BrokerError as error:
            if error.code is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
                return None
            raise
        return _transaction_of(found)

    async def outcomes(self, transactional_id: str) -> list[str]:
        """The outcomes of the id's transactions, in order; the last one may be `open`."""
        inside = self._inside_for("the outcomes of transactions")
        found = inside.outcomes(transactional_id)
        txn = inside.txn(transactional_id)
        if txn is not None and not txn.is_fresh and not txn.is_at_rest:
            found.append(inside.decided(transactional_id) if txn.is_preparing else "open")
        return found

    async def timeline(self, transactional_id: str) -> list[TransactionStep]:
        """Steps in the recent life of the id, oldest first; nothing for an id that has not been used."""
        facts = self._inside_for("the timeline of an id").facts(self._client)
        found = await find(facts, transactional_id, "txn")
        return [
            TransactionStep(each.at_ms, each.kind, each.producer_id, each.producer_epoch, each.words or each.what)
            for each in found.timeline
        ]

    async def abort_transaction(self, transactional_id: str) -> None:
        """Abort what is open under the id, and fence its producer, as an operator does."""
        if await self.transaction(transactional_id) is None:
            raise unknown("transactional id", transactional_id, await self.transactional_ids())
        await TransactionAdmin(self._client).force_terminate(transactional_id)
        await self._markers_written()

    async def expire_transaction(self, transactional_id: str) -> None:
        """Jump to the deadline of the transaction that is open under the id: it times out."""
        seen = await self.transaction(transactional_id)
        if seen is None:
            raise unknown("transactional id", transactional_id, await self.transactional_ids())
        if seen.deadline is None:
            raise LabError(f"{transactional_id} has no open transaction with a deadline")
        await self.advance_to(seen.deadline, False)

    async def open_transactions(self) -> list[TransactionSeen]:
        """All transactions that are open, by id."""
        await self._markers_written()
        admin = TransactionAdmin(self._client)
        found = []
        for each in await admin.list_transactions(states=("Ongoing", "PrepareCommit", "PrepareAbort")):
            seen = await self.transaction(each.transactional_id)
            if seen is not None and (seen.deadline is not None or seen.state not in _AT_REST):
                found.append(seen)
        return found

    async def transactional_ids(self) -> list[str]:
        """The transactional ids that the broker knows."""
        return [each.transactional_id for each in await TransactionAdmin(self._client).list_transactions()]

    async def _markers_written(self) -> None:
        """Wait for the markers of transactions whose outcome is decided, as far as they can be written."""
        if self._inside is None:
            return
        clock = SystemClock()
        deadline = clock.elapsed_ms() + self._inside.markers_ms
        while self._inside.has_markers_to_write() and clock.elapsed_ms() < deadline:
            await clock.sleep(1)

    # Seeing into it -------------------------------------------------------------------------------------------------

    async def explain(self, subject: str) -> str:
        """Explain why a transactional id, a partition, a topic or a group is as it is."""
        facts = (
            ClusterFacts(self._client, http=None, token=None, timeout_ms=self._timeout_ms)
            if self._inside is None
            else self._inside.facts(self._client)
        )
        return (await find(facts, subject, None)).text

    async def fences(self, transactional_id: str) -> list[str]:
        """The causes for which producers of an id were fenced, as the coordinator's recorder names them."""
        return self._inside_for("why a producer was fenced").fences(transactional_id)

    async def connections(self) -> list[ConnectionInWork]:
        """The connections of clients, and the requests that each waits for."""
        return self._inside_for("who is connected").connections()


def _transaction_of(found: DescribedTransaction) -> TransactionSeen:
    has_deadline = found.is_open and not found.is_two_phase
    return TransactionSeen(
        found.transactional_id,
        found.state,
        found.producer_id,
        found.producer_epoch,
        found.timeout_ms,
        found.start_ms + found.timeout_ms if has_deadline else None,
        tuple(sorted(PartitionName(*each) for each in found.partitions)),
    )


def _by_place(records: Sequence[ConsumedRecord]) -> list[ReadRecord]:
    found = [
        ReadRecord(
            each.partition.topic,
            each.partition.partition,
            each.record.offset,
            each.record.timestamp,
            each.record.key,
            each.record.value,
            tuple((name, value) for name, value in each.record.headers),
        )
        for each in records
    ]
    return sorted(found, key=lambda each: (each.partition, each.offset))


def _isolation(name: str) -> IsolationLevel:
    if name not in ISOLATIONS:
        raise LabError(f"isolation is {' or '.join(ISOLATIONS)}, not {name!r}")
    return ISOLATIONS[name]


def _bytes_of(text: Text) -> bytes | None:
    return text.encode() if isinstance(text, str) else text
