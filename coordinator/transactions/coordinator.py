"""`TransactionCoordinator`: the transactions of the `__transaction_state` partitions that this broker leads.

Owns the entries and the partitions that they belong to. `decide` decides about an entry, and `TransactionEffectRunner`
carries the decision out. Always true: requests about an id are decided only when its partition was read to the end and
is still ours; otherwise the client is told to wait or to look for another coordinator.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

from eosin.coordinator.hashing import partition_for
from eosin.coordinator.ports import CoordinatorLogs, Requester
from eosin.coordinator.replay import replay, until_committed
from eosin.coordinator.transactions.deferred_writes import DeferredWrites
from eosin.coordinator.transactions.effect_runner import TransactionEffectRunner
from eosin.coordinator.transactions.entries import OwnedPartition, PendingRequest, TransactionEntry
from eosin.coordinator.transactions.log.loader import StateReplay
from eosin.coordinator.transactions.log.records import CorruptTransactionLog
from eosin.coordinator.transactions.marker_sender import MarkerJob, MarkerSender
from eosin.coordinator.transactions.ports import MarkerTargets, ProducerIds, TransactionObserver
from eosin.coordinator.transactions.producer_ids import ProducerIdBlocks
from eosin.coordinator.transactions.rules.config import TransactionConfig
from eosin.coordinator.transactions.rules.decide import unknown, verify
from eosin.coordinator.transactions.rules.effects import TransactionReply
from eosin.coordinator.transactions.rules.events import (
    AddPartitions,
    DeadlinePassed,
    EndTxn,
    Event,
    MarkersWritten,
    TransactionLoaded,
)
from eosin.coordinator.transactions.rules.init_producer_id import admit
from eosin.coordinator.transactions.rules.listing import (
    ListingEntry,
    ListingFilter,
    TransactionDescription,
    TransactionListing,
    describe,
)
from eosin.coordinator.transactions.rules.state import TransactionState, Txn, refusal
from eosin.coordinator.transactions.timers import Deadlines, RepeatedWork
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.names import ProducerIdAndEpoch, TopicPartition
from eosin.protocol.records.batch import CorruptRecords
from eosin.runtime.chance import Chance
from eosin.runtime.clock import Clock
from eosin.runtime.steady_time import SteadyTime
from eosin.runtime.turns import next_turn

if TYPE_CHECKING:
    from eosin.coordinator.transactions.confirmations import ReplyConfirmations

_LOG: Final = logging.getLogger(__name__)

QUIET_FENCED_ATTEMPTS: Final = 8
"""Retries before a fenced marker is logged as an error (two seconds by default): until then this broker may not know of
the other's election."""
DEADLINE_RETRY_MS: Final = 50
"""Before a timed-out transaction that could not be aborted at once is tried again."""
ENTRIES_PER_TURN: Final = 1000
"""Ids that are looked at, for a listing or a producer id, in one turn of the event loop."""
EXPIRED_IDS_PER_TURN: Final = 200
"""Tombstones of one partition that share a batch; one batch is written per turn of the event loop."""


