"""The ports of the transaction coordinator: targets of markers, blocks of producer ids, questions about a
transaction, and the observer of its decisions. Declared here, and implemented by the broker and by the cluster."""

from collections.abc import Mapping, Sequence
from typing import Protocol

import msgspec

from eosin.coordinator.ports import Requester
from eosin.coordinator.transactions.entries import PendingRequest
from eosin.coordinator.transactions.rules.effects import Effects
from eosin.coordinator.transactions.rules.events import Event
from eosin.coordinator.transactions.rules.state import Txn
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.names import TopicPartition
from eosin.storage.results.log_results import Marker


class MarkersForPartitions(msgspec.Struct, frozen=True, gc=False):
    """One marker and the partitions of one node that must get it."""

    marker: Marker
    partitions: tuple[TopicPartition, ...]


class MarkerTarget(Protocol):
    """The destination of markers: this broker's own partitions, or another broker over the wire."""

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
    """The source of blocks of producer ids (cluster metadata)."""

    async def allocate_block(self) -> range:
        """The next block, durable before it is returned. Raises OSError when it cannot be stored."""


class TransactionVerifier(Protocol):
    """The questions of a partition leader or the group coordinator to the coordinator of a transactional id (KIP-890),
    on this broker or on another.

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
        """Check for each partition that it is in the producer's ongoing transaction: NONE, TRANSACTION_ABORTABLE (not
        in it), or why it cannot be said (transactions.md 4.3)."""

    def add_partitions(
        self,
        transactional_id: str,
        *,
        producer_id: int,
        producer_epoch: int,
        partitions: Sequence[TopicPartition],
    ) -> PendingRequest:
        """Add partitions to the producer's transaction, starting one if none is open; NONE once that is durable. Often
        the reply is there at once."""


class TransactionObserver(Protocol):
    """Hears what a transaction coordinator has decided (console.md 2.2). It decides nothing, and must not raise.

    Where nobody wants to hear there is None, and no object that does nothing: that would be one call more on the path
    of an EndTxn, and another one for its markers (`bench path`). For groups it is the same.

    Called in the event loop, in the order of the decisions of each id."""

    def decided(
        self,
        before: Txn,
        after: Txn,
        event: Event,
        effects: Effects,
        request: PendingRequest | None,
        now_ms: int,
    ) -> None:
        """`event` has turned `before` into `after`; `request` is the one that gets the reply among `effects`."""

    def refused(
        self,
        txn: Txn | None,
        transactional_id: str,
        error: ErrorCode,
        *,
        api: ApiKey,
        pair: tuple[int, int],
        who: Requester | None,
        now_ms: int,
        what: str = "",
    ) -> None:
        """A request of `pair` was refused where nothing was decided: by a log, by a group, or because the id is not
        known (`txn` None); `what` is the reason in words, where there is one."""

    def waited(self, waited_ms: float) -> None:
        """A request has waited for what is under way, whatever came of it."""

    def gave_up(self, request: PendingRequest, waited_ms: int, now_ms: int) -> None:
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
