"""Commits that came too late, told by the history of a run: each has ended a later transaction of its producer. Pure.

Under transaction version 1 all transactions of a producer have one epoch, so that no broker can tell a delayed EndTxn
from a new one; under version 2 it is refused (KIP-890). Always true: a commit is late if every request to end the
transaction that came since the one before was decided had been executed already, or there was none.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple

from msgspec.structs import replace

from eosin.lab.common.values import PartitionName, ReadRecord
from eosin.lab.history.occurrences import ANSWERED, ASKED, EXECUTED, MARKER, Occurrence
from eosin.lab.verdict.facts import ExactlyOnceFacts, LoggedPartition
from eosin.lab.verdict.findings import DOUBLED, LOST, OPEN, TORN, Finding
from eosin.lab.verdict.records import text_of_record

Pair = tuple[bytes | None, bytes | None]
"""The key and the value of a record of an output."""
FORGIVEN: Final = (TORN, LOST, OPEN)
"""The marks that a late commit leaves whatever the application does, beside records that it does again."""
WHY: Final = (
    "a late commit has ended the next transaction: under transaction version 1 no broker can tell it from a new one"
    " (KIP-890)"
)
_PREPARED: Final = "prepared"
_COMMIT: Final = "commit "


class LateCommit(NamedTuple):
    """The end that a late commit has made in one partition."""

    partition: PartitionName
    producer_id: int | None
    """None if its transactional id was forgotten."""
    ordinal: int
    """The number of its marker among those of the producer in the partition, from 1."""


def late_commits(events: Sequence[Occurrence], producer_id_of: Callable[[str], int | None]) -> list[LateCommit]:
    """The late commits in a history, by partition. `producer_id_of` knows the producer id of a transactional id."""
    waiting: dict[int, str] = {}
    """The transactional ids of requests that may still be executed."""
    known: set[str] = set()
    """The ids whose transactions clients have ended: the lab's own instances ask in no request."""
    late: dict[tuple[str, PartitionName], None] = {}
    markers: Counter[tuple[str, PartitionName]] = Counter()
    found = []
    for each in events:
        own = each.transactional_id
        if each.what == ASKED and each.api == "EndTxn":
            waiting[each.number] = own
            known.add(own)
        elif each.what in (ANSWERED, EXECUTED):
            waiting.pop(each.request, None)
        elif each.what == _PREPARED:
            if own in known and own not in waiting.values() and each.detail.startswith(_COMMIT):
                late.update({(own, partition): None for partition in each.partitions})
            waiting = {number: other for number, other in waiting.items() if other != own}
        elif each.what == MARKER:
            for partition in each.partitions:
                place = own, partition
                markers[place] += 1
                if place in late:
                    del late[place]
                    found.append(LateCommit(partition, producer_id_of(own), markers[place]))
    return found


def without_copies(
    facts: ExactlyOnceFacts, late: Iterable[LateCommit], reference: Sequence[Pair]
) -> tuple[ExactlyOnceFacts, list[Finding]]:
    """The facts without those records of late commits that the application has done again, and what is left out."""
    left_over = Counter((one.key, one.value) for each in facts.output for one in _visible(each)) - Counter(reference)
    commits = list(late)
    copies: list[ReadRecord] = []
    for partition in facts.output:
        for record in _visible(partition):
            pair = record.key, record.value
            if left_over[pair] > 0 and any(_has_ended(each, partition, record) for each in commits):
                left_over[pair] -= 1
                copies.append(record)
    if not copies:
        return facts, []
    places = {(each.topic, each.partition, each.offset) for each in copies}
    output = tuple(_without(each, places) for each in facts.output)
    number = "1 record is" if len(copies) == 1 else f"{len(copies)} records are"
    finding = Finding(
        DOUBLED, f"{number} in the output once more, since it was done again", tuple(map(text_of_record, copies))
    )
    return replace(facts, output=output), [finding]


def _visible(partition: LoggedPartition) -> list[ReadRecord]:
    shown = set(partition.visible)
    return [each for each in partition.records if each.offset in shown]


def _has_ended(commit: LateCommit, partition: LoggedPartition, record: ReadRecord) -> bool:
    """True if the record is one of the transaction that the commit has ended."""
    if (commit.partition.topic, commit.partition.partition) != (partition.topic, partition.partition):
        return False
    marker = 0
    for batch in partition.batches:
        if batch.producer_id != commit.producer_id:
            continue
        if batch.marker is not None:
            marker += 1
        elif marker == commit.ordinal - 1 and batch.base_offset <= record.offset <= batch.last_offset:
            return True
    return False


def _without(partition: LoggedPartition, places: set[tuple[str, int, int]]) -> LoggedPartition:
    kept = tuple(each for each in partition.records if (each.topic, each.partition, each.offset) not in places)
    offsets = {each.offset for each in kept}
    return replace(partition, records=kept, visible=tuple(each for each in partition.visible if each in offsets))
