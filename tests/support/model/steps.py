"""Which steps a state allows, in which order a fair run prefers them, and their words."""

from collections.abc import Iterator
from typing import Final

from eosin.coordinator.txn import Phase, Txn
from eosin.protocol.errors import ErrorCode
from model.coordinating import (
    complete_is_written,
    crash,
    deadline,
    expire,
    record_failed,
    record_is_durable,
    retry,
    terminate,
)
from model.delivering import append, deliver, flush, late_marker, mark
from model.instances import ask_for_epoch, end, forget_late, give_up, introduce, prepare, write
from model.step import Step, World
from model.values import (
    ALIVE,
    COMMIT_OFFSETS,
    MARKER,
    NEW,
    NO_GUARD,
    NO_TAG,
    PREPARED,
    PRODUCE,
    RETRYING,
    SENT,
    VERIFIED,
    WRITING,
    Budget,
    Client,
    Coordinator,
    Job,
    Message,
    Part,
    Records,
    State,
    StateRecord,
)

Action = tuple[str, int, int]
"""What happens, and to whom: two numbers whose meaning depends on it."""

FAIR: Final = {"durable": 0, "retry": 1, "flush": 2, "mark": 3, "append": 4, "deliver": 5, "late": 6, "deadline": 7}
"""What a fair run does, with no new request, first things first."""
UNFAIR: Final = 99
_KEPT: Final = (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NOT_ENOUGH_REPLICAS)


def first_state(world: World) -> State:
    """Where everything begins."""
    bounds = world.bounds
    coordinator = Coordinator()
    if bounds.first_epoch is not None:
        txn = Txn("tx", 0, producer_epoch=bounds.first_epoch, timeout_ms=1, updated_ms=0)
        coordinator = Coordinator(txn, durable=StateRecord(txn), next_producer_id=1)
    return State(
        coordinator,
        tuple(Part(Records(), Records()) for _ in world.topic_partitions),
        tuple(Client() for _ in bounds.versions),
        (),
        0,
        None,
        Budget(
            bounds.crashes,
            bounds.timeouts,
            bounds.duplicates,
            bounds.late_markers,
            bounds.failures,
            bounds.reloads,
            bounds.expiries,
        ),
    )


def actions(world: World, state: State) -> Iterator[Action]:
    """All that may happen, fair steps first and in their order."""
    coordinator, budget = state.coordinator, state.budget
    pending = coordinator.txn is not None and coordinator.txn.pending is not None
    if coordinator.writing == WRITING:
        yield "durable", 0, 0
    elif coordinator.writing == RETRYING:
        yield "retry", 0, 0
    for index, part in enumerate(state.parts):
        if part.tail:
            yield "flush", index, 0
    if coordinator.job is not None:
        for partition in coordinator.job.remaining:
            yield "mark", partition, 0
    yield from _of_messages(state)
    txn = coordinator.txn
    if budget.timeouts and txn is not None and txn.phase is Phase.ONGOING and not pending and not txn.never_times_out:
        yield "deadline", 0, 0
    yield from _of_instances(world, state)
    if budget.failures and coordinator.writing == WRITING:
        for kind in range(3):
            yield "fail", kind, 0
    job = coordinator.job
    if budget.late_markers and job is not None and _may_straggle(world, job):
        for partition in job.remaining:
            yield "straggle", partition, 0
    if budget.expiries and coordinator.txn is not None and coordinator.txn.is_at_rest:
        yield "expire", 0, 0
    if budget.crashes:
        yield from _crashes(state)


def _may_straggle(world: World, job: Job) -> bool:
    """Markers of a timeout, or of a new instance, have an epoch of their own with the first protocol, too."""
    return job.version >= 2 or job.tag == NO_TAG or world.bounds.first_protocol_holes


def _of_messages(state: State) -> Iterator[Action]:
    messages = state.messages
    for index, message in enumerate(messages):
        if message.kind != MARKER and message.stage == VERIFIED:
            yield "append", index, 0
    for index, message in enumerate(messages):
        if message.awaited and message.stage == SENT:
            yield "deliver", index, 0
    for index, message in enumerate(messages):
        is_here = not message.awaited and (message.kind == MARKER or message.stage == SENT)
        if is_here and (not index or messages[index - 1] != message):
            yield "late", index, 0
    if state.budget.duplicates:
        for index, message in enumerate(messages):
            if message.awaited:
                yield "again", index, 0
                if message.kind in (PRODUCE, COMMIT_OFFSETS):
                    yield "give up", index, 0


