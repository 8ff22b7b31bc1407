"""What can happen, each with the state after it. The code of the broker decides; what stands here carries it out."""

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from eosin.broker.requests.fetch_pass import compare_histories
from eosin.cluster.replication.rules import leading
from eosin.cluster.replication.rules.followed_partition import (
    AdvanceHighWatermark,
    AdvanceLogStart,
    Answered,
    Append,
    Cut,
    Effect,
    Event,
    FetchRetryDue,
    FollowedPartition,
    ListOffset,
    OffsetListed,
    Phase,
    ReportPartition,
    StartAt,
    Truncate,
    decide,
    is_durable,
    position_of,
)
from eosin.cluster.replication.rules.isr import IsrChangeResult, brokers_changed
from eosin.cluster.replication.rules.leading import FollowerFetch, LeaderContext, LeaderStep
from eosin.cluster.replication.rules.truncation import Divergence
from eosin.protocol.errors import ErrorCode
from eosin.protocol.records.header import HEADER_BYTES
from eosin.storage.log.leader_epochs import LeaderEpochs
from model_checker.replication import controller as kraft
from model_checker.replication.rules import committed_now
from model_checker.replication.values import (
    ASKING,
    NO_LEADER,
    Bounds,
    Budget,
    Change,
    ChangeAnswer,
    Controller,
    FetchAnswer,
    FetchRequest,
    Record,
    Registered,
    Replica,
    State,
)

_NO_LAG: Final = 0
"""Time stands still until `replica.lag.time.max.ms` have passed at once."""


class Action(NamedTuple):
    """What happens, and to which broker or message."""

    kind: str
    node: int
    which: int = 0


class Log:
    """A replica's log, as the deciding code sees it (`LeaderLog`, `ReplicaLog`)."""

    log_start_offset: Final = 0

    def __init__(self, replica: Replica) -> None:
        self.records = replica.log
        self.epochs = LeaderEpochs(list(replica.epochs))
        self.durable_end = replica.durable_end
        self.high_watermark = replica.high_watermark

    @property
    def log_end_offset(self) -> int:
        return len(self.records)

    def append(self, record: Record) -> None:
        """Written, not durable."""
        self.epochs.assign(record[0], len(self.records))
        self.records = (*self.records, record)

    def truncate(self, offset: int) -> None:
        """As storage does it (cluster.md 4.8)."""
        self.records = self.records[:offset]
        self.epochs.truncate_from_end(offset)
        self.durable_end = min(self.durable_end, offset)
        self.high_watermark = min(self.high_watermark, offset)

    def into(self, replica: Replica, **changes: Any) -> Replica:
        """The replica with this log."""
        return replica._replace(
            log=self.records,
            epochs=self.epochs.entries,
            durable_end=self.durable_end,
            high_watermark=self.high_watermark,
            **changes,
        )


def first_state(bounds: Bounds) -> State:
    """Every broker runs, knows that, and 0 leads."""
    nodes = tuple(range(bounds.brokers))
    controller = Controller(
        leader=0,
        leader_epoch=1,
        partition_epoch=1,
        replicas=nodes,
        isr=nodes,
        elr=(),
        brokers=tuple(Registered(1 + node, fenced=False) for node in nodes),
        newest_epoch=bounds.brokers,
    )
    empty = Replica((), (), 0, 0)
    state = State(
        controller,
        tuple(empty._replace(incarnation=1 + node) for node in nodes),
        (),
        (),
        (),
        0,
        Budget(
            bounds.appends,
            bounds.crashes,
            bounds.losses,
            bounds.fences,
            bounds.elections,
            bounds.lags,
            bounds.late_fetches,
            bounds.lost_answers,
        ),
    )
    for node in nodes:
        state = _learn(state, node, bounds)
    return state


# What can happen ------------------------------------------------------------------------------------------------------


