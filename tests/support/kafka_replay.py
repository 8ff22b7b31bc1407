"""Apache Kafka's replay of a group's records, as far as it refuses some: a record that it refuses takes the whole
partition of `__consumer_offsets` away from its coordinator.

Read from GroupMetadataManager of 4.4.0 (consumer-groups.md 12.1). The records of `tests/coordinator` go through it in
their order, and in that of a log that was compacted.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from eosin.coordinator.groups.consumer.log.records import KIND_KEYS, read_key, read_value
from eosin.coordinator.groups.consumer.rules.group import ConsumerMember
from eosin.coordinator.groups.consumer.rules.records import Kind, TargetEpoch
from eosin.coordinator.groups.share.log.records import KIND_KEYS as SHARE_KINDS
from eosin.coordinator.groups.share.rules.records import ShareKind
from eosin.coordinator.groups.streams.log.records import KIND_KEYS as STREAMS_KINDS
from eosin.coordinator.groups.streams.rules.records import StreamsKind
from eosin.protocol.records.scan import KeyValue

_CLASSIC_GROUP = Kind.CLASSIC_GROUP.to_bytes(2, "big")
_OTHERS = {
    **dict.fromkeys(SHARE_KINDS, "share"),
    **dict.fromkeys(STREAMS_KINDS, "streams"),
}
_OWN_RECORDS = (ShareKind.GROUP, StreamsKind.GROUP)
_GONE = -1


class RefusedByKafka(AssertionError):
    """Apache Kafka could not load the partition."""


@dataclass
class _ConsumerGroup:
    members: dict[str, int] = field(default_factory=dict)
    """The epoch of each."""
    targets: set[str] = field(default_factory=set)
    target_epoch: int = 0


class KafkaReplay:
    """The groups of one log."""

    def __init__(self, records: Iterable[KeyValue] = ()) -> None:
        self._consumer: dict[str, _ConsumerGroup] = {}
        self._classic: set[str] = set()
        self._others: dict[str, str] = {}
        """The kinds of share and streams groups, of which it is not followed what they have."""
        for each in records:
            self.apply(each.key or b"", each.value)

    def members_of(self, group_id: str) -> dict[str, int]:
        """The members of a consumer group, with their epochs; none where there is no such group."""
        group = self._consumer.get(group_id)
        return {} if group is None else group.members

    def kind_of(self, group_id: str) -> str | None:
        """The kind of the group that has the name; None if there is none."""
        if group_id in self._consumer:
            return "consumer"
        return "classic" if group_id in self._classic else self._others.get(group_id)

    def apply(self, key: bytes, value: bytes | memoryview | None) -> None:
        """Replay a record. Raises RefusedByKafka."""
        if key.startswith(_CLASSIC_GROUP):
            group_id = key[4:].decode()
            self._consumer.pop(group_id, None)
            self._classic.discard(group_id)
            self._others.pop(group_id, None)
            if value is not None:
                self._classic.add(group_id)
        elif key[:2] in KIND_KEYS:
            self._apply(key, value)
        elif (kind := _OTHERS.get(key[:2])) is not None:
            self._apply_other(kind, key, value)

    def _apply_other(self, kind: str, key: bytes, value: bytes | memoryview | None) -> None:
        group_id = key[4 : 4 + int.from_bytes(key[2:4], "big")].decode()
        found = self.kind_of(group_id)
        if found not in (None, kind):
            raise RefusedByKafka(f"a record of a {kind} group: {group_id} is a {found} group")
        if value is not None:
            self._others[group_id] = kind
        elif int.from_bytes(key[:2], "big") in _OWN_RECORDS:
            self._others.pop(group_id, None)

    def _apply(self, key: bytes, value: bytes | memoryview | None) -> None:
        read = read_key(key)
        if read.group_id in self._classic or read.group_id in self._others:
            raise RefusedByKafka(f"{read.kind.name}: group {read.group_id} is not a consumer group")
        group = self._consumer.get(read.group_id)
        if value is None:
            if group is not None:
                self._end(read.group_id, group, read.kind, read.name)
            return
        group = self._consumer.setdefault(read.group_id, _ConsumerGroup())
        if read.kind is Kind.MEMBER:
            group.members.setdefault(read.name, 0)
        elif read.kind is Kind.CURRENT:
            member = read_value(read.kind, read.name, bytes(value))
            assert isinstance(member, ConsumerMember)
            group.members[read.name] = member.epoch
        elif read.kind is Kind.TARGET:
            group.targets.add(read.name)
        elif read.kind is Kind.TARGET_EPOCH:
            target = read_value(read.kind, read.name, bytes(value))
            assert isinstance(target, TargetEpoch)
            group.target_epoch = target.epoch

    def _end(self, group_id: str, group: _ConsumerGroup, kind: Kind, name: str) -> None:
        match kind:
            case Kind.CURRENT if name in group.members:
                group.members[name] = _GONE
            case Kind.TARGET:
                group.targets.discard(name)
            case Kind.TARGET_EPOCH:
                if group.targets:
                    raise RefusedByKafka(f"the epoch of a target goes, and {sorted(group.targets)} still have theirs")
                group.target_epoch = _GONE
            case Kind.MEMBER if name in group.members:
                if group.members[name] != _GONE or name in group.targets:
                    raise RefusedByKafka(f"the member {name} goes before its assignment and its target")
                del group.members[name]
            case Kind.GROUP:
                if group.members or group.targets or group.target_epoch != _GONE:
                    raise RefusedByKafka(f"the group {group_id} goes, and has {group}")
                del self._consumer[group_id]
            case _:
                pass
