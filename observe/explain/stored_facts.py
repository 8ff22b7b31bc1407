"""Facts from the data directory of a stopped broker: its internal topics, its logs, and the notable events that were
kept (console.md 2.4 and 3).

Always true: nothing is changed, and the directory's lock is held meanwhile; of each internal topic and of each log at
most `MOST_BYTES` are read, and it is said where that was not all. What is from the log names nobody: the log does not
know who asked.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from eosin.coordinator.groups.consumer.rules.group import ConsumerMember
from eosin.coordinator.groups.log.loader import Loader
from eosin.coordinator.groups.rules.group import Member
from eosin.coordinator.groups.rules.offset_store import OffsetStore
from eosin.coordinator.groups.share.rules.group import ShareGroup, ShareMember
from eosin.coordinator.groups.streams.rules.group import StreamsMember
from eosin.coordinator.share_state.log.loader import StateLoader
from eosin.coordinator.transactions.log.records import Change, CorruptTransactionLog, changes
from eosin.coordinator.transactions.rules.state import NO_TIMESTAMP, STATE_NAMES, TransactionState, Txn
from eosin.observe.explain.facts import (
    BrokerFacts,
    GroupFacts,
    GroupPartition,
    OpenProducer,
    PartitionFacts,
    ProducerFacts,
    ProducerPlace,
    SharedPartition,
    TransactionFacts,
)
from eosin.observe.explain.stored_groups import (
    KIND_KEYS,
    StoredGroup,
    epochs_of,
    groups_in,
    shared_partitions,
    streams_facts_of,
)
from eosin.observe.recorder.events import ClientIdentity, HistoryEvent, TransactionHistory
from eosin.observe.recorder.notable_file import NotableFile
from eosin.protocol.names import (
    CONSUMER_OFFSETS_TOPIC,
    SHARE_GROUP_STATE_TOPIC,
    TRANSACTION_STATE_TOPIC,
    TopicPartition,
)
from eosin.protocol.records.batch import BatchHeader, CorruptRecords, batches, read_control_record
from eosin.protocol.records.scan import sound_batches
from eosin.protocol.wire.codec import DecodeError
from eosin.runtime.clock import SystemClock
from eosin.storage.disk.interfaces import Disk
from eosin.storage.inspection.directory import Directory, read_directory
from eosin.storage.inspection.index_files import read_index
from eosin.storage.inspection.names import FileKind
from eosin.storage.inspection.producer_replay import ProducerReplay
from eosin.storage.inspection.segment_files import LogFiles, SegmentFiles, log_files
from eosin.storage.inspection.source import Source
from eosin.storage.inspection.values import OffsetEntry
from eosin.storage.log.batch_scan import scan_batches
from eosin.storage.producers.snapshot import CorruptSnapshot, decode_snapshot

MOST_BYTES: Final = 64 * 1024 * 1024
MOST_PARTITIONS: Final = 200
"""Of a group, and that are asked about a producer id."""
FROM_THE_LOG: Final = "from the log"
NOTHING_COMMITTED: Final = -1
_AT_REST: Final = (TransactionState.EMPTY, TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT)


class StoredFacts:
    """One data directory, whose lock the caller holds."""

    def __init__(self, disk: Disk, path: str) -> None:
        """Raises UnusableDirectory, OSError."""
        self._disk = disk
        self._path = path
        self._directory: Directory = read_directory(disk, path)
        self._clock = SystemClock()
        self._changes: list[Change] | None = None
        self._groups: tuple[Mapping[str, StoredGroup], OffsetStore] | None = None
        self.unread: list[str] = []
        """Partitions of which more than `MOST_BYTES` would have to be read."""

    @property
    def principal(self) -> str:
        """The reader of the files, in words."""
        return "you"

    def now_ms(self) -> int:
        """The time here."""
        return self._clock.now_ms()

    @property
    def source(self) -> str:
        """The source of all facts, and the parts that were not read, in words."""
        names = ", ".join(dict.fromkeys(self.unread))
        return f"the files in {self._path}{f', {MOST_BYTES >> 20} MiB at most of {names}' if names else ''}"

    # Transactional ids ----------------------------------------------------------------------------------------------

    async def transaction(self, transactional_id: str) -> TransactionFacts | None:
        """One transactional id; None when the files do not know it. Raises OSError."""
        found = [each for each in self._transactions() if each.transactional_id == transactional_id]
        kept = [each.event for each in NotableFile(self._disk, self._path).read() if each.id == transactional_id]
        if not kept and not found:
            return None
        history = TransactionHistory(since_ms=self.now_ms(), notable=tuple(kept), events=tuple(map(_event, found)))
        txn = found[-1].txn if found else None
        if txn is None:
            return TransactionFacts(transactional_id, self.now_ms(), "", history=history, sources=(self.source,))
        return TransactionFacts(
            transactional_id,
            self.now_ms(),
            STATE_NAMES[txn.state],
            producer_id=txn.producer_id,
            producer_epoch=txn.producer_epoch,
            timeout_ms=txn.timeout_ms,
            start_ms=NO_TIMESTAMP if txn.state in _AT_REST else txn.start_ms,
            updated_ms=txn.updated_ms,
            never_times_out=txn.never_times_out,
            partitions=tuple(sorted(str(each) for each in txn.partitions)),
            history=history,
            sources=(self.source,),
            is_stored=True,
        )

    async def owner_of(self, producer_id: int) -> str | None:
        """The transactional id that had a producer id last; None when none did."""
        last = {each.transactional_id: each.txn for each in self._transactions()}
        return next((name for name, txn in last.items() if txn is not None and txn.producer_id == producer_id), None)

    def _transactions(self) -> list[Change]:
        """The changes in `__transaction_state`, in order."""
        if self._changes is None:
            self._changes = []
            for data in self._internal(TRANSACTION_STATE_TOPIC):
                try:
                    for position, header in batches(data):
                        if not header.is_control:
                            self._changes += changes(memoryview(data)[position : position + header.size])
                except (CorruptRecords, CorruptTransactionLog):
                    continue  # the torn end of a crash; `eosin check` tells of real damage
        return self._changes

    def _internal(self, topic: str) -> Iterator[bytes]:
        """The segments of an internal topic."""
        left = MOST_BYTES
        for partition in self._partitions(topic):
            for segment in self._files(partition).segments:
                data = self._disk.read_whole(segment.log.path)
                left -= len(data)
                if left < 0:
                    self.unread.append(str(partition))
                    return
                yield data

    # Partitions -----------------------------------------------------------------------------------------------------

    async def partitions_of(self, topic: str) -> list[TopicPartition]:
        """The partitions whose logs lie in this directory."""
        return self._partitions(topic)

    async def partition(self, partition: TopicPartition) -> PartitionFacts:
        """One partition, and the transactions that its log holds open. Raises OSError."""
        now_ms, subject = self.now_ms(), str(partition)
        if partition not in self._partitions(partition.topic):
            return PartitionFacts(subject, now_ms, is_known=False, sources=(self.source,), is_stored=True)
        end, producers = self._log_end(partition)
        first, starts = producers.first_open, self._directory.log_starts
        files = self._files(partition).segments
        begin = max(starts.get(partition, 0), files[0].base_offset if files else 0)
        held = producers.open
        return PartitionFacts(
            subject,
            now_ms,
            leader=self._directory.properties.node_id,
            log_start=begin,
            last_stable=end if first is None else first,
            high_watermark=end,
            open=tuple([await self._held(partition, each.producer_id, each.first_offset, producers) for each in held]),
            sources=(self.source,),
        )

    async def _held(
        self, partition: TopicPartition, producer_id: int, first_offset: int, producers: ProducerReplay
    ) -> OpenProducer:
        known = producers.producers[producer_id]
        name = await self.owner_of(producer_id)
        transaction = None if name is None else await self.transaction(name)
        if transaction is not None and not transaction.ends(producer_id, known.producer_epoch, str(partition)):
            transaction = None
        indexes = [each.partition for each in self._partitions(TRANSACTION_STATE_TOPIC)]
        return OpenProducer(
            producer_id,
            known.producer_epoch,
            first_offset,
            known.last_timestamp,
            transaction,
            # Other coordinators' partitions may lie on other brokers.
            is_asked=bool(indexes) and indexes == list(range(len(indexes))) and not self.unread,
        )

    def _partitions(self, topic: str) -> list[TopicPartition]:
        return sorted(each for each in self._directory.partitions if each.topic == topic)

    def _files(self, partition: TopicPartition) -> LogFiles:
        return log_files(self._disk, f"{self._path}/{partition}")

    def _log_end(self, partition: TopicPartition) -> tuple[int, ProducerReplay]:
        """The end of a log, and its producers there, from its last sound snapshot and the batches behind it."""
        files = self._files(partition)
        replay = ProducerReplay(has_sequences=False)
        end = self._apply_snapshot(files, replay)
        segments = files.segments
        left = MOST_BYTES
        for segment, later in zip(segments, (*segments[1:], None), strict=True):
            if later is not None and later.base_offset <= end:
                continue
            with Source(self._disk, segment.log.path) as source:
                position = self._place(segment, end)
                stop = min(source.end, position + left)
                if stop < source.end:
                    self.unread.append(str(partition))
                left -= stop - position
                try:
                    for _, header, data in scan_batches(source.read, position, stop):
                        if header.base_offset >= end:
                            _replay(replay, header, data)
                            end = header.next_offset
                except CorruptRecords:
                    break  # the torn end of a crash
            end = max(end, segment.base_offset)
        return end, replay

    def _apply_snapshot(self, files: LogFiles, replay: ProducerReplay) -> int:
        """Begin with the newest snapshot that can be read; the offset that it is of."""
        for file in reversed(files.snapshots):
            try:
                entries = decode_snapshot(self._disk.read_whole(file.path))
            except CorruptSnapshot:
                continue
            for entry in sorted(entries, key=lambda each: each.transaction_first_offset):
                replay.adopt(entry)
            return file.base_offset or 0
        return files.segments[0].base_offset if files.segments else 0

    def _place(self, segment: SegmentFiles, offset: int) -> int:
        """A byte position at or before an offset, by the segment's index."""
        place = 0
        for index in segment.indexes:
            if index.kind is FileKind.OFFSET_INDEX and offset > segment.base_offset:
                rows = (row for row in read_index(self._disk, index) if isinstance(row, OffsetEntry))
                place = max((row.position for row in rows if row.offset <= offset), default=0)
        return place

    async def brokers(self) -> list[BrokerFacts]:
        """None: files tell nothing of an event loop."""
        return []

    async def producer(self, producer_id: int) -> ProducerFacts | None:
        """A producer id as the snapshots and the ends of the logs know it; None when none does. Raises OSError."""
        places = []
        for each in self._directory.partitions[:MOST_PARTITIONS]:
            known = self._log_end(each)[1].producers.get(producer_id)
            if known is not None:
                places.append(
                    ProducerPlace(
                        str(each),
                        known.producer_epoch,
                        known.last_sequence,
                        known.last_timestamp,
                        is_open=known.first_offset >= 0,
                    )
                )
        if len(self._directory.partitions) > MOST_PARTITIONS:
            self.unread.append(f"all but {MOST_PARTITIONS} partitions")
        places.sort(key=lambda each: (-each.last_ms, each.partition))
        return ProducerFacts(producer_id, self.now_ms(), tuple(places), sources=(self.source,)) if places else None

    # Groups ---------------------------------------------------------------------------------------------------------

    async def group(self, group_id: str) -> GroupFacts:
        """One group and what it has committed. Raises OSError."""
        groups, offsets = self._offsets()
        group = groups.get(group_id)
        if group is None:
            return GroupFacts(group_id, self.now_ms(), "", sources=(self.source,))
        committed, (epoch, assignment_epoch) = offsets.committed(group_id), epochs_of(group)
        partitions: list[GroupPartition] = []
        holders: dict[str, None] = {}
        for each in sorted(offsets.partitions(group_id))[:MOST_PARTITIONS]:
            told = await self.partition(each)
            for held in told.open[:1]:
                if held.transaction is not None:
                    holders[held.transaction.transactional_id] = None
            position = committed[each].offset if each in committed else NOTHING_COMMITTED
            if not told.is_known:  # its log is on another broker, or deleted
                partitions.append(GroupPartition(str(each), position, max(0, position), max(0, position)))
                continue
            partitions.append(
                GroupPartition(
                    str(each),
                    position,
                    told.last_stable,
                    told.high_watermark,
                    pending=offsets.is_pending(group_id, each),
                    records=0 if position >= told.last_stable else -1,
                    log_start=told.log_start,
                )
            )
        members: Iterable[Member | ConsumerMember | ShareMember | StreamsMember] = group.members.values()
        return GroupFacts(
            group_id,
            self.now_ms(),
            group.state.value,
            tuple(ClientIdentity(client_id=each.client_id, peer=each.client_host.lstrip("/")) for each in members),
            tuple(partitions),
            tuple(holders),
            sources=(self.source,),
            epoch=epoch,
            assignment_epoch=assignment_epoch,
            streams=streams_facts_of(group),
            shared=await self._shared(group) if isinstance(group, ShareGroup) else None,
        )

    async def _shared(self, group: ShareGroup) -> tuple[SharedPartition, ...]:
        """The partitions of a share group, by the states in `__share_group_state`."""
        states = StateLoader()
        for data in self._internal(SHARE_GROUP_STATE_TOPIC):
            run = memoryview(data)
            try:
                for head in sound_batches(run):
                    states.apply(run, head)
            except CorruptRecords:
                continue  # the torn end of a crash
        ends: dict[TopicPartition, int] = {}
        for topic in group.states.initialized.values():
            for each in sorted(TopicPartition(topic.name, number) for number in topic.partitions)[:MOST_PARTITIONS]:
                told = await self.partition(each)
                if told.is_known:
                    ends[each] = told.high_watermark
        return tuple(shared_partitions(group, states.states, ends.get)[:MOST_PARTITIONS])

    def _offsets(self) -> tuple[Mapping[str, StoredGroup], OffsetStore]:
        """The groups and offsets in `__consumer_offsets`."""
        if self._groups is None:
            offsets = OffsetStore()
            loader = Loader(offsets, KIND_KEYS)
            for data in self._internal(CONSUMER_OFFSETS_TOPIC):
                run = memoryview(data)
                try:
                    for head in sound_batches(run):
                        loader.apply(run, head)
                except (CorruptRecords, DecodeError):
                    continue  # the torn end of a crash
            loader.finish()
            self._groups = groups_in(loader), offsets
        return self._groups


def _replay(replay: ProducerReplay, header: BatchHeader, data: memoryview) -> None:
    if header.producer_id < 0:
        return
    if not header.is_control:
        replay.data(header)
    elif (marker := read_control_record(data)) is not None:
        replay.marker(header, marker)


def _event(change: Change) -> HistoryEvent:
    txn = change.txn or Txn(change.transactional_id)
    state = "forgotten" if change.txn is None else STATE_NAMES[txn.state]
    what = f"{state}, {FROM_THE_LOG}"
    return HistoryEvent(txn.updated_ms, "state", txn.producer_id, txn.producer_epoch, what, len(txn.partitions))
