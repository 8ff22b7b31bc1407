"""Group offsets go with the output that was computed from what lies below them."""

from eosin.protocol.names import TopicPartition
from simulation.case import Case, Violations
from simulation.history import Transaction
from simulation.values import is_copied


def copies_match_offsets(case: Case) -> Violations:
    """Of what lies below a copying group's offset there is one visible copy each, and none of anything beyond."""
    for group, sources in case.history.copying.items():
        for source in sources:
            offset = case.final.offsets[group, source]
            below = [seen.value for seen in case.final.partitions[source].committed if seen.offset < offset]
            wanted = sorted(value for value in below if is_copied(value))
            copied: list[str] = []
            for transaction in case.history.transactions:
                if transaction.group == group:
                    copied += _copied(case, transaction, source)
            if sorted(copied) != wanted:
                missing = [value for value in wanted if value not in copied]
                surplus = [value for value in copied if value not in wanted or copied.count(value) > 1]
                yield f"group {group} is at {offset} of {source}: copies are missing {missing}, too many {surplus}"


def _copied(case: Case, transaction: Transaction, source: TopicPartition) -> list[str]:
    """What of `source` a transaction has visible copies of."""
    copied = [
        value.rpartition(">")[0] for write in transaction.writes for value in write.values if value in case.visible
    ]
    return [value for value in copied if case.write_of[value].partition == source]


def offsets_never_fall(case: Case) -> Violations:
    """A group is told no older offset than what it was told before, or what was committed before it asked."""
    for (group, partition), final in case.final.offsets.items():
        committed = [
            (commit.answered, commit.offset)
            for commit in case.history.commits
            if (commit.group, commit.partition) == (group, partition) and commit.acknowledged
        ]
        committed += [
            (transaction.end_answered, transaction.offsets[partition])
            for transaction in case.history.transactions
            if transaction.group == group and partition in transaction.offsets and transaction.must_be_committed
        ]
        reads = [read for read in case.history.offset_reads if (read.group, read.partition) == (group, partition)]
        committed += [(read.answered, read.offset) for read in reads]
        for read in reads:
            before = max((offset for answered, offset in committed if answered < read.asked), default=-1)
            if read.offset < before:
                yield f"the offset of {group} in {partition} fell from {before} to {read.offset}"
        if final < max((offset for _, offset in committed), default=-1):
            yield f"group {group} is at {final} of {partition} in the end, and was further before"


def offsets_are_not_invented(case: Case) -> Violations:
    """A group is told an offset that somebody has asked to commit."""
    for read in case.history.offset_reads:
        asked = {
            commit.offset
            for commit in case.history.commits
            if (commit.group, commit.partition) == (read.group, read.partition) and commit.asked < read.answered
        }
        asked |= {
            transaction.offsets[read.partition]
            for transaction in case.history.transactions
            if transaction.group == read.group
            and read.partition in transaction.offsets
            and transaction.may_be_committed
            and transaction.end_asked < read.answered
        }
        if read.offset >= 0 and read.offset not in asked:
            yield f"{read.group} was told offset {read.offset} of {read.partition}, which nobody has committed"


RULES = (copies_match_offsets, offsets_never_fall, offsets_are_not_invented)
