"""`Knowledge`: the facts that this broker has, as `eosin explain` asks for them (console.md 3).

The same values that `eosin explain` builds from Kafka's APIs, with what only the broker itself knows: who asked, why a
pair was fenced, which markers are outstanding.
"""

from collections.abc import Callable, Iterable
from typing import Final

import msgspec

from eosin.broker.hanging_transactions import GRACE_MS
from eosin.broker.services import Services
from eosin.coordinator.transactions.rules.state import NO_TIMESTAMP, STATE_NAMES, Txn
from eosin.network.connection import ServerConnection
from eosin.observe.explain.facts import (
    NO_TIME,
    BrokerFacts,
    MarkersLeft,
    OldestRecords,
    PartitionFacts,
    ProducerFacts,
    ProducerPlace,
    ShareWindows,
    StallFacts,
    TransactionFacts,
)
from eosin.observe.explain.sentences import noteworthy
from eosin.observe.explain.troubles import BrokerTroubles, GoneClient, NotedId, OfflineLog
from eosin.observe.recorder.events import ClientIdentity, EventKind, TransactionHistory, identity_of
from eosin.observe.recorder.group_events import GroupHistory
from eosin.observe.recorder.group_recorder import GroupRecorder
from eosin.observe.recorder.recorder import FlightRecorder
from eosin.observe.survey.shared_partitions import SharedPartitions
from eosin.observe.survey.slices import ROW, in_slices
from eosin.observe.survey.survey import Survey
from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import TopicPartition
from eosin.runtime.loop_watch import LoopWatch, Stall
from eosin.storage.log.retention import oldest_segment

SOURCE: Final = "the broker's flight recorder"
BROKER: Final = "the broker"
MOST_TROUBLES: Final = 50
"""Of each kind."""
MOST_PLACES: Final = 50
"""Partitions of a producer id that are told."""


class Knowledge:
    """The facts that one broker knows."""

    def __init__(
        self,
        services: Services,
        survey: Survey,
        recorder: FlightRecorder | None,
        groups: GroupRecorder | None = None,
        loop: LoopWatch | None = None,
        connections: Callable[[], Iterable[ServerConnection]] = tuple,
    ) -> None:
        self._services = services
        self._survey = survey
        self._loop = loop
        self._recorder = recorder
        self._groups = groups
        self._connections = connections
        self._shared = SharedPartitions(services)

    async def transaction(self, transactional_id: str) -> TransactionFacts | None:
        """One transactional id; None when it is not known here."""
        return self.transaction_now(transactional_id)

    def transaction_now(self, transactional_id: str) -> TransactionFacts | None:
        """The same, at once."""
        transactions = self._services.transactions
        history = None if self._recorder is None else self._recorder.history(transactional_id)
        if history is not None and history.gone_ms >= 0 and self._is_back(history.opened_by or history.owner):
            history = msgspec.structs.replace(history, is_back=True)
        txn = transactions.txn(transactional_id)
        if txn is None or txn.is_fresh:
            if history is None:
                return None
            return TransactionFacts(
                transactional_id, self._services.clock.now_ms(), "", history=history, sources=(SOURCE,)
            )
        return _facts(
            txn,
            now_ms=self._services.clock.now_ms(),
            node_id=self._services.cluster.node_id,
            left=tuple(str(each) for each in transactions.markers_to_write(transactional_id)),
            history=history,
            expires_after_ms=self._services.config.transactional_id_expiration_ms,
        )

    def _is_back(self, who: ClientIdentity | None) -> bool:
        """True if a client with the name and the address of one whose connections have closed is connected."""
        if who is None:
            return False
        host = who.peer.rpartition(":")[0]
        return any(
            each.client_id == who.client_id
            for connection in self._connections()
            if connection.session.host == host
            for each in connection.contexts.values()
        )

    async def producer(self, name: str) -> ProducerFacts | None:
        """The facts of this broker's partitions about a producer id; None if they do not know it."""
        if not (name.isdecimal() and len(name) < 19):
            return None
        producer_id, clock = int(name), self._services.clock
        after_ms = self._services.config.producer_id_expiration_ms
        found: list[ProducerPlace] = []

        async for some in self._survey.logs():
            for log in some:
                entry = log.producer_state.get(producer_id)
                if entry is not None:
                    found.append(
                        ProducerPlace(
                            str(log.topic_partition),
                            entry.producer_epoch,
                            entry.last_sequence,
                            entry.last_append_ms,
                            NO_TIME if entry.has_transaction else entry.last_append_ms + after_ms,
                            entry.has_transaction,
                        )
                    )
        if not found:
            return None
        found.sort(key=lambda each: (-each.last_ms, each.partition))
        left_out = max(0, len(found) - MOST_PLACES)
        return ProducerFacts(producer_id, clock.now_ms(), tuple(found[:MOST_PLACES]), left_out, (BROKER,))

    async def group(self, group_id: str) -> GroupHistory | None:
        """The recorded events of a group; None if they are not recorded here."""
        if self._groups is None:
            return None
        history, last_commit_ms = self._groups.history(group_id), self._services.groups.last_commit_ms(group_id)
        if history is None and last_commit_ms < 0:
            return None
        known = history or GroupHistory(self._groups.since_ms)
        return msgspec.structs.replace(known, last_commit_ms=last_commit_ms)

    async def share_group(self, group_id: str) -> ShareWindows | None:
        """The partitions of a share group that this broker coordinates, with what is under way; None if there is no
        such group."""
        group = self._services.groups.share.describe(group_id)
        return None if isinstance(group, ErrorCode) else ShareWindows(tuple(await self._shared.of(group)))

    async def broker(self, _: str) -> BrokerFacts | None:
        """The stalls of this broker's event loop; None when nobody watches it."""
        loop = self._loop
        if loop is None:
            return None
        return BrokerFacts(
            self._services.cluster.node_id,
            self._services.clock.now_ms(),
            loop.since_ms,
            dict(loop.counts),
            tuple(_stall(each) for each in reversed(loop.recent)),
            None if loop.longest is None else _stall(loop.longest),
            (BROKER,),
            self._services.partitions.is_disk_full,
        )

    async def troubles(self) -> BrokerTroubles:
        """Everything that this broker itself knows to be wrong now."""
        services = self._services
        now_ms = services.clock.now_ms()
        offline: list[OfflineLog] = []
        async for logs in self._survey.logs():
            for log in logs:
                if log.failure is not None and len(offline) < MOST_TROUBLES:
                    offline.append(OfflineLog(str(log.topic_partition), str(log.failure)))
        gone: list[GoneClient] = []
        noted: list[NotedId] = []
        tracks = [] if self._recorder is None else self._recorder.all_tracks()
        async for some in in_slices(tracks, ROW):
            for name, track in some:
                gone_ms = track.gone_ms if track.begun_ms >= 0 and track.prepared_ms < 0 else NO_TIME
                if (
                    gone_ms >= 0
                    and len(gone) < MOST_TROUBLES
                    and not self._is_back(identity_of(track.opened_by or track.owner))
                ):
                    gone.append(GoneClient(name, gone_ms, track.begun_ms, track.partitions))
                notable = noteworthy(track.notable, track.past, now_ms)
                if notable is not None:
                    noted.append(NotedId(name, notable))
        noted.sort(key=lambda each: -each.notable.latest_ms)
        return BrokerTroubles(
            services.cluster.node_id,
            now_ms,
            services.partitions.is_disk_full,
            tuple(offline),
            tuple(gone),
            tuple(noted[:MOST_TROUBLES]),
        )

    async def partition(self, name: str) -> PartitionFacts | None:
        """The facts about a partition that only its broker knows: why its log is offline, and when a hanging
        transaction heals."""
        partition = _partition_of(name)
        if partition is None:
            return None
        log = self._services.partitions.hosted_log(partition)
        if log is None:
            return None
        seen, oldest = self._survey.state_of(log), oldest_segment(log)
        return PartitionFacts(
            name,
            self._services.clock.now_ms(),
            leader=self._services.cluster.node_id,
            log_start=seen.log_start,
            last_stable=seen.last_stable,
            high_watermark=seen.high_watermark,
            error=seen.failure,
            heals_after_ms=self._services.config.transaction_max_timeout_ms + GRACE_MS,
            is_disk_full=self._services.partitions.is_disk_full,
            sources=(BROKER,),
            oldest=None if oldest is None else OldestRecords(*oldest),
        )


