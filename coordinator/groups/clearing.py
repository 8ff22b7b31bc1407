"""`readable`: tombstones of what belongs to no group, such that Apache Kafka can load the partition behind them. Pure.

To it a record of one kind of group is an error where the name is a group of another kind, and takes the whole partition
away from its coordinator. So the group that keeps the name makes room for such tombstones, and comes back behind them.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from eosin.coordinator.groups.consumer.log.records import KIND_KEYS as CONSUMER
from eosin.coordinator.groups.log.records import group_tombstone
from eosin.coordinator.groups.share.log.records import KIND_KEYS as SHARE
from eosin.coordinator.groups.streams.log.records import KIND_KEYS as STREAMS
from eosin.protocol.records.batch import NewRecord

_VERSION_BYTES: Final = 2
_LENGTH_BYTES: Final = 2
_CLASSIC: Final = frozenset({b"\0\2"})
_KINDS: Final = {key: kind for kind in (_CLASSIC, CONSUMER, SHARE, STREAMS) for key in kind}
"""The kind of group of each kind of record, by the first bytes of its key."""

KeptRecords = Callable[[str], Sequence[NewRecord]]
"""Gives all that the log is to say of the group that keeps a name; nothing for one that no record tells of."""


def readable(clearing: Iterable[NewRecord], kept_records: KeptRecords) -> list[NewRecord]:
    """The tombstones `clearing`, name by name. Behind those of another kind than the group that keeps the name stands
    all of that group again; in front of them the tombstone of a classic group, which to Apache Kafka ends the group
    that has the name, of whichever kind."""
    by_name: defaultdict[str, list[NewRecord]] = defaultdict(list)
    for record in clearing:
        by_name[_group_id(record)].append(record)
    made: list[NewRecord] = []
    for group_id, tombstones in by_name.items():
        kept = kept_records(group_id)
        if not kept or all(_kind(each) is _kind(kept[0]) for each in tombstones):
            made += tombstones
            continue
        made.append(group_tombstone(group_id))
        made += (each for each in tombstones if _kind(each) is not _CLASSIC)
        made += kept
    return made


def _kind(record: NewRecord) -> frozenset[bytes]:
    assert record.key is not None, "each record of a group has a key"
    return _KINDS[record.key[:_VERSION_BYTES]]


def _group_id(record: NewRecord) -> str:
    """The name of the group, with which the key of each kind begins."""
    assert record.key is not None, "each record of a group has a key"
    begin = _VERSION_BYTES + _LENGTH_BYTES
    return record.key[begin : begin + int.from_bytes(record.key[_VERSION_BYTES:begin], "big")].decode()
