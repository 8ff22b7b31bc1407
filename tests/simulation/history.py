"""What clients did and saw: the history that a run is judged by.

Everything here is written by clients, from what they were told, and nothing by the broker. Moments are indices into one
order of all events, since the world is one thread: an event with a lower index came first, everywhere. Always true: a
value (the text of a record) is written by one `Write` and by no other.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from eosin.protocol.names import TopicPartition
from simulation.share_history import ShareHistory

NEVER = 1 << 60
"""The moment of what has not happened."""


class Isolation(Enum):
    """What a reader is shown."""

    UNCOMMITTED = 0
    COMMITTED = 1


class Seen(NamedTuple):
    """A record as a consumer's application sees it."""

    offset: int
    value: str


@dataclass(slots=True)
class Introduction:
    """InitProducerId, until it was answered for good."""

    instance: str
    transactional_id: str | None
    asked: int
    recovering: bool = False
    """Whether it was asked with the pair that the instance had."""
    answered: int = NEVER
    error: str = ""
    """Why it failed for good, if it did."""
    producer_id: int = -1
    producer_epoch: int = -1
    lost: int = 0
    """Requests without an answer, any of which may be carried out much later."""


@dataclass(slots=True)
class Ending:
    """An instance was told that it cannot go on."""

    instance: str
    transactional_id: str
    moment: int
    error: str


@dataclass(slots=True)
class Write:
    """A batch on its way to a partition, over all attempts."""

    instance: str
    partition: TopicPartition
    values: tuple[str, ...]
    producer_id: int
    producer_epoch: int
    base_sequence: int
    asked: int
    transaction: "Transaction | None" = field(default=None, repr=False)
    answered: int = NEVER
    acknowledged: bool = False
    """Whether it was told to be in the log."""
    offset: int = -1
    """Of its first record, if it was told."""
    answered_ms: int = 0
    """By the broker's clock."""
    error: str = ""
    """Why it was refused for good, if it was. An earlier attempt may have been carried out all the same."""


@dataclass(slots=True)
class Transaction:
    """A transaction of one producer instance, as that sees it."""

    name: str
    instance: str
    transactional_id: str
    version: int
    timeout_ms: int
    begun: int
    begun_ms: int
    """By the broker's clock."""
    writes: list[Write] = field(default_factory=list)
    group: str = ""
    offsets: dict[TopicPartition, int] = field(default_factory=dict)
    """What it commits for `group`."""
    reads: list[str] = field(default_factory=list)
    """Values that it was computed from."""
    commit: bool = False
    """What its producer decided, once `end_asked`."""
    end_asked: int = NEVER
    end_answered: int = NEVER
    ended_ms: int = 0
    acknowledged: bool = False
    """Whether its producer was told that it ended as decided."""
    error: str = ""
    """Why ending it was refused for good, if it was."""
    ended_by: set[str] = field(default_factory=set)
    """The later instances that asked to end what this one has begun (KIP-939): each that found it open."""
    lost_ends: int = 0
    """Requests to end it without an answer, any of which may have ended it."""
    decided: bool = False
    """Whether a database has decided that it is to be committed, whoever does it (KIP-939)."""
    disowned: bool = False
    """Whether its producer, refused a commit, asked to abort it and was told that it is aborted."""

    def end_requested(self, moment: int, *, commit: bool) -> None:
        """An instance asks to end it, perhaps not the first one to do so (KIP-939). A decision of a database stands: a
        fenced instance that looks for it late finds the next one in its place, and asks to abort."""
        self.commit = commit or self.decided
        self.end_asked = min(self.end_asked, moment)

    def end_response(self, moment: int, now_ms: int, *, error: str) -> None:
        """An instance was told that it has ended, or why it cannot end it; once it has ended only the first counts."""
        if self.acknowledged:
            return
        self.end_answered, self.ended_ms = moment, now_ms
        self.acknowledged, self.error = not error, error

    @property
    def may_be_committed(self) -> bool:
        """Whether its producer has ever asked to commit it, and was not told that it is aborted."""
        return self.commit and self.end_asked != NEVER and not self.disowned

    @property
    def must_be_committed(self) -> bool:
        """Whether its producer was told that it is committed, or a database knows that it will be."""
        return self.decided or (self.commit and self.acknowledged)


