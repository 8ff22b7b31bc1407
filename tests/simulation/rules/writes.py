"""What was written is there, once, in order, and nobody was refused without a reason."""

from eosin.protocol.names import TopicPartition
from simulation.case import Case, Violations
from simulation.history import NEVER
from simulation.values import COMPACTED, DELETED, RETAINED


def acknowledged_writes_are_there(case: Case) -> Violations:
    """What was acknowledged is in the log, where it was said to be."""
    for write in case.history.writes:
        if not write.acknowledged:
            continue
        is_kept = write.partition != COMPACTED or write.transaction is None or write.transaction.must_be_committed
        for index, value in enumerate(write.values):
            places = case.places.get(value, [])
            if not places and is_kept and not case.may_be_gone(value):
                yield f"lost: {value} was acknowledged in {write.partition}"
            elif (
                places
                and write.offset >= 0
                and (write.partition, write.offset + index) not in places
                and not (
                    write.partition == DELETED and case.may_be_gone(value)
                )  # a repetition came behind the deletion
            ):
                yield f"moved: {value} was acknowledged at {write.partition} {write.offset + index}, is at {places}"


def nothing_is_there_twice(case: Case) -> Violations:
    """A value is written by one producer with sequences: retries do not multiply it, and nothing makes it up."""
    for value, places in case.places.items():
        write = case.write_of.get(value)
        if write is None:
            yield f"invented: {value} at {places}"
        elif len(places) > 1:
            yield f"duplicate: {value} at {places}"
        elif places[0][0] != write.partition:
            yield f"misplaced: {value} at {places}"


def sequences_have_no_gap(case: Case) -> Violations:
    """In each partition the batches of a producer id lie in order: epochs never fall, sequences go on."""
    for partition, final in case.final.partitions.items():
        if partition in (COMPACTED, DELETED):
            continue
        known: dict[int, tuple[int, int | None]] = {}
        for batch in final.batches:
            # What the beginning that is gone had of a producer, only its next batch tells.
            epoch, expected = known.get(batch.producer_id, (-1, None if final.log_start_offset else 0))
            if batch.producer_epoch < epoch:
                yield f"a zombie wrote to {partition}: {batch}, after epoch {epoch}"
            if batch.producer_epoch > epoch >= 0:
                expected = 0
            if not batch.marker:
                if expected is not None and batch.base_sequence != expected:
                    yield f"a gap in {partition} at {batch.base_offset}: {batch}, expected {expected}"
                expected = batch.base_sequence + len(batch.values)
            known[batch.producer_id] = (batch.producer_epoch, expected)


def plain_writes_are_visible(case: Case) -> Violations:
    """What is in no transaction is visible once it is in the log."""
    for write in case.history.writes:
        if write.transaction is None:
            for value in write.values:
                if value in case.places and value not in case.visible:
                    yield f"hidden: {value}"


def writes_fail_for_a_reason(case: Case) -> Violations:
    """Who may write can; and a gap in its sequences is one that it knows of."""
    unanswered: dict[tuple[TopicPartition, int, int], int] = {}
    for write in case.history.writes:
        sequence = (write.partition, write.producer_id, write.producer_epoch)
        if write.acknowledged:
            continue
        gap = unanswered.setdefault(sequence, write.base_sequence)
        if not write.error or (write.error == "OUT_OF_ORDER_SEQUENCE_NUMBER" and gap < write.base_sequence):
            continue
        if write.partition == DELETED and case.may_be_gone(write.values[0]):
            continue  # what it follows on is gone
        transaction = write.transaction
        if transaction is not None and case.may_have_expired(transaction, write.error, write.answered):
            continue
        if transaction is None or not case.may_be_refused(transaction, write.answered, write.answered_ms):
            yield f"a write of {write.instance} was refused for no reason: {write.error}, {write.values}"


def deleted_is_deleted(case: Case) -> Violations:
    """What had been written, and whose transaction had ended, when a topic was deleted never comes back."""
    for deletion in case.history.deletions:
        if deletion.answered == NEVER:
            continue
        for write in case.history.writes:
            transaction = write.transaction
            ended = write.answered if transaction is None else transaction.end_answered
            if write.partition == deletion.partition and ended < deletion.asked:
                for value in write.values:
                    if value in case.places:
                        yield f"{value} is back, of a topic that was deleted"


def retention_takes_the_beginning(case: Case) -> Violations:
    """A log begins where its first batch does, or later, and nothing is asked for that retention has not taken."""
    for partition, final in case.final.partitions.items():
        if partition != RETAINED and final.log_start_offset:
            yield f"{partition} has lost its beginning, up to {final.log_start_offset}"
        if final.log_start_offset > final.last_stable_offset:
            yield f"{partition} begins at {final.log_start_offset}, behind its LSO {final.last_stable_offset}"


RULES = (
    deleted_is_deleted,
    retention_takes_the_beginning,
    acknowledged_writes_are_there,
    nothing_is_there_twice,
    sequences_have_no_gap,
    plain_writes_are_visible,
    writes_fail_for_a_reason,
)
