"""`exactly_once`: judges an application by its input, its committed offsets and its output. Pure.

The rules are those that the simulation has for its own worlds, as far as logs tell of them. Always true: what it blames
is wrong whatever the application is; what logs alone cannot tell is left to `by`, the way in which output is compared.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from eosin.lab.common.values import ReadRecord
from eosin.lab.verdict.facts import ExactlyOnceFacts, LoggedPartition
from eosin.lab.verdict.findings import (
    ABORTED_VISIBLE,
    DIFFERENT,
    DOUBLED,
    KINDS,
    LOST,
    OPEN,
    OUT_OF_ORDER,
    STUCK,
    TORN,
    UNEXPECTED,
    Finding,
    Verdict,
)
from eosin.lab.verdict.records import RecordText, shape_of, text_of_id, text_of_record
from eosin.lab.verdict.transactions import COMMIT, LoggedTransaction, torn_transactions, transactions_in

IDS: Final = "ids"
MULTISET: Final = "multiset"
LAST_VALUE: Final = "last-value"
WAYS: Final = (IDS, MULTISET, LAST_VALUE)

IdOf = Callable[[ReadRecord], Any]
Model = Callable[[list[ReadRecord]], Iterable[RecordText]]
"""An application as a function: its input to its output."""


class Criteria(NamedTuple):
    """The way in which the output of an application is compared with its input."""

    by: str | Model = IDS
    """`ids`: each id of the input is in the output as often as in the input. `multiset`: the output is that of
    `reference`, in any order. `last-value`: the last value of each key is. A function makes the output of the input."""
    id_of: IdOf | None = None
    """By default the key of a record, or its value if it has none."""
    expected: Callable[[list[Any]], Iterable[Any]] | Iterable[Any] | None = None
    """With `ids`: the ids of the output, or a function that makes them of those of the input."""
    reference: Iterable[RecordText] | None = None
    """The output of a run that nobody has disturbed: records, values, or pairs of key and value."""
    ordered: bool | None = None
    """True if records of one partition must keep their order; None: with `ids` alone."""


BY_IDS: Final = Criteria()


class _Case(NamedTuple):
    """The facts, prepared."""

    facts: ExactlyOnceFacts
    criteria: Criteria
    id_of: IdOf
    consumed: list[ReadRecord]
    """Committed records of the input below the offsets of the group."""
    ahead: list[ReadRecord]
    """The others."""
    output: list[ReadRecord]
    """Committed records of the output."""
    hidden: list[ReadRecord]
    """The other records in the output's logs."""
    transactions: list[LoggedTransaction]
    """Of the output."""
    owner: dict[tuple[str, int], LoggedTransaction]
    """The transaction of a record of the output, by place."""

    def text(self, record: ReadRecord) -> str:
        """A record with its transaction, for evidence."""
        owner = self.owner.get(_place(record))
        said = text_of_record(record)
        if owner is None:
            return said
        outcome = {"commit": "committed", "abort": "aborted"}.get(owner.outcome, owner.outcome)
        return f"{said} of producer {owner.producer_id} epoch {owner.producer_epoch}, {outcome}"


def exactly_once(facts: ExactlyOnceFacts, criteria: Criteria = BY_IDS) -> Verdict:
    """The verdict about an application. Raises ValueError for criteria that do not fit together."""
    check_criteria(criteria)
    case = _prepared(facts, criteria)
    compare = {IDS: _by_ids, LAST_VALUE: _by_last_value}.get(criteria.by if isinstance(criteria.by, str) else "")
    found = [*(compare or _by_multiset)(case)]
    if criteria.ordered or (criteria.ordered is None and criteria.by == IDS):
        found += _out_of_order(case)
    found += _shown_by_markers(case)
    found += torn_transactions(case.transactions)
    found += _open(case)
    found += _stuck(case)
    found.sort(key=lambda each: KINDS.index(each.kind))
    return Verdict(tuple(found), len(case.consumed), len(case.output), facts.is_moving)


