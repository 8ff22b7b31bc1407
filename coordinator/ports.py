"""What the coordinators need from the broker, declared by them and implemented by `eosin.broker.partitions`.

Nothing here assumes that a log, a partition or a coordinator is on this machine: whoever implements it answers
NOT_LEADER_OR_FOLLOWER when it is not.
"""

from asyncio import Future
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

import msgspec

from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.names import TopicPartition
from eosin.storage.results.log_results import AppendOrigin, AppendResult, Marker

if TYPE_CHECKING:
    from eosin.coordinator.groups.rules.events import Event as GroupEvent
    from eosin.coordinator.groups.rules.group import Group
    from eosin.coordinator.transactions.entries import PendingRequest
    from eosin.coordinator.transactions.rules.effects import Effects
    from eosin.coordinator.transactions.rules.events import Event
    from eosin.coordinator.transactions.rules.state import Txn


class CoordinatorLog(Protocol):
    """One partition of an internal topic, as its coordinator uses it."""

    @property
    def leader_epoch(self) -> int:
        """The partition's leader epoch, which is the coordinator's epoch. Strictly higher after every start."""

    @property
    def log_end_offset(self) -> int:
        """The next offset to be written."""

    @property
    def high_watermark(self) -> int:
        """Everything below is as durable as configured."""

    def append(self, batch: bytes, *, now_ms: int, origin: AppendOrigin) -> AppendResult:
        """Check and write one batch, now, without waiting. Its base offset is assigned by the log."""

    def append_records(
        self, records: bytes, *, count: int, now_ms: int, awaited: bool = True, bounded: bool = True
    ) -> AppendResult:
        """The same for `count` encoded records of no producer's, of which the log makes a batch. `awaited` is False
        when nobody waits for it to be durable: the log may then take its time. Unless it is `bounded` no setting is
        too small for the batch."""

    def append_marker(self, marker: Marker, *, now_ms: int) -> AppendResult:
        """Write a transaction marker, now, without waiting."""

    def durable(self, end_offset: int) -> "Future[ErrorCode]":
        """Done with NONE once the high watermark is at or beyond `end_offset`; with KAFKA_STORAGE_ERROR when the log
        has failed. Already done when there is nothing to wait for. Cancelling it undoes nothing."""

    def runs(self, from_offset: int = 0) -> "Iterator[memoryview]":
        """Every batch from `from_offset`, where one begins, or the log start to the log end, in order, in pieces of one
        or more whole batches. What is appended meanwhile comes too."""


class CoordinatorLogs(Protocol):
    """The partitions of one internal topic."""

    @property
    def partition_count(self) -> int:
        """How many partitions the topic has; fixed for its life."""

    def log(self, partition: int) -> CoordinatorLog | ErrorCode:
        """The log when this broker leads the partition, else NOT_COORDINATOR."""


class MarkersForPartitions(msgspec.Struct, frozen=True, gc=False):
    """One marker and the partitions of one node that must get it."""

    marker: Marker
    partitions: tuple[TopicPartition, ...]


class MarkerTarget(Protocol):
    """Where markers go: this broker's own partitions, or another broker over the wire."""

    async def write_markers(
        self, markers: Sequence[MarkersForPartitions]
    ) -> Mapping[tuple[int, TopicPartition], ErrorCode]:
        """Write each marker to each of its partitions and wait until they are durable (and, for `__consumer_offsets`,
        until the offsets are visible). Answers one code per (producer id, partition); raises OSError when the target
        cannot be reached.

        It is begun outside a task, so that it can end at once: up to its first wait it must not ask for its own task,
        as `asyncio.timeout` does."""


class MarkerTargets(Protocol):
    """Finds the leader of a partition for the marker sender."""

    def target(self, partition: TopicPartition) -> MarkerTarget | ErrorCode:
        """The target that leads `partition`; LEADER_NOT_AVAILABLE when it has no leader now; UNKNOWN_TOPIC_OR_PARTITION
        only when current metadata says that it does not exist any more."""


class ProducerIds(Protocol):
    """Where blocks of producer ids come from (cluster metadata)."""

    async def allocate_block(self) -> range:
        """The next block, durable before it is returned. Raises OSError when it cannot be stored."""


