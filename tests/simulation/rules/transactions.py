"""Transactions are whole, they end, and they have an order."""

from simulation.case import Case, Violations, difference, records
from simulation.cycles import find_cycle
from simulation.history import NEVER, FinalPartition, LoggedBatch, Seen
from simulation.values import COMPACTED


def transactions_are_whole(case: Case) -> Violations:
    """All of a transaction's acknowledged writes are visible, or none; as its producer was told, if it was told."""
    for transaction in case.history.transactions:
        visible = [value for write in transaction.writes for value in write.values if value in case.visible]
        if visible and not transaction.may_be_committed:
            yield f"{transaction.name} was never committed, and is visible: {visible}"
        missing = [
            value
            for write in transaction.writes
            if write.acknowledged
            for value in write.values
            if value not in case.visible and not case.may_be_gone(value)
        ]
        if transaction.must_be_committed and missing:
            yield f"{transaction.name} was committed, and is not visible: {missing}"
        if visible and missing:
            yield f"half of {transaction.name} is visible: {visible}, and not {missing}"


def markers_decide(case: Case) -> Violations:
    """What committed readers are shown is what the markers in the log say; and nothing is left open."""
    for partition, final in case.final.partitions.items():
        expected, still_open = committed_by_markers(final)
        if still_open:
            yield f"still open in {partition}: producer ids {still_open}"
        shown = list(final.committed)
        if partition == COMPACTED:  # which goes on while it is looked at
            expected = [seen for seen in expected if not case.may_be_compacted_away(seen.value)]
            shown = [seen for seen in shown if not case.may_be_compacted_away(seen.value)]
        if expected != shown:
            yield f"{partition} shows {difference(expected, shown)} by its markers"


def committed_by_markers(final: FinalPartition) -> tuple[list[Seen], list[int]]:
    """What the markers of a log make visible, and the producer ids with a transaction that has none."""
    open_batches: dict[int, list[LoggedBatch]] = {}
    visible: list[Seen] = []
    for batch in final.batches:
        if batch.marker:
            ended = open_batches.pop(batch.producer_id, [])
            if batch.marker == "commit":
                visible += [seen for each in ended for seen in records(each)]
        elif not batch.is_transactional:
            visible += records(batch)
        elif batch.values:  # compaction keeps empty batches for their producers' sake
            open_batches.setdefault(batch.producer_id, []).append(batch)
    return sorted(visible), list(open_batches)


def everything_ends(case: Case) -> Violations:
    """Once all producers are gone and all timeouts have passed nothing is open, and nothing holds readers back."""
    for text in case.final.open_transactions:
        yield f"a transaction never ends: {text}"
    for partition, final in case.final.partitions.items():
        end = max((batch.next_offset for batch in final.batches), default=final.log_start_offset)
        if final.last_stable_offset != final.high_watermark:
            yield f"{partition} is stuck: readers see {final.last_stable_offset} of {final.high_watermark}"
        if final.high_watermark != end and partition != COMPACTED:
            yield f"{partition}: the high watermark {final.high_watermark} is not the end {end}"


def commits_fail_for_a_reason(case: Case) -> Violations:
    """Who may end a transaction can."""
    for transaction in case.history.transactions:
        if transaction.end_answered == NEVER or transaction.acknowledged:
            continue
        ended = transaction.end_answered, transaction.ended_ms
        if case.may_have_expired(transaction, transaction.error, transaction.end_answered):
            continue
        if not case.may_be_refused(transaction, *ended, by_coordinator=True):
            yield f"{transaction.name} was refused for no reason: {transaction.error}"


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


RULES = (transactions_are_whole, markers_decide, everything_ends, commits_fail_for_a_reason, no_cycle)