def _stall(stall: Stall) -> StallFacts:
    told, step = (stall.at_ms, stall.ms, stall.worked_ms, stall.cause), stall.step
    if step is None:
        return StallFacts(*told)
    return StallFacts(*told, step.work, step.api, step.principal, step.client_id, step.peer, step.size_bytes)


def _partition_of(name: str) -> TopicPartition | None:
    topic, dash, index = name.rpartition("-")
    return TopicPartition(topic, int(index)) if dash and index.isdecimal() and len(index) < 10 else None


def _facts(
    txn: Txn,
    *,
    now_ms: int,
    node_id: int,
    left: tuple[str, ...],
    history: TransactionHistory | None,
    expires_after_ms: int,
) -> TransactionFacts:
    markers = None
    if txn.is_preparing:
        refused = (
            ()
            if history is None
            else tuple(
                each.what
                for each in history.events
                if each.kind == EventKind.MARKER_REFUSED and each.what.split(" ")[0] in left
            )
        )
        markers = MarkersLeft(left, len(txn.partitions), tuple(dict.fromkeys(reversed(refused))))
    return TransactionFacts(
        txn.transactional_id,
        now_ms,
        STATE_NAMES[txn.state],
        producer_id=txn.producer_id,
        producer_epoch=txn.producer_epoch,
        timeout_ms=txn.timeout_ms,
        start_ms=txn.start_ms if not txn.is_at_rest else NO_TIMESTAMP,
        updated_ms=txn.updated_ms,
        never_times_out=txn.never_times_out,
        partitions=tuple(sorted(str(each) for each in txn.partitions)),
        coordinator=node_id,
        markers=markers,
        in_doubt=txn.pending is not None and txn.pending.in_doubt,
        history=history,
        sources=("the coordinator", *((SOURCE,) if history is not None else ())),
        forgotten_ms=txn.updated_ms + expires_after_ms if txn.is_at_rest else NO_TIME,
    )
