"""A stopped data directory checked as a whole: every partition by itself, then transactions across partitions.

Owns the order: cluster metadata first, since it names the topics, then the coordinator's log, since it says what the
partitions must hold. Nothing is changed.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

import msgspec

from eosin.coordinator.groups.log.check import GroupCheck
from eosin.coordinator.hashing import partition_for
from eosin.coordinator.share_state.log.check import StateCheck, state_name
from eosin.coordinator.transactions.log.check import TransactionCheck, TransactionFinding
from eosin.coordinator.transactions.log.records import CorruptTransactionLog
from eosin.protocol.names import (
    CONSUMER_OFFSETS_TOPIC,
    METADATA_TOPIC,
    SHARE_GROUP_STATE_TOPIC,
    TRANSACTION_STATE_TOPIC,
    ZERO_UUID,
    TopicPartition,
)
from eosin.storage.checkpoints.cleaner_offsets import gaps_below
from eosin.storage.disk.checkpoint_formats import (
    PARTITION_METADATA,
    RECOVERY_POINT,
    MalformedCheckpoint,
    decode_partition_metadata,
)
from eosin.storage.disk.interfaces import Disk
from eosin.storage.disk.meta_properties import DirectoryKind
from eosin.storage.inspection.directory import Directory, read_directory
from eosin.storage.inspection.partition_check import CheckOrder, PartitionCheck
from eosin.storage.inspection.segment_values import record_values
from eosin.storage.inspection.segment_walk import FoundBatch
from eosin.storage.inspection.topics import KnownTopics
from eosin.storage.inspection.values import ERROR, WARNING, Decoded, FileProblem, Value

_DECODED: tuple[str, ...] = (
    METADATA_TOPIC,
    TRANSACTION_STATE_TOPIC,
    CONSUMER_OFFSETS_TOPIC,
    SHARE_GROUP_STATE_TOPIC,
)
"""The topics whose records are decoded, in the order in which they are checked."""


class TransactionsFound(Value, frozen=True, kw_only=True, tag="transactions"):
    """The number of transactional ids in each state."""

    states: dict[str, int]


class CheckSummary(Value, frozen=True, kw_only=True, tag="summary"):
    """The last value."""

    errors: int
    warnings: int


@dataclass(slots=True)
class _Findings:
    """Problems that wait to be reported, and how many there were."""

    root: str
    waiting: list[FileProblem] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=lambda: {ERROR: 0, WARNING: 0})

    def add(self, problem: FileProblem) -> None:
        """Note a problem; its file is named relative to the directory."""
        self.counts[problem.severity] += 1
        file = problem.file.removeprefix(f"{self.root}/")
        self.waiting.append(msgspec.structs.replace(problem, file=file))

    def pop_waiting(self) -> list[FileProblem]:
        """Return the problems that were noted since the last call, and forget them."""
        taken, self.waiting = self.waiting, []
        return taken


class DirectoryCheck:
    """One check of one directory, whose lock the caller holds."""

    def __init__(self, disk: Disk, path: str) -> None:
        self._disk = disk
        self._path = path
        self._findings = _Findings(path)
        self._topics = KnownTopics()
        self._transactions: TransactionCheck | None = None
        self._internal: GroupCheck | StateCheck | None = None
        """Of the partition that is being read, if it is one of groups or of states."""

    def run(self) -> Iterator[Value]:
        """Everything that is found, the problems of each partition behind it. Raises UnusableDirectory, OSError."""
        directory = read_directory(self._disk, self._path)
        yield directory.value
        for problem in directory.problems:
            self._findings.add(problem)
        order = sorted(directory.partitions, key=_rank)
        # Partitions alone, without the coordinator's log and without topics, are judged by themselves.
        # A broker of a quorum has some of the partitions, and follows others: nothing can be compared then.
        is_whole = bool(order) and order[0].topic in (METADATA_TOPIC, TRANSACTION_STATE_TOPIC)
        is_whole = is_whole and directory.properties.kind is not DirectoryKind.KRAFT
        for partition in order:
            if is_whole and self._transactions is None and partition.topic != METADATA_TOPIC:
                self._transactions = self._transaction_check()
            yield from self._partition(directory, partition)
        self._check_vanished(directory)
        if self._transactions is not None:
            self._finish(directory, self._transactions)
            yield TransactionsFound(self._path, states=self._transactions.states)
        yield from self._findings.pop_waiting()
        yield CheckSummary(self._path, errors=self._findings.counts[ERROR], warnings=self._findings.counts[WARNING])

    def _transaction_check(self) -> TransactionCheck:
        topic = self._topics.get(TRANSACTION_STATE_TOPIC)
        return TransactionCheck(self._since, partitions=None if topic is None else topic.partitions)

    def _since(self, partition: TopicPartition) -> int | None:
        """The time since which a partition exists; None if it does not, or if the time is unknown."""
        topic = self._topics.get(partition.topic)
        return None if topic is None or partition.partition >= topic.partitions else topic.since_ms

    # One partition --------------------------------------------------------------------------------------------------

    def _partition(self, directory: Directory, partition: TopicPartition) -> Iterator[Value]:
        path = f"{self._path}/{partition}"
        errors = self._findings.counts[ERROR]
        self._internal = _internal_check(partition)
        check = PartitionCheck(
            self._disk,
            CheckOrder(
                partition=partition,
                directory=path,
                is_clean=directory.is_clean,
                same_boot=directory.same_boot,
                recovery_point=directory.recovery_points.get(partition, 0),
                log_start_offset=directory.log_starts.get(partition, 0),
                knows_log_start=partition in directory.log_starts,
                high_watermark=directory.high_watermarks.get(partition, 0),
                may_be_compacted=self._topics.may_be_compacted(partition.topic),
                was_compacted=directory.cleaner_offsets.get(partition, 0) > 0,
                gaps_below=gaps_below(
                    directory.cleaner_offsets.get(partition, 0), directory.own_cleaner_offsets.get(partition, 0)
                ),
                has_sequences=partition.topic not in _DECODED,
                is_replica=directory.properties.kind is DirectoryKind.KRAFT,
            ),
            self._findings.add,
            lambda found: self._show(partition, path, found),
        )
        found = check.run()
        self._check_topic(directory, partition)
        facts = check.facts
        if self._internal is not None and facts.is_reliable:
            for verdict in self._internal.finish():
                self._add_finding(path, verdict)
        if partition.topic == METADATA_TOPIC:
            self._topics.is_known = True
        elif partition.topic == TRANSACTION_STATE_TOPIC and self._transactions is not None:
            is_sound = facts.is_reliable and self._findings.counts[ERROR] == errors
            self._transactions.is_reliable &= is_sound
            self._transactions.is_complete &= facts.has_every_marker
        elif self._transactions is not None:
            for verdict in self._transactions.judge(partition, facts):
                self._add_finding(path, verdict)
        yield msgspec.structs.replace(found, file=str(partition))
        yield from self._findings.pop_waiting()

    def _show(self, partition: TopicPartition, path: str, found: FoundBatch) -> None:
        """A sound batch: what internal topics say is decoded."""
        if partition.topic == TRANSACTION_STATE_TOPIC and self._transactions is not None:
            try:
                for verdict in self._transactions.show(partition.partition, found.data):
                    self._add_finding(path, verdict)
            except CorruptTransactionLog as error:
                self._add_finding(path, TransactionFinding(ERROR, str(error), found.header.base_offset))
        elif partition.topic in _DECODED:
            for value in record_values(path, found, partition.topic):
                if isinstance(value, FileProblem):
                    self._findings.add(value)
                elif self._internal is not None and value.decoded is not None:
                    self._check_home(path, partition, value.decoded, value.offset)
                    for verdict in self._internal.show(value.decoded, value.offset):
                        self._add_finding(path, verdict)
            if partition.topic == METADATA_TOPIC:
                self._topics.show(found)

    def _check_home(self, path: str, partition: TopicPartition, decoded: Decoded, offset: int) -> None:
        """Check that a record of a group, or of a share partition's state, is in the partition that it belongs to."""
        topic = self._topics.get(partition.topic)
        if topic is None or not decoded.key:
            return
        if partition.topic == SHARE_GROUP_STATE_TOPIC:
            name, what = state_name(decoded), "the state of"
        else:
            name, what = decoded.key.get("group") or decoded.key.get("group_id", ""), "group"
        if not name:
            return  # without a group it is the end of a topic's offsets, in each partition that has some
        home = partition_for(name, topic.partitions)
        if home != partition.partition:
            self._add_finding(path, TransactionFinding(ERROR, f"{what} {name!r} belongs to partition {home}", offset))

    def _add_finding(self, path: str, verdict: TransactionFinding) -> None:
        self._findings.add(FileProblem(path, reason=verdict.reason, offset=verdict.offset, severity=verdict.severity))

    def _check_topic(self, directory: Directory, partition: TopicPartition) -> None:
        """Check that the directory belongs to the topic of its name."""
        path = f"{self._path}/{partition}/{PARTITION_METADATA}"
        topic_id = ZERO_UUID
        try:
            topic_id = decode_partition_metadata(self._disk.read_whole(path))
        except FileNotFoundError:
            pass
        except MalformedCheckpoint as error:
            severity = ERROR if directory.is_clean else WARNING
            self._findings.add(FileProblem(path, reason=str(error), severity=severity))
        if not self._topics.is_known or partition.topic == METADATA_TOPIC:
            return
        topic = self._topics.get(partition.topic)
        if topic is None or partition.partition >= topic.partitions:
            what = "it belongs to no topic, so the next start sets it aside"
        elif ZERO_UUID not in (topic_id, topic.topic_id) and topic_id != topic.topic_id:
            what = "it belongs to an older topic of this name, so the next start sets it aside"
        else:
            return
        self._findings.add(FileProblem(str(partition), reason=what, severity=WARNING))

    # Across partitions ----------------------------------------------------------------------------------------------

    def _check_vanished(self, directory: Directory) -> None:
        present = frozenset(directory.partitions)
        for partition, offset in directory.recovery_points.items():
            if offset and partition not in present:
                # A topic may have been deleted right before the stop; one that exists has lost its records, and the
                # log that tells which those are is never deleted.
                may_be_gone = partition.topic != METADATA_TOPIC and self._since(partition) is None
                severity = WARNING if may_be_gone else ERROR
                reason = f"{RECOVERY_POINT} says offset {offset}, but there is no log"
                self._findings.add(FileProblem(str(partition), reason=reason, severity=severity))

    def _finish(self, directory: Directory, transactions: TransactionCheck) -> None:
        if not transactions.is_reliable:
            what = "transactions were not compared with the partitions, since what is said of them is damaged"
            self._findings.add(FileProblem(TRANSACTION_STATE_TOPIC, reason=what, severity=WARNING))
        present = frozenset(directory.partitions)
        for partition, reason in transactions.never_judged():
            if partition not in present:
                self._findings.add(FileProblem(str(partition), reason=reason))


def _internal_check(partition: TopicPartition) -> GroupCheck | StateCheck | None:
    """The check of a partition's records against one another, if it is one of groups or of states."""
    if partition.topic == CONSUMER_OFFSETS_TOPIC:
        return GroupCheck()
    return StateCheck() if partition.topic == SHARE_GROUP_STATE_TOPIC else None


def _rank(partition: TopicPartition) -> tuple[int, TopicPartition]:
    """Metadata first, then transactions, then everything else by name."""
    return (_DECODED.index(partition.topic) if partition.topic in _DECODED else len(_DECODED)), partition