def check_criteria(criteria: Criteria) -> None:
    """Raise ValueError, with one sentence, for criteria that do not fit together."""
    by = criteria.by
    if isinstance(by, str) and by not in WAYS:
        raise ValueError(f"by is {', '.join(WAYS)} or a function, not {by!r}")
    if by in (MULTISET, LAST_VALUE) and criteria.reference is None:
        raise ValueError(f'by="{by}" compares with the output of another run: name it as reference')
    if by not in (MULTISET, LAST_VALUE) and criteria.reference is not None:
        raise ValueError(f'a reference is compared by="{MULTISET}" or by="{LAST_VALUE}"')
    if by != IDS and criteria.expected is not None:
        raise ValueError(f'expected is for by="{IDS}"')


def _prepared(facts: ExactlyOnceFacts, criteria: Criteria) -> _Case:
    offsets = {(each.topic, each.partition): each.offset for each in facts.committed}
    consumed: list[ReadRecord] = []
    ahead: list[ReadRecord] = []
    for partition in facts.input:
        end = offsets.get((partition.topic, partition.partition), 0)
        for record in _visible(partition):
            (consumed if facts.group is None or record.offset < end else ahead).append(record)
    output: list[ReadRecord] = []
    hidden: list[ReadRecord] = []
    transactions: list[LoggedTransaction] = []
    owner: dict[tuple[str, int], LoggedTransaction] = {}
    for partition in facts.output:
        shown = _visible(partition)
        output += shown
        offsets_shown = set(partition.visible)
        hidden += [each for each in partition.records if each.offset not in offsets_shown]
        for transaction in transactions_in(partition):
            transactions.append(transaction)
            for batch in transaction.batches:
                for offset in range(batch.base_offset, batch.last_offset + 1):
                    owner[str(partition), offset] = transaction
    return _Case(facts, criteria, criteria.id_of or id_of_record, consumed, ahead, output, hidden, transactions, owner)


def id_of_record(record: ReadRecord) -> bytes | None:
    """The key of a record, or its value if it has none."""
    return record.value if record.key is None else record.key


def _visible(partition: LoggedPartition) -> list[ReadRecord]:
    shown = set(partition.visible)
    return [each for each in partition.records if each.offset in shown]


def _place(record: ReadRecord) -> tuple[str, int]:
    return f"{record.topic}-{record.partition}", record.offset


# Content --------------------------------------------------------------------------------------------------------------


def _by_ids(case: _Case) -> Iterator[Finding]:
    ids = [case.id_of(each) for each in case.consumed]
    expected = case.criteria.expected
    wanted = ids if expected is None else list(expected(ids) if callable(expected) else expected)
    wanted = [_comparable(each) for each in wanted]
    ahead: defaultdict[Hashable, list[ReadRecord]] = defaultdict(list)
    for record in case.ahead:
        ahead[_comparable(case.id_of(record))].append(record)
    sources: defaultdict[Hashable, list[ReadRecord]] = defaultdict(list)
    for record in case.consumed:
        sources[_comparable(case.id_of(record))].append(record)
    yield from _compared(case, wanted, lambda record: _comparable(case.id_of(record)), sources, ahead)


def _by_multiset(case: _Case) -> Iterator[Finding]:
    """By a reference, or by a model of the application."""
    criteria = case.criteria
    wanted = list(criteria.by(case.consumed) if callable(criteria.by) else criteria.reference or ())
    shape = shape_of(wanted)
    yield from _compared(case, [shape(each) for each in wanted], shape, {}, {})


