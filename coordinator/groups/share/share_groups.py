"""`ShareGroups`: the share groups of one partition of `__consumer_offsets`, their sessions, and their writes.

As with consumer groups, a decision counts for the next one at once, and for those who only read when its records are
durable; an answer waits for that, too. So a group is two values: the one that requests are decided by, and the durable
one. Always true: records are in the log in the order of the decisions; what the log refuses was never decided; when the
log fails, a group is again what is durable.
"""

import asyncio
from collections.abc import Iterator, Sequence
from typing import Final

from eosin.coordinator.groups.consumer.consumer_groups import Happened
from eosin.coordinator.groups.consumer.held_groups import GroupSurroundings, HeldGroup, HeldGroups
from eosin.coordinator.groups.consumer.member_timers import MemberTimers, TimerKey
from eosin.coordinator.groups.consumer.rules.events import ConsumerTimerKind
from eosin.coordinator.groups.consumer.target_computation import TargetComputations
from eosin.coordinator.groups.log.writer import PendingWrite
from eosin.coordinator.groups.rules.config import ShareConfigOf
from eosin.coordinator.groups.rules.write_errors import of_consumer_group
from eosin.coordinator.groups.share.log.records import encoded
from eosin.coordinator.groups.share.ports import ShareGroupObserver
from eosin.coordinator.groups.share.rules.decide import ShareOutcome, decide
from eosin.coordinator.groups.share.rules.events import (
    SessionEnded,
    ShareEvent,
    ShareHeartbeat,
    ShareTargetsComputed,
    TopicsGone,
)
from eosin.coordinator.groups.share.rules.group import JOIN_EPOCH, ShareGroup
from eosin.coordinator.groups.share.rules.records import end_records
from eosin.coordinator.groups.share.rules.states import StateTopics
from eosin.coordinator.groups.share.rules.targets import target_in_steps
from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import Uuid

PER_TURN: Final = 1000
"""Members whose sessions begin after a load in one turn of the event loop."""
LOOKS_PER_TURN: Final = 50
"""Groups whose topics are looked at in one turn, when a topic goes."""


class HeldShareGroup(HeldGroup[ShareGroup]):
    """One group."""

    __slots__ = ("busy", "seen_states", "turn")

    def __init__(self, current: ShareGroup, durable: ShareGroup | None) -> None:
        super().__init__(current, durable)
        self.busy: frozenset[Uuid] = frozenset()
        """Topics whose states an administrator is changing this moment."""
        self.turn = asyncio.Lock()
        """Of administrators: one after the other."""
        self.seen_states: StateTopics | None = None
        """The states at that time."""


