"""Messages that arrive, and what partitions do with records and markers."""

from eosin.broker.transactions.verification import FIRST_ADDING_VERSION
from eosin.coordinator.transactions.marker_sender import SETTLED
from eosin.coordinator.transactions.rules.decide import unknown, verify
from eosin.coordinator.transactions.rules.events import AddPartitions, EndTxn, InitProducerId
from eosin.coordinator.transactions.rules.state import NO_TIMEOUT_MS
from eosin.protocol.errors import ErrorCode
from eosin.storage.results.log_results import Marker, Refused
from model_checker.answers import PRODUCE_VERSIONS, verified, written
from model_checker.coordinating import ask, markers_written
from model_checker.step import Step
from model_checker.values import (
    ADD,
    APPENDED,
    COMMIT_OFFSETS,
    END,
    GUARD,
    INIT,
    MARKER,
    NO_GUARD,
    OLDER,
    PRODUCE,
    TIMEOUT_MS,
    VERIFIED,
    Append,
    Message,
    Part,
    Records,
    tag_name,
    tag_of_record,
)


def deliver(step: Step, message: Message) -> None:
    """A message arrives."""
    if message.kind == INIT:
        bounds = step.world.bounds
        request = InitProducerId(
            NO_TIMEOUT_MS if bounds.two_phase else TIMEOUT_MS,
            bounds.server_version,
            message.producer_id,
            message.producer_epoch,
            keeps=bool(message.argument),
        )
        ask(step, request, message)
    elif message.kind == ADD:
        ask(step, _adding(step, message), message)
    elif message.kind == END:
        version = 0 if message.sequence == OLDER else step.world.bounds.versions[message.client]
        commit = bool(message.argument)
        ask(step, EndTxn(message.producer_id, message.producer_epoch, commit, version), message)
    elif message.kind == PRODUCE:
        _produce(step, message)
    elif message.kind == COMMIT_OFFSETS:
        _commit_offsets(step, message)
    else:
        _late_marker(step, message)


def _adding(step: Step, message: Message) -> AddPartitions:
    partition = step.world.topic_partitions[message.argument]
    return AddPartitions(message.producer_id, message.producer_epoch, frozenset({partition}))


def _produce(step: Step, message: Message) -> None:
    protocol = step.world.bounds.versions[message.client]
    records, verdict = step.world.partitions.begin(
        step.records(message.argument),
        producer_id=message.producer_id,
        producer_epoch=message.producer_epoch,
        sequence=message.sequence,
        from_zero=PRODUCE_VERSIONS[protocol] >= FIRST_ADDING_VERSION,
    )
    step.set_records(message.argument, records)
    if isinstance(verdict, Refused):
        verified(step, message, verdict.error)
    elif verdict is None:
        append(step, message)
    else:
        message = step.change(message, guard=GUARD)
        if protocol >= 2:
            ask(step, _adding(step, message), message)
            return
        error = _verify(step, message)
        if error is ErrorCode.NONE:
            step.change(message, stage=VERIFIED)
        else:
            verified(step, message, error)


def _commit_offsets(step: Step, message: Message) -> None:
    if step.world.bounds.versions[message.client] >= 2:
        ask(step, _adding(step, message), message)
    else:
        append(step, message)


def _verify(step: Step, message: Message) -> ErrorCode:
    """The coordinator's word, without adding anything."""
    txn = step.coordinator.txn
    if txn is None:
        reply = unknown(_adding(step, message))
        assert reply is not None
        return reply.error
    return verify(
        txn,
        step.world.topic_partitions[message.argument],
        producer_id=message.producer_id,
        producer_epoch=message.producer_epoch,
    )


