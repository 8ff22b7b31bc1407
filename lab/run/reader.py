"""`judge_reader`: the verdict about a consumer alone, by what it has said of the records that it read."""

from collections.abc import Iterable, Sequence
from typing import Final

from eosin.lab.broker_api import BrokerApi
from eosin.lab.common.values import ReadRecord
from eosin.lab.verdict.findings import ABORTED_VISIBLE, LOST, STUCK, Finding, Verdict
from eosin.lab.verdict.records import text_of_record

_UNCOMMITTED: Final = "read_uncommitted"


def judge_reader(eosin: BrokerApi, input: str, group: str | None, said: Iterable[str]) -> Verdict:
    """The verdict about a consumer that says the value of each record that it handles, a line for each. It has lost a
    committed record below its offsets that it has not said, and seen an aborted one that it has. To say one twice is
    no fault of a consumer alone: its offsets and its output are not one transaction. Raises LabError."""
    lines = {each.strip() for each in said}
    committed = eosin.topic(input).records()
    places = {(each.partition, each.offset) for each in committed}
    values = {_value(each) for each in committed}
    hidden = [
        each
        for each in eosin.topic(input).records(isolation=_UNCOMMITTED)
        if (each.partition, each.offset) not in places and _value(each) not in values
    ]
    partitions = range(eosin.topic(input).partitions) if group is not None else range(0)
    ends = {each: eosin.group(group).offset(input, each) or 0 for each in partitions} if group is not None else {}
    read = [each for each in committed if each.offset < ends.get(each.partition, 0)]
    found = [
        _finding(LOST, [each for each in read if _value(each) not in lines], "its offsets are behind them"),
        _finding(
            ABORTED_VISIBLE, [each for each in hidden if _value(each) in lines], "their transactions were aborted"
        ),
        _finding(STUCK, [each for each in committed if each not in read], "it has not committed them as read"),
    ]
    return Verdict(tuple(each for each in found if each is not None), len(read), len(lines))


def _value(record: ReadRecord) -> str:
    return (record.value or b"").decode(errors="replace").strip()


def _finding(kind: str, records: Sequence[ReadRecord], why: str) -> Finding | None:
    if not records:
        return None
    count = "1 record" if len(records) == 1 else f"{len(records)} records"
    return Finding(kind, f"{count} of its input: {why}", tuple(text_of_record(each) for each in records))