class ShareGroups(HeldGroups[ShareGroup, HeldShareGroup]):
    """The groups by id."""

    def __init__(
        self,
        around: GroupSurroundings,
        *,
        config_of: ShareConfigOf | None = None,
    ) -> None:
        """`config_of` tells the settings of a group; by default they are those of the broker."""
        super().__init__(MemberTimers[TimerKey](around.session_clock, self._fired), around)
        self._computations = TargetComputations(clock=around.clock, keep=self._target_computed)
        self.observer: ShareGroupObserver | None = None
        self.config_of: ShareConfigOf = config_of or (lambda _: around.config.share)

    # Life

    def load(self, held: dict[str, HeldShareGroup]) -> None:
        """Begin with these groups, which the log has: every member has a whole session."""
        self._held = held
        self._in_turns(self._loaded(list(held.values())), steps_per_turn=PER_TURN)

    def _loaded(self, loaded: Sequence[HeldShareGroup]) -> Iterator[None]:
        """Report a group, unless it has decided something since, and begin its sessions; a member in each step."""
        for held in loaded:
            group = held.current
            is_unchanged = group is held.durable and self._held.get(group.group_id) is held
            if self.observer is not None and group.members and is_unchanged and not held.in_flight:
                self.observer.share_decided(group, group, None, self._clock.now_ms())
            yield from self._sessions_begin([group])
            yield

    def _sessions_begin(self, groups: Sequence[ShareGroup]) -> Iterator[None]:
        """Begin the session of a member in each step. One that has sent a heartbeat since has its own."""
        for group in groups:
            timeout_ms = self.config_of(group.group_id).session_timeout_ms
            for member_id, member in group.members.items():
                held = self._held.get(group.group_id)
                key = TimerKey(group.group_id, ConsumerTimerKind.SESSION, member_id)
                if held is not None and member_id in held.current.members and key not in self._timers:
                    self._timers.start(key, timeout_ms, epoch=member.epoch)
                yield

    def silent_ms(self, group_id: str, member_id: str) -> int | None:
        """Time since a member was heard of, or since its group was loaded; None if there is no such member."""
        return self._silent_ms(group_id, member_id, self.config_of(group_id).session_timeout_ms)

    def close(self) -> None:
        """Stop every timer. Nothing is answered any more but by the writer, which ends first."""
        self._computations.close()
        self._stop()

    # Events

    def happen(self, group_id: str, event: ShareEvent) -> Happened:
        """Decide an event of a group, which begins with it if there is none."""
        held = self._held.get(group_id)
        before = ShareGroup(group_id) if held is None else held.current
        version, topics = self._topics.metadata_version, self._topics.topics
        is_heartbeat = isinstance(event, ShareHeartbeat)
        decided = decide(
            before,
            event,
            now_ms=self._clock.now_ms(),
            config=self.config_of(group_id),
            topics=topics,
            looks=is_heartbeat
            and (held is None or held.seen_version != version or held.seen_states is not before.states),
            busy=frozenset[Uuid]() if held is None else held.busy,
            hash_of=lambda names: self._hashes.of(names, topics, version),
            is_computing=self._computations.runs(group_id),
        )
        written = PendingWrite()
        if decided.is_refused:
            written(ErrorCode.NONE, -1)  # a refusal waits for nothing
            return Happened(decided.answer, written)
        if decided.records:
            held = self._write(group_id, held, decided, written)
        elif held is None or not held.in_flight:
            written(ErrorCode.NONE, -1)
        else:
            self._writer.after_writes(written)
        if held is None:
            return Happened(decided.answer, written, is_refused=True)
        if is_heartbeat:
            held.seen_version, held.seen_states = version, decided.group.states
        if decided.records and self.observer is not None:
            self.observer.share_decided(before, decided.group, event, self._clock.now_ms())
        if isinstance(event, ShareHeartbeat) and event.member_epoch >= JOIN_EPOCH:
            self.stats.share_rebalances += decided.group.epoch > before.epoch
        self._apply(group_id, decided.timers)
        if decided.wants_target:
            self._computations.begin(group_id, target_in_steps(held.current, topics))
        return Happened(decided.answer, written)

    def _write(
        self, group_id: str, held: HeldShareGroup | None, decided: ShareOutcome, written: PendingWrite
    ) -> HeldShareGroup | None:
        """Write the records of a decision, which counts from now on; None if the log refuses them."""
        is_new = held is None
        if held is None:
            held = self._held[group_id] = HeldShareGroup(decided.group, None)
        before, held.current = held.current, decided.group
        held.in_flight += 1
        outcome: list[ErrorCode] = []
        is_in_log = False

        def settled(error: ErrorCode, base_offset: int) -> None:
            outcome.append(error)
            if is_in_log and error is not ErrorCode.NONE:
                held.seen_version = -1
                self._computations.cancel(group_id)
            self._settled(group_id, held, decided.group, error)
            written(error and of_consumer_group(error), base_offset)

        self.write(encoded(group_id, decided.records), settled)
        if outcome and outcome[0] is not ErrorCode.NONE:
            if not is_new:
                held.current = before
            return None
        is_in_log = True
        return held

    def _settled(self, group_id: str, held: HeldShareGroup, group: ShareGroup, error: ErrorCode) -> None:
        held.in_flight -= 1
        if error is ErrorCode.NONE:
            held.durable = group
        elif held.durable is not None:
            held.current = held.durable
        elif not held.in_flight and self._held.get(group_id) is held:
            self.forget(group_id)

    def _target_computed(self, group_id: str, event: ShareTargetsComputed) -> bool:
        held = self._held.get(group_id)
        return held is not None and not held.is_going and not self.happen(group_id, event).is_refused

    # Topics that are gone

    def forget_topics(self, names: frozenset[str] | None = None) -> None:
        """Leave topics with these names, by default with any, out of the lists of states if they are not there any
        more: they may have come back under other ids. A group in each step, in the background."""
        self._in_turns(self._topics_go(self.ids(), names), steps_per_turn=LOOKS_PER_TURN)

    def _topics_go(self, group_ids: Sequence[str], names: frozenset[str] | None) -> Iterator[None]:
        for group_id in group_ids:
            group = self.current(group_id)
            if group is not None and (gone := self._gone(group.states, names)):
                self.happen(group_id, TopicsGone(gone))
            yield

    def _gone(self, states: StateTopics, names: frozenset[str] | None) -> frozenset[Uuid]:
        topics = self._topics.topics
        listed = [
            (topic_id, topic.name) for topic_id, topic in (*states.initializing.items(), *states.initialized.items())
        ]
        found = [
            topic_id
            for topic_id, name in (*listed, *states.deleting.items())
            if (names is None or name in names) and ((topic := topics.get(name)) is None or topic.topic_id != topic_id)
        ]
        return frozenset(found)

    # What an administrator does

    def turn(self, group_id: str) -> asyncio.Lock:
        """The lock under which one administrator after the other changes a group, or its states. Of a group that has
        gone meanwhile it is nobody's."""
        held = self._held.get(group_id)
        return asyncio.Lock() if held is None else held.turn

    def set_busy(self, group_id: str, topics: frozenset[Uuid]) -> None:
        """Begin no states of these topics meanwhile."""
        held = self._held.get(group_id)
        if held is not None:
            held.busy = topics
            held.seen_states = None  # what was left out is looked at again

    def busy(self, group_id: str) -> frozenset[Uuid]:
        """The topics of which no states are to begin."""
        held = self._held.get(group_id)
        return frozenset() if held is None else held.busy

    def begin_end(self, group_id: str) -> None:
        """The group is being deleted: nobody is to join it."""
        self._held[group_id].is_going = True

    def live_on(self, group_id: str) -> None:
        """The group could not be deleted."""
        held = self._held.get(group_id)
        if held is not None:
            held.is_going = False

    def end(self, group_id: str, written: PendingWrite) -> None:
        """Write the tombstones of a group, which is forgotten when they are durable."""

        def settled(error: ErrorCode, base_offset: int) -> None:
            if error is ErrorCode.NONE and group_id in self._held:
                self.forget(group_id)
            written(error, base_offset)

        self.write(encoded(group_id, end_records(self._held[group_id].current)), settled)

    def forget(self, group_id: str) -> None:
        """The group is gone."""
        self._computations.cancel(group_id)
        for member_id in self._held.pop(group_id).current.members:
            self._timers.cancel(TimerKey(group_id, ConsumerTimerKind.SESSION, member_id))

    # Timers

    def _fired(self, key: TimerKey, epoch: int) -> None:
        group_id = key.group_id
        if group_id in self._held and self.happen(group_id, SessionEnded(key.member_id)).is_refused:
            self._timers.start(key, self.config_of(group_id).heartbeat_interval_ms, epoch=epoch)
