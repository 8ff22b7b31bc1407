"""`replayed_groups`: groups of one kind as the last record of each of their keys tells. Pure.

Compaction may have taken any part of the history, so nothing depends on the order of records: what belongs together is
put together in the end. A group with a record that cannot be read is left out, and only that group.
"""

import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Final, Generic, NamedTuple, Protocol, TypeVar

from eosin.coordinator.steps import InSteps
from eosin.protocol.records.scan import KeyValue
from eosin.protocol.types import DecodeError

_LOG: Final = logging.getLogger("eosin.coordinator.groups")
_Kind = TypeVar("_Kind")
_KindRead = TypeVar("_KindRead", covariant=True)
_Value = TypeVar("_Value")
_Group = TypeVar("_Group")
_Record = TypeVar("_Record")


class RecordKey(Protocol[_KindRead]):
    """The key of a record."""

    @property
    def kind(self) -> _KindRead:
        """The kind of the record."""

    @property
    def name(self) -> str:
        """The id of the member that it is about; empty for the group itself."""

    @property
    def group_id(self) -> str:
        """The group that it is of."""


class ReplayedGroups(NamedTuple, Generic[_Group, _Record]):
    """The groups of one kind in a log."""

    groups: dict[str, _Group]
    offsets: Mapping[str, int]
    """Of each group, the offset of its own record, -1 for one without: who is right about a name that groups of two
    kinds have."""
    left_over: Mapping[str, list[_Record]]
    """Tombstones of what belongs to nothing, by group."""
    broken: Mapping[str, int]
    """Groups with a record that cannot be read, and the offset of the first."""


class _FoundGroup(Generic[_Kind, _Value]):
    """The last records of one group."""

    def __init__(self) -> None:
        self.values: dict[tuple[_Kind, str], _Value] = {}
        self.offset = -1


def replayed_groups(
    records: Iterable[KeyValue],
    *,
    what: str,
    read_key: Callable[[bytes], RecordKey[_Kind]],
    read_value: Callable[[_Kind, str, bytes], _Value],
    own: _Kind,
    put_together: Callable[[str, Mapping[tuple[_Kind, str], _Value]], InSteps[tuple[_Group | None, list[_Record]]]],
) -> InSteps[ReplayedGroups[_Group, _Record]]:
    """The groups: a record, or a member, in each step. `records` are the last one of each key, tombstones may be among
    them; `what` is the name of the kind, and `own` the kind of a group's own record. `put_together` makes a group of
    its values, and tombstones of those which belong to no member of it."""
    found: defaultdict[str, _FoundGroup[_Kind, _Value]] = defaultdict(_FoundGroup)
    broken: dict[str, int] = {}
    for record in records:
        yield
        if record.value is None:
            continue
        key = read_key(bytes(record.key or b""))
        of_group = found[key.group_id]
        try:
            of_group.values[key.kind, key.name] = read_value(key.kind, key.name, bytes(record.value))
        except DecodeError as error:
            if key.group_id not in broken:
                broken[key.group_id] = record.offset
                _LOG.error("the %s %.256r is not served: offset %d: %s", what, key.group_id, record.offset, error)
        if key.kind == own:
            of_group.offset = record.offset
    for group_id in broken:
        del found[group_id]
    groups: dict[str, _Group] = {}
    left_over: dict[str, list[_Record]] = {}
    offsets: dict[str, int] = {}
    for group_id in list(found):
        each = found.pop(group_id)  # to let go of all at once takes long
        group, dropped = yield from put_together(group_id, each.values)
        if group is not None:
            groups[group_id], offsets[group_id] = group, each.offset
        if dropped:
            left_over[group_id] = dropped
    return ReplayedGroups(groups, offsets, left_over, broken)