def _compared(
    case: _Case,
    wanted: Sequence[Hashable],
    key_of: Callable[[ReadRecord], Hashable],
    sources: Mapping[Hashable, list[ReadRecord]],
    ahead: Mapping[Hashable, list[ReadRecord]],
) -> Iterator[Finding]:
    """The differences between what was wanted and what there is, as often as it is."""
    often = Counter(wanted)
    found: defaultdict[Hashable, list[ReadRecord]] = defaultdict(list)
    for record in case.output:
        found[key_of(record)].append(record)
    hidden: defaultdict[Hashable, list[ReadRecord]] = defaultdict(list)
    for record in case.hidden:
        hidden[key_of(record)].append(record)
    lost = [
        _lost_text(case, key, sources.get(key, []), hidden.get(key, []))
        for key, count in often.items()
        if len(found.get(key, ())) < count
    ]
    if lost:
        yield Finding(LOST, f"{_records(len(lost), 'is', 'are')} not in the output{_although(case)}", tuple(lost))
    doubled = [
        f"{text_of_id(key)} is there {len(places)} times and not {often[key]}: {'; '.join(map(case.text, places))}"
        for key, places in found.items()
        if 0 < often[key] < len(places)
    ]
    if doubled:
        yield Finding(DOUBLED, f"{_records(len(doubled), 'is', 'are')} in the output too often", tuple(doubled))
    surplus = [key for key in found if key not in often]
    early = [key for key in surplus if key in ahead]
    if early:
        yield Finding(
            TORN,
            f"the output has {_records(len(early))} of which group {case.facts.group} has not committed the offset",
            tuple(f"{case.text(found[key][0])}, made of {text_of_record(ahead[key][0])}" for key in early),
        )
    strange = [case.text(record) for key in surplus if key not in ahead for record in found[key]]
    if strange:
        yield Finding(UNEXPECTED, f"{_records(len(strange), 'is', 'are')} in the output for no reason", tuple(strange))


def _although(case: _Case) -> str:
    return "" if case.facts.group is None else f", although group {case.facts.group} has committed them as read"


def _lost_text(case: _Case, key: Hashable, sources: list[ReadRecord], hidden: list[ReadRecord]) -> str:
    said = text_of_record(sources[0]) if sources else text_of_id(key)
    return f"{said}; written, but not visible: {'; '.join(map(case.text, hidden))}" if hidden else said


def _by_last_value(case: _Case) -> Iterator[Finding]:
    """The last value of each key; a tombstone is as good as none."""
    wanted = _latest(case.criteria.reference or ())
    found = _latest(case.output)
    differences = []
    for key in sorted({*wanted, *found}, key=repr):
        should, value = wanted.get(key), found.get(key)
        if should != value:
            differences.append(f"{text_of_id(key)} is {text_of_id(value)}, and should be {text_of_id(should)}")
    if differences:
        number = f"{len(differences)} keys have another value" if len(differences) > 1 else "a key has another value"
        yield Finding(DIFFERENT, f"{number} than in the reference", tuple(differences))


def _latest(records: Iterable[RecordText]) -> dict[Hashable, Hashable]:
    latest: dict[Hashable, Hashable] = {}
    for each in records:
        if isinstance(each, ReadRecord):
            key, value = each.key, each.value
        elif isinstance(each, tuple):
            key, value = (_comparable(part) for part in each)
        else:
            raise ValueError('by="last-value" compares records, or pairs of key and value')
        latest[key] = value
    return {key: value for key, value in latest.items() if value is not None}


def _comparable(value: Any) -> Any:
    """Text and its bytes are equal."""
    return value.encode() if isinstance(value, str) else value


# Order ----------------------------------------------------------------------------------------------------------------


def _out_of_order(case: _Case) -> Iterator[Finding]:
    """Records of one partition of the input that are the other way round in one of the output. Ids that occur more than
    once in the input are left out, and of a doubled output the first copy counts."""
    position: dict[Hashable, tuple[str, int]] = {}
    repeated = set()
    for record in (*case.consumed, *case.ahead):
        key = _comparable(case.id_of(record))
        if key in position:
            repeated.add(key)
        position[key] = _place(record)
    furthest: dict[tuple[str, str], ReadRecord] = {}
    before: dict[tuple[str, str], int] = {}
    copied: set[Hashable] = set()
    lines = []
    for record in case.output:  # by partition and offset
        key = _comparable(case.id_of(record))
        if key in copied or key in repeated or key not in position:
            continue
        copied.add(key)
        source, offset = position[key]
        pair = (source, f"{record.topic}-{record.partition}")
        if offset < before.get(pair, -1):
            earlier = furthest[pair]
            lines.append(
                f"{case.text(record)} was made of {source}:{offset}, and stands behind {text_of_record(earlier)}, made"
                f" of {source}:{before[pair]}"
            )
            continue
        furthest[pair], before[pair] = record, offset
    if lines:
        yield Finding(OUT_OF_ORDER, f"{_records(len(lines), 'is', 'are')} behind a later one", tuple(lines))