def fair_actions(state: State) -> Iterator[Action]:
    """What happens by itself, sooner or later."""
    controller = state.controller
    for node, replica in enumerate(state.replicas):
        if not replica.incarnation:
            yield Action("restart", node)
            continue
        if replica.image != controller:
            yield Action("learn", node)
        if controller.brokers[node].fenced and _knows_itself(replica):
            yield Action("unfence", node)
        if replica.durable_end < len(replica.log):
            yield Action("sync", node)
        if replica.led is not None and replica.led.not_before_ms is not None:
            yield Action("pause ends", node)
    for index, change in enumerate(state.changes):
        yield Action("controller" if isinstance(change, Change) else "controller answer", change.leader, index)
    for node, replica in enumerate(state.replicas):
        followed = replica.followed
        if followed is None or not replica.incarnation:
            continue
        if followed.phase is Phase.BACKING_OFF:
            yield Action("retry", node)
        elif followed.phase in ASKING:
            yield Action("ask offset", node)
        elif _can_fetch(replica, followed):
            yield Action("fetch", node)


def faults(state: State, bounds: Bounds) -> Iterator[Action]:
    """What may happen as long as the budget lasts."""
    budget, controller = state.budget, state.controller
    for node, replica in enumerate(state.replicas):
        if not replica.incarnation:
            if budget.losses and _has_another(controller, node, bounds):
                yield Action("restart empty", node)
            if not controller.brokers[node].fenced:
                yield Action("session ends", node)
            continue
        led = replica.led
        if led is not None and budget.appends and led.has_enough_in_sync(bounds.min_in_sync):
            yield Action("append", node)
        if led is not None and led.pending is None:
            yield Action("look for lag", node)
        if budget.crashes:
            for kept in {replica.durable_end, len(replica.log)}:
                yield Action("crash", node, kept)
        if budget.fences and not controller.brokers[node].fenced:
            yield Action("fence", node)
        if budget.elections and controller.leader != NO_LEADER and kraft.may_lead(controller, node):
            yield Action("elect", node)
        followed = replica.followed
        if followed is not None and _can_fetch(replica, followed):
            yield Action("fetch in vain", node)
            if budget.late_fetches:
                yield Action("late fetch", node)
    if budget.lags:
        yield Action("lag passes", 0)
    for index, late in enumerate(state.late):
        yield Action("serve late", late.fetch.node_id, index)
    if budget.lost_answers:
        for index, change in enumerate(state.changes):
            if isinstance(change, ChangeAnswer):
                yield Action("lose controller answer", change.leader, index)


def _has_another(controller: Controller, node: int, bounds: Bounds) -> bool:
    """Whether the disk of `node` is not the only one that counts. An empty disk is never vouched for (cluster.md 4.18):
    what has no other copy stays offline, and nothing more can be said."""
    return bounds.elr or controller.isr != (node,)


def _can_fetch(replica: Replica, followed: FollowedPartition) -> bool:
    return followed.may_fetch and is_durable(Log(replica)) and _leader_of(replica) != NO_LEADER


def _knows_itself(replica: Replica) -> bool:
    image = replica.image
    return image is not None and any(each.epoch == replica.incarnation for each in image.brokers)


def _leader_of(replica: Replica) -> int:
    return NO_LEADER if replica.image is None else replica.image.leader


# Steps ----------------------------------------------------------------------------------------------------------------


def take(state: State, action: Action, bounds: Bounds) -> State:
    """The state after an action. Raises Violation; an AssertionError is the code's own."""
    return _STEPS[action.kind](state, action, bounds)


def _append(state: State, action: Action, bounds: Bounds) -> State:
    replica = state.replicas[action.node]
    assert replica.led is not None
    log = Log(replica)
    log.append((replica.led.leader_epoch, state.budget.appends))
    state = _spend(state, appends=state.budget.appends - 1)
    return _with(state, action.node, log.into(replica))


def _sync(state: State, action: Action, bounds: Bounds) -> State:
    replica = state.replicas[action.node]
    state = _with(state, action.node, replica._replace(durable_end=len(replica.log)))
    return _led_moves(state, action.node, bounds)


def _led_moves(state: State, node: int, bounds: Bounds) -> State:
    replica = state.replicas[node]
    if replica.led is None:
        return state
    context = _context(state, replica, bounds)
    return _leads(state, node, leading.context_changed(replica.led, Log(replica), context), bounds)


def _learn_step(state: State, action: Action, bounds: Bounds) -> State:
    return _learn(state, action.node, bounds)


