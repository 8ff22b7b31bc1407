"""Dead letters as records: what a share group leaves behind of a record that it gives up (KIP-1191;
share-partitions.md 7).

Pure. A dead letter says in six headers which record it is about and why, in Kafka's names and words; where the group
wants a copy, it has the record's key, value and headers too. Always true: a batch of them has at most as many bytes as
its topic allows, and a record that does not fit in with its content is told of without it.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from eosin.broker.sharing.rules.window import DeadRecords
from eosin.protocol.records.batch import (
    HEADER_BYTES,
    CorruptRecords,
    Record,
    batches,
    build_batch_of_encoded,
    iter_records,
    verify_crc,
)
from eosin.protocol.records.budget import Budget, BudgetSpent
from eosin.protocol.records.compression import BytesLike
from eosin.protocol.records.fields import Header, encode_record

TOPIC: Final = "__dlq.errors.topic"
PARTITION: Final = "__dlq.errors.partition"
OFFSET: Final = "__dlq.errors.offset"
GROUP: Final = "__dlq.errors.group"
DELIVERY_COUNT: Final = "__dlq.errors.delivery.count"
MESSAGE: Final = "__dlq.errors.message"
REJECTED: Final = b"Offset rejected by client."
USED_UP: Final = b"Offset delivery count exceeded the threshold."


class Origin(NamedTuple):
    """A share partition as its dead letters name it."""

    group_id: str
    topic: str
    partition: int


class Letter(NamedTuple):
    """The dead letter of the record at `offset`."""

    offset: int
    dead: DeadRecords
    record: Record | None
    """The record, for a copy of it; None where the letter only tells of it."""


class LetterBatch(NamedTuple):
    """Dead letters as one batch."""

    data: bytearray
    letters: Sequence[Letter]

    @property
    def end(self) -> int:
        """The offset after the last record that it tells of."""
        return self.letters[-1].offset + 1


def first_of(dead: Sequence[DeadRecords], *, count: int, end: int) -> list[DeadRecords]:
    """The first `count` offsets of these in order, as far as they lie before `end`."""
    taken: list[DeadRecords] = []
    for each in dead:
        if count <= 0 or each.first >= end:
            break
        until = min(each.end, each.first + count, end)
        taken.append(each._replace(end=until))
        count -= until - each.first
        if until < each.end:
            break
    return taken


def without(dead: Sequence[DeadRecords], done: Sequence[DeadRecords]) -> list[DeadRecords]:
    """These without what `first_of` took of them."""
    if not done:
        return list(dead)
    last, left = done[-1].end, list(dead[len(done) - 1 :])
    left[0] = left[0]._replace(first=last)
    return left if left[0].first < left[0].end else left[1:]


def found_in(data: BytesLike, dead: Sequence[DeadRecords], budget: Budget | None) -> dict[int, Record | None]:
    """The dead records that are in these stored batches, by offset; None for one that is in a batch that cannot be read
    or does not have its checksum. A copy of damaged bytes must not look sound."""
    found: dict[int, Record | None] = {}
    at = 0
    for position, header in batches(data):
        end = header.last_offset + 1
        while at < len(dead) and dead[at].end <= header.base_offset:
            at += 1
        if at == len(dead):
            break
        if header.is_control or dead[at].first >= end:
            continue
        wanted = _offsets(dead[at:], header.base_offset, end)
        try:
            if not verify_crc(data, position, header):
                raise CorruptRecords("the checksum is wrong")
            batch = memoryview(data)[position : position + header.size]
            found |= {each.offset: each for each in iter_records(batch, budget=budget) if each.offset in wanted}
        except (CorruptRecords, BudgetSpent):
            found |= dict.fromkeys(wanted)
    return found


def _offsets(dead: Sequence[DeadRecords], first: int, end: int) -> set[int]:
    wanted: set[int] = set()
    for each in dead:
        if each.first >= end:
            break
        wanted.update(range(max(first, each.first), min(end, each.end)))
    return wanted


def letters(
    dead: Sequence[DeadRecords], found: Mapping[int, Record | None] | None, *, copies: bool, log_start: int
) -> list[Letter]:
    """The dead letters of these records. `found`: what the log has of them; None if nobody has looked. What retention
    was faster to take, and what was rejected and compaction has taken, is told of; what only was never accepted, and is
    not there, was no record: compaction leaves such holes."""
    some = []
    for each in dead:
        for offset in range(each.first, each.end):
            if found is not None and offset not in found and not each.is_rejected and offset >= log_start:
                continue
            some.append(Letter(offset, each, found.get(offset) if copies and found is not None else None))
    return some


def letter_batches(some: Sequence[Letter], origin: Origin, *, max_bytes: int, timestamp: int) -> Iterator[LetterBatch]:
    """These letters in batches of at most `max_bytes`, in order; one that is larger if it has no copy to leave out."""
    parts: list[bytes] = []
    told: list[Letter] = []
    size, room = HEADER_BYTES, max_bytes - HEADER_BYTES
    place = ((TOPIC, origin.topic.encode()), (PARTITION, b"%d" % origin.partition))
    group = (GROUP, origin.group_id.encode())
    for letter in some:
        headers = (*place, (OFFSET, b"%d" % letter.offset), group, *_reason(letter.dead))
        encoded = _encoded(letter, headers, len(parts), room)
        if parts and size + len(encoded) > max_bytes:
            yield _batch(parts, told, timestamp)
            parts, told, size = [], [], HEADER_BYTES
            encoded = _encoded(letter, headers, 0, room)
        parts.append(encoded)
        told.append(letter)
        size += len(encoded)
    if parts:
        yield _batch(parts, told, timestamp)


def _reason(dead: DeadRecords) -> tuple[Header, ...]:
    return (
        (DELIVERY_COUNT, b"%d" % dead.delivery_count),
        (MESSAGE, REJECTED if dead.is_rejected else USED_UP),
    )


def _encoded(letter: Letter, headers: tuple[Header, ...], delta: int, room: int) -> bytes:
    record = letter.record
    if record is not None:
        # The record's own headers come first: of headers of one name, clients take the last.
        own = (*record.headers, *headers)
        encoded = encode_record(offset_delta=delta, timestamp_delta=0, key=record.key, value=record.value, headers=own)
        if len(encoded) <= room:
            return encoded
    return encode_record(offset_delta=delta, timestamp_delta=0, key=None, value=None, headers=headers)


def _batch(parts: Sequence[bytes], told: Sequence[Letter], timestamp: int) -> LetterBatch:
    return LetterBatch(build_batch_of_encoded(b"".join(parts), count=len(parts), timestamp=timestamp), told)
