"""The coordinator of the model: `decide` decides, and its effects become changes of the state.

What `eosin.coordinator.transactions.effect_runner` does with a loop, a clock and a log is done here with values: a
record is written in one step and durable in another, markers are delivered one by one, and a request that would wait
for another to end stays on its way.
"""

from typing import Final

import msgspec

from eosin.coordinator.transactions.marker_sender import marker_of
from eosin.coordinator.transactions.rules.decide import decide, unknown
from eosin.coordinator.transactions.rules.effects import (
    AllocateProducerId,
    Effect,
    Forget,
    PersistLater,
    PersistTransaction,
    RetryLater,
    TransactionReply,
    WriteMarkers,
)
from eosin.coordinator.transactions.rules.events import (
    DeadlinePassed,
    EndTxn,
    Event,
    Expire,
    InitProducerId,
    MarkersWritten,
    RetryDue,
    TransactionAppended,
    TransactionAppendFailed,
)
from eosin.coordinator.transactions.rules.state import TransactionState, Txn
from eosin.protocol.errors import ErrorCode
from model_checker.answers import answer, verified
from model_checker.step import Step
from model_checker.values import (
    AFTER_DEADLINE_MS,
    ASKING,
    COMMIT_OFFSETS,
    END,
    IDLE,
    INIT,
    NO_TAG,
    PRODUCE,
    RETRYING,
    TIMEOUT_MS,
    TRANSACTIONAL_ID,
    VERIFIED,
    WRITING,
    Job,
    Message,
    StateRecord,
    client_name,
)
from model_checker.violation import SINGLE_WRITER, Violation

_APPENDED: Final = TransactionAppended()


def ask(step: Step, request: Event, message: Message) -> None:
    """A request has come to the coordinator."""
    if step.coordinator.txn is None:
        reply = unknown(request)
        if reply is not None:
            _reply(step, reply, message)
            return
    decide_on(step, request, message)
    txn = step.coordinator.txn
    if txn is not None and txn.is_fresh and txn.pending is None:
        step.coordinator = step.coordinator._replace(txn=None)


def deadline(step: Step) -> None:
    """The open transaction is out of time."""
    bounds = step.world.bounds
    decide_on(
        step,
        DeadlinePassed(bounds.server_version, AFTER_DEADLINE_MS, bounds.recovering),
        None,
        now_ms=AFTER_DEADLINE_MS,
    )


def terminate(step: Step) -> None:
    """An operator ends what never times out; if that was prepared, the promise to the outside is broken knowingly."""
    step.outside = None
    decide_on(step, InitProducerId(TIMEOUT_MS, step.world.bounds.server_version), None)


def expire(step: Step) -> None:
    """The id has not been used for long."""
    decide_on(step, Expire(0), None, now_ms=AFTER_DEADLINE_MS)


def record_is_durable(step: Step) -> None:
    """The record under way is on the disk, and all before it."""
    step.coordinator = step.coordinator._replace(durable=step.coordinator.tail[-1], tail=(), writing=IDLE)
    judge_record(step)
    _appended(step)


def record_failed(step: Step, error: ErrorCode, *, kept: bool) -> None:
    """The append ends in `error`; `kept`: its record is in the log all the same."""
    coordinator = step.coordinator
    tail = coordinator.tail if kept else coordinator.tail[:-1]
    step.coordinator = coordinator._replace(tail=tail, writing=IDLE)
    step.note(f"the append ends in {error.name}")
    decide_on(step, TransactionAppendFailed(error), _asking(step))


def retry(step: Step) -> None:
    """The backoff of a record that failed is over."""
    decide_on(step, RetryDue(), None)


def markers_written(step: Step) -> None:
    """Every partition has its marker."""
    job = step.coordinator.job
    assert job is not None
    step.coordinator = step.coordinator._replace(job=None)
    decide_on(step, MarkersWritten(job.producer_id, job.producer_epoch), None)


def decide_on(step: Step, request: Event, message: Message | None, now_ms: int = 0) -> None:
    """Decide, and do what follows."""
    before = step.coordinator.txn or Txn(TRANSACTIONAL_ID)
    after, effects = decide(before, request, now_ms)
    if after is not step.coordinator.txn:
        step.coordinator = step.coordinator._replace(txn=after)
    for effect in effects:
        _carry_out(step, effect, request, message)


