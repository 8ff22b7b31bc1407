"""`GroupEffectRunner`: carries out the effects of `decide` for the groups of one partition.

It owns the groups, their timers and the requests that wait for a response. Always true: the group is replaced before
the first effect of its decision starts, and an event that comes up while effects are carried out (a write that is
durable at once) is decided only after the last of them. So the events of a partition happen one after the other.
"""

import asyncio
from asyncio import Future
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import chain, count
from typing import Final, NamedTuple, assert_never

from eosin.coordinator.groups.consumer.member_timers import MemberTimers
from eosin.coordinator.groups.log import records as group_records
from eosin.coordinator.groups.log.writer import LogWriter
from eosin.coordinator.groups.ports import GroupObserver
from eosin.coordinator.groups.rules.config import GroupConfig
from eosin.coordinator.groups.rules.decide import decide
from eosin.coordinator.groups.rules.effects import (
    Answer,
    CancelTimer,
    Effect,
    GroupReply,
    LeaveResult,
    PersistGroup,
    StartTimer,
)
from eosin.coordinator.groups.rules.events import (
    Completion,
    Event,
    GroupAppended,
    GroupAppendFailed,
    TimerFired,
    TimerKind,
    TimerName,
    Unloaded,
)
from eosin.coordinator.groups.rules.group import Group, GroupState, RequestId
from eosin.coordinator.groups.rules.stats import GroupStats
from eosin.coordinator.letting_go import dropped
from eosin.protocol.errors import ErrorCode
from eosin.runtime.clock import Clock
from eosin.runtime.turns import SharedTurns, TurnQueue

REPLIES_AT_ONCE: Final = 40
"""Requests that are answered in one turn of the event loop: what follows for each takes about 50 us."""
_request_ids: Final = count(1)


class ClassicTimerKey(NamedTuple):
    """A timer of a classic group, or of a member of one."""

    group_id: str
    kind: TimerKind
    member_id: str


