"""Events of a consumer group, and what a decision asks for besides records: answers and timers."""

from collections.abc import Mapping
from enum import Enum
from typing import Final, NamedTuple

import msgspec

from eosin.coordinator.groups.consumer.assignors.assignment import Partitions
from eosin.coordinator.groups.consumer.rules.group import ConsumerMember, ResolvedRegex
from eosin.coordinator.groups.rules.events import Join, LeavingMember, Sync
from eosin.coordinator.groups.rules.group import Group
from eosin.protocol.errors import ErrorCode


class ConsumerHeartbeat(msgspec.Struct, frozen=True, gc=False):
    """A ConsumerGroupHeartbeat request. None, and -1 for the timeout, stand for "as before"."""

    member_id: str
    member_epoch: int
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    topics: tuple[str, ...] | None = None
    regex: str | None = None
    assignor: str | None = None
    owned: Partitions | None = None
    client_id: str = ""
    client_host: str = ""

    @property
    def is_full(self) -> bool:
        """True if the request says everything about its member, which so hears of its assignment."""
        has_subscription = self.topics is not None or self.regex is not None
        return self.rebalance_timeout_ms != -1 and self.owned is not None and has_subscription


class ClassicHeartbeat(msgspec.Struct, frozen=True, gc=False):
    """A Heartbeat request, of a member that uses the classic protocol."""

    member_id: str
    generation_id: int
    instance_id: str | None = None


class Upgrade(msgspec.Struct, frozen=True, gc=False):
    """A ConsumerGroupHeartbeat request to join a classic group that has members: it becomes a consumer group."""

    classic: Group
    heartbeat: ConsumerHeartbeat


class HeartbeatResult(msgspec.Struct, frozen=True, gc=False):
    """The answer to ConsumerGroupHeartbeat; to Heartbeat its error is."""

    error: ErrorCode
    message: str | None = None
    member_id: str | None = None
    epoch: int = 0
    heartbeat_interval_ms: int = 0
    assignment: Partitions | None = None
    """None stands for "as before"."""


class MembersLeft(msgspec.Struct, frozen=True, gc=False):
    """A LeaveGroup request: an administrator removes members."""

    members: tuple[LeavingMember, ...]


class ConsumerTimerKind(Enum):
    """The event that a timer waits for."""

    SESSION = "session"
    """A heartbeat."""
    REBALANCE = "rebalance"
    """A member to revoke partitions."""
    JOIN = "join"
    """A classic member to join again."""
    SYNC = "sync"
    """A classic member to fetch its assignment."""


class ConsumerTimer(NamedTuple):
    """A timer of one member."""

    kind: ConsumerTimerKind
    member_id: str


class MemberTimerFired(msgspec.Struct, frozen=True, gc=False):
    """A member's timer has run out; `epoch` is that of the member when it was started."""

    timer: ConsumerTimer
    epoch: int


class RegexesResolved(msgspec.Struct, frozen=True, gc=False):
    """The topics that match regular expressions have been found."""

    resolved: Mapping[str, ResolvedRegex]
    unreadable: frozenset[str] = frozenset()
    """Regular expressions that this coordinator cannot read: members have brought them to another one."""


class TargetsComputed(msgspec.Struct, frozen=True, gc=False):
    """A part of a target that was computed beside the decisions. The parts come one after the other, as long as the log
    takes them."""

    epoch: int
    """The group epoch that it was computed at."""
    targets: Mapping[str, Partitions]
    members: Mapping[str, ConsumerMember]
    """The members of the group as they were then."""
    is_last: bool


ConsumerEvent = (
    ConsumerHeartbeat
    | MembersLeft
    | MemberTimerFired
    | RegexesResolved
    | TargetsComputed
    | Upgrade
    | Join
    | Sync
    | ClassicHeartbeat
)
REQUESTS_OF_MEMBERS: Final = (ConsumerHeartbeat, Upgrade, Join, ClassicHeartbeat)
"""Events at which a group looks at its topics."""


class StartMemberTimer(msgspec.Struct, frozen=True, gc=False):
    """Start or restart a timer."""

    timer: ConsumerTimer
    delay_ms: int
    epoch: int
    unless_runs: bool = False
    """One that runs already goes on."""


class CancelMemberTimer(msgspec.Struct, frozen=True, gc=False):
    """Stop a timer; it may not be running."""

    timer: ConsumerTimer


TimerEffect = StartMemberTimer | CancelMemberTimer
