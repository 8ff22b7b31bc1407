"""Everything that can happen to a group, one step each."""

from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

from eosin.coordinator.groups.consumer.rules.events import ConsumerTimer, ConsumerTimerKind, MemberTimerFired
from eosin.coordinator.groups.streams.rules.events import DelayEnded, StreamsEvent, StreamsHeartbeat
from eosin.coordinator.groups.streams.rules.group import LEAVE_EPOCH, STATIC_LEAVE_EPOCH
from eosin.coordinator.groups.streams.rules.heartbeat import DELAY_TIMER
from model_checker.streams.clients import hears, misses, sending
from model_checker.streams.coordinating import NEW, happens, loaded, part_kept, with_other_topics, without_timer
from model_checker.streams.values import (
    TOPOLOGIES,
    Bounds,
    Budget,
    Kind,
    Member,
    State,
    Topic,
    instance_id,
    known_topics,
    member_id,
)

_PARTITIONS: Final = 2
"""Of the topic that changes."""


class Action(NamedTuple):
    """One step. `what` is a timer, or the number of a late request."""

    kind: str
    member: int = -1
    what: Any = None


def first_state(bounds: Bounds) -> State:
    """Nobody has joined."""
    budget = Budget(
        bounds.losses,
        bounds.copies,
        bounds.leaves,
        bounds.kills,
        bounds.upgrades,
        bounds.expiries,
        bounds.changes,
        bounds.crashes,
    )
    return State(NEW, tuple(Member(kind) for kind in bounds.kinds), Topic(_PARTITIONS), (), budget)


# What can happen ------------------------------------------------------------------------------------------------------


def fair_actions(state: State) -> Iterator[Action]:
    """What happens by itself, sooner or later."""
    for index, member in enumerate(state.members):
        if not member.is_gone:
            yield Action("request", index)
        if member.owned != member.told:
            yield Action("take up", index)
    alive = {member_id(index, member): member for index, member in enumerate(state.members) if not member.is_gone}
    for timer in state.coordinator.timers:
        if _runs_out(timer, alive.get(timer.member_id), is_confused=state.is_confused):
            yield Action("expire", what=timer)
    if state.coordinator.parts:
        yield Action("part")
    for number in range(len(state.late)):
        yield Action("late", what=number)


def _runs_out(timer: ConsumerTimer, member: Member | None, *, is_confused: bool) -> bool:
    """True if nothing will stop a timer: its member is gone, or does not know that it is waited for, since a late copy
    of a request has brought that about."""
    if timer.kind is DELAY_TIMER:
        return True
    if member is None:
        return timer.kind is ConsumerTimerKind.SESSION
    is_at_rest = member.has_said and member.owned == member.told and not member.has_missed
    return timer.kind is ConsumerTimerKind.REBALANCE and is_confused and is_at_rest


def faults(state: State, bounds: Bounds) -> Iterator[Action]:
    """What goes wrong, or changes, as often as the bounds allow."""
    budget = state.budget
    for index, member in enumerate(state.members):
        if member.is_gone:
            continue
        if budget.losses:
            yield from (Action("lost request", index), Action("lost answer", index))
        if budget.copies:
            yield Action("copy", index)
        if member.epoch and budget.leaves:
            yield from (Action("leave", index), Action("leave for good", index))
        if member.epoch and budget.kills:
            yield Action("kill", index)
        if budget.upgrades and member.topology + 1 < len(TOPOLOGIES):
            yield Action("upgrade", index)
    if budget.expiries:
        yield from (Action("expire early", what=timer) for timer in state.coordinator.timers)
    if budget.changes:
        yield from (Action(kind) for kind in (("grow", "delete") if state.topic.partitions else ("create",)))
    if budget.crashes:
        yield Action("crash")


# Steps ----------------------------------------------------------------------------------------------------------------


def take(state: State, action: Action, bounds: Bounds) -> State:
    """The state after an action. Raises Violation."""
    return _STEPS[action.kind](state, action, bounds)


def _with(state: State, index: int, member: Member, **changes: Any) -> State:
    members = (*state.members[:index], member, *state.members[index + 1 :])
    return state._replace(members=members, **changes)


def _spend(state: State, what: str) -> State:
    return state._replace(budget=state.budget._replace(**{what: getattr(state.budget, what) - 1}))


