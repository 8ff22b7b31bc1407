"""Which steps a state allows, fair ones first and in the order in which a fair run prefers them."""

from collections.abc import Iterator, Sequence
from typing import Final

from eosin.coordinator.transactions.rules.state import TransactionState
from eosin.protocol.errors import ErrorCode
from model_checker.step import World
from model_checker.values import (
    ADD,
    ALIVE,
    COMMIT_OFFSETS,
    END,
    MARKER,
    NEW,
    NO_TAG,
    NOTHING,
    PREPARED,
    PRODUCE,
    RETRYING,
    SENT,
    VERIFIED,
    WRITING,
    Job,
    Message,
    State,
)

Action = tuple[str, int, int]
"""What happens, and to whom: two numbers whose meaning depends on it."""

FAIR: Final = {"durable": 0, "retry": 1, "flush": 2, "mark": 3, "append": 4, "deliver": 5, "late": 6, "deadline": 7}
"""What a fair run does, with no new request, first things first."""
UNFAIR: Final = 99
_KEPT: Final = (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NOT_ENOUGH_REPLICAS)


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
    if (
        budget.timeouts
        and txn is not None
        and txn.state is TransactionState.ONGOING
        and not pending
        and not txn.never_times_out
    ):
        yield "deadline", 0, 0
    yield from _of_instances(world, state)
    if budget.failures and coordinator.writing == WRITING:
        for kind in range(3):
            yield "fail", kind, 0
    job = coordinator.job
    if budget.late_markers and job is not None and _may_straggle(world, job):
        for partition in job.remaining:
            yield "straggle", partition, 0
    # No message is on its way for as long as it takes an id to expire.
    if budget.expiries and not state.messages and coordinator.txn is not None and coordinator.txn.is_at_rest:
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
    bounds = world.bounds
    for index, client in enumerate(state.clients):
        if state.budget.older_repeats and client.ended is not None:
            yield "repeat", index, 0
            if not any(message.client == index and message.kind == END for message in state.messages):
                yield "repeat", index, 1  # else two clients would end one transaction by two wills, and the first wins
        if client.phase == NEW:
            if not index or state.clients[index - 1].phase != NEW:
                yield "start", index, 0
            continue
        if client.phase != ALIVE:
            continue
        busy = [message for message in state.messages if message.awaited and message.client == index]
        if busy:
            if bounds.pipelined and client.is_open and client.goal == NOTHING:
                yield from _writes(world, state, index, busy)
            continue
        if client.goal == PREPARED:
            yield "commit", index, 0
        elif client.is_open or client.number < bounds.transactions[index]:
            yield from _writes(world, state, index, busy)
        if client.is_open and client.goal != PREPARED:
            yield ("prepare" if bounds.two_phase else "commit"), index, 0
            yield "abort", index, 0
        if client.is_open and state.budget.reloads:
            yield "reload", index, 0


def _writes(world: World, state: State, index: int, busy: Sequence[Message]) -> Iterator[Action]:
    """An instance writes to a partition to which it has not, or not all, in this transaction."""
    if any(message.kind not in (ADD, PRODUCE, COMMIT_OFFSETS) for message in busy):
        return
    for partition in range(len(state.parts)):
        here = [message.kind for message in busy if message.argument == partition]
        sent = state.clients[index].written.count(partition) + len(here)
        if world.is_offsets(partition):
            is_possible = not sent
        else:
            is_possible = sent < world.bounds.records and ADD not in here and partition <= state.budget.touched
        if is_possible:
            yield "write", index, partition


def _crashes(state: State) -> Iterator[Action]:
    """What a crash may take: any end of the coordinator's log, and of each partition's, that was not durable."""
    choices = [0]
    for part in state.parts:
        choices = [each * 8 + kept for each in choices for kept in range(len(part.tail) + 1)]
    for kept in range(len(state.coordinator.tail) + 1):
        for partitions in choices:
            yield "crash", kept, partitions
