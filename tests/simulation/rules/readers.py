"""What readers are shown is true, stays true, and never goes back."""

from eosin.protocol.names import TopicPartition
from simulation.case import Case, Violations, difference, records
from simulation.history import Fetched, FinalPartition, Isolation, LoggedBatch, Seen
from simulation.values import COMPACTED, RETAINED, is_tombstone, key_of


def readers_agree(case: Case) -> Violations:
    """Whatever a reader was ever shown is what readers of its kind are shown at the end: nothing that could still go
    away, nothing left out, nothing in another order."""
    for fetched in case.history.fetches:
        lasting = _lasting(case, fetched)
        shown = list(fetched.records)
        if fetched.partition == COMPACTED:
            both = [seen for seen in lasting if seen in shown]
            shown = [seen for seen in shown if seen in both or not _may_be_gone(case, fetched, seen)]
            lasting = [seen for seen in lasting if seen in both or not _may_be_gone(case, fetched, seen)]
        if fetched.partition == RETAINED:
            first = _begin(case)
            shown = [seen for seen in shown if seen.offset >= first]
            lasting = [seen for seen in lasting if seen.offset >= first]
        if lasting != shown:
            yield (
                f"{fetched.reader} ({fetched.isolation.name.lower()}) was shown {fetched.partition} from "
                f"{fetched.offset} to {fetched.next_offset}: {difference(lasting, shown)}"
            )


def _lasting(case: Case, fetched: Fetched) -> list[Seen]:
    """What there is at the end of the stretch that was fetched."""
    final = case.final.partitions[fetched.partition]
    if fetched.isolation is Isolation.COMMITTED:
        everything = list(final.committed)
    else:
        everything = [seen for batch in final.batches for seen in records(batch)]
    return [seen for seen in everything if fetched.offset <= seen.offset < fetched.next_offset]


def _begin(case: Case) -> int:
    """Where the log begins of which retention takes the beginning, whenever one looks."""
    return max(state.partitions[RETAINED].log_start_offset for state in (case.final, case.history.final_again))


def _may_be_gone(case: Case, fetched: Fetched, seen: Seen) -> bool:
    write = case.write_of.get(seen.value)
    was_aborted = write is not None and write.transaction is not None and seen.value not in case.visible
    return case.may_be_compacted_away(seen.value) or (was_aborted and fetched.isolation is Isolation.UNCOMMITTED)


def nothing_undecided_is_shown(case: Case) -> Violations:
    """A committed reader is shown no record of a transaction that nobody has asked to commit yet."""
    for fetched in case.history.fetches:
        if fetched.isolation is not Isolation.COMMITTED:
            continue
        for seen in fetched.records:
            write = case.write_of.get(seen.value)
            transaction = None if write is None else write.transaction
            if transaction is None:
                continue
            if not transaction.may_be_committed or transaction.end_asked > fetched.answered:
                yield f"{fetched.reader} was shown {seen.value} before anybody asked to commit {transaction.name}"


def watermarks_never_fall(case: Case) -> Violations:
    """Who asks after somebody was answered is told no lower high watermark and last stable offset."""
    told: dict[tuple[TopicPartition, str], list[tuple[int, int]]] = {}
    for fetched in sorted(case.history.fetches, key=lambda each: each.answered):
        for name, value in (("high watermark", fetched.high_watermark), ("LSO", fetched.last_stable_offset)):
            earlier = told.setdefault((fetched.partition, name), [])
            before = next((known for answered, known in reversed(earlier) if answered < fetched.asked), 0)
            if value < before:
                yield f"the {name} of {fetched.partition} fell from {before} to {value}, as {fetched.reader} was told"
            if not earlier or value > earlier[-1][1]:
                earlier.append((fetched.answered, value))


def watermarks_are_in_order(case: Case) -> Violations:
    """No reader is told a last stable offset above the high watermark, or a high watermark that is not reached in the
    end; and none is shown more than what it is told."""
    for fetched in case.history.fetches:
        is_committed = fetched.isolation is Isolation.COMMITTED
        told = fetched.last_stable_offset if is_committed else fetched.high_watermark
        if fetched.next_offset > max(told, fetched.offset):
            yield f"{fetched.reader} was shown {fetched.partition} up to {fetched.next_offset}, above {told}"
        if fetched.last_stable_offset > fetched.high_watermark:
            yield f"the LSO of {fetched.partition} is above the high watermark, as {fetched.reader} was told"
        end = case.final.partitions[fetched.partition].high_watermark
        if fetched.high_watermark > end:
            yield (
                f"{fetched.reader} was told that {fetched.high_watermark} offsets of {fetched.partition} are committed,"
                f" and in the end there are {end}"
            )


def the_end_is_durable(case: Case) -> Violations:
    """After another crash everything is as it was."""
    again = case.history.final_again
    for partition, before in case.final.partitions.items():
        after = again.partitions[partition]
        if partition == COMPACTED:
            is_same = _latest(before) == _latest(after)
        elif partition == RETAINED:
            first = _begin(case)
            is_same = _from(first, before) == _from(first, after)
        else:
            is_same = (before.batches, before.committed) == (after.batches, after.committed)
        if not is_same:
            yield f"{partition} is not what it was before the last crash"
    if case.final.offsets != again.offsets:
        yield f"group offsets were {case.final.offsets} before the last crash, and are {again.offsets}"


def _from(first: int, final: FinalPartition) -> tuple[list[LoggedBatch], list[Seen]]:
    batches = [batch for batch in final.batches if batch.base_offset >= first]
    return batches, [seen for seen in final.committed if seen.offset >= first]


def _latest(final: FinalPartition) -> dict[str, str]:
    latest = {key_of(seen.value): seen.value for seen in final.committed}
    return {key: text for key, text in latest.items() if not is_tombstone(text)}


RULES = (
    readers_agree,
    nothing_undecided_is_shown,
    watermarks_never_fall,
    watermarks_are_in_order,
    the_end_is_durable,
)