def _learn(state: State, node: int, bounds: Bounds) -> State:
    """A broker publishes the newest image."""
    image, replica = state.controller, state.replicas[node]
    replica = replica._replace(image=image)
    is_registered = image.brokers[node].epoch == replica.incarnation
    log = Log(replica)
    if image.leader == node and is_registered:
        is_new = replica.led is None or replica.led.leader_epoch != image.leader_epoch
        after = leading.election_or_change(replica.led, node, image, log, _context(state, replica, bounds))
        if is_new:
            log.epochs.assign(image.leader_epoch, log.log_end_offset)
        state = _with(state, node, log.into(replica, led=after.led, followed=None))
        return _leads(state, node, after, bounds)
    followed = replica.followed
    if followed is None or followed.leader_epoch != image.leader_epoch:
        followed = FollowedPartition(image.leader_epoch)
    return _with(state, node, log.into(replica, led=None, followed=followed))


def _leads(state: State, node: int, after: LeaderStep, bounds: Bounds) -> State:
    """Carry out what a leader decided."""
    replica = state.replicas[node]
    committed = state.committed
    if after.high_watermark > replica.high_watermark:
        committed = committed_now(state, replica, after.high_watermark, bounds)
    state = _with(state, node, replica._replace(led=after.led, high_watermark=after.high_watermark))
    state = state._replace(committed=committed)
    if after.change is not None:
        asked = Change(node, replica.incarnation, after.change)
        if asked not in state.changes:
            state = state._replace(changes=_sorted((*state.changes, asked)))
    return state


def _pause_ends(state: State, action: Action, bounds: Bounds) -> State:
    """Brokers changed, or the time is over, after which a change may be asked for again."""
    replica = state.replicas[action.node]
    assert replica.led is not None
    return _with(state, action.node, replica._replace(led=brokers_changed(replica.led)))


def _look_for_lag(state: State, action: Action, bounds: Bounds) -> State:
    replica = state.replicas[action.node]
    assert replica.led is not None
    after = leading.lag_checked(replica.led, Log(replica), _context(state, replica, bounds))
    return _leads(state, action.node, after, bounds)


def _request(state: State, node: int) -> FetchRequest:
    replica = state.replicas[node]
    assert replica.followed is not None
    position = position_of(replica.followed, Log(replica))
    fetch = FollowerFetch(node, replica.incarnation, position.leader_epoch, position.fetch_offset, 0)
    return FetchRequest(_leader_of(replica), fetch, position)


def _fetch(state: State, action: Action, bounds: Bounds) -> State:
    """There and back at once. That loses no order of events: as long as a fetch is under way its follower only waits,
    and if anything happens to it meanwhile, the answer is void, as in `_fetch_in_vain`; a fetch that arrives behind a
    newer one is `_late_fetch`."""
    state, answer = _served(state, _request(state, action.node), bounds)
    return state if answer is None else _follows(state, action.node, answer.answered, answer.records)


def _fetch_in_vain(state: State, action: Action, bounds: Bounds) -> State:
    """The answer is lost."""
    return _served(state, _request(state, action.node), bounds)[0]


def _late_fetch(state: State, action: Action, bounds: Bounds) -> State:
    """The connection is lost, and the fetch still on its way."""
    state = _spend(state, late_fetches=state.budget.late_fetches - 1)
    return state._replace(late=_sorted((*state.late, _request(state, action.node))))


def _serve_late(state: State, action: Action, bounds: Bounds) -> State:
    request = state.late[action.which]
    state = state._replace(late=(*state.late[: action.which], *state.late[action.which + 1 :]))
    return _served(state, request, bounds)[0]


