"""A partition of the model: the real `ProducerState`, taken out of a frozen value and put back into one.

Every answer comes from production code; this module only carries it between the two forms, and remembers answers, since
few partitions and few batches meet again and again.
"""

from functools import lru_cache
from typing import Final

from eosin.protocol.errors import ErrorCode
from eosin.protocol.records.batch import BatchHeader, NewRecord, build_batch, read_header
from eosin.storage.producers.entry import NO_TRANSACTION, KeptBatch, ProducerEntry
from eosin.storage.producers.guards import Verification
from eosin.storage.producers.state import ProducerState
from eosin.storage.results.log_results import Marker, Refused, VerificationGuard
from model_checker.values import LOST_GUARD, NO_GUARD, NO_TAG, Append, Part, Producer, Records, Verifying, record_of
from model_checker.violation import ONCE, STABLE, Violation

_NEXT_OFFSET: Final = 1000
_RANKED: Final = 100
"""Open transactions begin from here on, in their order."""

Verdict = Refused | KeptBatch | None


@lru_cache(maxsize=4096)
def header_of(producer_id: int, producer_epoch: int, sequence: int) -> BatchHeader:
    """A transactional batch of one record."""
    batch = build_batch(
        [NewRecord(None, b"")],
        timestamp=0,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=sequence,
        transactional=True,
    )
    return read_header(bytes(batch))


class Partitions:
    """What partitions answer, remembered."""

    def __init__(self) -> None:
        self._known: dict[object, tuple[Records, object]] = {}

    def begin(
        self, records: Records, *, producer_id: int, producer_epoch: int, sequence: int, from_zero: bool
    ) -> tuple[Records, VerificationGuard | Refused | None]:
        """`begin_verification`."""
        key = (records, producer_id, producer_epoch, sequence, from_zero)
        known = self._known.get(key)
        if known is None:
            state, opened = _thaw(records)
            answer = state.begin_verification(
                producer_id=producer_id, producer_epoch=producer_epoch, base_sequence=sequence, from_zero=from_zero
            )
            known = self._known[key] = (_freeze(state, opened, records.decided), answer)
        return known  # type: ignore[return-value]

    def append(self, records: Records, append: Append, guard: int, *, from_client: bool) -> tuple[Records, Verdict]:
        """`check_data`, and when it agrees `data_appended`."""
        key = (records, append, guard, from_client)
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = _append(records, append, guard, from_client)
        return known  # type: ignore[return-value]

    def mark(self, records: Records, marker: Marker) -> tuple[Records, tuple[int, ...] | ErrorCode]:
        """`check_marker`, and when it agrees `marker_appended`: the names of the records that it ended."""
        key = (records, marker)
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = _mark(records, marker)
        return known  # type: ignore[return-value]

    def replay(self, part: Part, count: int) -> Part:
        """The partition as a start finds it, when `count` of the batches that were not durable are on the disk."""
        records = part.durable
        for each in part.tail[:count]:
            state, opened = _thaw(records)
            decided = _apply(state, opened, each, records.decided)
            records = _freeze(state, opened, decided)
        return Part(records, records)


def _append(records: Records, append: Append, guard: int, from_client: bool) -> tuple[Records, Verdict]:
    state, opened = _thaw(records)
    header = header_of(append.producer_id, append.producer_epoch, append.sequence)
    held: VerificationGuard | None = None
    if guard != NO_GUARD:
        verification = state._verifications.get(append.producer_id)
        held = VerificationGuard() if guard == LOST_GUARD or verification is None else verification.guard
    verdict = state.check_data(header, from_client=from_client, guard=held, verification_enabled=True)
    if verdict is not None:
        return records, verdict
    name = record_of(append.tag, append.sequence)
    written = any(name in names for names in opened.values()) or name in dict(records.decided)
    if written and from_client:
        raise Violation(ONCE, "a record is written a second time")
    decided = _apply(state, opened, append, records.decided)
    return _freeze(state, opened, decided), None