@dataclass(slots=True)
class Fetched:
    """One answer to a reader."""

    reader: str
    isolation: Isolation
    partition: TopicPartition
    asked: int
    answered: int
    offset: int
    """From here on."""
    next_offset: int
    """Up to here, this one not included."""
    records: tuple[Seen, ...]
    """What the application sees of that stretch."""
    high_watermark: int
    last_stable_offset: int


@dataclass(slots=True)
class OffsetsCommitted:
    """A plain commit of a group's offset, over all attempts."""

    group: str
    partition: TopicPartition
    offset: int
    asked: int
    answered: int = NEVER
    acknowledged: bool = False
    error: str = ""


@dataclass(slots=True)
class OffsetsRead:
    """What a group was told that it has committed; -1 for nothing."""

    group: str
    partition: TopicPartition
    offset: int
    asked: int
    answered: int


@dataclass(slots=True)
class Deletion:
    """A topic deleted, over all attempts."""

    partition: TopicPartition
    asked: int
    answered: int = NEVER


class LoggedBatch(NamedTuple):
    """A batch as it lies in a log at the end."""

    base_offset: int
    next_offset: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    is_transactional: bool
    marker: str
    """`commit`, `abort` or, once compaction has emptied it, `empty` for a marker; else nothing."""
    values: tuple[str, ...]
    offsets: tuple[int, ...]
    """Of the values. Compaction leaves gaps."""


@dataclass(slots=True)
class FinalPartition:
    """A partition when all is over, as readers see it."""

    batches: tuple[LoggedBatch, ...] = ()
    committed: tuple[Seen, ...] = ()
    high_watermark: int = 0
    last_stable_offset: int = 0
    log_start_offset: int = 0


@dataclass(slots=True)
class FinalState:
    """The broker when all is over."""

    partitions: dict[TopicPartition, FinalPartition] = field(default_factory=dict)
    offsets: dict[tuple[str, TopicPartition], int] = field(default_factory=dict)
    """By group; -1 for none."""
    open_transactions: tuple[str, ...] = ()
    """Ids of the transactions that have neither ended nor timed out."""


class History:
    """The events of a run, in order."""

    def __init__(self) -> None:
        self.moments = 0
        self.alarm: tuple[int, Callable[[], None]] | None = None
        """A moment, and whom to call when it has come."""
        self.introductions: list[Introduction] = []
        self.endings: list[Ending] = []
        self.writes: list[Write] = []
        self.transactions: list[Transaction] = []
        self.fetches: list[Fetched] = []
        self.commits: list[OffsetsCommitted] = []
        self.offset_reads: list[OffsetsRead] = []
        self.deletions: list[Deletion] = []
        self.shares = ShareHistory()
        self.copying: dict[str, tuple[TopicPartition, ...]] = {}
        """Groups whose members copy what they read, and from where."""
        self.ages_differ = False
        """Whether a transaction may be older for its next coordinator than for the one before: clocks were set."""
        self.recovers = True
        """Whether a producer whose transaction has timed out may go on (transactions.md 12.3)."""
        self.ids_expire = False
        """Whether an id that opens nothing for a while is forgotten, so that its producer is refused."""
        self.may_be_stale = False
        """Whether a leader may have answered that did not know of its successor yet: it refuses from memory, and
        writes nothing."""
        self.unanswered: list[str] = []
        """Calls whose clients waited in vain until the end."""
        self.faults: list[str] = []
        """What the broker did that no broker may: unhandled errors, and the like."""
        self.final = FinalState()
        self.final_again = FinalState()
        """The same, after the process or the power has gone once more."""

    def moment(self) -> int:
        """The next moment."""
        self.moments += 1
        if self.alarm is not None and self.moments >= self.alarm[0]:
            wake, self.alarm = self.alarm[1], None
            wake()
        return self.moments

    def lines(self) -> list[str]:
        """All of it as text, so that two runs can be compared."""
        everything: list[object] = [
            *self.introductions,
            *self.endings,
            *self.writes,
            *self.transactions,
            *self.fetches,
            *self.commits,
            *self.offset_reads,
            *self.deletions,
            *self.shares.lines(),
            *self.unanswered,
            *self.faults,
            self.final,
            self.final_again,
        ]
        return [repr(each) for each in everything]
