"""Everything that can happen to a group, one step each."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any, Generic, NamedTuple, TypeVar

from eosin.coordinator.groups.consumer.rules.events import ConsumerTimer, MemberTimerFired
from model_checker.membership.values import Bounds, Budget, C, Kind, M, R, State, Topic, member_id

B = TypeVar("B", bound=Bounds)


class Action(NamedTuple):
    """One step. `what` is a timer, the number of a topic, or that of a late request."""

    kind: str
    member: int = -1
    what: Any = None


class Steps(ABC, Generic[C, M, R, B]):
    """The steps of groups of all kinds. A kind adds what its coordinator and its members do."""

    def __init__(self) -> None:
        self._steps: dict[str, Callable[[State[C, M, R], Action, B], State[C, M, R]]] = {
            "request": self._request,
            "lost request": self._lost_request,
            "lost answer": self._lost_answer,
            "copy": self._copy,
            "late": self._late,
            "take up": self._take_up,
            "leave": self._leave,
            "leave for good": self._leave,
            "kill": self._kill,
            "expire": self._expire,
            "expire early": self._expire_early,
            "part": self._part,
            "grow": self._change_topic,
            "delete": self._change_topic,
            "create": self._change_topic,
            "crash": self._crash,
        }

    # What a kind of group adds ----------------------------------------------------------------------------------------

    @abstractmethod
    def first_coordinator(self) -> C:
        """One with a group without members."""

    @abstractmethod
    def first_member(self, kind: Kind, bounds: B) -> M:
        """One that has not joined."""

    @abstractmethod
    def first_topics(self, bounds: B) -> tuple[Topic, ...]:
        """The topics that may change."""

    @abstractmethod
    def known_topics(self, topics: tuple[Topic, ...], bounds: B) -> Any:
        """All topics, as the coordinator sees them."""

    @abstractmethod
    def sending(self, index: int, member: M, topics: Any, bounds: B) -> tuple[M, R]:
        """The member as it sends its next request, and that."""

    @abstractmethod
    def hears(self, member: M, request: R, answer: Any, topics: Any) -> M:
        """The member after the answer to its request."""

    @abstractmethod
    def misses(self, member: M) -> M:
        """The member after a request whose answer does not come."""

    @abstractmethod
    def may_send(self, state: State[C, M, R], member: M) -> bool:
        """True unless it is gone."""

    @abstractmethod
    def leaving(self, index: int, member: M) -> Any:
        """The event of its leave."""

    @abstractmethod
    def happens(self, before: C, event: Any, topics: Any, bounds: B) -> tuple[C, Any]:
        """The coordinator after an event, and the answer. Raises Violation."""

    @abstractmethod
    def loaded(self, before: C) -> C:
        """Another coordinator, which begins with the log."""

    @abstractmethod
    def runs_out(self, timer: ConsumerTimer, member: M | None, *, is_confused: bool) -> bool:
        """True if nothing will stop a timer: its member is gone, or does not know that it is waited for, since a late
        copy of a request has brought that about."""

    @abstractmethod
    def own_faults(self, index: int, member: M, budget: Budget, bounds: B) -> Iterator[Action]:
        """What only members of this kind of group do now and then."""

    @abstractmethod
    def takes_own(self, state: State[C, M, R], action: Action, bounds: B) -> State[C, M, R]:
        """The state after one of these."""

    def expired(self, timer: ConsumerTimer, epoch: int) -> Any:
        """The event of a timer's end."""
        return MemberTimerFired(timer, epoch)

    # What can happen --------------------------------------------------------------------------------------------------

    def first_state(self, bounds: B) -> State[C, M, R]:
        """Nobody has joined."""
        budget = Budget(*(getattr(bounds, what, 0) for what in Budget._fields))
        members = tuple(self.first_member(kind, bounds) for kind in bounds.kinds)
        return State(self.first_coordinator(), members, self.first_topics(bounds), (), budget)

    def fair_actions(self, state: State[C, M, R]) -> Iterator[Action]:
        """What happens by itself, sooner or later."""
        for index, member in enumerate(state.members):
            if self.may_send(state, member):
                yield Action("request", index)
            if member.owned != member.told:
                yield Action("take up", index)
        alive = {member_id(index, member): member for index, member in enumerate(state.members) if not member.is_gone}
        for timer in state.coordinator.timers:
            if self.runs_out(timer, alive.get(timer.member_id), is_confused=state.is_confused):
                yield Action("expire", what=timer)
        if state.coordinator.parts:
            yield Action("part")
        for number in range(len(state.late)):
            yield Action("late", what=number)

    def faults(self, state: State[C, M, R], bounds: B) -> Iterator[Action]:
        """What goes wrong, or changes, as often as the bounds allow."""
        budget = state.budget
        for index, member in enumerate(state.members):
            if member.is_gone:
                continue
            if self.may_send(state, member):
                if budget.losses:
                    yield from (Action("lost request", index), Action("lost answer", index))
                if budget.copies:
                    yield Action("copy", index)
            if member.epoch and budget.leaves:
                yield from (Action("leave", index), Action("leave for good", index))
            if member.epoch and budget.kills:
                yield Action("kill", index)
            yield from self.own_faults(index, member, budget, bounds)
        if budget.expiries:
            yield from (Action("expire early", what=timer) for timer in state.coordinator.timers)
        if budget.changes:
            for number, topic in enumerate(state.topics):
                kinds = ("grow", "delete") if topic.partitions else ("create",)
                yield from (Action(kind, what=number) for kind in kinds)
        if budget.crashes:
            yield Action("crash")

    # Steps ------------------------------------------------------------------------------------------------------------

    def take(self, state: State[C, M, R], action: Action, bounds: B) -> State[C, M, R]:
        """The state after an action. Raises Violation."""
        return self._steps.get(action.kind, self.takes_own)(state, action, bounds)

    def _sending(self, state: State[C, M, R], action: Action, bounds: B) -> tuple[M, R, Any]:
        topics = self.known_topics(state.topics, bounds)
        return *self.sending(action.member, state.members[action.member], topics, bounds), topics

    def _request(self, state: State[C, M, R], action: Action, bounds: B) -> State[C, M, R]:
        member, request, topics = self._sending(state, action, bounds)
        coordinator, answer = self.happens(state.coordinator, request, topics, bounds)
        return with_member(state, action, self.hears(member, request, answer, topics), coordinator=coordinator)

    def _lost_request(self, state: State[C, M, R], action: Action, bounds: B) -> State[C, M, R]:
        member, _, _ = self._sending(state, action, bounds)
        return with_member(spent(state, "losses"), action, self.misses(member))

    def _lost_answer(self, state: State[C, M, R], action: Action, bounds: B) -> State[C, M, R]:
        member, request, topics = self._sending(state, action, bounds)
        coordinator, _ = self.happens(state.coordinator, request, topics, bounds)
        return with_member(spent(state, "losses"), action, self.misses(member), coordinator=coordinator)

    def _copy(self, state: State[C, M, R], action: Action, bounds: B) -> State[C, M, R]:
        _, request, _ = self._sending(state, action, bounds)
        return self._request(spent(state, "copies"), action, bounds)._replace(late=(*state.late, request))

    def _late(self, state: State[C, M, R], action: Action, bounds: B) -> State[C, M, R]:
        coordinator = self._event(state, state.coordinator, state.late[action.what], bounds)
        late = (*state.late[: action.what], *state.late[action.what + 1 :])
        return state._replace(coordinator=coordinator, late=late, is_confused=True)

    def _take_up(self, state: State[C, M, R], action: Action, bounds: B) -> State[C, M, R]:
        member = state.members[action.member]
        return with_member(state, action, member._replace(owned=member.told))

    def _leave(self, state: State[C, M, R], action: Action, bounds: B) -> State[C, M, R]:
        member = state.members[action.member]
        coordinator = self._event(state, state.coordinator, self.leaving(action.member, member), bounds)
        after = member.started()._replace(is_gone=action.kind == "leave for good")
        return with_member(spent(state, "leaves"), action, after, coordinator=coordinator)

    def _kill(self, state: State[C, M, R], action: Action, bounds: B) -> State[C, M, R]:
        return with_member(spent(state, "kills"), action, state.members[action.member].started())

    def _expire(self, state: State[C, M, R], action: Action, bounds: B) -> State[C, M, R]:
        before = state.coordinator
        event = self.expired(action.what, before.timers[action.what])
        return state._replace(coordinator=self._event(state, before.without_timer(action.what), event, bounds))

    def _expire_early(self, state: State[C, M, R], action: Action, bounds: B) -> State[C, M, R]:
        return self._expire(spent(state, "expiries"), action, bounds)

    def _part(self, state: State[C, M, R], action: Action, bounds: B) -> State[C, M, R]:
        before, part = state.coordinator.without_part()
        return state._replace(coordinator=self._event(state, before, part, bounds))

    def _change_topic(self, state: State[C, M, R], action: Action, bounds: B) -> State[C, M, R]:
        topic = state.topics[action.what]
        match action.kind:
            case "grow":
                after = topic._replace(partitions=topic.partitions + 1)
            case "delete":
                after = topic._replace(partitions=0)
            case _:
                after = self.first_topics(bounds)[action.what]._replace(life=topic.life + 1)
        topics = (*state.topics[: action.what], after, *state.topics[action.what + 1 :])
        return spent(state, "changes")._replace(topics=topics, coordinator=state.coordinator.with_other_topics())

    def _crash(self, state: State[C, M, R], action: Action, bounds: B) -> State[C, M, R]:
        """Connections end with it, and what was on its way in them."""
        return spent(state, "crashes")._replace(coordinator=self.loaded(state.coordinator), late=())

    def _event(self, state: State[C, M, R], before: C, event: Any, bounds: B) -> C:
        return self.happens(before, event, self.known_topics(state.topics, bounds), bounds)[0]


def with_member(state: State[C, M, R], action: Action, member: M, **changes: Any) -> State[C, M, R]:
    """The state where the member of the action is this one."""
    members = (*state.members[: action.member], member, *state.members[action.member + 1 :])
    return state._replace(members=members, **changes)


def spent(state: State[C, M, R], what: str) -> State[C, M, R]:
    """The state where it may happen once less."""
    return state._replace(budget=state.budget._replace(**{what: getattr(state.budget, what) - 1}))
