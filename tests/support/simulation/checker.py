"""The judge of a history: what a broker has promised, and what it did. Pure: it knows no broker, only what clients saw.

Every rule is a generator of sentences, one for each violation. A history without a sentence is one that a correct
broker may have produced.
"""

from collections.abc import Callable, Iterator

from eosin.protocol.names import TopicPartition
from simulation.cycles import find_cycle
from simulation.history import (
    NEVER,
    FinalPartition,
    FinalState,
    History,
    Introduction,
    Isolation,
    LoggedBatch,
    Seen,
    Transaction,
    Write,
)

Violations = Iterator[str]


class Case:
    """A history, and what several rules want to know of it."""

    def __init__(self, history: History) -> None:
        self.history = history
        self.write_of: dict[str, Write] = {value: write for write in history.writes for value in write.values}
        self.final = history.final
        self.places: dict[str, list[tuple[TopicPartition, int]]] = {}
        """Where each value lies in the logs at the end."""
        self.visible: dict[str, list[tuple[TopicPartition, int]]] = {}
        """Where committed readers see it at the end."""
        for partition, final in self.final.partitions.items():
            for batch in final.batches:
                for offset, value in enumerate(batch.values, start=batch.base_offset):
                    self.places.setdefault(value, []).append((partition, offset))
            for seen in final.committed:
                self.visible.setdefault(seen.value, []).append((partition, seen.offset))


def judge(history: History) -> list[str]:
    """Every violation."""
    if history.unanswered or not history.final.partitions:
        # What comes at the end is not known, so nothing else can be judged.
        return [*_faults(history), *_answers(history)]
    case = Case(history)
    return [*_faults(history), *_answers(history), *(violation for rule in RULES for violation in rule(case))]


def _faults(history: History) -> Violations:
    for fault in history.faults:
        yield f"the broker failed: {fault}"


def _answers(history: History) -> Violations:
    for waiting in history.unanswered:
        yield f"never answered: {waiting}"


# Writes -------------------------------------------------------------------------------------------------------------


def acknowledged_writes_are_there(case: Case) -> Violations:
    """What was acknowledged is in the log, where it was said to be."""
    for write in case.history.writes:
        if not write.acknowledged:
            continue
        for index, value in enumerate(write.values):
            places = case.places.get(value, [])
            if not places:
                yield f"lost: {value} was acknowledged in {write.partition}"
            elif write.offset >= 0 and (write.partition, write.offset + index) not in places:
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
        known: dict[int, tuple[int, int]] = {}
        for batch in final.batches:
            if batch.producer_id < 0:
                continue
            epoch, expected = known.get(batch.producer_id, (-1, 0))
            if batch.producer_epoch < epoch:
                yield f"a zombie wrote to {partition}: {batch}, after epoch {epoch}"
            if batch.producer_epoch > epoch:
                expected = 0
            if not batch.marker:
                if batch.base_sequence != expected:
                    yield f"a gap in {partition} at {batch.base_offset}: {batch}, expected {expected}"
                expected = batch.base_sequence + len(batch.values)
            known[batch.producer_id] = (batch.producer_epoch, expected)


# Transactions -------------------------------------------------------------------------------------------------------


def transactions_are_whole(case: Case) -> Violations:
    """All of a transaction's acknowledged writes are visible, or none; as its producer was told, if it was told."""
    for transaction in case.history.transactions:
        visible = [value for write in transaction.writes for value in write.values if value in case.visible]
        acknowledged = [value for write in transaction.writes if write.acknowledged for value in write.values]
        if visible and not transaction.may_be_committed:
            yield f"{transaction.name} was never committed, and is visible: {visible}"
        missing = [value for value in acknowledged if value not in case.visible]
        if transaction.must_be_committed and missing:
            yield f"{transaction.name} was committed, and is not visible: {missing}"
        if visible and missing:
            yield f"half of {transaction.name} is visible: {visible}, and not {missing}"


def plain_writes_are_visible(case: Case) -> Violations:
    """What is in no transaction is visible once it is in the log."""
    for write in case.history.writes:
        if write.transaction is None:
            for value in write.values:
                if value in case.places and value not in case.visible:
                    yield f"hidden: {value}"


