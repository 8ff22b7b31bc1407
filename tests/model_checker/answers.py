"""Answers on their way to the instances: what the broker makes of a refusal, and which reaction that leads to.

An answer reaches its instance in the step in which it is given: what the instance does next is a step of its own, so an
answer that is slow is an instance that is. An answer that is lost is one to a copy that nobody waits for any more.
"""

from types import SimpleNamespace
from typing import Any, Final

from eosin.broker.requests.timeout_errors import timeout_error_for
from eosin.broker.transactions.verification import translated
from eosin.coordinator.groups.offset_requests import _translate
from eosin.coordinator.transactions.rules.effects import TransactionReply
from eosin.coordinator.transactions.rules.state import refusal
from eosin.coordinator.transactions.rules.timeout_errors import Profile, RequestKind
from eosin.protocol.errors import ErrorCode
from eosin.storage.results.log_results import Refused
from model_checker.instances import abort_failed, done, fail, give_up
from model_checker.reactions import Reaction, reaction
from model_checker.step import Step
from model_checker.values import ADD, END, NO_GUARD, OLDER, PRODUCE, SENT, Message

_NO_REPLY: Final = TransactionReply(ErrorCode.NONE)

PRODUCE_VERSIONS: Final = {0: 10, 2: 12}
OFFSETS_VERSIONS: Final = {0: 3, 2: 5}
END_VERSIONS: Final = {0: 3, 2: 5}
OLDER_END_VERSION: Final = 4
ADD_VERSION: Final = 3
PROFILES: Final = {0: Profile.JAVA_3, 2: Profile.JAVA_4}
_SOFTWARE: Final = "model"


def verified(step: Step, message: Message, error: ErrorCode, text: str | None = None) -> None:
    """A batch was refused, by the coordinator or by its partition."""
    protocol = step.world.bounds.versions[message.client]
    if message.kind == PRODUCE:
        error = translated(Refused(error, text), PRODUCE_VERSIONS[protocol]).error
        if error is ErrorCode.INVALID_PRODUCER_EPOCH:
            error = _told(
                step, message, RequestKind.PRODUCE, PRODUCE_VERSIONS[protocol], _refusal(step, message, error)
            )
    else:
        error = _translate(error, OFFSETS_VERSIONS[protocol])
        error = _told(
            step, message, RequestKind.COMMIT_OFFSETS, OFFSETS_VERSIONS[protocol], _refusal(step, message, error)
        )
    _arrive(step, message, error)


def answer(step: Step, message: Message, reply: TransactionReply) -> None:
    """The coordinator's answer."""
    if message.sequence == OLDER:
        _repetition_answered(step, message, reply)
        return
    error = reply.error
    protocol = step.world.bounds.versions[message.client]
    if error is not ErrorCode.NONE:
        if message.kind == END and message.argument:
            error = _told(step, message, RequestKind.COMMIT, END_VERSIONS[protocol], reply)
        elif message.kind == ADD:
            error = _told(step, message, RequestKind.ADD_PARTITIONS, ADD_VERSION, reply)
    _arrive(step, message, error, reply)


def _repetition_answered(step: Step, message: Message, reply: TransactionReply) -> None:
    """A client that was built anew hears what became of a transaction: success and its contrary must both be true."""
    commit = bool(message.argument)
    error = reply.error
    if commit and error is not ErrorCode.NONE:
        error = _told(step, message, RequestKind.COMMIT, OLDER_END_VERSION, reply)
    step.note(f"answered {error.name}")
    if error is ErrorCode.CONCURRENT_TRANSACTIONS:
        step.change(message, stage=SENT)
        return
    step.messages.remove(message)
    if error is ErrorCode.NONE:
        step.judge_told(message.client, message.tag, commit=commit)
    elif error is ErrorCode.INVALID_TXN_STATE:
        step.judge_told(message.client, message.tag, commit=not commit)


def written(step: Step, message: Message) -> None:
    """A record is in its partition, as durable as configured."""
    _arrive(step, message, ErrorCode.NONE)


def _refusal(step: Step, message: Message, error: ErrorCode) -> TransactionReply:
    """What the coordinator says of a refusal by a partition, as `TransactionCoordinator.refusal`."""
    txn = step.coordinator.txn
    return (
        TransactionReply(error) if txn is None else refusal(txn, error, (message.producer_id, message.producer_epoch))
    )


def _told(step: Step, message: Message, kind: RequestKind, version: int, refused: TransactionReply) -> ErrorCode:
    """The broker's error for this client, which depends on it when the producer has only timed out."""
    bounds = step.world.bounds
    profile = bounds.profile or PROFILES[bounds.versions[message.client]]
    config: Any = SimpleNamespace(
        recovers_from_timeouts=bounds.recovering,
        transaction_timeout_recovery_profiles=(f"{_SOFTWARE}:{profile.value}",),
    )
    context: Any = SimpleNamespace(client_software_name=_SOFTWARE, api_version=version)
    return timeout_error_for(kind, refused, context, config)


def _arrive(step: Step, message: Message, error: ErrorCode, reply: TransactionReply = _NO_REPLY) -> None:
    if not message.awaited:
        step.note(f"answered {error.name}, to nobody")
        step.messages.remove(message)
        return
    step.note(f"answered {error.name}")
    wanted = reaction(message.kind, step.world.bounds.versions[message.client], error)
    if error is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER and _is_early(step, message):
        wanted = Reaction.RETRY
    match wanted:
        case Reaction.RETRY:
            step.change(message, stage=SENT, guard=NO_GUARD)
        case Reaction.DONE:
            step.messages.remove(message)
            done(step, message, reply)
        case Reaction.ABORT | Reaction.BUMP:
            step.messages.remove(message)
            is_abort = message.kind == END and not message.argument
            refused = abort_failed if is_abort else give_up
            refused(step, message.client, bump=wanted is Reaction.BUMP)
        case Reaction.FATAL:
            step.messages.remove(message)
            fail(step, message.client)


def _is_early(step: Step, message: Message) -> bool:
    """Whether a record before it is still under way: it is sent again then, behind that one."""
    return any(
        each.awaited and each[:2] == message[:2] and each.argument == message.argument
        for each in step.messages
        if each.sequence < message.sequence
    )
