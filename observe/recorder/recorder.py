"""`FlightRecorder`: remembers what the transaction coordinator has decided, and why (console.md 2).

It is the coordinator's observer. Always true: all tracks together take at most the limit, but for about 300 bytes of
each transaction that is open; the track of an open transaction is never dropped; nothing here waits, and nothing that
it does changes a decision.
"""

from collections.abc import Callable, Sequence
from typing import Final

from eosin.coordinator.ports import Requester
from eosin.coordinator.transactions.entries import PendingRequest
from eosin.coordinator.transactions.rules.effects import Effects, TransactionReply
from eosin.coordinator.transactions.rules.events import (
    AddPartitions,
    EndTxn,
    InitProducerId,
    MarkersWritten,
    TransactionAppended,
)
from eosin.coordinator.transactions.rules.events import Event as Decided
from eosin.coordinator.transactions.rules.state import TransactionState, Txn, refusal
from eosin.observe.recorder.causes import FENCING, cause_of_refusal, cause_of_takeover
from eosin.observe.recorder.events import (
    NO_TIME,
    Cause,
    Event,
    EventKind,
    KeptEvent,
    Notable,
    Takeover,
    TransactionHistory,
    TransactionSummary,
    ended_by_operator,
    identity_of,
)
from eosin.observe.recorder.stats import MOST_UNCOUNTED, TransactionStats, api_name
from eosin.observe.recorder.track import EVENT_BYTES, NOTABLE, OPEN_EVENTS, PAST, SUMMARY_BYTES, Track
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.names import ProducerIdAndEpoch, TopicPartition
from eosin.runtime.clock import Clock

DEFAULT_BYTES: Final = 16 * 1024 * 1024

_EMPTY: Final = TransactionState.EMPTY
_ONGOING: Final = TransactionState.ONGOING
_PREPARE_COMMIT: Final = TransactionState.PREPARE_COMMIT
_PREPARE_ABORT: Final = TransactionState.PREPARE_ABORT
_DEAD: Final = TransactionState.DEAD
_CONCURRENT: Final = ErrorCode.CONCURRENT_TRANSACTIONS
# A member of an enumeration takes as long to find as a call.
_BEGIN: Final = EventKind.BEGIN
_ADD: Final = EventKind.ADD
_PREPARED: Final = EventKind.PREPARED
_NOT_HERE: Final = frozenset(
    {ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE}
)
"""Refusals that tell nothing about the id."""

_APIS: Final = {
    EndTxn: ApiKey.END_TXN,
    AddPartitions: ApiKey.ADD_PARTITIONS_TO_TXN,
    InitProducerId: ApiKey.INIT_PRODUCER_ID,
}

OnNotable = Callable[[str, Notable], None]
"""Called with the transactional id and each new notable event."""
ErrorSent = Callable[[ApiKey, TransactionReply, Requester, bool], ErrorCode]
"""The error that this client is sent for a refusal of its request; the bool is true unless it is an EndTxn that
aborts."""
OnEnded = Callable[[str, TransactionSummary], None]
"""Called with the transactional id and each transaction that is over."""
OnPrepared = Callable[[Txn, str], None]
"""Called with each transaction whose outcome is stored, and with that outcome."""
OnEnding = Callable[[Txn, Track, str, int], None]
"""Called with a prepared transaction whose markers are written, its track as long as it has its events, the outcome,
and the time."""


