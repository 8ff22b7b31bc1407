"""`GroupCheck`: the records of consumer, share and streams groups in one partition of `__consumer_offsets`, against one
another (consumer-groups.md 12, share-groups.md 9, streams-groups.md 8).

For stopped directories. Always true: whatever compaction may leave of a sound log is sound. It takes away records that
a later one of the same key has replaced, so what is left is still in order, and the last record of each key is there.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Final

from eosin.coordinator.transactions.log.check import TransactionFinding
from eosin.storage.inspection.internal_records import UNKNOWN
from eosin.storage.inspection.values import ERROR, WARNING, Decoded

_CLASSIC: Final = "GroupMetadata"
_FAMILIES: Final = {"ConsumerGroup": "consumer group", "ShareGroup": "share group", "StreamsGroup": "streams group"}
"""By the beginning of the names of their kinds of records."""
_GROUP: Final = "Metadata"
_MEMBER: Final = "MemberMetadata"
_TARGET_EPOCH: Final = "TargetAssignmentMetadata"
_TARGET: Final = "TargetAssignmentMember"
_CURRENT: Final = "CurrentMemberAssignment"
_EPOCHS: Final = {
    _GROUP: ("epoch", "its epoch"),
    _TARGET_EPOCH: ("assignment_epoch", "the epoch of its assignment"),
    _CURRENT: ("member_epoch", "the epoch of member {!r}"),
}
"""The field of a kind of record that only grows, and its name."""
_OF_MEMBERS: Final = (_TARGET, _CURRENT)


class _Group:
    """The records of one group that are left."""

    def __init__(self) -> None:
        self.offsets: dict[tuple[str, str], int] = {}
        """The offset of the last record of each kind and member."""
        self.epochs: dict[tuple[str, str], int] = {}

    def has_any(self, kind: str) -> bool:
        return any(each == kind for each, _ in self.offsets)

    def without(self, kind: str, wanted: str) -> Iterator[tuple[str, int]]:
        """The members that have a record of `kind` and none of `wanted`, with its offset."""
        for (each, name), offset in self.offsets.items():
            if each == kind and (wanted, name) not in self.offsets:
                yield name, offset


class GroupCheck:
    """First all of a partition is shown, then it is judged."""

    def __init__(self) -> None:
        self._groups: dict[tuple[str, str], _Group] = {}
        """By family and name."""
        self._classic: dict[str, int] = {}
        self._unknown: Counter[int] = Counter()
        self._first_unknown: dict[int, int] = {}

    def show(self, decoded: Decoded, offset: int) -> Iterator[TransactionFinding]:
        """The next record of the partition."""
        if decoded.kind == UNKNOWN:
            self._unknown[decoded.key_version] += 1
            self._first_unknown.setdefault(decoded.key_version, offset)
        elif decoded.kind == _CLASSIC:
            self._classic.pop(decoded.key["group"], None)
            if decoded.value is not None:
                self._classic[decoded.key["group"]] = offset
        else:
            for family in _FAMILIES:
                if decoded.kind.startswith(family):
                    group = self._groups.setdefault((family, decoded.key["group_id"]), _Group())
                    title = f"{_FAMILIES[family]} {decoded.key['group_id']!r}"
                    for severity, reason in _kept(group, decoded, decoded.kind.removeprefix(family), offset):
                        yield TransactionFinding(severity, f"{title}: {reason}", offset)

    def finish(self) -> Iterator[TransactionFinding]:
        """Judge what is left in the end."""
        for version, count in self._unknown.items():
            records = "a record" if count == 1 else f"{count} records"
            reason = f"{records} of a kind that this version does not know (key version {version})"
            yield TransactionFinding(WARNING, reason, self._first_unknown[version])
        kinds: dict[str, dict[str, int]] = {name: {"classic group": at} for name, at in self._classic.items()}
        for (family, name), group in self._groups.items():
            for severity, reason, offset in _judged(group):
                yield TransactionFinding(severity, f"{_FAMILIES[family]} {name!r}: {reason}", offset)
            if (_GROUP, "") in group.offsets:
                kinds.setdefault(name, {})[_FAMILIES[family]] = group.offsets[_GROUP, ""]
        for name, found in kinds.items():
            if len(found) > 1:
                last = max(found, key=lambda kind: found[kind])
                reason = f"group {name!r} is a {' and a '.join(sorted(found))}: the next start leaves the {last}"
                yield TransactionFinding(WARNING, reason, found[last])


def _kept(group: _Group, decoded: Decoded, kind: str, offset: int) -> Iterator[tuple[str, str]]:
    """Keep a record, and tell what is wrong with its place."""
    member = str(decoded.key.get("member_id", decoded.key.get("regular_expression", "")))
    key = (kind, member)
    if decoded.value is None:
        group.offsets.pop(key, None)
        group.epochs.pop(key, None)
        yield from _ended_too_early(group, kind, member)
        return
    group.offsets[key] = offset
    if kind in _EPOCHS:
        name, title = _EPOCHS[kind]
        epoch, before = int(decoded.value[name]), group.epochs.get(key, -1)
        if 0 <= epoch < before:  # a static member that is away has an epoch below zero
            yield ERROR, f"{title.format(member)} goes back from {before} to {epoch}"
        group.epochs[key] = epoch


def _ended_too_early(group: _Group, kind: str, member: str) -> Iterator[tuple[str, str]]:
    """Tombstones that Apache Kafka cannot read, since what depends on their record is still there."""
    if kind == _MEMBER:
        for of_member in _OF_MEMBERS:
            if (of_member, member) in group.offsets:
                yield WARNING, f"member {member!r} is deleted before its assignment: Apache Kafka does not read that"
                return
    elif kind == _GROUP and (group.has_any(_MEMBER) or group.has_any(_TARGET)):
        yield WARNING, "it is deleted before its members: Apache Kafka does not read that"


def _judged(group: _Group) -> Iterator[tuple[str, str, int]]:
    """Tell what does not fit in what is left of a group."""
    if (_GROUP, "") not in group.offsets:
        members = [(name, offset) for (kind, name), offset in group.offsets.items() if kind == _MEMBER]
        if members:
            named = ", ".join(repr(name) for name, _ in members[:3])
            yield ERROR, f"it has members and no record of its own: {named}", members[0][1]
    for kind in _OF_MEMBERS:
        for name, offset in group.without(kind, _MEMBER):
            yield WARNING, f"an assignment of {name!r}, who is no member: the next start deletes it", offset
    epoch = group.epochs.get((_GROUP, ""))
    if epoch is None:
        return
    for (kind, name), other in group.epochs.items():
        if kind != _GROUP and other > epoch:
            title = _EPOCHS[kind][1].format(name)
            yield ERROR, f"{title} is {other}, and that of the group {epoch}", group.offsets[kind, name]