class TransactionVerifier(Protocol):
    """What a partition leader or the group coordinator asks the coordinator of a transactional id (KIP-890), on this
    broker or on another.

    Both methods are begun outside a task. A coordinator on this broker answers `verify` without a wait, so its answer
    still holds in the step that asked; that of another broker is a moment old.
    """

    async def verify(
        self,
        transactional_id: str,
        *,
        producer_id: int,
        producer_epoch: int,
        partitions: Sequence[TopicPartition],
    ) -> Mapping[TopicPartition, ErrorCode]:
        """Whether each partition is in the producer's ongoing transaction: NONE, TRANSACTION_ABORTABLE (not in it), or
        why it cannot be said (transactions.md 4.3)."""

    def add_partitions(
        self,
        transactional_id: str,
        *,
        producer_id: int,
        producer_epoch: int,
        partitions: Sequence[TopicPartition],
    ) -> "PendingRequest":
        """Add partitions to the producer's transaction, starting one if none is open; NONE once that is durable. Often
        the reply is there at once."""


class Requester(Protocol):
    """The client that sent a request, as far as its connection tells."""

    @property
    def client_id(self) -> str | None:
        """What the client calls itself."""

    @property
    def client_software_name(self) -> str:
        """The client library; empty where it does not say (KIP-511)."""

    @property
    def client_software_version(self) -> str:
        """The library's version."""

    @property
    def peer(self) -> str:
        """HOST:PORT of the client."""

    @property
    def listener(self) -> str:
        """The listener that its connection came in on."""


class TransactionObserver(Protocol):
    """Hears what a transaction coordinator has decided (console.md 2.2). It decides nothing, and must not raise.

    Called in the event loop, in the order of the decisions of each id."""

    def decided(
        self,
        before: "Txn",
        after: "Txn",
        event: "Event",
        effects: "Effects",
        request: "PendingRequest | None",
        now_ms: int,
    ) -> None:
        """`event` has turned `before` into `after`; `request` is the one that gets the reply among `effects`."""

    def refused(
        self,
        txn: "Txn | None",
        transactional_id: str,
        error: ErrorCode,
        *,
        api: ApiKey,
        pair: tuple[int, int],
        who: Requester | None,
        now_ms: int,
    ) -> None:
        """A request of `pair` was refused where nothing was decided: by a log, by a group, or because the id is not
        known (`txn` None)."""

    def waited(self, waited_ms: float) -> None:
        """A request has waited for what is under way, whatever came of it."""

    def gave_up(self, request: "PendingRequest", waited_ms: int, now_ms: int) -> None:
        """A request that waited for what is under way gets CONCURRENT_TRANSACTIONS after all."""

    def marker_refused(
        self, transactional_id: str, partition: TopicPartition, error: ErrorCode, *, now_ms: int
    ) -> None:
        """A partition has no marker yet, and `error` says why."""

    def ended_in_partitions(
        self,
        transactional_id: str | None,
        pair: tuple[int, int],
        partitions: Sequence[str],
        who: Requester | None,
        *,
        commit: bool,
        now_ms: int,
    ) -> None:
        """Markers of a transaction were written past its coordinator: for an operator `who`, or (None) since it was
        hanging. `transactional_id` is None if no coordinator knows the producer."""


class GroupObserver(Protocol):
    """Hears what a group coordinator has decided (console.md 2.2). It decides nothing, and must not raise."""

    def decided(self, before: "Group", after: "Group", event: "GroupEvent", now_ms: int) -> None:
        """`event` has turned `before` into `after`."""

    def offsets_completed(self, held: Mapping[str, int], marker: Marker, now_ms: int) -> None:
        """A transaction's marker is durable: its offsets are visible or forgotten. `held`: of how many partitions, by
        group."""

    def offsets_unstable(
        self, group_id: str, partitions: Sequence[TopicPartition], *, who: Requester | None, now_ms: int
    ) -> None:
        """A reader that wants stable offsets is told UNSTABLE_OFFSET_COMMIT for these partitions."""

    def commit_refused(
        self,
        group_id: str,
        error: ErrorCode,
        *,
        member_id: str,
        generation_id: int,
        pair: tuple[int, int] | None,
        who: Requester | None,
        now_ms: int,
    ) -> None:
        """Offsets of a group that is there were refused; `pair` is that of a transaction's producer."""