# Transactions ---------------------------------------------------------------------------------------------------------


def _shown_by_markers(case: _Case) -> Iterator[Finding]:
    """Readers of committed records get all of a committed transaction, and nothing of another one."""
    shown: defaultdict[str, set[int]] = defaultdict(set)
    stable = {}
    there: defaultdict[str, set[int]] = defaultdict(set)
    for partition in case.facts.output:
        shown[str(partition)].update(partition.visible)
        there[str(partition)].update(each.offset for each in partition.records)
        stable[str(partition)] = partition.last_stable_offset
    wrong, half = [], []
    for each in case.transactions:
        of_it = {
            offset
            for batch in each.batches
            for offset in range(batch.base_offset, batch.last_offset + 1)
            if offset in there[each.place] and offset < stable[each.place]
        }
        visible = of_it & shown[each.place]
        if each.outcome != COMMIT and visible:
            wrong.append(f"{each}: offsets {_offsets(visible)} of producer {each.producer_id}")
        elif each.outcome == COMMIT and visible != of_it:
            half.append(f"{each}: offsets {_offsets(of_it - visible)} of producer {each.producer_id} are not shown")
    if wrong:
        yield Finding(ABORTED_VISIBLE, "readers of committed records are shown what is not committed", tuple(wrong))
    if half:
        yield Finding(TORN, "readers of committed records are shown a part of a transaction", tuple(half))


def _open(case: _Case) -> Iterator[Finding]:
    output = {(each.topic, each.partition) for each in case.facts.output}
    known = [each for each in case.facts.open if any((one.topic, one.partition) in output for one in each.partitions)]
    lines = [
        f"{each.transactional_id}, {each.state}, in {' '.join(map(str, each.partitions))}"
        for each in sorted(known, key=lambda each: each.transactional_id)
    ]
    named = {each.producer_id for each in known}
    lines += [
        f"{each}, of producer {each.producer_id} epoch {each.producer_epoch}"
        for each in case.transactions
        if each.marker is None and each.producer_id not in named
    ]
    if lines:
        number = "a transaction" if len(lines) == 1 else f"{len(lines)} transactions"
        yield Finding(OPEN, f"{number} of the output {'is' if len(lines) == 1 else 'are'} not over", tuple(lines))


def _stuck(case: _Case) -> Iterator[Finding]:
    if case.facts.group is None:
        return
    offsets = {(each.topic, each.partition): each.offset for each in case.facts.committed}
    lines = []
    for partition in case.facts.input:
        unread = [each for each in case.ahead if _place(each)[0] == str(partition)]
        if unread:
            offset = offsets.get((partition.topic, partition.partition))
            at = "nothing" if offset is None else f"{partition}:{offset}"
            end = unread[-1].offset + 1
            lines.append(f"{partition}: committed {at} of {end}, {_records(len(unread))} unread")
    if lines:
        yield Finding(STUCK, f"group {case.facts.group} has not read all of the input", tuple(lines))


def _offsets(offsets: set[int]) -> str:
    return " ".join(map(str, sorted(offsets)[:10])) + (" ..." if len(offsets) > 10 else "")


def _records(count: int, singular: str = "", plural: str = "") -> str:
    words = ("1 record", singular) if count == 1 else (f"{count} records", plural)
    return " ".join(filter(None, words))
