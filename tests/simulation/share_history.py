"""What the share groups of a run did and saw (KIP-932).

Clients write down what they asked and were told. One thing is seen at the brokers: to whom a leader hands out what, and
in whose name, since its answer may be lost. Always true: an offset stands for one record, for groups read no topic that
is deleted.
"""

from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple

from eosin.protocol.names import TopicPartition


class Kind(IntEnum):
    """What a member says of a record."""

    GAP = 0
    """There is none."""
    ACCEPT = 1
    RELEASE = 2
    REJECT = 3
    RENEW = 4


FINAL = frozenset({Kind.GAP, Kind.ACCEPT, Kind.REJECT})
"""After these a record is never delivered again."""


class Place(NamedTuple):
    """A record of a share group."""

    group: str
    partition: TopicPartition
    offset: int


class Tenure(NamedTuple):
    """The time in which one broker hands out the records of a share partition."""

    node_id: int
    start: int
    """Which start of that broker's machine."""
    leader_epoch: int
    state_epoch: int


@dataclass(slots=True)
class HandedOut:
    """A leader has acquired a record for a member. Whether the member hears of it is another question."""

    place: Place
    member: str
    count: int
    """Which delivery of the record this is, as the leader says."""
    moment: int
    at: float
    """Seconds since the world began."""
    tenure: Tenure
    window: int
    """Number of the object in memory that it comes from; a share partition that is loaded anew has another one."""
    is_current: bool
    """Whether that leader is the one that the controllers have elected: another one has not heard of its successor."""


@dataclass(slots=True)
class Told:
    """A member has a record in its hands."""

    place: Place
    member: str
    text: str
    moment: int


@dataclass(slots=True)
class Acknowledged:
    """What a member has said of a record."""

    place: Place
    member: str
    node_id: int
    kind: Kind
    asked: int
    answered: int | None = None
    error: str = ""
    """Empty if it counts, once it is answered."""

    @property
    def durable_since(self) -> int | None:
        """The moment in which its member was told that it counts; None if it was not."""
        return None if self.error else self.answered


class Departure(NamedTuple):
    """From this moment on what a member has at a broker may go to others."""

    member: str
    node_id: int
    moment: int


class StartTold(NamedTuple):
    """Where a group was said to begin in a partition (Kafka's SPSO); -1 where nobody knows."""

    group: str
    partition: TopicPartition
    offset: int
    asked: int
    answered: int
    is_excused: bool
    """Whether one may have answered that did not know of its successor."""


@dataclass(slots=True)
class Reset:
    """An administrator has a group begin elsewhere, over all attempts."""

    group: str
    asked: int
    answered: int | None = None


class SharePromise(NamedTuple):
    """How a group is set up."""

    group: str
    topics: tuple[str, ...]
    is_committed: bool
    """Whether it reads committed records only."""
    count_limit: int
    lock_s: float
    dead_letters: TopicPartition | None


@dataclass(slots=True)
class ShareHistory:
    """All of it."""

    groups: dict[str, SharePromise] = field(default_factory=dict)
    handed_out: list[HandedOut] = field(default_factory=list)
    told: list[Told] = field(default_factory=list)
    acknowledged: list[Acknowledged] = field(default_factory=list)
    departures: list[Departure] = field(default_factory=list)
    starts: list[StartTold] = field(default_factory=list)
    resets: list[Reset] = field(default_factory=list)
    letters: dict[str, list[str]] = field(default_factory=dict)
    """By group, what its dead letters say, when all is over."""
    stale: int = 0
    """Records that a leader which did not know of its successor has handed out."""

    def lines(self) -> list[object]:
        """All of it in an order that a run replays."""
        return [
            *self.handed_out,
            *self.told,
            *self.acknowledged,
            *self.departures,
            *self.starts,
            *self.resets,
            self.letters,
        ]
