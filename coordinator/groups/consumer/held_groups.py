"""`HeldGroups`: what the holders of consumer, share and streams groups have in common.

A decision counts for the next one at once, and for those who only read when its records are durable. So a group is two
values: the one that requests are decided by, and the durable one.
"""

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any, Final, Generic, NamedTuple, TypeVar

from eosin.coordinator.groups.consumer.member_timers import MemberTimers, TimerKey
from eosin.coordinator.groups.consumer.ports import ClusterTopics
from eosin.coordinator.groups.consumer.rules.events import (
    CancelMemberTimer,
    ConsumerTimerKind,
    StartMemberTimer,
    TimerEffect,
)
from eosin.coordinator.groups.consumer.rules.topics import TopicHashes, Topics
from eosin.coordinator.groups.log import records as group_records
from eosin.coordinator.groups.log.writer import LogWriter, Settled
from eosin.coordinator.groups.rules.config import GroupConfig
from eosin.coordinator.groups.rules.stats import GroupStats
from eosin.coordinator.letting_go import dropped, parts_of
from eosin.protocol.records.batch import NewRecord
from eosin.runtime.clock import Clock
from eosin.runtime.turns import SharedTurns, TurnQueue

DROPPED_PER_TURN: Final = 1000
"""Groups, records of a load, and parts of a large group, that nobody needs any more: each takes some microseconds."""

_Group = TypeVar("_Group")


class HeldGroup(Generic[_Group]):
    """One group."""

    __slots__ = ("current", "durable", "in_flight", "is_going", "seen_version")

    def __init__(self, current: _Group, durable: _Group | None) -> None:
        self.current = current
        self.durable = durable
        """None while no record of the group is durable."""
        self.in_flight = 0
        """Writes that are in the log and not yet durable."""
        self.is_going = False
        """True while the group is being deleted."""
        self.seen_version = -1
        """The version of the metadata at the group's last look at its topics; -1 before the first since its load."""


class GroupSurroundings(NamedTuple):
    """The surroundings that the groups of one partition of `__consumer_offsets` share, of whatever kind they are."""

    writer: LogWriter
    clock: Clock
    session_clock: Clock
    """Members are waited for on this one."""
    config: GroupConfig
    topics: ClusterTopics
    turns: SharedTurns
    """Work on very many groups is done in these."""


_Held = TypeVar("_Held", bound=HeldGroup[Any])


class HeldGroups(Generic[_Group, _Held]):
    """The groups of one kind, by id, in one partition of `__consumer_offsets`."""

    def __init__(self, timers: MemberTimers[TimerKey], around: GroupSurroundings) -> None:
        """`timers` are those of their members."""
        self._timers = timers
        self._writer = around.writer
        self._clock = around.clock
        self._config = around.config
        self._topics = around.topics
        self._turns = around.turns
        self._held: dict[str, _Held] = {}
        self._hashes = TopicHashes(around.topics.partition_racks)
        self.stats = GroupStats()
        self.broken: frozenset[str] = frozenset()
        """Groups with records that cannot be read: they are not served."""

    @property
    def topics(self) -> Topics:
        """The topics of the cluster by name, as they are now."""
        return self._topics.topics

    def __len__(self) -> int:
        return len(self._held)

    def __contains__(self, group_id: str) -> bool:
        return group_id in self._held

    def ids(self) -> list[str]:
        """The names of all groups."""
        return list(self._held)

    def current(self, group_id: str) -> _Group | None:
        """The group that requests are decided by; None if there is none."""
        held = self._held.get(group_id)
        return None if held is None else held.current

    def durable(self, group_id: str) -> _Group | None:
        """The group as far as it is durable; None if there is none."""
        held = self._held.get(group_id)
        return None if held is None or held.is_going else held.durable

    def is_going(self, group_id: str) -> bool:
        """True while the group is being deleted."""
        held = self._held.get(group_id)
        return held is not None and held.is_going

    def _silent_ms(self, group_id: str, member_id: str, timeout_ms: int) -> int | None:
        """Time since the session of a member, of so many ms, began anew; None if it has none."""
        left_ms = self._timers.left_ms(TimerKey(group_id, ConsumerTimerKind.SESSION, member_id))
        return None if left_ms is None else max(0, round(timeout_ms - left_ms))

    def end_session(self, group_id: str, member_id: str) -> bool:
        """End the session of a member as if it had been silent for all of it; False where there is none."""
        return self._timers.run_out(TimerKey(group_id, ConsumerTimerKind.SESSION, member_id))

    def _stop(self) -> None:
        """Stop every timer, and forget all groups: there may be very many, or one of very many members, so they go in
        turns."""
        held, self._held = self._held, {}
        gone = chain(dropped((held,), _parts_of_held), dropped(self._timers.close()))
        self._in_turns(gone, steps_per_turn=DROPPED_PER_TURN)

    def _in_turns(self, work: Iterator[None], *, steps_per_turn: int) -> None:
        """Do work in the background, so many steps of it in a turn of the event loop at most."""
        TurnQueue(self._clock, steps_per_turn=steps_per_turn, turns=self._turns).add(work)

    def write(self, records: Sequence[NewRecord], settled: Settled) -> None:
        """Write records of the partition's groups."""
        now_ms = self._clock.now_ms()
        self._writer.write(group_records.batch(records, self._config, now_ms=now_ms), now_ms=now_ms, settled=settled)

    def _apply(self, group_id: str, effects: Sequence[TimerEffect]) -> None:
        for effect in effects:
            match effect:
                case StartMemberTimer(timer, delay_ms, epoch, unless_runs):
                    key = TimerKey(group_id, *timer)
                    if not unless_runs or key not in self._timers:
                        self._timers.start(key, delay_ms, epoch=epoch)
                case CancelMemberTimer(timer):
                    self._timers.cancel(TimerKey(group_id, *timer))


def _parts_of_held(held: HeldGroup[Any]) -> list[Any]:
    return parts_of(held.current, held.durable)