def markers_decide(case: Case) -> Violations:
    """What committed readers are shown is what the markers in the log say; and nothing is left open."""
    for partition, final in case.final.partitions.items():
        expected, still_open = committed_by_markers(final)
        if still_open:
            yield f"still open in {partition}: producer ids {still_open}"
        if expected != list(final.committed):
            yield f"{partition} shows {_difference(expected, list(final.committed))} by its markers"


def committed_by_markers(final: FinalPartition) -> tuple[list[Seen], list[int]]:
    """What the markers of a log make visible, and the producer ids with a transaction that has none."""
    open_batches: dict[int, list[LoggedBatch]] = {}
    visible: list[Seen] = []
    for batch in final.batches:
        if batch.marker:
            ended = open_batches.pop(batch.producer_id, [])
            if batch.marker == "commit":
                visible += [seen for each in ended for seen in _records(each)]
        elif batch.is_transactional:
            open_batches.setdefault(batch.producer_id, []).append(batch)
        else:
            visible += _records(batch)
    return sorted(visible), list(open_batches)


def _records(batch: LoggedBatch) -> list[Seen]:
    return [Seen(offset, value) for offset, value in enumerate(batch.values, start=batch.base_offset)]


def _difference(expected: list[Seen], found: list[Seen]) -> str:
    missing = [seen for seen in expected if seen not in found]
    surplus = [seen for seen in found if seen not in expected]
    return f"not {missing} but {surplus}"


def everything_ends(case: Case) -> Violations:
    """Once all producers are gone and all timeouts have passed nothing is open, and nothing holds readers back."""
    for text in case.final.open_transactions:
        yield f"a transaction never ends: {text}"
    for partition, final in case.final.partitions.items():
        end = max((batch.next_offset for batch in final.batches), default=0)
        if final.last_stable_offset != final.high_watermark:
            yield f"{partition} is stuck: readers see {final.last_stable_offset} of {final.high_watermark}"
        if final.high_watermark != end:
            yield f"{partition}: the high watermark {final.high_watermark} is not the end {end}"


# What readers see ---------------------------------------------------------------------------------------------------


def readers_agree(case: Case) -> Violations:
    """Whatever a reader was ever shown is what readers of its kind are shown at the end: nothing that could still go
    away, nothing left out, nothing in another order."""
    for fetched in case.history.fetches:
        final = case.final.partitions[fetched.partition]
        if fetched.isolation is Isolation.COMMITTED:
            lasting = [seen for seen in final.committed if fetched.offset <= seen.offset < fetched.next_offset]
        else:
            lasting = [
                seen
                for batch in final.batches
                for seen in _records(batch)
                if not batch.marker and fetched.offset <= seen.offset < fetched.next_offset
            ]
        if lasting != list(fetched.records):
            yield (
                f"{fetched.reader} ({fetched.isolation.name.lower()}) was shown {fetched.partition} from "
                f"{fetched.offset} to {fetched.next_offset}: {_difference(lasting, list(fetched.records))}"
            )


def nothing_undecided_is_shown(case: Case) -> Violations:
    """A committed reader is shown no record of a transaction that nobody has asked to commit yet."""
    for fetched in case.history.fetches:
        if fetched.isolation is not Isolation.COMMITTED:
            continue
        for seen in fetched.records:
            write = case.write_of.get(seen.value)
            transaction = None if write is None else write.transaction
            if transaction is not None and not (transaction.commit and transaction.end_asked < fetched.answered):
                yield f"{fetched.reader} was shown {seen.value} before anybody asked to commit {transaction.name}"


def watermarks_never_fall(case: Case) -> Violations:
    """Who asks after somebody was answered is told no lower high watermark and last stable offset."""
    told: dict[tuple[TopicPartition, str], list[tuple[int, int]]] = {}
    for fetched in sorted(case.history.fetches, key=lambda each: each.answered):
        for name, value in (("high watermark", fetched.high_watermark), ("LSO", fetched.last_stable_offset)):
            earlier = told.setdefault((fetched.partition, name), [])
            before = max((known for answered, known in reversed(earlier) if answered < fetched.asked), default=0)
            if value < before:
                yield f"the {name} of {fetched.partition} fell from {before} to {value}, as {fetched.reader} was told"
            if not earlier or value > earlier[-1][1]:
                earlier.append((fetched.answered, value))
        if fetched.last_stable_offset > fetched.high_watermark:
            yield f"the LSO of {fetched.partition} is above the high watermark, as {fetched.reader} was told"


