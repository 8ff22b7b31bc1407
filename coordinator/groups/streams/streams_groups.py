"""`StreamsGroups`: the streams groups of one partition of `__consumer_offsets`, their timers, and their writes.

As with consumer groups, a decision counts for the next one at once, and for those who only read when its records are
durable; an answer waits for that, too. So a group is two values: the one that requests are decided by, and the durable
one. Always true: records are in the log in the order of the decisions; what the log refuses was never decided; when the
log fails, a group is again what is durable, and looks at its topics anew.
"""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from msgspec.structs import replace

from eosin.coordinator.groups.consumer.held_groups import GroupSurroundings, HeldGroup, HeldGroups
from eosin.coordinator.groups.consumer.member_timers import MemberTimers, TimerKey
from eosin.coordinator.groups.consumer.ports import ClassicSide
from eosin.coordinator.groups.consumer.rules.events import (
    ConsumerTimerKind,
    MemberTimerFired,
)
from eosin.coordinator.groups.consumer.target_computation import TargetComputations
from eosin.coordinator.groups.log import records as group_records
from eosin.coordinator.groups.log.writer import PendingWrite
from eosin.coordinator.groups.rules.config import StreamsConfigOf
from eosin.coordinator.groups.rules.group import Group
from eosin.coordinator.groups.rules.write_errors import of_consumer_group
from eosin.coordinator.groups.streams.log.records import encoded
from eosin.coordinator.groups.streams.ports import StreamsGroupObserver
from eosin.coordinator.groups.streams.rules.decide import StreamsOutcome, decide, reads_topics
from eosin.coordinator.groups.streams.rules.events import (
    DelayEnded,
    StreamsEvent,
    StreamsResult,
    StreamsTargetsComputed,
)
from eosin.coordinator.groups.streams.rules.group import StreamsGroup, StreamsMemberState
from eosin.coordinator.groups.streams.rules.heartbeat import DELAY_TIMER
from eosin.coordinator.groups.streams.rules.targets import target_in_steps
from eosin.protocol.errors import ErrorCode

PER_TURN: Final = 1000
"""Members whose timers begin after a load in one turn of the event loop."""
_ENDPOINT_EPOCHS: Final = 1 << 30
"""The first epoch of endpoints is below: it follows the clock, so that no member takes it for that of an earlier
coordinator. (Apache Kafka begins at 0 again.)"""


class HeldStreamsGroup(HeldGroup[StreamsGroup]):
    """One group."""

    __slots__ = ("replaced",)

    def __init__(self, current: StreamsGroup, durable: StreamsGroup | None) -> None:
        super().__init__(current, durable)
        self.replaced: Group | None = None
        """The classic group that it takes the place of, until that is durable."""


class StreamsHappened(NamedTuple):
    """The outcome of an event: the answer, once `written` has ended well."""

    answer: StreamsResult | None
    written: PendingWrite
    is_refused: bool = False
    """True if the log has refused the records, and nothing has happened."""