def _served(state: State, request: FetchRequest, bounds: Bounds) -> tuple[State, FetchAnswer | None]:
    """The leader looks, in the order of `FetchPass`. None: there is no leader to connect to."""
    replica, position, fetch = state.replicas[request.leader], request.position, request.fetch
    if not replica.incarnation:
        return state, None
    led = replica.led
    if led is None:
        return state, _refused(position, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    if position.leader_epoch != led.leader_epoch:
        is_old = position.leader_epoch < led.leader_epoch
        error = ErrorCode.FENCED_LEADER_EPOCH if is_old else ErrorCode.UNKNOWN_LEADER_EPOCH
        return state, _refused(position, error)
    context = _context(state, replica, bounds)
    error = leading.refusal(led, fetch, context)
    if error is not ErrorCode.NONE:
        return state, _refused(position, error)
    log = Log(replica)
    if position.last_fetched_epoch >= 0:
        found = compare_histories(
            log.epochs.end_offset_for(position.last_fetched_epoch, log.log_end_offset),
            last_fetched_epoch=position.last_fetched_epoch,
            fetch_offset=fetch.offset,
        )
        if isinstance(found, ErrorCode):
            return state, _refused(position, found)
        if found is not None:
            diverging = Answered(position, ErrorCode.NONE, replica.high_watermark, 0, Divergence(*found))
            return state, FetchAnswer(diverging, ())
    if fetch.offset > log.log_end_offset:
        return state, _refused(position, ErrorCode.OFFSET_OUT_OF_RANGE)
    state = _leads(state, request.leader, leading.fetched(led, fetch, log, context), bounds)
    records = replica.log[fetch.offset : fetch.offset + bounds.records_per_fetch]
    high_watermark = state.replicas[request.leader].high_watermark
    batches = _batch_header(fetch.offset) if records else b""
    return state, FetchAnswer(Answered(position, ErrorCode.NONE, high_watermark, 0, None, batches), records)


def _batch_header(offset: int) -> bytes:
    return offset.to_bytes(8, "big") + bytes(HEADER_BYTES - 8)


def _refused(position: Any, error: ErrorCode) -> FetchAnswer:
    return FetchAnswer(Answered(position, error), ())


def _follows(state: State, node: int, event: Event, records: tuple[Record, ...] = ()) -> State:
    """A follower decides, and carries it out."""
    replica = state.replicas[node]
    followed = replica.followed
    assert followed is not None
    log = Log(replica)
    decision = decide(followed, event, log, now_ms=0, backoff_ms=0)
    for effect in decision.effects:
        _carry_out(effect, log, records)
    state = _with(state, node, log.into(replica, followed=decision.followed))
    if decision.followed.phase is Phase.CUTTING:
        return _follows(state, node, Cut(), records)
    return state


def _carry_out(effect: Effect, log: Log, records: tuple[Record, ...]) -> None:
    match effect:
        case Append():
            for record in records:
                if record[0] > effect.max_epoch:
                    break
                log.append(record)
        case AdvanceHighWatermark():
            log.high_watermark = max(log.high_watermark, min(effect.offset, log.log_end_offset))
        case Truncate():
            log.truncate(effect.offset)
        case StartAt():
            log.truncate(0)
        case AdvanceLogStart() | ListOffset() | ReportPartition():
            pass


def _ask_offset(state: State, action: Action, bounds: Bounds) -> State:
    """ListOffsets, there and back at once."""
    replica = state.replicas[action.node]
    followed = replica.followed
    assert followed is not None
    leader = state.replicas[_leader_of(replica)] if _leader_of(replica) != NO_LEADER else None
    if leader is None or not leader.incarnation or leader.led is None:
        told = OffsetListed(followed.leader_epoch, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    elif leader.led.leader_epoch != followed.leader_epoch:
        is_old = followed.leader_epoch < leader.led.leader_epoch
        error = ErrorCode.FENCED_LEADER_EPOCH if is_old else ErrorCode.UNKNOWN_LEADER_EPOCH
        told = OffsetListed(followed.leader_epoch, error)
    else:
        offset = len(leader.log) if followed.phase is Phase.ASKING_LATEST else 0
        told = OffsetListed(followed.leader_epoch, ErrorCode.NONE, offset)
    return _follows(state, action.node, told)


def _retry(state: State, action: Action, bounds: Bounds) -> State:
    return _follows(state, action.node, FetchRetryDue())


def _controller(state: State, action: Action, bounds: Bounds) -> State:
    asked = state.changes[action.which]
    assert isinstance(asked, Change)
    controller, answer = kraft.altered(state.controller, asked, bounds)
    answered = ChangeAnswer(asked.leader, asked.incarnation, asked.change, answer)
    return _replace_change(state, action.which, answered)._replace(controller=controller)


def _controller_answer(state: State, action: Action, bounds: Bounds) -> State:
    answer = state.changes[action.which]
    assert isinstance(answer, ChangeAnswer)
    return _answer_change(_replace_change(state, action.which, None), answer, answer.answer, bounds)


def _lose_controller_answer(state: State, action: Action, bounds: Bounds) -> State:
    answer = state.changes[action.which]
    assert isinstance(answer, ChangeAnswer)
    state = _spend(_replace_change(state, action.which, None), lost_answers=state.budget.lost_answers - 1)
    return _answer_change(state, answer, IsrChangeResult(ErrorCode.NETWORK_EXCEPTION), bounds)


def _answer_change(state: State, answer: ChangeAnswer, told: IsrChangeResult, bounds: Bounds) -> State:
    replica = state.replicas[answer.leader]
    if replica.incarnation != answer.incarnation or replica.led is None:
        return state
    context = _context(state, replica, bounds)
    after = leading.controller_responded(replica.led, answer.change, told, Log(replica), context)
    return _leads(state, answer.leader, after, bounds)


def _crash(state: State, action: Action, bounds: Bounds) -> State:
    """Everything in memory is gone; of the log, `index` records stay."""
    replica = state.replicas[action.node]
    log = Log(replica)
    log.truncate(action.which)
    log.durable_end = action.which
    down = log.into(replica, incarnation=0, image=None, led=None, followed=None)
    state = _spend(state, crashes=state.budget.crashes - 1)
    return _with(state, action.node, down)


def _restart(state: State, action: Action, bounds: Bounds) -> State:
    return _register(state, action.node, bounds, clean=True)


def _restart_empty(state: State, action: Action, bounds: Bounds) -> State:
    state = _with(state, action.node, Replica((), (), 0, 0))
    return _register(_spend(state, losses=state.budget.losses - 1), action.node, bounds, clean=False)


def _register(state: State, node: int, bounds: Bounds, *, clean: bool) -> State:
    controller = kraft.registered(state.controller, node, bounds, clean=clean)
    replica = state.replicas[node]._replace(incarnation=controller.brokers[node].epoch)
    return _with(state._replace(controller=controller), node, replica)


def _unfence(state: State, action: Action, bounds: Bounds) -> State:
    return state._replace(controller=kraft.unfenced(state.controller, action.node))


def _session_ends(state: State, action: Action, bounds: Bounds) -> State:
    return state._replace(controller=kraft.fenced(state.controller, action.node, bounds))


def _fence(state: State, action: Action, bounds: Bounds) -> State:
    return _session_ends(_spend(state, fences=state.budget.fences - 1), action, bounds)


def _elect(state: State, action: Action, bounds: Bounds) -> State:
    state = _spend(state, elections=state.budget.elections - 1)
    return state._replace(controller=kraft.moved(state.controller, action.node))


def _lag_passes(state: State, action: Action, bounds: Bounds) -> State:
    state = _spend(state, lags=state.budget.lags - 1)._replace(now=state.now + 1)
    for node in range(len(state.replicas)):
        state = _led_moves(state, node, bounds)
    return state


_STEPS: Final = {
    "append": _append,
    "sync": _sync,
    "learn": _learn_step,
    "pause ends": _pause_ends,
    "look for lag": _look_for_lag,
    "fetch": _fetch,
    "fetch in vain": _fetch_in_vain,
    "late fetch": _late_fetch,
    "serve late": _serve_late,
    "ask offset": _ask_offset,
    "retry": _retry,
    "controller": _controller,
    "controller answer": _controller_answer,
    "lose controller answer": _lose_controller_answer,
    "crash": _crash,
    "restart": _restart,
    "restart empty": _restart_empty,
    "unfence": _unfence,
    "session ends": _session_ends,
    "fence": _fence,
    "elect": _elect,
    "lag passes": _lag_passes,
}


# Parts of a state -----------------------------------------------------------------------------------------------------


def _context(state: State, replica: Replica, bounds: Bounds) -> LeaderContext:
    image = replica.image
    assert image is not None
    brokers = dict(enumerate(image.brokers))
    return LeaderContext(brokers, replica.incarnation, bounds.min_in_sync, _NO_LAG, state.now)


def _with(state: State, node: int, replica: Replica) -> State:
    return state._replace(replicas=(*state.replicas[:node], replica, *state.replicas[node + 1 :]))


def _replace_change(state: State, index: int, by: ChangeAnswer | None) -> State:
    rest = (*state.changes[:index], *state.changes[index + 1 :])
    return state._replace(changes=rest if by is None else _sorted((*rest, by)))


def _sorted(messages: tuple[Any, ...]) -> tuple[Any, ...]:
    """In one order, so that states that differ in it alone are one."""
    return tuple(sorted(messages, key=repr)) if len(messages) > 1 else messages


def _spend(state: State, **budget: int) -> State:
    return state._replace(budget=state.budget._replace(**budget))
