"""Transaction markers: where each goes, and how this broker's own partitions get theirs (transactions.md 4.7 and 5).

`MarkerRoutes` finds the broker that leads a partition. `LocalMarkers` writes into the partitions of this one. Always
true: every marker of a call is appended before any is waited for, so that a group commit takes many, and a call appends
`MARKERS_AT_ONCE` in one turn of the event loop; each
(producer id, partition) gets its own answer, whatever became of the others; and a marker on `__consumer_offsets` is
answered only when the offsets of its transaction are visible.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, Protocol

from eosin.coordinator.transactions.ports import MarkersForPartitions, MarkerTarget
from eosin.model.cluster import NO_LEADER
from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import CONSUMER_OFFSETS_TOPIC, TopicPartition
from eosin.runtime.clock import NS_PER_MS, Clock, elapsed_ns
from eosin.runtime.start_now import start_now
from eosin.runtime.turns import TURN_MS, next_turn
from eosin.storage.log.partition_log import PartitionLog
from eosin.storage.results.log_results import Appended, Marker

if TYPE_CHECKING:
    from eosin.broker.partitions import Partitions
    from eosin.coordinator.groups.coordinator import GroupCoordinator
    from eosin.model.cluster import Cluster

MARKERS_AT_ONCE: Final = 500
"""So many markers of one transaction are appended in one turn of the event loop at most: one takes some 15 us, and 100
or more where it is the first batch of its partition, whose files it makes."""
FEW_MARKERS: Final = 8
"""So many are appended before a turn counts its time."""
_NONE: Final = ErrorCode.NONE
MarkerKey = tuple[int, TopicPartition]
"""Producer id and partition: what an answer belongs to."""

_GROUP_ERRORS: Final[Mapping[ErrorCode, ErrorCode]] = {
    ErrorCode.COORDINATOR_NOT_AVAILABLE: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.NOT_COORDINATOR: ErrorCode.NOT_LEADER_OR_FOLLOWER,
}
"""The group coordinator's answers as a marker sender knows them: it expects only partition errors (4.7 rule 6)."""


class OtherBrokers(Protocol):
    """The marker targets of the other brokers in the cluster."""

    def marker_target(self, node_id: int) -> MarkerTarget | ErrorCode:
        """The target that reaches the broker `node_id`, or why there is none."""


class NoOtherBrokers:
    """The other brokers of an embedded cluster: none."""

    def marker_target(self, node_id: int) -> MarkerTarget | ErrorCode:
        """A leader elsewhere cannot be reached; it may come back to this broker."""
        return ErrorCode.NOT_LEADER_OR_FOLLOWER


class MarkerRoutes:
    """Finds the broker that leads a partition, for the marker sender (`MarkerTargets`)."""

    def __init__(self, cluster: "Cluster", *, local: MarkerTarget, others: OtherBrokers | None = None) -> None:
        self._cluster = cluster
        self._node_id = cluster.node_id
        self._local = local
        self._others = others or NoOtherBrokers()

    def target(self, partition: TopicPartition) -> MarkerTarget | ErrorCode:
        """The target of the partition's leader: this broker's own partitions, or another broker."""
        leader = self._cluster.leader_of(partition)
        if leader is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if leader == self._node_id:
            return self._local
        return ErrorCode.LEADER_NOT_AVAILABLE if leader == NO_LEADER else self._others.marker_target(leader)


class _Turn:
    """Counts the markers that are appended in one turn of the event loop, and the time that they take."""

    __slots__ = ("_count", "_elapsed_ns", "_until_ns")

    def __init__(self, elapsed_ns: Callable[[], int]) -> None:
        self._elapsed_ns = elapsed_ns
        self._count = 0
        self._until_ns = 0

    def is_over(self) -> bool:
        """True if the next marker is one of the next turn, which then begins with it."""
        count = self._count
        self._count += 1
        if count == FEW_MARKERS:
            self._until_ns = self._elapsed_ns() + TURN_MS * NS_PER_MS
        if count < MARKERS_AT_ONCE and (count <= FEW_MARKERS or self._elapsed_ns() < self._until_ns):
            return False
        self._count = 1
        return True


def _in_order() -> None:
    """Markers of this broker's own coordinators overtake each other nowhere."""


class LocalMarkers:
    """The marker target of this broker's own partitions (`MarkerTarget`)."""

    def __init__(
        self,
        partitions: "Partitions",
        *,
        clock: Clock,
        has_enough_in_sync: Callable[[PartitionLog], bool] | None = None,
    ) -> None:
        """Markers are acks=all: `has_enough_in_sync` says which partitions may take them (cluster.md 4.10); None: all
        of them."""
        self._partitions = partitions
        self._clock = clock
        self._elapsed_ns = elapsed_ns(clock)
        self._groups: GroupCoordinator | None = None
        self._has_enough_in_sync = has_enough_in_sync

    def bind(self, groups: "GroupCoordinator") -> None:
        """The owner of the offsets in `__consumer_offsets`. It comes after its transaction coordinator, which comes
        after this object."""
        self._groups = groups

    async def write_markers(
        self, markers: Sequence[MarkersForPartitions], *, check_order: Callable[[], None] = _in_order
    ) -> Mapping[MarkerKey, ErrorCode]:
        """Write each marker to each of its partitions; answer one code per (producer id, partition) when all are
        durable, and when the offsets that they decide are visible. `check_order` raises once the markers that are left
        would come too late."""
        answers: dict[MarkerKey, ErrorCode] = {}
        waiting: list[tuple[MarkerKey, Awaitable[ErrorCode]]] = []
        offsets: list[tuple[MarkerKey, Marker]] = []
        now_ms = self._clock.now_ms()
        is_short = len(markers) == 1 and len(markers[0].partitions) <= FEW_MARKERS  # as nearly all are
        turn = None if is_short else _Turn(self._elapsed_ns)
        for each in markers:
            marker = each.marker
            for partition in each.partitions:
                if turn is not None and turn.is_over():
                    await next_turn()
                    check_order()
                key = (marker.producer_id, partition)
                if partition.topic == CONSUMER_OFFSETS_TOPIC:
                    offsets.append((key, marker))
                    continue
                log = self._partitions.get(partition)
                if not isinstance(log, PartitionLog):
                    answers[key] = log
                    continue
                if self._has_enough_in_sync is not None and not self._has_enough_in_sync(log):
                    answers[key] = ErrorCode.NOT_ENOUGH_REPLICAS
                    continue
                result = log.append_marker(marker, now_ms=now_ms)
                if not isinstance(result, Appended):
                    answers[key] = result.error
                elif log.high_watermark > result.last_offset:
                    answers[key] = _NONE
                else:
                    waiting.append((key, log.durable(result.last_offset + 1)))
        if offsets:
            await self._write_offsets(offsets, answers)
        for key, durable in waiting:
            answers[key] = await durable
        return answers

    async def _write_offsets(
        self, offsets: Sequence[tuple[MarkerKey, Marker]], answers: dict[MarkerKey, ErrorCode]
    ) -> None:
        groups = self._groups
        assert groups is not None, "markers for __consumer_offsets before the group coordinator is bound"
        # All of them are appended here, before any is waited for.
        started = [start_now(groups.write_markers(key[1].partition, marker)) for key, marker in offsets]
        for (key, _), error in zip(offsets, started, strict=True):
            code = await error if isinstance(error, asyncio.Task) else error
            answers[key] = _GROUP_ERRORS.get(code, code)
