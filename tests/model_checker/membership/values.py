"""The world of one group: its coordinator, members that are real clients' doubles, topics, late requests.

A state is a tuple of values that can be compared. Requests are decided and answered in one step, since the records of a
decision are one batch and an answer waits for it: a crash before that is a request that was lost. So the log is all
durable in every state.
"""

from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, Generic, NamedTuple, Protocol, Self, TypeVar

from model_checker.membership.coordinator import Coordinator

NAMES: Final = "abcd"


class Kind(Enum):
    """The kinds of members; a streams group knows the first two."""

    DYNAMIC = "dynamic"
    STATIC = "static"
    COOPERATIVE = "cooperative"
    """Of the classic protocol: keeps what it may keep."""
    EAGER = "eager"
    """Of the classic protocol: gives up everything before it joins."""

    @property
    def is_classic(self) -> bool:
        """True if it sends JoinGroup, SyncGroup and Heartbeat."""
        return self in (Kind.COOPERATIVE, Kind.EAGER)


@dataclass(frozen=True)
class Bounds:
    """A configuration: who takes part, and how often what may happen."""

    name: str
    about: str
    kinds: tuple[Kind, ...] = (Kind.DYNAMIC, Kind.DYNAMIC)
    in_parts: bool = False
    """True if targets are computed beside the decisions, and come back member by member."""
    losses: int = 0
    """Requests or answers that are lost."""
    copies: int = 0
    """Requests of which a copy arrives later, whatever happened meanwhile."""
    leaves: int = 0
    """Members that leave, for good or to come back; a static one for a while."""
    kills: int = 0
    """Processes that stop without a word, and start anew."""
    expiries: int = 0
    """Timers that run out though their member lives."""
    changes: int = 0
    """Topics that grow, go, and come back under another id."""
    crashes: int = 0
    """Coordinators that start anew, from the log."""
    fair_every: int = 1
    """From every so-manieth state the model runs on, fairly, to the end."""
    max_states: int = 400_000


class Budget(NamedTuple):
    """What may still happen; 0 for what groups of a kind do not know."""

    losses: int
    copies: int
    leaves: int
    kills: int
    expiries: int
    changes: int
    crashes: int
    subscriptions: int
    upgrades: int


class Topic(NamedTuple):
    """A topic; without partitions it is deleted."""

    name: str
    partitions: int
    life: int = 0


class Client(Protocol):
    """A client's own view, as far as all kinds of groups have it."""

    @property
    def kind(self) -> Kind: ...

    @property
    def life(self) -> int:
        """The number of its process: each has a member id of its own."""

    @property
    def epoch(self) -> int:
        """0 while it is no member."""

    @property
    def told(self) -> Any:
        """What it has heard that it is to have."""

    @property
    def owned(self) -> Any:
        """What it has."""

    @property
    def is_gone(self) -> bool:
        """True if it has left for good."""

    def started(self) -> Self:
        """Another process in its place."""

    def _replace(self, *_: Any, **changes: Any) -> Self: ...


C = TypeVar("C", bound=Coordinator[Any, Any])
M = TypeVar("M", bound=Client)
R = TypeVar("R")


class State(NamedTuple, Generic[C, M, R]):
    """All that there is."""

    coordinator: C
    members: tuple[M, ...]
    topics: tuple[Topic, ...]
    """Those that change."""
    late: tuple[R, ...]
    """Copies of requests that are still on their way."""
    budget: Budget
    is_confused: bool = False
    """True if such a copy has come, so that the coordinator takes what a member had said before for what it has."""


def member_id(index: int, member: Client) -> str:
    """The id of a member's process."""
    return f"{NAMES[index]}{member.life}"


def instance_id(member: Client) -> str | None:
    """The name of the only static member."""
    return "s" if member.kind is Kind.STATIC else None