class StreamsGroups(HeldGroups[StreamsGroup, HeldStreamsGroup]):
    """The groups by id."""

    def __init__(
        self,
        around: GroupSurroundings,
        *,
        classic: ClassicSide,
        config_of: StreamsConfigOf | None = None,
    ) -> None:
        """`config_of` tells the settings of a group; by default they are those of the broker."""
        super().__init__(MemberTimers[TimerKey](around.session_clock, self._fired), around)
        self._classic = classic
        self._computations = TargetComputations(clock=around.clock, keep=self._target_computed)
        self.observer: StreamsGroupObserver | None = None
        self.config_of: StreamsConfigOf = config_of or (lambda _: around.config.streams)

    # Life

    def load(self, held: dict[str, HeldStreamsGroup]) -> None:
        """Begin with these groups, which the log has: every member has a whole session."""
        self._held = held
        self._in_turns(self._loaded(list(held.values())), steps_per_turn=PER_TURN)

    def _loaded(self, loaded: Sequence[HeldStreamsGroup]) -> Iterator[None]:
        """Report a group, unless it has decided something since, and begin its timers; a member in each step."""
        for held in loaded:
            group = held.current
            is_unchanged = group is held.durable and self._held.get(group.group_id) is held
            if self.observer is not None and group.members and is_unchanged and not held.in_flight:
                self.observer.streams_decided(group, group, None, self._clock.now_ms())
            yield from self._timers_begin([group])
            yield

    def first_endpoint_epoch(self) -> int:
        """The epoch of the endpoints of a group that begins now, or is loaded."""
        return self._clock.now_ms() % _ENDPOINT_EPOCHS

    def _begin_timers(self, groups: Sequence[StreamsGroup]) -> None:
        self._in_turns(self._timers_begin(groups), steps_per_turn=PER_TURN)

    def _timers_begin(self, groups: Sequence[StreamsGroup]) -> Iterator[None]:
        """Begin the timers of a member in each step. One that has sent a heartbeat since has its own."""
        for group in groups:
            session_ms = self.config_of(group.group_id).session_timeout_ms
            for member_id in group.members:
                held = self._held.get(group.group_id)
                member = None if held is None else held.current.members.get(member_id)
                if member is not None:
                    self._begin_timer(group.group_id, ConsumerTimerKind.SESSION, member_id, session_ms, member.epoch)
                    if member.state is StreamsMemberState.UNREVOKED_TASKS:
                        self._begin_timer(
                            group.group_id,
                            ConsumerTimerKind.REBALANCE,
                            member_id,
                            member.rebalance_timeout_ms,
                            member.epoch,
                        )
                yield

    def _begin_timer(self, group_id: str, kind: ConsumerTimerKind, member_id: str, delay_ms: int, epoch: int) -> None:
        key = TimerKey(group_id, kind, member_id)
        if key not in self._timers:
            self._timers.start(key, delay_ms, epoch=epoch)

    def silent_ms(self, group_id: str, member_id: str) -> int | None:
        """Time since a member was heard of, or since its group was loaded; None if there is no such member."""
        return self._silent_ms(group_id, member_id, self.config_of(group_id).session_timeout_ms)

    def close(self) -> None:
        """Stop every timer. Nothing is answered any more but by the writer, which ends first."""
        self._computations.close()
        self._stop()

    # Events

    def happen(self, group_id: str, event: StreamsEvent, *, replaced: Group | None = None) -> StreamsHappened:
        """Decide an event of a group, which begins with it if there is none, in the place of the classic group
        `replaced`."""
        held = self._held.get(group_id)
        before = self._begun(group_id) if held is None else held.current
        version, topics = self._topics.metadata_version, self._topics.topics
        config = self.config_of(group_id)
        decided = decide(
            before,
            event,
            now_ms=self._clock.now_ms(),
            config=config,
            topics=topics,
            topics_changed=held is None or held.seen_version != version,
            hash_of=lambda names: self._hashes.of(names, topics, version),
            is_computing=self._computations.runs(group_id),
        )
        written = PendingWrite()
        if decided.is_refused:
            written(ErrorCode.NONE, -1)  # a refusal waits for nothing
            return StreamsHappened(decided.answer, written)
        if decided.records:
            held = self._write(group_id, held, decided, written, replaced)
        elif held is not None:
            self._remember(held, decided.group, written)
        if held is None:
            if not written.is_done:
                written(ErrorCode.NONE, -1)
            return StreamsHappened(decided.answer, written, is_refused=True)
        if decided.records and self.observer is not None:
            self.observer.streams_decided(before, decided.group, event, self._clock.now_ms())
        if reads_topics(event):
            held.seen_version = version
            self.stats.streams_rebalances += decided.group.epoch > before.epoch
        self._apply(group_id, decided.timers)
        if decided.wants_target:
            steps = target_in_steps(held.current, standby_replicas=config.num_standby_replicas)
            self._computations.begin(group_id, steps)
        return StreamsHappened(decided.answer, written)

    def _begun(self, group_id: str) -> StreamsGroup:
        return StreamsGroup(group_id, endpoint_epoch=self.first_endpoint_epoch())

    def _remember(self, held: HeldStreamsGroup, group: StreamsGroup, written: PendingWrite) -> None:
        """Keep what a decision without records has changed in memory."""
        held.current = group
        if held.in_flight:
            self._writer.after_writes(written)
        else:
            held.durable = group
            written(ErrorCode.NONE, -1)

    def _write(
        self,
        group_id: str,
        held: HeldStreamsGroup | None,
        decided: StreamsOutcome,
        written: PendingWrite,
        replaced: Group | None,
    ) -> HeldStreamsGroup | None:
        """Write the records of a decision, which counts from now on; None if the log refuses them."""
        records = encoded(group_id, decided.records)
        is_new = held is None
        if held is None:
            held = self._held[group_id] = HeldStreamsGroup(decided.group, None)
            held.replaced = replaced
            if replaced is not None and not replaced.is_simple:
                records.insert(0, group_records.group_tombstone(group_id))
        before, held.current = held.current, decided.group
        held.in_flight += 1
        outcome: list[ErrorCode] = []
        is_in_log = False

        def settled(error: ErrorCode, base_offset: int) -> None:
            outcome.append(error)
            self._settled(group_id, held, decided.group, error)
            if is_in_log and error is not ErrorCode.NONE:
                self._is_lost(group_id, held)
            written(error and of_consumer_group(error), base_offset)

        self.write(records, settled)
        if outcome and outcome[0] is not ErrorCode.NONE:
            if not is_new:
                held.current = before
            return None
        is_in_log = True
        return held

    def _settled(self, group_id: str, held: HeldStreamsGroup, group: StreamsGroup, error: ErrorCode) -> None:
        held.in_flight -= 1
        if error is ErrorCode.NONE:
            held.durable, held.replaced = group, None
        elif held.durable is not None:
            # Nobody waits for the end of a delay that has ended meanwhile.
            held.current = replace(held.durable, is_delayed=False, configured=None)
        elif not held.in_flight and self._held.get(group_id) is held:
            self.forget(group_id)
            if held.replaced is not None:
                self._classic.restore(held.replaced)

    def _is_lost(self, group_id: str, held: HeldStreamsGroup) -> None:
        """Forget what the group has decided since it was durable: a look at its topics, parts of a target, the end of
        members' sessions."""
        held.seen_version = -1
        self._computations.cancel(group_id)
        if not held.in_flight and self._held.get(group_id) is held:
            self._begin_timers([held.current])

    def _target_computed(self, group_id: str, event: StreamsTargetsComputed) -> bool:
        held = self._held.get(group_id)
        return held is not None and not held.is_going and not self.happen(group_id, event).is_refused

    # The end of a group

    def begin_end(self, group_id: str) -> StreamsGroup:
        """The group is being deleted: nobody is to join it."""
        held = self._held[group_id]
        held.is_going = True
        return held.current

    def end(self, group_id: str, error: ErrorCode) -> None:
        """Its tombstones are durable, or they are not and the group lives on."""
        held = self._held.get(group_id)
        if held is not None and error is ErrorCode.NONE:
            self.forget(group_id)
        elif held is not None:
            held.is_going = False

    def forget(self, group_id: str) -> StreamsGroup:
        """The group is gone, or another kind takes its name. Returns what it was."""
        self._computations.cancel(group_id)
        group = self._held.pop(group_id).current
        self._timers.cancel(TimerKey(group_id, DELAY_TIMER, ""))
        for member_id in group.members:
            for kind in (ConsumerTimerKind.SESSION, ConsumerTimerKind.REBALANCE):
                self._timers.cancel(TimerKey(group_id, kind, member_id))
        return group

    # Timers

    def _fired(self, key: TimerKey, epoch: int) -> None:
        group_id = key.group_id
        event: StreamsEvent = DelayEnded() if key.kind is DELAY_TIMER else MemberTimerFired(key.timer, epoch)
        if group_id in self._held and self.happen(group_id, event).is_refused:
            self._timers.start(key, self.config_of(group_id).heartbeat_interval_ms, epoch=epoch)
