"""The data of the flight recorder: events, summaries of transactions, and notable events with their cause (console.md
2.1).

Values only. Their JSON is what the HTTP API answers and what the file of notable events holds, so a field is added at
the end and never renamed.
"""

from collections.abc import Sequence
from enum import StrEnum
from typing import Final, NamedTuple

import msgspec

from eosin.coordinator.ports import Requester

NO_TIME: Final = -1
LONGEST_PARTITIONS: Final = 60
"""Characters of partitions' names in what an operator did."""


class EventKind(StrEnum):
    """The kind of an event."""

    INIT = "init"
    BEGIN = "begin"
    ADD = "add"
    PREPARED = "prepared"
    MARKER_REFUSED = "marker_refused"
    WAITED = "waited"
    DISCONNECTED = "disconnected"
    # Notable ones, which survive a restart:
    TIMEOUT = "timeout"
    FENCED = "fenced"
    REFUSED = "refused"
    OPERATOR = "operator"
    HEALED = "healed"
    EXPIRED = "expired"


class Cause(StrEnum):
    """The cause for which a producer's pair is no longer accepted (console.md 2.3)."""

    SUCCESSOR = "successor"
    """A new instance of the id has asked for a pair."""
    OWN_REINIT = "own_reinit"
    """The same connection has asked for a newer pair itself."""
    OWN_END = "own_end"
    """The epoch is one of the producer's own past: each end of a transaction raises it (KIP-890)."""
    TIMEOUT = "timeout"
    OPERATOR = "operator"
    ADMIN_FENCE = "admin_fence"
    HEALED = "healed"
    EXHAUSTED = "exhausted"
    """The epochs of the producer id were used up, and the id has another one since."""
    EXPIRED = "expired"
    UNKNOWN_ID = "unknown_id"
    RESTART = "restart"
    """It happened before the recorder began."""


class ClientIdentity(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """The client that sent a request."""

    client_id: str = ""
    software: str = ""
    version: str = ""
    peer: str = ""
    listener: str = ""


def identity_of(asker: Requester | None) -> ClientIdentity | None:
    """The facts of `asker` as a value of its own."""
    if asker is None:
        return None
    return ClientIdentity(
        asker.client_id or "",
        asker.client_software_name,
        asker.client_software_version,
        asker.peer,
        asker.listener,
    )


class Event(NamedTuple):
    """Something that happened in the transaction that is open now."""

    at_ms: int
    kind: EventKind
    producer_id: int
    producer_epoch: int
    what: str
    """Further details: an outcome, a partition and its error."""
    number: int
    """Of partitions, or ms that were waited."""
    who: Requester | None


KeptEvent = tuple[int, EventKind, int, int, str, int, Requester | None]
"""An `Event` as it is kept: a plain tuple takes a third of the time to make."""


class TransactionSummary(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """A transaction that is over."""

    begun_ms: int
    ended_ms: int
    outcome: str
    """commit, abort, timeout, fenced or operator."""
    partitions: int
    producer_id: int
    producer_epoch: int
    who: ClientIdentity | None = None


class Takeover(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """The pair of an id was raised over that of its producer."""

    at_ms: int
    producer_id: int
    producer_epoch: int
    """From here on, older pairs of the id are refused."""
    cause: Cause
    who: ClientIdentity | None = None
    begun_ms: int = NO_TIME
    """Of the transaction that it ended; -1 when none was open."""
    timeout_ms: int = 0
    partitions: int = 0
    gone_ms: int = NO_TIME
    """Of a timeout: the time at which the last connection of the producer had closed; -1 if one was open then."""


class Notable(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """An event that somebody will ask about, with its cause and the evidence."""

    at_ms: int
    kind: EventKind
    producer_id: int = -1
    producer_epoch: int = -1
    error: str = ""
    cause: str = ""
    who: ClientIdentity | None = None
    """The client that was refused, or whose transaction it was."""
    by: Takeover | None = None
    """The takeover that raised the epoch; None if unknown."""
    count: int = 1
    """The number of times that the same was seen."""
    last_ms: int = NO_TIME
    what: str = ""
    rule: str = ""
    """The error that the rules of transactions give, where the client was sent another one; `error` is what was
    sent."""

    @property
    def latest_ms(self) -> int:
        """The last time that it was seen."""
        return max(self.at_ms, self.last_ms)


def ended_by_operator(
    at_ms: int, producer_id: int, producer_epoch: int, partitions: Sequence[str], who: Requester, *, commit: bool
) -> Notable:
    """An operator has written the markers of a transaction, by whatever way."""
    verb, named = "committed" if commit else "aborted", " ".join(partitions)[:LONGEST_PARTITIONS]
    what = f"{verb} the transaction of producer {producer_id}/{producer_epoch} in {named}"
    return Notable(at_ms, EventKind.OPERATOR, producer_id, producer_epoch, who=identity_of(who), what=what)


class HistoryEvent(msgspec.Struct, frozen=True, omit_defaults=True):
    """An `Event` as it is told."""

    at_ms: int
    kind: str
    producer_id: int
    producer_epoch: int
    what: str = ""
    count: int = 0
    who: ClientIdentity | None = None
    words: str = ""
    """The meaning, for an event that is explained."""
    since_ms: int = NO_TIME
    """The first time of an event that repeats; `count` is the number of times."""


class TransactionHistory(msgspec.Struct, frozen=True, omit_defaults=True):
    """All that is kept of one transactional id."""

    since_ms: int
    """The start of the recorder; of earlier events only the file's are known."""
    owner: ClientIdentity | None = None
    """The client that has introduced itself last."""
    owner_ms: int = NO_TIME
    opened_by: ClientIdentity | None = None
    events: tuple[HistoryEvent, ...] = ()
    """Of the transaction that is open."""
    left_out: int = 0
    """Events of it that are not kept."""
    is_shrunk: bool = False
    """True if its events were dropped to save memory."""
    past: tuple[TransactionSummary, ...] = ()
    takeovers: tuple[Takeover, ...] = ()
    notable: tuple[Notable, ...] = ()
    dropped_tracks: int = 0
    """The number of ids that the recorder has dropped to save memory."""
    gone_ms: int = NO_TIME
    """The time at which the last connection of the producer closed; -1 while one is open, and if unknown."""
    is_back: bool = False
    """True if a client of the same name and address is connected since."""