def _mark(records: Records, marker: Marker) -> tuple[Records, tuple[int, ...] | ErrorCode]:
    state, opened = _thaw(records)
    refused = state.check_marker(marker)
    if refused is not None:
        return records, refused.error
    ended = opened.get(marker.producer_id, ())
    append = Append(
        NO_TAG,
        marker.producer_id,
        marker.producer_epoch,
        commit=marker.commit,
        coordinator_epoch=marker.coordinator_epoch,
    )
    decided = _apply(state, opened, append, records.decided)
    return _freeze(state, opened, decided), ended


def _apply(
    state: ProducerState, opened: dict[int, tuple[int, ...]], append: Append, decided: tuple[tuple[int, bool], ...]
) -> tuple[tuple[int, bool], ...]:
    """Write a batch that was accepted; what is decided then."""
    if append.commit is None:
        header = header_of(append.producer_id, append.producer_epoch, append.sequence)
        state.data_appended(header, _NEXT_OFFSET, max_timestamp=0, now_ms=0)
        before = opened.get(append.producer_id, ())
        name = record_of(append.tag, append.sequence)
        opened[append.producer_id] = tuple(sorted({*before, name}))
        return decided
    state.marker_appended(
        producer_id=append.producer_id,
        producer_epoch=append.producer_epoch,
        coordinator_epoch=append.coordinator_epoch,
        commit=append.commit,
        offset=_NEXT_OFFSET,
        timestamp=0,
        now_ms=0,
    )
    ended = opened.pop(append.producer_id, ())
    return tuple(sorted({*decided, *((name, append.commit) for name in ended)}))


def _thaw(records: Records) -> tuple[ProducerState, dict[int, tuple[int, ...]]]:
    state = ProducerState()
    opened = {}
    for known in records.producers:
        entry = ProducerEntry(
            known.producer_id,
            producer_epoch=known.producer_epoch,
            coordinator_epoch=known.coordinator_epoch,
            transaction_first_offset=NO_TRANSACTION if known.rank < 0 else _RANKED + known.rank,
        )
        entry.batches = [KeptBatch(first, last, 0, 0, 0) for first, last in known.batches]
        entry.first_sequence = known.first_sequence
        state.adopt(entry, 0)
        if known.records:
            opened[known.producer_id] = known.records
    for each in records.verifying:
        # There is no other way to have one that is under way.
        state._verifications[each.producer_id] = Verification(
            producer_epoch=each.producer_epoch, base_sequence=each.lowest_sequence, from_zero=each.from_zero
        )
    return state, opened


def _freeze(state: ProducerState, opened: dict[int, tuple[int, ...]], decided: tuple[tuple[int, bool], ...]) -> Records:
    firsts = sorted(entry.transaction_first_offset for entry in state if entry.has_transaction)
    if state.transactions.first_open != (firsts[0] if firsts else None):
        raise Violation(STABLE, "the last stable offset is not held by the oldest open transaction")
    producers = []
    for entry in sorted(state, key=lambda each: each.producer_id):
        names = opened.get(entry.producer_id, ())
        if bool(names) != entry.has_transaction:
            raise Violation(STABLE, "records are open without holding the last stable offset")
        producers.append(
            Producer(
                entry.producer_id,
                entry.producer_epoch,
                entry.coordinator_epoch,
                # A coordinator's batches have no sequences.
                tuple((each.first_sequence, each.last_sequence) for each in entry.batches if each.last_sequence >= 0),
                entry.first_sequence,
                firsts.index(entry.transaction_first_offset) if entry.has_transaction else -1,
                names,
            )
        )
    verifying = [
        Verifying(producer_id, each.producer_epoch, each.lowest_sequence, each.from_zero)
        for producer_id, each in sorted(state._verifications.items())
    ]
    return Records(tuple(producers), tuple(verifying), decided)