def the_end_is_durable(case: Case) -> Violations:
    """After another crash everything is as it was."""
    again = case.history.final_again
    for partition, before in case.final.partitions.items():
        after = again.partitions.get(partition)
        if after is None or (before.batches, before.committed) != (after.batches, after.committed):
            yield f"{partition} is not what it was before the last crash"
    if case.final.offsets != again.offsets:
        yield f"group offsets were {case.final.offsets} before the last crash, and are {again.offsets}"


# Producers ----------------------------------------------------------------------------------------------------------


def pairs_are_given_once(case: Case) -> Violations:
    """No two instances get the same producer id and epoch, and a later one gets a higher epoch."""
    owner: dict[tuple[int, int], str] = {}
    newest: dict[int, tuple[int, Introduction]] = {}
    for each in sorted(case.history.introductions, key=lambda each: each.answered):
        if each.answered == NEVER or each.error:
            continue
        pair = (each.producer_id, each.producer_epoch)
        if owner.setdefault(pair, each.instance) != each.instance:
            yield f"{each.instance} and {owner[pair]} were both given {pair}"
        epoch, before = newest.get(each.producer_id, (-1, each))
        if each.producer_epoch < epoch and before.answered < each.asked:
            yield f"{each.instance} was given {pair} after {before.instance} was given epoch {epoch}"
        newest[each.producer_id] = max((each.producer_epoch, each), (epoch, before), key=lambda known: known[0])


def zombies_do_not_commit(case: Case) -> Violations:
    """Once a new instance has its epoch, an older one can no longer commit what it asks for from then on."""
    for transaction in case.history.transactions:
        if not (transaction.commit and transaction.acknowledged):
            continue
        since = _introduced(case, transaction).answered
        for each in _introductions_of_others(case, transaction):
            if since < each.asked and each.answered < transaction.end_asked and not each.error:
                yield f"{transaction.name} was committed after {each.instance} had taken over"


def commits_fail_for_a_reason(case: Case) -> Violations:
    """Who may end a transaction can: it is refused only if another instance came, or its time had run out, or a request
    for an epoch came late."""
    for transaction in case.history.transactions:
        if transaction.end_answered == NEVER or transaction.acknowledged:
            continue
        if not _may_be_refused(case, transaction, transaction.end_answered, transaction.ended_ms):
            yield f"{transaction.name} was refused for no reason: {transaction.error}"


def writes_fail_for_a_reason(case: Case) -> Violations:
    """So can who writes; and a gap in its sequences is one that it knows of."""
    unanswered: dict[tuple[TopicPartition, int, int], int] = {}
    for write in case.history.writes:
        sequence = (write.partition, write.producer_id, write.producer_epoch)
        if write.acknowledged:
            continue
        gap = unanswered.setdefault(sequence, write.base_sequence)
        if not write.error or (write.error == "OUT_OF_ORDER_SEQUENCE_NUMBER" and gap < write.base_sequence):
            continue
        transaction = write.transaction
        if transaction is None or not _may_be_refused(case, transaction, write.answered, write.answered_ms):
            yield f"a write of {write.instance} was refused for no reason: {write.error}, {write.values}"


def _may_be_refused(case: Case, transaction: Transaction, answered: int, answered_ms: int) -> bool:
    """Whether the producer of a transaction may have lost it by then."""
    if answered_ms - transaction.begun_ms >= transaction.timeout_ms:
        return True
    since = _introduced(case, transaction).asked
    return any(
        (each.answered > since or each.lost) and each.asked < answered
        for each in case.history.introductions
        if each.transactional_id == transaction.transactional_id
        and (each.instance != transaction.instance or each.lost)
    )


def _introductions_of_others(case: Case, transaction: Transaction) -> Iterator[Introduction]:
    for each in case.history.introductions:
        if each.transactional_id == transaction.transactional_id and each.instance != transaction.instance:
            yield each