def _of_instances(world: World, state: State) -> Iterator[Action]:
    bounds, busy = world.bounds, {message.client for message in state.messages if message.awaited}
    for index, client in enumerate(state.clients):
        if client.phase == NEW:
            if not index or state.clients[index - 1].phase != NEW:
                yield "start", index, 0
            continue
        if client.phase != ALIVE or index in busy:
            continue
        if client.goal == PREPARED:
            yield "commit", index, 0
        elif client.is_open or client.number < bounds.transactions[index]:
            for partition in range(len(state.parts)):
                is_new = not world.is_offsets(partition) and partition > state.budget.touched
                if partition not in client.written and not is_new:
                    yield "write", index, partition
        if client.is_open and client.goal != PREPARED:
            yield ("prepare" if bounds.two_phase else "commit"), index, 0
            yield "abort", index, 0
        if client.is_open and state.budget.reloads:
            yield "reload", index, 0


def _crashes(state: State) -> Iterator[Action]:
    """What a crash may take: any end of the coordinator's log, and of each partition's, that was not durable."""
    choices = [0]
    for part in state.parts:
        choices = [each * 8 + kept for each in choices for kept in range(len(part.tail) + 1)]
    for kept in range(len(state.coordinator.tail) + 1):
        for partitions in choices:
            yield "crash", kept, partitions


def take(step: Step, action: Action) -> None:
    """Let it happen. Raises Violation."""
    name, first, second = action
    match name:
        case "durable":
            _durable(step)
        case "retry":
            retry(step)
        case "flush":
            flush(step, first)
        case "mark":
            mark(step, first)
        case "append":
            append(step, step.messages[first])
        case "deliver" | "late":
            deliver(step, step.messages[first])
        case "deadline":
            step.budget = step.budget._replace(timeouts=max(0, step.budget.timeouts - 1))
            deadline(step)
        case "terminate":
            terminate(step)
        case "fail":
            step.spend("failures")
            # For certain; not for certain, and it is not in the log; not for certain, and it is.
            error = ErrorCode.REQUEST_TIMED_OUT if first else ErrorCode.NOT_ENOUGH_REPLICAS
            record_failed(step, error, kept=first == 2)
        case "straggle":
            step.spend("late_markers")
            late_marker(step, first)
        case "expire":
            step.spend("expiries")
            expire(step)
        case "crash":
            _crash(step, first, second)
        case _:
            _instance(step, name, first, second)


def _durable(step: Step) -> None:
    txn = step.coordinator.txn
    assert txn is not None
    assert txn.pending is not None
    if txn.pending.after.phase in (Phase.COMPLETE_COMMIT, Phase.COMPLETE_ABORT):
        complete_is_written(step)
    else:
        record_is_durable(step)


def _crash(step: Step, kept: int, partitions: int) -> None:
    step.spend("crashes")
    for index in reversed(range(len(step.parts))):
        part, kept_here = step.parts[index], partitions % 8
        partitions //= 8
        step.parts[index] = step.world.partitions.replay(part, kept_here)
    messages = []
    for message in step.messages:
        if message.kind == MARKER or (message.stage == SENT and message.guard == NO_GUARD):
            messages.append(message)
        elif message.awaited:
            messages.append(message._replace(stage=SENT, guard=NO_GUARD))
    step.messages = messages
    crash(step, kept)


def _instance(step: Step, name: str, first: int, second: int) -> None:
    match name:
        case "start":
            introduce(step, first)
        case "write":
            if not step.clients[first].is_open:
                _begin(step, first)
            if not step.world.is_offsets(second):
                step.budget = step.budget._replace(touched=max(step.budget.touched, second + 1))
            write(step, first, second)
        case "commit" | "abort":
            end(step, first, commit=name == "commit")
        case "prepare":
            prepare(step, first)
        case "reload":
            step.spend("reloads")
            ask_for_epoch(step, first, keep=step.world.bounds.two_phase)
        case "again":
            step.spend("duplicates")
            _again(step, step.messages[first])
        case "give up":
            step.spend("duplicates")
            late = step.change(step.messages[first], awaited=False)
            give_up(step, late.client, bump=step.world.bounds.versions[late.client] < 2)


def _begin(step: Step, client: int) -> None:
    step.change_client(client, is_open=True, number=step.clients[client].number + 1)
    forget_late(step, client, COMMIT_OFFSETS)


def _again(step: Step, message: Message) -> None:
    step.change(message, awaited=False)
    step.messages.append(message._replace(stage=SENT, guard=NO_GUARD))