def _carry_out(step: Step, effect: Effect, request: Event, message: Message | None) -> None:
    match effect:
        case TransactionReply():
            # The record of the same decision may be under way already.
            asked = message if message in step.messages else _asking(step)
            if asked is not None:
                _reply(step, effect, asked)
        case PersistTransaction():
            _persist(step, effect, request, message)
        case PersistLater():
            _persist_later(step, effect.txn)
        case WriteMarkers():
            _write_markers(step, effect.txn)
        case AllocateProducerId():
            assert isinstance(request, InitProducerId | EndTxn | DeadlinePassed)
            fresh = step.coordinator.next_producer_id
            step.coordinator = step.coordinator._replace(next_producer_id=fresh + 1)
            decide_on(step, msgspec.structs.replace(request, fresh_producer_id=fresh), message, _now(request))
        case RetryLater():
            step.coordinator = step.coordinator._replace(writing=RETRYING)
        case Forget():
            step.coordinator = step.coordinator._replace(txn=None)


def _now(request: Event) -> int:
    return AFTER_DEADLINE_MS if isinstance(request, DeadlinePassed) else 0


def _persist(step: Step, effect: PersistTransaction, request: Event, message: Message | None) -> None:
    if message is not None:
        # As a new instance it may come back.
        comes_anew = message.kind == INIT and (message.producer_id < 0 or bool(step.world.bounds.expiries))
        if step.clients[message.client].fenced and not comes_anew:
            who = client_name(message.client)
            raise Violation(SINGLE_WRITER, f"{who}, which has been replaced, changes the transaction")
        step.change(message, stage=ASKING)
    coordinator = step.coordinator
    txn = effect.txn
    tag = coordinator.pending_tag
    if not isinstance(request, RetryDue):
        tag = message.tag if message is not None and message.kind == END else NO_TAG
    record = StateRecord(None if txn.state is TransactionState.DEAD else txn, tag)
    tail = coordinator.tail if coordinator.tail[-1:] == (record,) else (*coordinator.tail, record)
    step.coordinator = coordinator._replace(pending_tag=tag, writing=WRITING, tail=tail)
    step.note(f"it writes {told(txn)}")


def _persist_later(step: Step, txn: Txn) -> None:
    """A record that nobody waits for. Whether it is written at some time, superseded before, or lost in a crash, shows
    in what the log ends with: so it may be lost from here on until a later one is durable."""
    coordinator = step.coordinator
    record = StateRecord(txn, NO_TAG)
    step.coordinator = coordinator._replace(tag=NO_TAG, tail=(*coordinator.tail, record))
    step.note(f"it is to write {told(txn)}")


def _appended(step: Step) -> None:
    coordinator = step.coordinator
    step.coordinator = coordinator._replace(tag=coordinator.pending_tag, pending_tag=NO_TAG)
    decide_on(step, _APPENDED, _asking(step))


def judge_record(step: Step) -> None:
    """The last durable record has become so."""
    durable = step.coordinator.durable
    assert durable is not None
    if durable.txn is not None and durable.txn.state is TransactionState.PREPARE_COMMIT:
        step.judge_commit(durable.tag)


def _asking(step: Step) -> Message | None:
    """Whose record is under way."""
    for message in step.messages:
        if message.stage == ASKING and message.client >= 0:
            return message
    return None


def _write_markers(step: Step, txn: Txn) -> None:
    coordinator = step.coordinator
    marker = marker_of(txn, coordinator_epoch=coordinator.epoch)
    job = Job(
        producer_id=marker.producer_id,
        producer_epoch=marker.producer_epoch,
        commit=marker.commit,
        coordinator_epoch=marker.coordinator_epoch,
        version=marker.transaction_version,
        tag=coordinator.tag,
        remaining=tuple(sorted(step.world.index_of[partition] for partition in txn.partitions)),
    )
    step.coordinator = coordinator._replace(job=job)
    if not job.remaining:
        markers_written(step)


def _reply(step: Step, reply: TransactionReply, message: Message) -> None:
    if message.kind not in (PRODUCE, COMMIT_OFFSETS):
        answer(step, message, reply)
    elif reply.error is ErrorCode.NONE:
        step.change(message, stage=VERIFIED)
    else:
        verified(step, message, reply.error)


def told(txn: Txn) -> str:
    """A record, as a trace shows it."""
    partitions = ", ".join(str(each) for each in sorted(txn.partitions))
    return f"{txn.state.name} ({txn.producer_id}, {txn.producer_epoch})" + (f" {{{partitions}}}" if partitions else "")