class FlightRecorder:
    """The tracks of this broker's transactional ids (`TransactionObserver`)."""

    def __init__(
        self,
        clock: Clock,
        *,
        max_bytes: int = DEFAULT_BYTES,
        on_notable: OnNotable | None = None,
        error_sent: ErrorSent | None = None,
    ) -> None:
        """`error_sent` finds the error that a client is sent; without it that is the one that the rules give."""
        self._clock = clock
        self._error_sent = error_sent
        self._max_bytes = max_bytes
        self._open: dict[str, Track] = {}
        """With a transaction that is open or being ended, oldest first."""
        self._shrunk: dict[str, Track] = {}
        """The same, of which only the begin is left."""
        self._idle: dict[str, Track] = {}
        """The others, least recently used first."""
        self._bytes = 0
        self.since_ms = clock.now_ms()
        self.dropped_tracks = 0
        self.events = 0
        self.stats = TransactionStats()
        self._uncounted = self.stats.uncounted
        self.on_notable = on_notable
        self.on_ended: OnEnded | None = None
        self.on_ending: OnEnding | None = None
        self.on_prepared: OnPrepared | None = None

    @property
    def bytes(self) -> int:
        """About what all tracks take."""
        return self._bytes

    @property
    def tracks(self) -> int:
        """The number of ids that are known."""
        return len(self._open) + len(self._shrunk) + len(self._idle)

    def track(self, transactional_id: str) -> Track | None:
        """The track of one id, to be looked at and not kept; None when nothing is known of it."""
        return self._find(transactional_id)

    def all_tracks(self) -> list[tuple[str, Track]]:
        """Every id with its track, as a list that may be kept over a wait; the tracks go on to change."""
        return [*self._open.items(), *self._shrunk.items(), *self._idle.items()]

    def history(self, transactional_id: str) -> TransactionHistory | None:
        """All that is kept of one id; None when nothing is."""
        track = self._find(transactional_id)
        return None if track is None else track.history(since_ms=self.since_ms, dropped_tracks=self.dropped_tracks)

    def restore(self, transactional_id: str, notable: Notable) -> None:
        """Take back a notable event from before this start."""
        track = self._track(transactional_id)
        track.notable = tuple(sorted((notable, *track.notable), key=lambda each: each.at_ms)[-NOTABLE:])
        self._recount(track)

    # The observer's port --------------------------------------------------------------------------------------------

    def decided(
        self,
        before: Txn,
        after: Txn,
        event: Decided,
        effects: Effects,
        request: PendingRequest | None,
        now_ms: int,
    ) -> None:
        """Remember a decision. Most calls end here, within a microsecond."""
        kind = type(event)
        if kind is TransactionAppended:
            self.events += 1
            state = after.state
            if state is _ONGOING:
                self._grown(before, after, request, now_ms)
            elif state is _PREPARE_COMMIT or state is _PREPARE_ABORT:
                self._prepared(before, after, request, now_ms)
            elif state is _EMPTY:
                self._introduced(before, after, request, now_ms)
            elif state is _DEAD:
                self._expired(before, after, now_ms)
        elif kind is MarkersWritten:
            if after is not before:
                self._completed(before, now_ms)
        elif effects:
            first = effects[0]
            if type(first) is TransactionReply and first.error and first.error is not _CONCURRENT:
                self._refused(after, event, first, request, now_ms)

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
        """A log or a group has refused a pair, or the id is not known."""
        if error not in _NOT_HERE and error is not _CONCURRENT:
            reply = TransactionReply(error) if txn is None else refusal(txn, error, ProducerIdAndEpoch(*pair))
            sent = self._sent(api, reply, who, commits=True)
            self._note_refusal(transactional_id, txn, error, sent, api, pair, who, now_ms, timed_out=False, what=what)

    def waited(self, waited_ms: float) -> None:
        """A request has waited for what is under way."""
        self.stats.waited(waited_ms)

    def gave_up(self, request: PendingRequest, waited_ms: int, now_ms: int) -> None:
        """A request has waited in vain for what is under way."""
        self.stats.waits += 1
        track = self._open.get(request.transactional_id)
        if track is not None:
            what = type(request.event).__name__
            self._add(track, Event(now_ms, EventKind.WAITED, -1, -1, what, waited_ms, request.who))

    def marker_refused(
        self, transactional_id: str, partition: TopicPartition, error: ErrorCode, *, now_ms: int
    ) -> None:
        """A partition has no marker yet."""
        self.stats.marker_errors[error.name] = self.stats.marker_errors.get(error.name, 0) + 1
        track = self._open.get(transactional_id)
        if track is not None:
            what = f"{partition} {error.name}"
            last = Event(*track.events[-1]) if track.events else None
            if last is not None and last.kind is EventKind.MARKER_REFUSED and last.what == what:
                track.events[-1] = Event(now_ms, EventKind.MARKER_REFUSED, -1, -1, what, last.number + 1, None)
            else:
                self._add(track, Event(now_ms, EventKind.MARKER_REFUSED, -1, -1, what, 1, None))

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
        """Markers were written past the coordinator: for an operator, or since the transaction was hanging."""
        if who is None:
            self.stats.healed += 1
            notable = Notable(now_ms, EventKind.HEALED, *pair, what=" ".join(partitions))
        else:
            notable = ended_by_operator(now_ms, *pair, partitions, who, commit=commit)
        if transactional_id is not None:
            self.note(transactional_id, notable)

    # Notable things that others see ---------------------------------------------------------------------------------

    def note(self, transactional_id: str, notable: Notable) -> None:
        """Remember a notable event, whoever saw it."""
        track = self._track(transactional_id)
        is_new = track.note(notable)
        self._recount(track)
        if is_new and self.on_notable is not None:
            self.on_notable(transactional_id, track.notable[-1])

    # What was stored ------------------------------------------------------------------------------------------------

    def _expired(self, before: Txn, after: Txn, now_ms: int) -> None:
        self.stats.expired += 1
        unused_ms = now_ms - before.updated_ms
        expired = Notable(now_ms, EventKind.EXPIRED, before.producer_id, before.producer_epoch, what=f"{unused_ms}")
        self.note(after.transactional_id, expired)

    def _grown(self, before: Txn, after: Txn, request: PendingRequest | None, now_ms: int) -> None:
        who = None if request is None else request.who
        name = after.transactional_id
        track = self._open.get(name)
        if track is None and self._shrunk:
            track = self._shrunk.get(name)
        if track is None or before.state is not _ONGOING:
            track = self._idle.pop(name, None) or track
            if track is None:
                track = Track()
            self._open[name] = track
            track.begun_ms = after.start_ms
            track.epoch = after.producer_epoch
            if not track.counted:
                self._recount(track)
            track.opened_by = who or track.owner
            kind = _BEGIN
        else:
            kind = _ADD
        track.partitions = count = len(after.partitions)
        if request is not None and type(request.event) is InitProducerId:  # it keeps an older instance's (KIP-939)
            self._took_over(track, before, after, request.event, who, now_ms)
            self._recount(track)
            kind = EventKind.INIT
        self._add(track, (now_ms, kind, after.producer_id, after.producer_epoch, "", count, who))

    def _prepared(self, before: Txn, after: Txn, request: PendingRequest | None, now_ms: int) -> None:
        track = self._open.get(after.transactional_id) or self._opened(after.transactional_id)
        track.prepared_ms = now_ms
        if request is None:
            outcome, who = "timeout", None
            track.take_over(
                Takeover(
                    now_ms,
                    after.producer_id,
                    after.producer_epoch,
                    Cause.TIMEOUT,
                    identity_of(track.opened_by),
                    before.start_ms,
                    before.timeout_ms,
                    len(before.partitions),
                    track.gone_ms,
                )
            )
            self.note(
                after.transactional_id,
                Notable(
                    now_ms,
                    EventKind.TIMEOUT,
                    before.producer_id,
                    before.producer_epoch,
                    cause=Cause.TIMEOUT,
                    who=identity_of(track.opened_by),
                    by=track.takeovers[-1],
                ),
            )
        elif type(request.event) is InitProducerId:
            outcome, who = "fenced", request.who
            self._took_over(track, before, after, request.event, who, now_ms)
            self._recount(track)
        else:
            outcome, who = "commit" if after.state is _PREPARE_COMMIT else "abort", request.who
        self._add(track, (now_ms, _PREPARED, after.producer_id, after.producer_epoch, outcome, 0, who))
        if self.on_prepared is not None:
            self.on_prepared(after, outcome)

    def _introduced(self, before: Txn, after: Txn, request: PendingRequest | None, now_ms: int) -> None:
        track = self._track(after.transactional_id)
        who = None if request is None else request.who
        if request is not None and not before.is_fresh and type(request.event) is InitProducerId:
            self._took_over(track, before, after, request.event, who, now_ms)
        track.owner, track.owner_ms = who, now_ms
        self._recount(track)

    def _took_over(
        self, track: Track, before: Txn, after: Txn, event: InitProducerId, who: Requester | None, now_ms: int
    ) -> None:
        is_open = before.state is _ONGOING
        # The retry after the abort comes from who caused it: one takeover, not two.
        last = track.takeovers[-1] if track.takeovers and before.state is not _ONGOING else None
        if (
            last is not None
            and last.begun_ms != NO_TIME
            and last.cause is not Cause.TIMEOUT
            and last.who == identity_of(who)
        ):
            return
        track.take_over(
            Takeover(
                now_ms,
                after.producer_id,
                after.client_pair.producer_epoch,
                cause_of_takeover(track.owner, who, has_pair=event.producer_id >= 0, timeout_ms=event.timeout_ms),
                identity_of(who),
                before.start_ms if is_open else NO_TIME,
                before.timeout_ms if is_open else 0,
                len(before.partitions),
            )
        )

    def _completed(self, before: Txn, now_ms: int) -> None:
        name = before.transactional_id
        track = self._open.pop(name, None)
        if track is None:
            track = self._shrunk.pop(name, None) or self._idle.get(name)
            if track is None:
                return
        if before.state is _PREPARE_COMMIT:
            outcome = "commit"
        else:
            last = track.takeovers[-1] if track.takeovers else None
            outcome = "abort"
            if last is not None and last.producer_epoch == before.producer_epoch:
                outcome = "timeout" if last.cause is Cause.TIMEOUT else "fenced"
        updated_ms = before.updated_ms
        begun_ms, prepared_ms = track.begun_ms, track.prepared_ms
        if begun_ms < 0:
            begun_ms = before.start_ms
        if prepared_ms < 0:
            prepared_ms = updated_ms
        if self.on_ending is not None:
            self.on_ending(before, track, outcome, now_ms)
        shrunk = EVENT_BYTES * len(track.events) - (SUMMARY_BYTES if len(track.past) < PAST else 0)
        track.end(now_ms, outcome, before.producer_id, before.producer_epoch)
        self._idle[name] = track
        track.counted -= shrunk
        self._bytes -= shrunk
        if self.on_ended is not None:
            self.on_ended(name, track.past[-1])
        uncounted = self._uncounted
        uncounted.append(
            (
                outcome,
                before.client_transaction_version,
                now_ms - begun_ms,
                now_ms - prepared_ms,
                now_ms - updated_ms,
                len(before.partitions),
            )
        )
        if len(uncounted) >= MOST_UNCOUNTED:
            self.stats.count()

    # Refusals -------------------------------------------------------------------------------------------------------

    def _refused(
        self, txn: Txn, event: Decided, reply: TransactionReply, request: PendingRequest | None, now_ms: int
    ) -> None:
        api = _APIS.get(type(event))
        if api is not None and reply.error not in _NOT_HERE:
            pair = (event.producer_id, event.producer_epoch)  # type: ignore[union-attr]
            who = None if request is None else request.who
            sent = self._sent(api, reply, who, commits=type(event) is not EndTxn or event.commit)
            self._note_refusal(
                txn.transactional_id, txn, reply.error, sent, api, pair, who, now_ms, timed_out=reply.timed_out
            )

    def _sent(self, api: ApiKey, reply: TransactionReply, who: Requester | None, *, commits: bool) -> ErrorCode:
        return reply.error if self._error_sent is None or who is None else self._error_sent(api, reply, who, commits)

    def _note_refusal(
        self,
        transactional_id: str,
        txn: Txn | None,
        error: ErrorCode,
        sent: ErrorCode,
        api: ApiKey,
        pair: tuple[int, int],
        who: Requester | None,
        now_ms: int,
        *,
        timed_out: bool,
        what: str = "",
    ) -> None:
        track = self._find(transactional_id)
        counted = (api_name(api), sent.name)
        rule = error.name if sent is not error else ""
        self.stats.errors[counted] = self.stats.errors.get(counted, 0) + 1
        if error in FENCING or timed_out:
            cause, by = cause_of_refusal(txn, track, pair, timed_out=timed_out)
            self.stats.fenced[cause.value] = self.stats.fenced.get(cause.value, 0) + 1
            notable = Notable(now_ms, EventKind.FENCED, *pair, sent.name, cause.value, identity_of(who), by, rule=rule)
        else:
            notable = Notable(now_ms, EventKind.REFUSED, *pair, sent.name, who=identity_of(who), what=what, rule=rule)
        self.note(transactional_id, notable)

    # Tracks and their memory ----------------------------------------------------------------------------------------

    def _find(self, transactional_id: str) -> Track | None:
        return (
            self._open.get(transactional_id) or self._idle.get(transactional_id) or self._shrunk.get(transactional_id)
        )

    def _track(self, transactional_id: str) -> Track:
        """The track of an id, which becomes the most recently used one."""
        track = self._open.get(transactional_id) or self._shrunk.get(transactional_id)
        if track is not None:
            return track
        known = self._idle.pop(transactional_id) if transactional_id in self._idle else Track()
        self._idle[transactional_id] = known
        return known

    def _opened(self, transactional_id: str) -> Track:
        """The track of an id with a transaction, which may have been open before the recorder began."""
        track = self._open.get(transactional_id) or self._shrunk.get(transactional_id)
        if track is None:
            track = self._open[transactional_id] = self._track(transactional_id)
            self._idle.pop(transactional_id)
        return track

    def _add(self, track: Track, event: KeptEvent) -> None:
        events = track.events
        if len(events) >= OPEN_EVENTS or track.is_shrunk:
            track.left_out += 1
            return
        events.append(event)
        track.counted += EVENT_BYTES
        self._bytes += EVENT_BYTES
        if self._bytes > self._max_bytes:
            self._give_up()

    def _recount(self, track: Track) -> None:
        size = track.bytes
        self._bytes += size - track.counted
        track.counted = size
        if self._bytes > self._max_bytes:
            self._give_up()

    def _give_up(self) -> None:
        """Get below the limit again: idle tracks go, least recently used first, then open ones shrink."""
        while self._bytes > self._max_bytes and len(self._idle) > 1:
            name = next(iter(self._idle))
            self._bytes -= self._idle.pop(name).counted
            self.dropped_tracks += 1
        while self._bytes > self._max_bytes and len(self._open) > 1:
            name = next(iter(self._open))
            track = self._shrunk[name] = self._open.pop(name)
            track.shrink()
            self._bytes += track.bytes - track.counted
            track.counted = track.bytes