def _request(state: State, action: Action, bounds: Bounds) -> State:
    member = state.members[action.member]
    request = sending(action.member, member, bounds)
    coordinator, decided = happens(state.coordinator, request, known_topics(state.topic, bounds), bounds)
    return _with(state, action.member, hears(member, request, decided.answer), coordinator=coordinator)


def _lost_request(state: State, action: Action, bounds: Bounds) -> State:
    return _with(_spend(state, "losses"), action.member, misses(state.members[action.member]))


def _lost_answer(state: State, action: Action, bounds: Bounds) -> State:
    member = state.members[action.member]
    request = sending(action.member, member, bounds)
    coordinator, _ = happens(state.coordinator, request, known_topics(state.topic, bounds), bounds)
    return _with(_spend(state, "losses"), action.member, misses(member), coordinator=coordinator)


def _copy(state: State, action: Action, bounds: Bounds) -> State:
    request = sending(action.member, state.members[action.member], bounds)
    return _request(_spend(state, "copies"), action, bounds)._replace(late=(*state.late, request))


def _late(state: State, action: Action, bounds: Bounds) -> State:
    request = state.late[action.what]
    coordinator, _ = happens(state.coordinator, request, known_topics(state.topic, bounds), bounds)
    late = (*state.late[: action.what], *state.late[action.what + 1 :])
    return state._replace(coordinator=coordinator, late=late, is_confused=True)


def _take_up(state: State, action: Action, bounds: Bounds) -> State:
    member = state.members[action.member]
    return _with(state, action.member, member._replace(owned=member.told))


def _leave(state: State, action: Action, bounds: Bounds) -> State:
    member = state.members[action.member]
    epoch = STATIC_LEAVE_EPOCH if member.kind is Kind.STATIC else LEAVE_EPOCH
    event = StreamsHeartbeat(member_id(action.member, member), epoch, instance_id=instance_id(member))
    coordinator, _ = happens(state.coordinator, event, known_topics(state.topic, bounds), bounds)
    after = member.started()._replace(is_gone=action.kind == "leave for good")
    return _with(_spend(state, "leaves"), action.member, after, coordinator=coordinator)


def _kill(state: State, action: Action, bounds: Bounds) -> State:
    return _with(_spend(state, "kills"), action.member, state.members[action.member].started())


def _upgrade(state: State, action: Action, bounds: Bounds) -> State:
    member = state.members[action.member]
    after = member.started()._replace(topology=member.topology + 1)
    return _with(_spend(state, "upgrades"), action.member, after)


def _expire(state: State, action: Action, bounds: Bounds) -> State:
    timer: ConsumerTimer = action.what
    coordinator = state.coordinator
    event: StreamsEvent = MemberTimerFired(timer, coordinator.timers[timer])
    if timer.kind is DELAY_TIMER:
        event = DelayEnded()
    coordinator, _ = happens(without_timer(coordinator, timer), event, known_topics(state.topic, bounds), bounds)
    return state._replace(coordinator=coordinator)


def _expire_early(state: State, action: Action, bounds: Bounds) -> State:
    return _expire(_spend(state, "expiries"), action, bounds)


def _part(state: State, action: Action, bounds: Bounds) -> State:
    return state._replace(coordinator=part_kept(state.coordinator, known_topics(state.topic, bounds), bounds))


def _change_topic(state: State, action: Action, bounds: Bounds) -> State:
    topic = state.topic
    match action.kind:
        case "grow":
            after = topic._replace(partitions=topic.partitions + 1)
        case "delete":
            after = topic._replace(partitions=0)
        case _:
            after = Topic(_PARTITIONS, topic.life + 1)
    return _spend(state, "changes")._replace(topic=after, coordinator=with_other_topics(state.coordinator))


def _crash(state: State, action: Action, bounds: Bounds) -> State:
    """Connections end with it, and what was on its way in them."""
    return _spend(state, "crashes")._replace(coordinator=loaded(state.coordinator), late=())


_STEPS: Final[dict[str, Callable[[State, Action, Bounds], State]]] = {
    "request": _request,
    "lost request": _lost_request,
    "lost answer": _lost_answer,
    "copy": _copy,
    "late": _late,
    "take up": _take_up,
    "leave": _leave,
    "leave for good": _leave,
    "kill": _kill,
    "upgrade": _upgrade,
    "expire": _expire,
    "expire early": _expire_early,
    "part": _part,
    "grow": _change_topic,
    "delete": _change_topic,
    "create": _change_topic,
    "crash": _crash,
}
