"""`Occurrence`: one event in the history of a broker, and `SeenRequest`, made of the events of one request.

Values only; they travel between processes, and their JSON is what a saved run holds.
"""

from typing import Final

import msgspec

from eosin.lab.common.values import PartitionName

ASKED: Final = "asked"
ANSWERED: Final = "answered"
LOST: Final = "lost"
EXECUTED: Final = "executed"
FIRED: Final = "fired"
START: Final = "start"
CRASH: Final = "crash"
ADVANCE: Final = "advance"
MARKER: Final = "marker"
CONNECTED: Final = "connected"
CLOSED: Final = "closed"
INTERNAL: Final = "internal"
"""Something of the lab's own went wrong, and harmed no request."""
ENDS: Final = frozenset({ANSWERED, LOST})
"""The events that end a request."""
KINDS: Final = (
    *(ASKED, ANSWERED, "held", "released", LOST, "refused", EXECUTED, FIRED),
    *(CONNECTED, CLOSED),
    *(START, CRASH, ADVANCE),
    *("timeout", "fenced", "operator", "prepared", MARKER, "complete", "expired"),
    "rebalance",
    INTERNAL,
)
"""The words for what has happened."""
NS_PER_US: Final = 1000


class LinkSeen(msgspec.Struct, frozen=True, omit_defaults=True):
    """One connection of a client."""

    link: int
    """Its number, in the order in which clients connected."""
    peer: str = ""
    """HOST:PORT of the client."""
    client_id: str = ""
    software: str = ""
    """The client library and its version, as it says of itself (KIP-511)."""
    node: int = 0
    """The node that it is connected to; 0 for a broker with one."""

    def __str__(self) -> str:
        who = self.client_id or self.peer
        about = ", ".join(filter(None, (self.software, f"at node {self.node}" if self.node else "")))
        return f"#{self.link} {who} ({about})" if about else f"#{self.link} {who}"


class Occurrence(msgspec.Struct, frozen=True, omit_defaults=True):
    """An event."""

    number: int
    """Its place in the history; numbers have no gap."""
    at_ns: int
    """Real time since the history began."""
    now_ms: int
    """The broker's own time, in ms since the epoch."""
    what: str
    """One of `KINDS`."""
    request: int = 0
    """The number of the event with which its request began; 0 for what is about no request."""
    link: LinkSeen | None = None
    api: str = ""
    """As Kafka spells it: `EndTxn`."""
    version: int = -1
    transactional_id: str = ""
    group: str = ""
    partitions: tuple[PartitionName, ...] = ()
    """Of a request that names many, the first ones."""
    code: str = ""
    """Of a response: its first error, `NONE` if there is none."""
    rule: str = ""
    """The rule of the faults that made it happen."""
    detail: str = ""
    """Further words: `commit epoch 4`."""


class SeenRequest(msgspec.Struct, frozen=True, omit_defaults=True):
    """A request, and what became of it."""

    number: int
    """Of the event with which it began."""
    asked_ns: int
    link: LinkSeen | None
    api: str
    version: int
    transactional_id: str = ""
    group: str = ""
    partitions: tuple[PartitionName, ...] = ()
    detail: str = ""
    ended: int = 0
    """The number of the event that ended it; 0 while it is under way."""
    ended_ns: int = 0
    fate: str = ""
    """The event that ended it: `answered`, or `lost`; empty while it is under way."""
    code: str = ""
    """The first error in its response, `NONE` if there is none."""
    rule: str = ""
    """The rule of the faults that fired at it."""
    steps: tuple[str, ...] = ()
    """Other events of it, such as `held` and `released`."""

    @property
    def duration_us(self) -> int | None:
        """Microseconds from its beginning to its end; None while it is under way."""
        return (self.ended_ns - self.asked_ns) // NS_PER_US if self.ended else None


class HistorySpan(msgspec.Struct, frozen=True):
    """The part of a history that is kept."""

    level: str
    last: int
    """The number of the last event; 0 for none."""
    truncated: int
    """The number of events that are no longer kept."""