class TransactionCoordinator:
    """Transactions as handlers, partitions and the group coordinator use them. It is a `TransactionVerifier`."""

    def __init__(
        self,
        *,
        logs: CoordinatorLogs,
        markers: MarkerTargets,
        producer_ids: ProducerIds,
        clock: Clock,
        config: TransactionConfig,
        chance: Chance,
        observer: TransactionObserver | None = None,
        confirms_responses: bool = False,
        wire_clock: Clock | None = None,
    ) -> None:
        """`observer` is told of every decision (console.md 2.2). `confirms_responses`: another broker may have become
        the coordinator, in a cluster, so no final answer is given from memory before the log has shown that it has not
        (cluster.md 6.5). Deadlines and expiry go by `clock`; requests, markers and retries wait on `wire_clock`, by
        default the same."""
        self._logs = logs
        self._clock = clock
        self._config = config
        waits = wire_clock or clock
        self._producer_ids = ProducerIdBlocks(producer_ids, clock=waits, chance=chance)
        self._markers = MarkerSender(markers, self, clock=waits, config=config, chance=chance)
        self._deferred_writes = DeferredWrites(waits, transaction_version=config.transaction_version)
        self._effect_runner = TransactionEffectRunner(
            self,
            markers=self._markers,
            deferred_writes=self._deferred_writes,
            producer_ids=self._producer_ids,
            clock=waits,
            config=config,
            chance=chance,
        )
        self._deadlines = Deadlines(
            clock,
            longest_sleep_ms=config.transaction_abort_timed_out_transaction_cleanup_interval_ms,
            due=self._deadline_passed,
        )
        self._expiry_time = SteadyTime(clock, window_ms=config.transactional_id_expiration_ms)
        self._expiry_rounds = RepeatedWork(
            clock,
            interval_ms=config.transaction_remove_expired_transaction_cleanup_interval_ms,
            work=self._expire_ids,
        )
        self._entries: dict[str, TransactionEntry] = {}
        self._owned: dict[int, OwnedPartition] = {}
        self._loading: dict[int, OwnedPartition] = {}
        self._never_loaded = True
        self._observer: TransactionObserver | None = None
        self.observe(observer)
        self._confirmations: ReplyConfirmations | None = _confirmations(clock) if confirms_responses else None
        self._effect_runner.confirmations = self._confirmations
        self.allows_two_phase = True
        """True if every broker that may have to coordinate an id knows two-phase commits (cluster.md 6.9)."""
        self._publications = 0
        """Number of partitions that were loaded so far."""
        self._loads: dict[asyncio.Task[None], None] = {}
        """The loads under way, which nobody waits for."""

    # Life -----------------------------------------------------------------------------------------------------------

    def observe(self, observer: TransactionObserver | None) -> None:
        """Tell `observer` of every decision from now on (console.md 2.2); None: nobody."""
        self._observer = self._effect_runner.observer = self._markers.observer = observer

    def use_transaction_version(self, level: int) -> None:
        """From now on the cluster's finalized level of `transaction.version` is this one: transactions that the
        coordinator itself ends, and records, are of it. A client's own transactions keep to the version that its
        requests speak, which may be any (transactions.md 4.5.6)."""
        self._config = replace(self._config, transaction_version=level)
        self._effect_runner.transaction_version = level
        self._deferred_writes.transaction_version = level

    async def load(self) -> None:
        """Get producer ids ready, and read every partition that this broker leads."""
        await self._producer_ids.fill()
        for index in range(self._logs.partition_count):
            await self.load_partition(index)
        self._never_loaded = False

    async def load_partition(self, index: int) -> None:
        """Become the coordinator of a partition (transactions.md 8). A partition whose log is corrupt is not served."""
        partition = self._begin(index)
        if partition is not None:
            await self._load(partition)

    def elect(self, index: int) -> None:
        """Become the coordinator of a partition at its present leader epoch: what was known of an older one is dropped
        now, and the log is read in the background (cluster.md 6.3)."""
        partition = self._begin(index)
        if partition is not None:
            task = asyncio.get_running_loop().create_task(self._load(partition))
            self._loads[task] = None
            task.add_done_callback(self._loads.pop)

    def _begin(self, index: int) -> OwnedPartition | None:
        """Requests are told to wait from now on, unless another broker leads the partition."""
        self.resign(index)
        log = self._logs.log(index)
        if isinstance(log, ErrorCode):
            return None
        partition = self._loading[index] = OwnedPartition(index, log)
        return partition

    async def _load(self, partition: OwnedPartition) -> None:
        index, begun_ms = partition.index, self._clock.elapsed_ms()
        txns: dict[str, Txn] | None
        try:
            txns = await self._read(partition)
        except (CorruptTransactionLog, CorruptRecords, OSError):
            _LOG.exception("__transaction_state-%d cannot be read, and is not served until it is loaded again", index)
            txns = None
        if self._loading.get(index) is not partition:
            return  # another broker leads it by now, or a newer load is under way
        del self._loading[index]
        if txns is not None:
            self._publish(partition, txns)
            if not self._never_loaded:  # it was elected while the broker runs
                took_ms = self._clock.elapsed_ms() - begun_ms
                _LOG.info("__transaction_state-%d is loaded: %d ids in %d ms", index, len(txns), took_ms)

    def start(self) -> None:
        """Start the rounds that expire unused ids. Deadlines are watched from the first load on."""
        self._expiry_rounds.start()

    async def stop(self) -> None:
        """Answer all requests, and end. Decisions are in the log: the next start carries them out."""
        self._expiry_rounds.stop()
        self._deadlines.stop()
        self._producer_ids.stop()
        self._loading.clear()
        self._deferred_writes.stop()
        for index in list(self._owned):
            self.resign(index)
        await self._markers.stop()
        loads = list(self._loads)
        for task in loads:
            task.cancel()
        await asyncio.gather(*loads, return_exceptions=True)

    def resign(self, index: int) -> None:
        """Stop being the coordinator of a partition: forget it, and answer its requests with NOT_COORDINATOR."""
        self._loading.pop(index, None)
        partition = self._owned.pop(index, None)
        if partition is None:
            return
        self._markers.drop(index)
        self._deferred_writes.drop(partition)
        if self._confirmations is not None:
            self._confirmations.drop(partition)
        for entry in [entry for entry in self._entries.values() if entry.partition is partition]:
            del self._entries[entry.txn.transactional_id]
            if entry.held is not None:
                entry.held[0].complete(entry.held[1])
            for request in (entry.request, *(entry.waiting or ())):
                if request is not None:
                    request.complete(TransactionReply(ErrorCode.NOT_COORDINATOR))

    def partition_for(self, transactional_id: str) -> int:
        """The partition of `__transaction_state` that `transactional_id` belongs to."""
        return partition_for(transactional_id, self._logs.partition_count)

    async def _read(self, partition: OwnedPartition) -> dict[str, Txn]:
        await until_committed(partition.log, self._clock, name=f"__transaction_state-{partition.index}")
        found = StateReplay()
        await replay(partition.log, found.apply)
        return found.txns()

    def _publish(self, partition: OwnedPartition, txns: Mapping[str, Txn]) -> None:
        self._owned[partition.index] = partition
        self._publications += 1
        entries = [TransactionEntry(txn, partition) for txn in txns.values()]
        for entry in entries:
            self._entries[entry.txn.transactional_id] = entry
        for entry in entries:
            if entry.txn.state is TransactionState.ONGOING:
                self.opened(entry)
            self._effect_runner.run(entry, TransactionLoaded())

    # Requests -------------------------------------------------------------------------------------------------------

    async def init_producer_id(
        self,
        transactional_id: str | None,
        *,
        timeout_ms: int,
        producer_id: int,
        producer_epoch: int,
        can_return: bool = True,
        two_phase: bool = False,
        keeps: bool = False,
        who: Requester | None = None,
    ) -> TransactionReply:
        """Give a producer its id and epoch (transactions.md 3.1); a new instance has no pair yet, which is -1 and -1.
        `two_phase`: its transactions never time out; `keeps`: one that is open stays so (KIP-939)."""
        pair = ProducerIdAndEpoch(producer_id, producer_epoch)
        event = admit(
            self._config,
            transactional_id,
            pair,
            timeout_ms,
            can_return,
            two_phase=two_phase,
            keeps=keeps,
            allows_two_phase=self.allows_two_phase,
        )
        if isinstance(event, ErrorCode):
            return TransactionReply(event)
        if transactional_id is not None:
            return await self._request(transactional_id, event, who)
        fresh = self._producer_ids.allocate()
        return (
            TransactionReply(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
            if fresh is None
            else TransactionReply(ErrorCode.NONE, fresh, 0)
        )

    def add_partitions(
        self,
        transactional_id: str,
        *,
        producer_id: int,
        producer_epoch: int,
        partitions: Collection[TopicPartition],
        who: Requester | None = None,
    ) -> PendingRequest:
        """Add partitions to the producer's transaction, starting one if none is open; NONE once that is durable
        (transactions.md 4.1)."""
        added = partitions if isinstance(partitions, frozenset) else frozenset(partitions)
        return self._request(transactional_id, AddPartitions(producer_id, producer_epoch, added), who)

    def end(
        self,
        transactional_id: str,
        *,
        producer_id: int,
        producer_epoch: int,
        commit: bool,
        client_transaction_version: int,
        who: Requester | None = None,
    ) -> PendingRequest:
        """Commit or abort (transactions.md 4.5): NONE once the outcome is durable and, if that takes only a moment, the
        transaction complete. For clients of version 2 the reply has the pair to go on with."""
        event = EndTxn(producer_id, producer_epoch, commit, client_transaction_version)
        return self._request(transactional_id, event, who)

    async def verify(
        self, transactional_id: str, *, producer_id: int, producer_epoch: int, partitions: Sequence[TopicPartition]
    ) -> Mapping[TopicPartition, ErrorCode]:
        """Check for each partition that it is in the producer's ongoing transaction: NONE, TRANSACTION_ABORTABLE (not
        in it), or the reason why that is unknown (transactions.md 4.3)."""
        entry = self._entries.get(transactional_id)
        if entry is None:
            return dict.fromkeys(partitions, self._absence(transactional_id))
        return {
            partition: verify(entry.txn, partition, producer_id=producer_id, producer_epoch=producer_epoch)
            for partition in partitions
        }

    def refusal(
        self,
        transactional_id: str,
        error: ErrorCode,
        *,
        producer_id: int,
        producer_epoch: int,
        api: ApiKey = ApiKey.PRODUCE,
        who: Requester | None = None,
        what: str = "",
    ) -> TransactionReply:
        """`error`, with which a log or a group has refused a producer, as this coordinator would reply it: with whether
        the producer's transaction has only timed out (transactions.md 12.3 rule 5)."""
        entry = self._entries.get(transactional_id)
        if self._observer is not None and (entry is not None or self.coordinates(transactional_id)):
            txn, pair = (None if entry is None else entry.txn), (producer_id, producer_epoch)
            self._observer.refused(
                txn, transactional_id, error, api=api, pair=pair, who=who, now_ms=self._clock.now_ms(), what=what
            )
        return TransactionReply(error) if entry is None else refusal(entry.txn, error, (producer_id, producer_epoch))

    @property
    def ids(self) -> int:
        """Number of transactional ids that this coordinator has."""
        return len(self._entries)

    def would_add(self, transactional_id: str) -> bool:
        """True if the id is this coordinator's to know, and not known."""
        return transactional_id not in self._entries and self.coordinates(transactional_id)

    def coordinates(self, transactional_id: str) -> bool:
        """True if the id belongs to a partition that is read and this coordinator's."""
        return self.partition_for(transactional_id) in self._owned

    @property
    def has_open_two_phase(self) -> bool:
        """True if a transaction is open, of an id of this coordinator's, whose outcome others decide (KIP-939). Looks
        at every id."""
        return any(
            entry.txn.never_times_out and entry.txn.state is TransactionState.ONGOING
            for entry in self._entries.values()
        )

    def describe(self, transactional_id: str) -> TransactionDescription | ErrorCode:
        """One id as it is now; TRANSACTIONAL_ID_NOT_FOUND, or why that is unknown (transactions.md 10.2)."""
        entry = self._entries.get(transactional_id)
        if entry is not None and not entry.txn.is_fresh:
            return describe(entry.txn)
        error = self._absence(transactional_id)
        return ErrorCode.TRANSACTIONAL_ID_NOT_FOUND if error is ErrorCode.INVALID_PRODUCER_ID_MAPPING else error

    async def list_transactions(
        self,
        *,
        states: Sequence[str] = (),
        producer_ids: Sequence[int] = (),
        longer_than_ms: int = -1,
        matches: Callable[[str], bool] | None = None,
    ) -> TransactionListing | ErrorCode:
        """The ids of this coordinator for which every given filter holds; COORDINATOR_LOAD_IN_PROGRESS while any
        partition is being read (transactions.md 10.3). Other requests run in between."""
        if self._never_loaded or self._loading:
            return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        wanted = ListingFilter(states, frozenset(producer_ids), longer_than_ms, matches)
        found: list[ListingEntry] = []
        for entries in self._in_pieces():
            found += wanted.listed((entry.txn for entry in entries), now_ms=self._clock.now_ms())
            await next_turn()
        return TransactionListing(wanted.unknown_states, tuple(found))

    async def find_producer(self, producer_id: int) -> TransactionDescription | ErrorCode:
        """The id that has `producer_id`, as it is when this returns; other requests run before that. For a producer id
        that was in use already, TRANSACTIONAL_ID_NOT_FOUND is certain, since it never moves to another id:
        NOT_COORDINATOR, or COORDINATOR_LOAD_IN_PROGRESS, as long as a partition that may have it is not this
        coordinator's."""
        publications = self._publications
        for entries in self._in_pieces():
            for entry in entries:
                if entry.txn.producer_id == producer_id and self._entries.get(entry.txn.transactional_id) is entry:
                    return describe(entry.txn)
            await next_turn()
        if self._never_loaded or self._loading or self._publications != publications:
            return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        if len(self._owned) < self._logs.partition_count:
            return ErrorCode.NOT_COORDINATOR
        return ErrorCode.TRANSACTIONAL_ID_NOT_FOUND

    def txn(self, transactional_id: str) -> Txn | None:
        """All that is remembered of an id; None for one that is not known here."""
        entry = self._entries.get(transactional_id)
        return None if entry is None else entry.txn

    def markers_to_write(self, transactional_id: str) -> Sequence[TopicPartition]:
        """The partitions that the id's transaction, which is decided, still waits for."""
        return self._markers.remaining(transactional_id)

    def txns(self) -> Iterator[Sequence[Txn]]:
        """All that is remembered of every id that there is now, as many at a time as one turn of the event loop may
        look at; others may run in between."""
        return ([entry.txn for entry in entries] for entries in self._in_pieces())

    def _in_pieces(self) -> Iterator[Sequence[TransactionEntry]]:
        """The entries of now, as many at a time as one turn of the event loop may look at."""
        entries = list(self._entries.values())
        return (entries[first : first + ENTRIES_PER_TURN] for first in range(0, len(entries), ENTRIES_PER_TURN))

    def _request(self, transactional_id: str, event: Event, who: Requester | None) -> PendingRequest:
        request = PendingRequest(transactional_id, event, who)
        self._route(request)
        return request

    def _route(self, request: PendingRequest) -> None:
        entry = self._entries.get(request.transactional_id)
        if entry is not None:
            self._effect_runner.run(entry, request.event, request)
            return
        error = self._absence(request.transactional_id)
        if error is not ErrorCode.INVALID_PRODUCER_ID_MAPPING:
            request.complete(TransactionReply(error))
            return
        reply = unknown(request.event)
        if reply is None:
            self._introduce(request)
            return
        if self._confirmations is None:
            request.complete(reply)
        else:
            partition = self._owned[self.partition_for(request.transactional_id)]
            self._confirmations.confirm(partition, request, reply)
        event = request.event
        if self._observer is not None and reply.error and isinstance(event, EndTxn | AddPartitions):
            self._observer.refused(
                None,
                request.transactional_id,
                reply.error,
                api=ApiKey.END_TXN if isinstance(event, EndTxn) else ApiKey.ADD_PARTITIONS_TO_TXN,
                pair=(event.producer_id, event.producer_epoch),
                who=request.who,
                now_ms=self._clock.now_ms(),
            )

    def _absence(self, transactional_id: str) -> ErrorCode:
        """The reason why there is no entry; INVALID_PRODUCER_ID_MAPPING when the id does not exist."""
        if not transactional_id:
            return ErrorCode.INVALID_REQUEST
        index = self.partition_for(transactional_id)
        if index in self._owned:
            return ErrorCode.INVALID_PRODUCER_ID_MAPPING
        if self._never_loaded or index in self._loading:
            return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        return ErrorCode.NOT_COORDINATOR

    def _introduce(self, request: PendingRequest) -> None:
        partition = self._owned[self.partition_for(request.transactional_id)]
        entry = self._entries[request.transactional_id] = TransactionEntry(Txn(request.transactional_id), partition)
        self._effect_runner.run(entry, request.event, request)

    # What time brings -----------------------------------------------------------------------------------------------

    def _deadline_passed(self, transactional_id: str) -> None:
        entry = self._entries.get(transactional_id)
        if entry is None or entry.txn.state is not TransactionState.ONGOING:
            return
        config, now_ms = self._config, self._clock.running_ms()
        open_ms = now_ms - entry.began_ms if entry.began_start_ms == entry.txn.start_ms else 0
        passed = DeadlinePassed(config.transaction_version, open_ms, config.transaction_timeout_recovery)
        self._effect_runner.run(entry, passed)
        txn = entry.txn
        if txn.state is TransactionState.ONGOING and not txn.never_times_out:
            # The transaction began after the one that was watched, or it could not be aborted just now.
            again_ms = max(entry.began_ms + txn.timeout_ms, now_ms + DEADLINE_RETRY_MS)
            self._deadlines.watch(transactional_id, again_ms)

    def _expire_ids(self) -> None:
        unused_since_ms = self._expiry_time.now_ms() - self._config.transactional_id_expiration_ms
        unused: dict[OwnedPartition, list[TransactionEntry]] = {}
        for entry in self._entries.values():
            if entry.txn.updated_ms <= unused_since_ms and entry.txn.is_at_rest:
                unused.setdefault(entry.partition, []).append(entry)
        for partition, entries in unused.items():
            for first in range(0, len(entries), EXPIRED_IDS_PER_TURN):
                some = entries[first : first + EXPIRED_IDS_PER_TURN]
                self._clock.call_later(0, partial(self._expire, partition, some))

    def _expire(self, partition: OwnedPartition, entries: Sequence[TransactionEntry]) -> None:
        if self.owns(partition):
            self._effect_runner.expire(partition, entries)

    @property
    def outstanding(self) -> tuple[int, int]:
        """Numbers of transactions that wait for markers, and of states that are still to be written to the log."""
        return self._markers.outstanding, self._deferred_writes.count

    # For the runner of effects --------------------------------------------------------------------------------------

    def entry(self, transactional_id: str) -> TransactionEntry | None:
        """The entry of an id that is owned now."""
        return self._entries.get(transactional_id)

    def owns(self, partition: OwnedPartition) -> bool:
        """True if it is still this coordinator's, under the same epoch."""
        return self._owned.get(partition.index) is partition

    def lost(self, partition: OwnedPartition, error: ErrorCode) -> None:
        """Its log can no longer be written."""
        _LOG.error("__transaction_state-%d has failed (%s) and is not served any more", partition.index, error.name)
        self.resign(partition.index)

    def forget(self, entry: TransactionEntry) -> None:
        """Drop the entry, and route the requests that wait for it anew."""
        if self._entries.get(entry.txn.transactional_id) is entry:
            del self._entries[entry.txn.transactional_id]
        waiting, entry.waiting = entry.waiting, None
        for request in waiting or ():
            request.waits = False
            if request.reply is None:
                self._route(request)

    def opened(self, entry: TransactionEntry) -> None:
        """A transaction is open: it has a deadline, unless it takes part in a two-phase commit (KIP-939)."""
        txn = entry.txn
        self.began(entry, txn)
        if not txn.never_times_out:
            self._deadlines.watch(txn.transactional_id, entry.began_ms + txn.timeout_ms)

    def began(self, entry: TransactionEntry, txn: Txn) -> None:
        """A transaction begins, whose record may still have to be written.

        The wall clock is read once, for how long it has been open: for a transaction from the log there is no other
        source. From then on only the time counts in which the broker could read its producer's requests."""
        if entry.began_start_ms != txn.start_ms:
            entry.began_start_ms = txn.start_ms
            entry.began_ms = self._clock.running_ms() - max(0, self._clock.now_ms() - txn.start_ms)

    # For the marker sender ------------------------------------------------------------------------------------------

    def markers_written(self, job: MarkerJob) -> None:
        """Every partition has its marker."""
        entry = self._entries.get(job.transactional_id)
        if entry is not None:
            self._effect_runner.run(entry, MarkersWritten(job.marker.producer_id, job.marker.producer_epoch))

    def markers_fenced(self, job: MarkerJob) -> bool:
        """A partition knows a newer coordinator epoch than ours (transactions.md 5.3.1). The newer coordinator finishes
        the job. If we still lead our partition in this very epoch, we may not have heard of its election yet (a process
        that was paused); something is badly wrong if that lasts. Log it, and try on."""
        index = job.coordinator_partition
        log = self._logs.log(index)
        if not isinstance(log, ErrorCode) and log.leader_epoch == job.marker.coordinator_epoch:
            if job.is_worth_a_line:
                _LOG.log(
                    logging.INFO if job.attempts < QUIET_FENCED_ATTEMPTS else logging.ERROR,
                    "%s: fenced, though __transaction_state-%d is ours, as far as we have heard (attempt %d)",
                    job.transactional_id,
                    index,
                    job.attempts,
                )
            return True
        self.elect(index)
        return False


def _confirmations(clock: Clock) -> "ReplyConfirmations":
    from eosin.coordinator.transactions.confirmations import ReplyConfirmations

    return ReplyConfirmations(clock)