def append(step: Step, message: Message) -> None:
    """A record goes into its partition, or not."""
    from_client = message.kind == PRODUCE
    if not from_client:
        # The answer may be old: the group coordinator asks once more, with nothing in between.
        error = _verify(step, message)
        if error is not ErrorCode.NONE:
            verified(step, message, error)
            return
    batch = Append(message.tag, message.producer_id, message.producer_epoch, message.sequence)
    records, verdict = step.world.partitions.append(
        step.records(message.argument), batch, message.guard, from_client=from_client
    )
    if isinstance(verdict, Refused):
        verified(step, message, verdict.error, verdict.message)
        return
    if verdict is None:
        step.judge_append(message)
        message = _after(step, message, records, batch)
        step.note(f"a record of {tag_name(message.tag)} is appended to {message.argument}")
    else:
        step.note("it is there already")
    if step.parts[message.argument].tail:
        step.change(message, stage=APPENDED)
    else:
        written(step, message)


def _after(step: Step, message: Message, records: Records, batch: Append) -> Message:
    """The append has taken away the guards of its producer, also that of `message`."""
    if message.guard != NO_GUARD:
        message = step.change(message, guard=NO_GUARD)
    _log(step, message.argument, records, batch)
    return message


def _log(step: Step, partition: int, records: Records, batch: Append) -> None:
    step.set_records(partition, records)
    if step.world.bounds.loses_appends:
        part = step.parts[partition]
        step.parts[partition] = Part(part.now, part.durable, (*part.tail, batch))
    else:
        step.part_is_durable(partition)


def flush(step: Step, partition: int) -> None:
    """All that a partition holds is durable from now on."""
    step.part_is_durable(partition)
    for message in [each for each in step.messages if each.kind != MARKER]:
        if message.stage == APPENDED and message.argument == partition:
            written(step, message)
    job = step.coordinator.job
    if job is not None and partition in job.written:
        remaining = tuple(each for each in job.written if each != partition)
        step.coordinator = step.coordinator._replace(job=job._replace(written=remaining))
        _cross_off(step, partition)


def mark(step: Step, partition: int) -> None:
    """A marker of the job reaches its partition."""
    job = step.coordinator.job
    assert job is not None
    marker = Marker(job.producer_id, job.producer_epoch, job.commit, job.coordinator_epoch, job.version)
    error = _mark(step, partition, marker, job.tag)
    if error is ErrorCode.NONE and step.parts[partition].tail:
        job = job._replace(
            remaining=tuple(each for each in job.remaining if each != partition), written=(*job.written, partition)
        )
        step.coordinator = step.coordinator._replace(job=job)
    elif error in SETTLED:
        _cross_off(step, partition)


def _cross_off(step: Step, partition: int) -> None:
    job = step.coordinator.job
    assert job is not None
    remaining = tuple(each for each in job.remaining if each != partition)
    step.coordinator = step.coordinator._replace(job=job._replace(remaining=remaining))
    if not remaining and not job.written:
        markers_written(step)


def late_marker(step: Step, partition: int) -> None:
    """A copy of a marker stays on its way."""
    job = step.coordinator.job
    assert job is not None
    step.messages.append(
        Message(
            MARKER,
            -1,
            job.tag,
            job.producer_id,
            job.producer_epoch,
            argument=2 * partition + job.commit,
            sequence=job.coordinator_epoch,
            stage=job.version,
            awaited=False,
        )
    )


def _late_marker(step: Step, message: Message) -> None:
    step.messages.remove(message)
    marker = Marker(
        message.producer_id, message.producer_epoch, bool(message.argument % 2), message.sequence, message.stage
    )
    _mark(step, message.argument // 2, marker, message.tag)


def _mark(step: Step, partition: int, marker: Marker, tag: int) -> ErrorCode:
    records, ended = step.world.partitions.mark(step.records(partition), marker)
    if isinstance(ended, ErrorCode):
        step.note(f"partition {partition} answers {ended.name}")
        return ended
    step.judge_marker(partition, ended, commit=marker.commit, tag=tag)
    batch = Append(
        tag,
        marker.producer_id,
        marker.producer_epoch,
        commit=marker.commit,
        coordinator_epoch=marker.coordinator_epoch,
    )
    _log(step, partition, records, batch)
    step.note(
        f"partition {partition} has it"
        + "".join(f", which ends {tag_name(each)}" for each in sorted({tag_of_record(name) for name in ended}))
    )
    return ErrorCode.NONE
