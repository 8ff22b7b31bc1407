"""Where everything begins, and the steps from one state to the next."""

from eosin.coordinator.transactions.rules.state import Txn
from eosin.protocol.errors import ErrorCode
from model_checker.coordinating import (
    deadline,
    expire,
    record_failed,
    record_is_durable,
    retry,
    terminate,
)
from model_checker.delivering import append, deliver, flush, late_marker, mark
from model_checker.instances import (
    ask_for_epoch,
    end,
    forget_late,
    give_up,
    introduce,
    prepare,
    repeat_as_older_client,
    write,
)
from model_checker.possible import Action
from model_checker.restarting import crash
from model_checker.step import Step, World
from model_checker.values import (
    COMMIT_OFFSETS,
    MARKER,
    NO_GUARD,
    SENT,
    Budget,
    Client,
    Coordinator,
    Message,
    Part,
    Records,
    State,
    StateRecord,
)


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
            bounds.older_repeats,
        ),
    )


def take(step: Step, action: Action) -> None:
    """Let it happen. Raises Violation."""
    name, first, second = action
    match name:
        case "durable":
            record_is_durable(step)
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
        case "repeat":
            step.spend("older_repeats")
            repeat_as_older_client(step, first, contrary=bool(second))
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