class GroupEffectRunner:
    """Runs the events of one partition's groups through `decide`."""

    def __init__(
        self,
        *,
        writer: LogWriter,
        clock: Clock,
        config: GroupConfig,
        turns: SharedTurns,
        holds_offsets: Callable[[str], bool],
    ) -> None:
        """Very many requests are answered in `turns`."""
        self.groups: dict[str, Group] = {}
        self.first_events: dict[str, Event] = {}
        """The first event of groups that were loaded: it happens in its turn, or before any other of the group."""
        self.observer: GroupObserver | None = None
        self.stats = GroupStats()
        self._writer = writer
        self._clock = clock
        self._config = config
        self._turns = turns
        self._holds_offsets = holds_offsets
        self._timers = MemberTimers[ClassicTimerKey](clock, self._fired)
        """Each with the generation in which it was started."""
        self._waiting: dict[RequestId, tuple[str, Future[Answer]]] = {}
        """Each with its group."""
        self._events: deque[tuple[str, Event]] = deque()
        self._deciding = False

    def new_request(self, group_id: str) -> "tuple[RequestId, Future[Answer]]":
        """A number for a request that is about to be decided, and the future of its answer."""
        request_id = next(_request_ids)
        future: Future[Answer] = asyncio.get_running_loop().create_future()
        self._waiting[request_id] = group_id, future
        return request_id, future

    def happen(self, group_id: str, event: Event) -> None:
        """Decide an event of a group. An event of a group that is gone is dropped."""
        first = self.first_events.pop(group_id, None)
        if first is not None:
            self._events.append((group_id, first))
        self._events.append((group_id, event))
        if self._deciding:
            return
        self._deciding = True
        try:
            while self._events:
                self._decide(*self._events.popleft())
        finally:
            self._deciding = False

    def begin(self) -> Iterator[None]:
        """Have the first events happen, one in each step."""
        while self.first_events:
            self.happen(*self.first_events.popitem())
            yield

    def restart_session(self, group: Group, member_id: str) -> None:
        """A member has shown that it is alive. (Not an event: it changes nothing but a timer.)"""
        self._start_timer(group, TimerName(TimerKind.SESSION, member_id), group.members[member_id].session_timeout_ms)

    def silent_ms(self, group_id: str, member_id: str) -> int | None:
        """Time since a member's last sign of life, in ms; None while no session runs, since it waits in a join."""
        left_ms = self._timers.left_ms(ClassicTimerKey(group_id, TimerKind.SESSION, member_id))
        group = self.groups.get(group_id)
        member = None if group is None else group.members.get(member_id)
        return None if left_ms is None or member is None else max(0, round(member.session_timeout_ms - left_ms))

    def end_session(self, group_id: str, member_id: str) -> bool:
        """End the session of a member as if it had been silent for all of it; False where there is none, since it waits
        for others and counts as alive."""
        key, group = ClassicTimerKey(group_id, TimerKind.SESSION, member_id), self.groups.get(group_id)
        member = None if group is None else group.members.get(member_id)
        if key not in self._timers or group is None or member is None or member.syncing is not None:
            return False
        self._timers.cancel(key)
        self._fired(key, group.generation_id)
        return True

    def close(self) -> Iterator[None]:
        """Stop every timer: nothing happens any more. Returns steps that answer whoever waits, and let go of a group
        each: there may be very many."""
        groups, self.groups = self.groups, {}
        first_events, self.first_events = self.first_events, {}
        waiting = list(dict.fromkeys(group_id for group_id, _ in self._waiting.values()))
        return chain(self._let_go(groups, waiting), dropped((first_events, *self._timers.close())))

    def _let_go(self, groups: dict[str, Group], waiting: Sequence[str]) -> Iterator[None]:
        """End the groups in which somebody waits, and then the others."""
        for group_id in waiting:
            if group_id in groups:
                self._end(groups.pop(group_id))
                yield
        while groups:
            _, group = groups.popitem()
            if self.observer is not None:
                self._end(group)
            yield

    def _end(self, group: Group) -> None:
        """Answer who waits in a group that is not here any more, and report its end."""
        now_ms, event = self._clock.now_ms(), Unloaded()
        after, effects = decide(group, event, now_ms=now_ms, config=self._config)
        if self.observer is not None:
            self.observer.decided(group, after, event, now_ms)
        self._reply([each for each in effects if isinstance(each, GroupReply)])

    def _decide(self, group_id: str, event: Event) -> None:
        group = self.groups.get(group_id)
        if group is None:
            return
        before, now_ms = group, self._clock.now_ms()
        group, effects = decide(before, event, now_ms=now_ms, config=self._config)
        self.groups[group_id] = group
        if group.state is GroupState.STABLE and before.state is GroupState.COMPLETING_REBALANCE:
            self.stats.completed_rebalances += 1
        if self.observer is not None:
            self.observer.decided(before, group, event, now_ms)
        replies: list[GroupReply] = []
        for effect in effects:
            self._carry_out(group, effect, replies)
        if replies:
            self._reply(replies)
        if _left_no_trace(group) and not self._holds_offsets(group_id):
            del self.groups[group_id]

    def _carry_out(self, group: Group, effect: Effect, replies: list[GroupReply]) -> None:
        match effect:
            case GroupReply():
                replies.append(effect)
            case PersistGroup():
                now_ms = self._clock.now_ms()
                batch = group_records.batch([group_records.group_record(effect.group)], self._config, now_ms=now_ms)
                settled = partial(self._on_appended, group.group_id, effect.then)
                self._writer.write(batch, now_ms=now_ms, settled=settled)
            case StartTimer():
                self._start_timer(group, effect.timer, effect.delay_ms)
            case CancelTimer():
                self._timers.cancel(ClassicTimerKey(group.group_id, *effect.timer))
            case _:
                assert_never(effect)

    def _reply(self, replies: Sequence[GroupReply]) -> None:
        """Answer requests: very many in turns, since each is encoded and sent in the turn after its answer."""
        if len(replies) <= REPLIES_AT_ONCE:
            for each in replies:
                self._reply_to(each)
            return
        for each in replies:
            if isinstance(each.answer, LeaveResult):  # whoever leaves does not wait
                self._reply_to(each)
        waiting = [each for each in replies if not isinstance(each.answer, LeaveResult)]
        TurnQueue(self._clock, steps_per_turn=REPLIES_AT_ONCE, turns=self._turns).add(self._reply_to_each(waiting))

    def _reply_to_each(self, replies: Sequence[GroupReply]) -> Iterator[None]:
        for each in replies:
            self._reply_to(each)
            yield

    def _reply_to(self, reply: GroupReply) -> None:
        _, waiting = self._waiting.pop(reply.request_id)
        if not waiting.done():  # else the client is gone
            waiting.set_result(reply.answer)

    def _on_appended(self, group_id: str, what: Completion, error: ErrorCode, _: int) -> None:
        self.happen(group_id, GroupAppended(what) if error is ErrorCode.NONE else GroupAppendFailed(what, error))

    def _start_timer(self, group: Group, name: TimerName, delay_ms: int) -> None:
        key = ClassicTimerKey(group.group_id, *name)
        self._timers.start(key, delay_ms, epoch=group.generation_id)

    def _fired(self, key: ClassicTimerKey, generation_id: int) -> None:
        self.happen(key.group_id, TimerFired(TimerName(key.kind, key.member_id), generation_id))


def _left_no_trace(group: Group) -> bool:
    """True if a group is as if nobody had ever joined it: a first request that was refused or given up."""
    return group.state is GroupState.EMPTY and group.generation_id == 0 and not group.pending_members