def _introduced(case: Case, transaction: Transaction) -> Introduction:
    """How the producer of a transaction was given what it wrote it with."""
    return max(
        (
            each
            for each in case.history.introductions
            if each.instance == transaction.instance and each.answered < transaction.begun
        ),
        key=lambda each: each.answered,
    )


# Groups -------------------------------------------------------------------------------------------------------------


def copies_match_offsets(case: Case) -> Violations:
    """Of what lies below a group's offset there is one visible copy each, and none of anything beyond."""
    for (group, source), offset in case.final.offsets.items():
        expected = [seen.value for seen in case.final.partitions[source].committed if seen.offset < offset]
        copied: list[str] = []
        for transaction in case.history.transactions:
            if transaction.group == group and source in transaction.offsets:
                copied += _copied(case, transaction)
        wanted = sorted(value for value in expected if _is_copied(value))
        if sorted(copied) != wanted:
            missing = [value for value in wanted if value not in copied]
            surplus = [value for value in copied if value not in wanted or copied.count(value) > 1]
            yield f"group {group} is at {offset} of {source}: copies are missing {missing}, too many {surplus}"


def _copied(case: Case, transaction: Transaction) -> list[str]:
    """The sources of the visible copies of a transaction."""
    return [value.rpartition(">")[0] for write in transaction.writes for value in write.values if value in case.visible]


def _is_copied(value: str) -> bool:
    return value.count(">") < MAX_COPIES


MAX_COPIES = 3
"""How often a value is copied on before copiers drop it."""


def committed_offsets_last(case: Case) -> Violations:
    """A group is told an offset that was committed, and never an older one than it was told before."""
    for (group, source), final in case.final.offsets.items():
        reads = [read for read in case.history.offset_reads if (read.group, read.partition) == (group, source)]
        for earlier in reads:
            for later in reads:
                if earlier.answered < later.asked and later.offset < earlier.offset:
                    yield f"the offset of {group} in {source} fell from {earlier.offset} to {later.offset}"
        acknowledged = [
            transaction.offsets[source]
            for transaction in case.history.transactions
            if transaction.group == group and source in transaction.offsets and transaction.must_be_committed
        ]
        if final < max(acknowledged, default=-1):
            yield f"group {group} is at {final} of {source}, after {max(acknowledged)} was committed"


# Order --------------------------------------------------------------------------------------------------------------


def no_cycle(case: Case) -> Violations:
    """Committed transactions can be put in an order: after those whose output they read, after the earlier ones of
    their own producer, and after those that had ended before they began."""
    committed = [
        transaction
        for transaction in case.history.transactions
        if any(value in case.visible for write in transaction.writes for value in write.values)
    ]
    known = {transaction.name: transaction for transaction in committed}
    after: dict[str, list[str]] = {name: [] for name in known}
    for transaction in committed:
        for value in transaction.reads:
            source = case.write_of[value].transaction if value in case.write_of else None
            if source is not None and source.name in known:
                after[source.name].append(transaction.name)
        for earlier in committed:
            ended_before = earlier.acknowledged and earlier.end_answered < transaction.begun
            if ended_before or (earlier.instance == transaction.instance and earlier.begun < transaction.begun):
                after[earlier.name].append(transaction.name)
    cycle = find_cycle(after)
    if cycle:
        yield f"transactions depend on each other in a circle: {' -> '.join(cycle)}"


RULES: tuple[Callable[[Case], Violations], ...] = (
    acknowledged_writes_are_there,
    nothing_is_there_twice,
    sequences_have_no_gap,
    transactions_are_whole,
    plain_writes_are_visible,
    markers_decide,
    everything_ends,
    readers_agree,
    nothing_undecided_is_shown,
    watermarks_never_fall,
    the_end_is_durable,
    pairs_are_given_once,
    zombies_do_not_commit,
    commits_fail_for_a_reason,
    writes_fail_for_a_reason,
    copies_match_offsets,
    committed_offsets_last,
    no_cycle,
)

__all__ = ["RULES", "Case", "FinalState", "judge"]
