"""`Track`: what is kept of one transactional id (console.md 2.2).

Always true: at most `OPEN_EVENTS` events of the open transaction, `PAST` summaries, `TAKEOVERS` takeovers and `NOTABLE`
notable events; `bytes` is about what all of it takes, and an idle track has no events.
"""

from typing import Final

from eosin.coordinator.ports import Requester
from eosin.observe.recorder.events import (
    NO_TIME,
    ClientIdentity,
    Event,
    EventKind,
    HistoryEvent,
    KeptEvent,
    Notable,
    Takeover,
    TransactionHistory,
    TransactionSummary,
    identity_of,
)

OPEN_EVENTS: Final = 32
PAST: Final = 4
TAKEOVERS: Final = 4
NOTABLE: Final = 8

TRACK_BYTES: Final = 320
"""About what a track takes with its id and its place in a table; the others likewise (tests measure them)."""
EVENT_BYTES: Final = 96
SUMMARY_BYTES: Final = 112
TAKEOVER_BYTES: Final = 288
NOTABLE_BYTES: Final = 480


class Track:
    """One transactional id."""

    __slots__ = (
        "begun_ms",
        "counted",
        "epoch",
        "events",
        "is_shrunk",
        "last_asker",
        "left_out",
        "notable",
        "opened_by",
        "owner",
        "owner_ms",
        "partitions",
        "past",
        "prepared_ms",
        "takeovers",
    )

    def __init__(self) -> None:
        self.counted = 0
        """The part of `bytes` that the recorder has counted."""
        self.owner: Requester | None = None
        """The client that has introduced itself last; the context of its requests, which holds nothing else."""
        self.owner_ms = NO_TIME
        self.begun_ms = NO_TIME
        """Of the open transaction."""
        self.epoch = -1
        """Of its records; each end of it raises the id's epoch."""
        self.opened_by: Requester | None = None
        self.partitions = 0
        self.prepared_ms = NO_TIME
        """The time at which the decision about the open transaction was durable."""
        self.events: list[KeptEvent] = []
        self.left_out = 0
        self.is_shrunk = False
        self.past: tuple[TransactionSummary, ...] = ()
        self.last_asker: Requester | None = None
        """The client that opened the last transaction of `past`."""
        self.takeovers: tuple[Takeover, ...] = ()
        self.notable: tuple[Notable, ...] = ()

    @property
    def bytes(self) -> int:
        """About what it takes."""
        return (
            TRACK_BYTES
            + EVENT_BYTES * len(self.events)
            + SUMMARY_BYTES * len(self.past)
            + TAKEOVER_BYTES * len(self.takeovers)
            + NOTABLE_BYTES * len(self.notable)
        )

    @property
    def gone_ms(self) -> int:
        """The time at which the last of the connections closed that the id was used on; -1 while one is open."""
        askers = [self.opened_by, self.owner, *(each[-1] for each in self.events)]
        closed = [each.closed_ms for each in askers if each is not None]
        return NO_TIME if not closed or min(closed) < 0 else max(closed)

    def take_over(self, takeover: Takeover) -> None:
        """Remember who raised the epoch."""
        self.takeovers = (*self.takeovers[1 - TAKEOVERS :], takeover)

    def end(self, ended_ms: int, outcome: str, producer_id: int, producer_epoch: int) -> None:
        """The open transaction is over: it becomes a summary."""
        begun_ms, epoch, asker, past = self.begun_ms, self.epoch, self.opened_by, self.past
        if begun_ms < 0:
            begun_ms = ended_ms
        if epoch < 0:
            epoch = producer_epoch
        # One value for all transactions of a producer.
        who = past[-1].who if asker is self.last_asker and past else _kept(past, asker)
        self.last_asker = asker
        self.past = (
            *past[1 - PAST :],
            TransactionSummary(begun_ms, ended_ms, outcome, self.partitions, producer_id, epoch, who),
        )
        self.begun_ms = self.prepared_ms = NO_TIME
        self.epoch = -1
        self.opened_by = None
        self.partitions = self.left_out = 0
        self.events = []
        self.is_shrunk = False

    def shrink(self) -> None:
        """Give up all of an open transaction but its begin and who opened it."""
        self.left_out += len(self.events)
        self.events = []
        self.past = ()
        self.takeovers = self.takeovers[-1:]
        self.notable = self.notable[-1:]
        self.is_shrunk = True

    def note(self, notable: Notable) -> bool:
        """Keep a notable event; whether it is a new one. What repeats the last of its kind only counts, so that a
        producer which goes on asking does not push out why it is refused."""
        for index, known in enumerate(self.notable):
            if _repeats(known, notable):
                again = _counted(known, notable)
                self.notable = (*self.notable[:index], *self.notable[index + 1 :], again)
                return False
        kept = list(self.notable)
        if len(kept) == NOTABLE:  # refusals go first: the fence behind them explains them
            del kept[next((index for index, each in enumerate(kept) if each.kind is EventKind.REFUSED), 0)]
        self.notable = (*kept, notable)
        return True

    def history(self, *, since_ms: int, dropped_tracks: int) -> TransactionHistory:
        """All of it as a value."""
        return TransactionHistory(
            since_ms,
            owner=identity_of(self.owner),
            owner_ms=self.owner_ms,
            opened_by=identity_of(self.opened_by),
            events=(*(_told(Event(*each)) for each in self.events), *self._disconnected()),
            left_out=self.left_out,
            is_shrunk=self.is_shrunk,
            past=self.past,
            takeovers=self.takeovers,
            notable=self.notable,
            dropped_tracks=dropped_tracks,
            gone_ms=self.gone_ms,
        )

    def _disconnected(self) -> tuple[HistoryEvent, ...]:
        """The end of the last connection of a producer that has something open."""
        at_ms = self.gone_ms if self.begun_ms >= 0 else NO_TIME
        if at_ms < 0:
            return ()
        who = identity_of(self.opened_by or self.owner)
        return (HistoryEvent(at_ms, EventKind.DISCONNECTED.value, -1, -1, who=who),)


def _kept(past: tuple[TransactionSummary, ...], who: Requester | None) -> ClientIdentity | None:
    """The client's identity; the object in the last summary if it is the same."""
    if who is None:
        return None
    last = past[-1].who if past else None
    if last is not None and last.peer == who.peer and last.client_id == (who.client_id or ""):
        return last
    return identity_of(who)


def _repeats(known: Notable, new: Notable) -> bool:
    return (
        known.kind is new.kind
        and known.kind in (EventKind.FENCED, EventKind.REFUSED)
        and known.producer_id == new.producer_id
        and known.producer_epoch == new.producer_epoch
        and known.cause == new.cause
        and known.error == new.error
        and known.what == new.what
    )


def _counted(known: Notable, new: Notable) -> Notable:
    return Notable(
        known.at_ms,
        known.kind,
        known.producer_id,
        known.producer_epoch,
        known.error,
        known.cause,
        known.who or new.who,
        known.by,
        known.count + 1,
        new.at_ms,
        known.what,
        known.rule,
    )


def _told(event: Event) -> HistoryEvent:
    return HistoryEvent(
        event.at_ms,
        event.kind.value,
        event.producer_id,
        event.producer_epoch,
        event.what,
        event.number,
        identity_of(event.who),
    )
