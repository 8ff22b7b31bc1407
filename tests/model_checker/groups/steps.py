"""What only a consumer group does: its members' requests, classic members among them, and subscriptions that change."""

from collections.abc import Iterator
from typing import Any

from eosin.coordinator.groups.consumer.rules.decide import Answer
from eosin.coordinator.groups.consumer.rules.events import (
    ConsumerEvent,
    ConsumerHeartbeat,
    ConsumerTimer,
    ConsumerTimerKind,
    MembersLeft,
)
from eosin.coordinator.groups.consumer.rules.group import LEAVE_EPOCH, STATIC_LEAVE_EPOCH
from eosin.coordinator.groups.rules.events import LeavingMember
from model_checker.groups.clients import hears, misses, sending
from model_checker.groups.coordinating import NEW, Topics, happens, loaded
from model_checker.groups.values import Bounds, Coordinator, Member, Phase, Request, State, known_topics
from model_checker.membership.steps import Action, Steps, spent, with_member
from model_checker.membership.values import Budget, Kind, Topic, instance_id, member_id


class ConsumerSteps(Steps[Coordinator, Member, Request, Bounds]):
    """The steps of a consumer group."""

    def first_coordinator(self) -> Coordinator:
        return NEW

    def first_member(self, kind: Kind, bounds: Bounds) -> Member:
        return Member(kind, tuple(name for name, _ in bounds.topics))

    def first_topics(self, bounds: Bounds) -> tuple[Topic, ...]:
        return tuple(Topic(name, partitions) for name, partitions in bounds.topics)

    def known_topics(self, topics: tuple[Topic, ...], bounds: Bounds) -> Topics:
        return known_topics(topics)

    def sending(self, index: int, member: Member, topics: Topics, bounds: Bounds) -> tuple[Member, Request]:
        return sending(index, member, topics)

    def hears(self, member: Member, request: Request, answer: Answer | None, topics: Topics) -> Member:
        return hears(member, request, answer, topics)

    def misses(self, member: Member) -> Member:
        return misses(member)

    def may_send(self, state: State, member: Member) -> bool:
        """True unless it is gone. A classic member that joins an empty group would begin another one
        (consumer-groups.md 1.1), which is no part of the model."""
        joins = member.kind.is_classic and member.phase is Phase.JOIN
        return not member.is_gone and not (joins and not state.coordinator.group.members)

    def leaving(self, index: int, member: Member) -> MembersLeft | ConsumerHeartbeat:
        name = member_id(index, member)
        if member.kind.is_classic:
            return MembersLeft((LeavingMember(name, None),))
        epoch = STATIC_LEAVE_EPOCH if member.kind is Kind.STATIC else LEAVE_EPOCH
        return ConsumerHeartbeat(name, epoch, instance_id=instance_id(member))

    def happens(self, before: Coordinator, event: ConsumerEvent, topics: Topics, bounds: Bounds) -> Any:
        coordinator, decided = happens(before, event, topics, bounds)
        return coordinator, decided.answer

    def loaded(self, before: Coordinator) -> Coordinator:
        return loaded(before)

    def runs_out(self, timer: ConsumerTimer, member: Member | None, *, is_confused: bool) -> bool:
        if member is None:
            return timer.kind is ConsumerTimerKind.SESSION
        match timer.kind:
            case ConsumerTimerKind.REBALANCE:
                return is_confused and member.has_said and member.owned == member.told and not member.has_missed
            case ConsumerTimerKind.SYNC:
                return is_confused and member.phase is Phase.HEARTBEAT
            case _:
                return False

    def own_faults(self, index: int, member: Member, budget: Budget, bounds: Bounds) -> Iterator[Action]:
        if budget.subscriptions and len(bounds.topics) > 1 and not member.kind.is_classic:
            yield Action("subscribe", index)

    def takes_own(self, state: State, action: Action, bounds: Bounds) -> State:
        """It reads the first topic alone, or all of them again, and says so with its next request. None that names
        other topics is on its way any more: nothing would tell it from the newest."""
        names = tuple(name for name, _ in bounds.topics)
        member = state.members[action.member]
        after = member._replace(topics=names[:1] if member.topics == names else names, has_missed=True)
        name = member_id(action.member, member)
        late = tuple(each for each in state.late if each.member_id != name)
        return with_member(spent(state, "subscriptions"), action, after, late=late)
