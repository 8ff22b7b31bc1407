"""`ConsumerGroups`: the consumer groups of one partition of `__consumer_offsets`, their timers, and their writes.

A decision counts for the next one at once, and for those who only read when its records are durable; an answer waits
for that, too. So a group is two values: the one that requests are decided by, and the durable one. Always true: records
are in the log in the order of the decisions; what the log refuses was never decided; when the log fails, a group is
again what is durable. The two values share what has not changed, and no step takes longer the more members there are.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import reduce
from typing import Final, NamedTuple

from eosin.coordinator.groups.consumer.held_groups import GroupSurroundings, HeldGroup, HeldGroups
from eosin.coordinator.groups.consumer.log.records import encoded
from eosin.coordinator.groups.consumer.member_timers import MemberTimers, TimerKey
from eosin.coordinator.groups.consumer.ports import ClassicSide, ConsumerGroupObserver, MayDescribe
from eosin.coordinator.groups.consumer.regex_search import RegexSearch, problem_of
from eosin.coordinator.groups.consumer.rules import regexes
from eosin.coordinator.groups.consumer.rules.decide import Answer, Decided, decide
from eosin.coordinator.groups.consumer.rules.events import (
    REQUESTS_OF_MEMBERS,
    ConsumerEvent,
    ConsumerHeartbeat,
    ConsumerTimerKind,
    HeartbeatResult,
    MemberTimerFired,
    RegexesResolved,
    TargetsComputed,
)
from eosin.coordinator.groups.consumer.rules.group import (
    JOIN_EPOCH,
    ConsumerGroup,
    ConsumerMember,
    ConsumerMemberState,
    ResolvedRegex,
    without_member,
)
from eosin.coordinator.groups.consumer.rules.targets import computation
from eosin.coordinator.groups.consumer.target_computation import TargetComputations
from eosin.coordinator.groups.log import records as group_records
from eosin.coordinator.groups.log.writer import PendingWrite
from eosin.coordinator.groups.rules.config import ConsumerConfigOf
from eosin.coordinator.groups.rules.group import Group
from eosin.coordinator.groups.rules.write_errors import of_consumer_group
from eosin.coordinator.steps import InSteps
from eosin.protocol.errors import ErrorCode

SESSIONS_PER_TURN: Final = 1000
"""Members of groups that were loaded, whose sessions begin in one turn of the event loop: some milliseconds."""


class HeldConsumerGroup(HeldGroup[ConsumerGroup]):
    """One group."""

    __slots__ = ("replaced", "searched_version")

    def __init__(self, current: ConsumerGroup, durable: ConsumerGroup | None) -> None:
        super().__init__(current, durable)
        self.replaced: Group | None = None
        """The classic group of the name, which is there again if the first write fails."""
        self.searched_version = -1
        """The same of the last search for the topics of regular expressions."""


class Happened(NamedTuple):
    """The outcome of an event: the answer, once `written` has ended well."""

    answer: Answer | None
    written: PendingWrite
    is_refused: bool = False
    """True if the log has refused the records, and nothing has happened."""


class ConsumerGroups(HeldGroups[ConsumerGroup, HeldConsumerGroup]):
    """The groups by id."""

    def __init__(
        self,
        around: GroupSurroundings,
        *,
        classic: ClassicSide,
        config_of: ConsumerConfigOf | None = None,
    ) -> None:
        """Names go over to `classic`, and come from there. `config_of` tells the settings of a group; by default they
        are those of the broker."""
        super().__init__(MemberTimers[TimerKey](around.session_clock, self._fired), around)
        self._classic = classic
        self._computations = TargetComputations(clock=around.clock, keep=self._target_computed)
        self._leaving: dict[str, HeldConsumerGroup] = {}
        """Groups that have become classic ones, until it is durable that they have."""
        self._search = RegexSearch(
            topics=around.topics, clock=around.clock, prepared=self._regexes_prepared, found=self._regexes_found
        )
        self.observer: ConsumerGroupObserver | None = None
        self.config_of: ConsumerConfigOf = config_of or (lambda _: around.config.consumer)

    def silent_ms(self, group_id: str, member_id: str) -> int | None:
        """Time since a member was heard of, or since its group was loaded, by the session timeout that counts now; None
        if there is no such member."""
        group = self.current(group_id)
        member = None if group is None else group.members.get(member_id)
        if member is None:
            return None
        classic = member.classic
        timeout_ms = self.config_of(group_id).session_timeout_ms if classic is None else classic.session_timeout_ms
        return self._silent_ms(group_id, member_id, timeout_ms)

    def becomes_classic(self, group_id: str) -> bool:
        """True while it is not durable yet that the group is a classic one."""
        return group_id in self._leaving

    # Life

    def load(self, held: dict[str, HeldConsumerGroup]) -> None:
        """Begin with these groups, which the log has: every member has a whole session, and to revoke a whole
        rebalance timeout (consumer-groups.md 12.5)."""
        self._held = held
        self._in_turns(self._loaded(list(held.values())), steps_per_turn=SESSIONS_PER_TURN)

    def _loaded(self, loaded: Sequence[HeldConsumerGroup]) -> Iterator[None]:
        """Report a group, unless it has decided something since, and begin its sessions; a member in each step."""
        for held in loaded:
            group = held.current
            is_unchanged = group is held.durable and self._held.get(group.group_id) is held
            if self.observer is not None and group.members and is_unchanged and not held.in_flight:
                self.observer.consumer_decided(group, group, None, self._clock.now_ms())
            yield from self._sessions_begin([group])
            yield

    def _start_timers(self, groups: Sequence[ConsumerGroup]) -> None:
        self._in_turns(self._sessions_begin(groups), steps_per_turn=SESSIONS_PER_TURN)

    def _sessions_begin(self, groups: Sequence[ConsumerGroup]) -> Iterator[None]:
        """Begin the session of a member in each step. One that has sent a heartbeat since has its own."""
        for group in groups:
            config = self.config_of(group.group_id)
            for member_id in group.members:
                held = self._held.get(group.group_id)
                member = None if held is None else held.current.members.get(member_id)
                if member is not None:
                    classic = member.classic
                    timeout_ms = config.session_timeout_ms if classic is None else classic.session_timeout_ms
                    self._begin(group.group_id, ConsumerTimerKind.SESSION, member, timeout_ms)
                    if member.state is ConsumerMemberState.UNREVOKED_PARTITIONS and classic is None:
                        self._begin(group.group_id, ConsumerTimerKind.REBALANCE, member, member.rebalance_timeout_ms)
                yield

    def _begin(self, group_id: str, kind: ConsumerTimerKind, member: ConsumerMember, delay_ms: int) -> None:
        key = TimerKey(group_id, kind, member.member_id)
        if key not in self._timers:
            self._timers.start(key, delay_ms, epoch=member.epoch)

    def close(self) -> None:
        """Stop every timer. Nothing is answered any more but by the writer, which ends first."""
        self._search.close()
        self._computations.close()
        self._stop()
        self._leaving.clear()

    # Events

    def happen(self, group_id: str, event: ConsumerEvent, *, replaced: Group | None = None) -> Happened:
        """Decide an event of a group, which begins with it if there is none. `replaced`: the classic group that has its
        name."""
        # Of two changes of its kind the second waits for the first, so that a log which fails has one to undo.
        held = self._held.get(group_id)
        return self._happen(group_id, event, replaced, may_convert=held is not None and held.durable is not None)

    def _happen(self, group_id: str, event: ConsumerEvent, replaced: Group | None, *, may_convert: bool) -> Happened:
        held = self._held.get(group_id)
        before = ConsumerGroup(group_id) if held is None else held.current
        version, topics = self._topics.metadata_version, self._topics.topics
        looks = isinstance(event, REQUESTS_OF_MEMBERS)
        config = self.config_of(group_id)
        decided = decide(
            before,
            event,
            now_ms=self._clock.now_ms(),
            config=config,
            topics=topics,
            topics_changed=looks and (held is None or held.seen_version != version),
            may_convert=may_convert,
            hash_of=lambda names: self._hashes.of(names, topics, version),
            is_computing=self._computations.runs(group_id),
        )
        written = PendingWrite()
        if decided.is_refused:
            written(ErrorCode.NONE, -1)  # a refusal waits for nothing
            return Happened(decided.answer, written)
        if not decided.records:
            if held is None or not held.in_flight:
                written(ErrorCode.NONE, -1)
            else:
                self._writer.after_writes(written)
        elif decided.classic is not None and held is not None:
            if self._become_classic(group_id, held, decided, written):
                self._report_classic(before, decided.classic, event)
                return Happened(decided.answer, written)
            # A classic group is one record, which may be too large; its members are to go all the same.
            return self._happen(group_id, event, replaced, may_convert=False)
        else:
            held = self._write(group_id, held, decided, replaced, written)
        if held is None:
            return Happened(decided.answer, written, is_refused=True)
        if decided.records:
            self._count(before, decided.group, event)
        if looks:
            held.seen_version = version
        self._apply(group_id, decided.timers)
        if decided.wants_target:
            self._computations.begin(group_id, computation(held.current, topics, config.assignors))
        return Happened(decided.answer, written)

    def _count(self, before: ConsumerGroup, after: ConsumerGroup, event: ConsumerEvent) -> None:
        """Count a rebalance as Kafka does, and report what has happened."""
        stays = isinstance(event, ConsumerHeartbeat) and event.member_epoch >= JOIN_EPOCH
        if after.epoch > before.epoch and (stays or isinstance(event, RegexesResolved)):
            self.stats.consumer_rebalances += 1
        if self.observer is not None:
            self.observer.consumer_decided(before, after, event, self._clock.now_ms())

    def _report_classic(self, before: ConsumerGroup, classic: Group, event: ConsumerEvent) -> None:
        """Report what has left members of the classic protocol alone."""
        if self.observer is not None:
            gone = [member_id for member_id in before.members if member_id not in classic.members]
            self.observer.consumer_decided(before, reduce(without_member, gone, before), event, self._clock.now_ms())

    def _write(
        self,
        group_id: str,
        held: HeldConsumerGroup | None,
        decided: Decided,
        replaced: Group | None,
        written: PendingWrite,
    ) -> HeldConsumerGroup | None:
        """Write the records of a decision, which counts from now on; None if the log refuses them."""
        records = encoded(group_id, decided.records)
        is_new = held is None
        if held is None:
            held = HeldConsumerGroup(decided.group, None)
            if replaced is not None and not replaced.is_simple:
                records.insert(0, group_records.group_tombstone(group_id))
        before, held.current = held.current, decided.group
        if is_new:
            held.replaced = replaced
            self._held[group_id] = held
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

    def _is_lost(self, group_id: str, held: HeldConsumerGroup) -> None:
        """Forget what the group has decided since it was durable: a look at its topics, parts of a target, the end of
        members' sessions."""
        held.seen_version = held.searched_version = -1
        self._computations.cancel(group_id)
        if not held.in_flight and self._held.get(group_id) is held:
            self._start_timers([held.current])

    def _settled(self, group_id: str, held: HeldConsumerGroup, group: ConsumerGroup, error: ErrorCode) -> None:
        held.in_flight -= 1
        if error is ErrorCode.NONE:
            held.durable, held.replaced = group, None
        elif held.durable is not None:
            held.current = held.durable
        elif not held.in_flight and self._held.get(group_id) is held:
            self._forget(group_id)
            if held.replaced is not None:
                self._stop_timers(held.current)
                self._classic.restore(held.replaced)

    def _become_classic(self, group_id: str, held: HeldConsumerGroup, decided: Decided, written: PendingWrite) -> bool:
        """Write the end of a group and the classic one that takes its place; False if the log refuses it."""
        assert decided.classic is not None
        held.in_flight += 1
        outcome: list[ErrorCode] = []

        def settled(error: ErrorCode, base_offset: int) -> None:
            outcome.append(error)
            held.in_flight -= 1
            if self._leaving.pop(group_id, None) is not None and error is not ErrorCode.NONE:
                self._classic.end(group_id)
                self._held[group_id] = held
                held.seen_version = -1
                self._start_timers([held.current])
            written(error and of_consumer_group(error), base_offset)

        self.write(encoded(group_id, decided.records), settled)
        if outcome and outcome[0] is not ErrorCode.NONE:
            return False
        self._forget(group_id)
        if not outcome:
            self._leaving[group_id] = held
        self._stop_timers(held.current)
        self._classic.begin(decided.classic, rebalances=decided.classic_rebalances)
        return True

    # Regular expressions

    def regex_refusal(self, group_id: str, request: ConsumerHeartbeat) -> HeartbeatResult | None:
        """The reason why a group cannot be subscribed to the request's regular expression; None if it can. One that
        another member has is good."""
        if not request.regex:
            return None
        group = self.current(group_id)
        used = frozenset[str]() if group is None else regexes.used_by(group)
        if request.regex in used:
            return None
        most = self.config_of(group_id).eosin_regex_max_patterns
        if len(used) >= most:
            text = f"The members of the group have {most} regular expressions already, which is the most."
            return HeartbeatResult(ErrorCode.GROUP_MAX_SIZE_REACHED, text)
        problem = problem_of(request.regex)
        return None if problem is None else HeartbeatResult(ErrorCode.INVALID_REGULAR_EXPRESSION, problem)

    def search_topics(self, group_id: str, may_describe: MayDescribe) -> None:
        """Begin to look for the topics of a group's regular expressions if that is due, by the right of the member that
        has sent a heartbeat."""
        held = self._held.get(group_id)
        if held is None or self._search.runs(group_id):
            return
        version = self._topics.metadata_version
        wanted = regexes.due(
            held.current,
            now_ms=self._clock.now_ms(),
            topics_changed=held.searched_version != version,
            refresh_ms=self.config_of(group_id).regex_refresh_interval_ms,
        )
        if wanted:
            held.searched_version = version
            self._search.begin(group_id, sorted(wanted), may_describe)

    def _regexes_prepared(self, group_id: str, resolved: Mapping[str, ResolvedRegex]) -> InSteps[None]:
        """Compute the hash of the topics that the group will be subscribed to, which may be very many."""
        group = self.current(group_id)
        if group is not None:
            names = group.counts.names.union(*(each.topics for each in resolved.values()))
            yield from self._hashes.prepared(names, self._topics.topics, self._topics.metadata_version)

    def _regexes_found(self, group_id: str, event: RegexesResolved) -> None:
        held = self._held.get(group_id)
        if held is not None and not held.is_going and self.happen(group_id, event).is_refused:
            held.searched_version = -1  # what the log did not take is to be found again

    # Targets

    def _target_computed(self, group_id: str, event: TargetsComputed) -> bool:
        held = self._held.get(group_id)
        return held is not None and not held.is_going and not self.happen(group_id, event).is_refused

    # The end of a group

    def remove(self, group_id: str) -> ConsumerGroup:
        """Forget an empty group whose name another kind takes."""
        return self._forget(group_id).current

    def _forget(self, group_id: str) -> HeldConsumerGroup:
        self._computations.cancel(group_id)
        return self._held.pop(group_id)

    def begin_end(self, group_id: str) -> ConsumerGroup:
        """The group is being deleted: nobody is to join it."""
        held = self._held[group_id]
        held.is_going = True
        return held.current

    def end(self, group_id: str, error: ErrorCode) -> None:
        """Its tombstones are durable, or they are not and the group lives on."""
        held = self._held.get(group_id)
        if held is not None and error is ErrorCode.NONE:
            self._forget(group_id)
        elif held is not None:
            held.is_going = False

    # Timers

    def _stop_timers(self, group: ConsumerGroup) -> None:
        for member_id in group.members:
            for kind in ConsumerTimerKind:
                self._timers.cancel(TimerKey(group.group_id, kind, member_id))

    def _fired(self, key: TimerKey, epoch: int) -> None:
        group_id = key.group_id
        if group_id in self._held and self.happen(group_id, MemberTimerFired(key.timer, epoch)).is_refused:
            self._timers.start(key, self.config_of(group_id).heartbeat_interval_ms, epoch=epoch)
