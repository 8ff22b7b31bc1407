"""What only a streams group does: its members' requests, processes that come back with another topology."""

from collections.abc import Iterator
from typing import Any, Final

from eosin.coordinator.groups.consumer.rules.events import ConsumerTimer, ConsumerTimerKind
from eosin.coordinator.groups.streams.rules.events import DelayEnded, StreamsEvent, StreamsHeartbeat, StreamsResult
from eosin.coordinator.groups.streams.rules.group import LEAVE_EPOCH, STATIC_LEAVE_EPOCH
from eosin.coordinator.groups.streams.rules.heartbeat import DELAY_TIMER
from model_checker.membership.steps import Action, Steps, spent, with_member
from model_checker.membership.values import Budget, Kind, Topic, instance_id, member_id
from model_checker.streams.clients import hears, misses, sending
from model_checker.streams.coordinating import NEW, Topics, happens, loaded
from model_checker.streams.values import READ, TOPOLOGIES, Bounds, Coordinator, Member, State, known_topics

_FIRST_TOPICS: Final = (Topic(READ, 2),)


class StreamsSteps(Steps[Coordinator, Member, StreamsHeartbeat, Bounds]):
    """The steps of a streams group."""

    def first_coordinator(self) -> Coordinator:
        return NEW

    def first_member(self, kind: Kind, bounds: Bounds) -> Member:
        return Member(kind)

    def first_topics(self, bounds: Bounds) -> tuple[Topic, ...]:
        return _FIRST_TOPICS

    def known_topics(self, topics: tuple[Topic, ...], bounds: Bounds) -> Topics:
        return known_topics(topics, bounds)

    def sending(self, index: int, member: Member, topics: Topics, bounds: Bounds) -> tuple[Member, StreamsHeartbeat]:
        return member, sending(index, member, bounds)

    def hears(self, member: Member, request: StreamsHeartbeat, answer: StreamsResult | None, topics: Topics) -> Member:
        return hears(member, request, answer)

    def misses(self, member: Member) -> Member:
        return misses(member)

    def may_send(self, state: State, member: Member) -> bool:
        return not member.is_gone

    def leaving(self, index: int, member: Member) -> StreamsHeartbeat:
        epoch = STATIC_LEAVE_EPOCH if member.kind is Kind.STATIC else LEAVE_EPOCH
        return StreamsHeartbeat(member_id(index, member), epoch, instance_id=instance_id(member))

    def happens(self, before: Coordinator, event: StreamsEvent, topics: Topics, bounds: Bounds) -> Any:
        coordinator, decided = happens(before, event, topics, bounds)
        return coordinator, decided.answer

    def loaded(self, before: Coordinator) -> Coordinator:
        return loaded(before)

    def runs_out(self, timer: ConsumerTimer, member: Member | None, *, is_confused: bool) -> bool:
        if timer.kind is DELAY_TIMER:
            return True
        if member is None:
            return timer.kind is ConsumerTimerKind.SESSION
        is_at_rest = member.has_said and member.owned == member.told and not member.has_missed
        return timer.kind is ConsumerTimerKind.REBALANCE and is_confused and is_at_rest

    def expired(self, timer: ConsumerTimer, epoch: int) -> StreamsEvent:
        return DelayEnded() if timer.kind is DELAY_TIMER else super().expired(timer, epoch)

    def own_faults(self, index: int, member: Member, budget: Budget, bounds: Bounds) -> Iterator[Action]:
        if budget.upgrades and member.topology + 1 < len(TOPOLOGIES):
            yield Action("upgrade", index)

    def takes_own(self, state: State, action: Action, bounds: Bounds) -> State:
        """Another process begins, with the other topology."""
        member = state.members[action.member]
        after = member.started()._replace(topology=member.topology + 1)
        return with_member(spent(state, "upgrades"), action, after)
