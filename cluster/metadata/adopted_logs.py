"""Logs of a directory as adoption reads them: their batches, and the groups of the new protocols (KIP-848, KIP-932,
KIP-1071) that are in them.

Always true: the directory was stopped cleanly, so a fault is a reason to refuse, and never something to repair.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, Final, NamedTuple

from eosin.coordinator.groups.consumer.log.replay import replayed as consumer_groups_in
from eosin.coordinator.groups.share.log.replay import replayed as share_groups_in
from eosin.coordinator.groups.streams.log.replay import replayed as streams_groups_in
from eosin.model.features import GROUP_VERSION, SHARE_VERSION, STREAMS_VERSION
from eosin.protocol.names import CONSUMER_OFFSETS_TOPIC, TopicPartition
from eosin.protocol.records.batch import CONTROL, CorruptRecords
from eosin.protocol.records.scan import KeyValue, key_values
from eosin.protocol.schemas.records import consumer_groups, share_groups, streams_groups
from eosin.protocol.types import DecodeError, RecordKind
from eosin.storage.disk.interfaces import Disk, UnusableDirectory
from eosin.storage.inspection.directory import Directory
from eosin.storage.inspection.segment_files import log_files
from eosin.storage.inspection.segment_walk import FoundBatch, SegmentWalk
from eosin.storage.inspection.source import Source
from eosin.storage.inspection.values import FileProblem

MOST_NAMED: Final = 3
_VERSION_BYTES: Final = 2


def _kinds(kinds: Iterable[RecordKind]) -> frozenset[bytes]:
    """The first bytes of the keys of these kinds of records."""
    return frozenset(kind.key.versions[0].to_bytes(_VERSION_BYTES, "big") for kind in kinds)


_PROTOCOLS: Final[Mapping[str, tuple[frozenset[bytes], Callable[[Iterable[KeyValue]], Any]]]] = {
    GROUP_VERSION: (_kinds(consumer_groups.KINDS), consumer_groups_in),
    SHARE_VERSION: (_kinds(share_groups.KINDS), share_groups_in),
    STREAMS_VERSION: (_kinds(streams_groups.KINDS), streams_groups_in),
}
"""By feature, the kinds of the records of its groups, and what puts groups together from them."""
_ALL_KINDS: Final = frozenset[bytes]().union(*(kinds for kinds, _ in _PROTOCOLS.values()))


class CannotAdopt(UnusableDirectory):
    """The directory, or the quorum, is not such that the one can become the other's; nothing was written."""


class GroupsFound(NamedTuple):
    """The groups of one protocol in a directory."""

    number: int = 0
    with_members: tuple[str, ...] = ()
    """The names of those that have members, so many as `MOST_NAMED` at most."""


def batches_of(disk: Disk, path: str, partition: TopicPartition) -> Iterator[FoundBatch]:
    """The batches of a partition of the directory `path`, whose bytes are valid until the next one is asked for. Raises
    CannotAdopt at the first fault, OSError."""
    for segment in log_files(disk, f"{path}/{partition}").segments:
        with Source(disk, segment.log.path, wait=lambda: None) as source:
            for found in SegmentWalk(source, segment.base_offset):
                if isinstance(found, FileProblem) or found.problems:
                    first = found if isinstance(found, FileProblem) else found.problems[0]
                    raise CannotAdopt(f"{partition} is damaged: {first.reason}")
                yield found


def groups_of(disk: Disk, directory: Directory) -> dict[str, GroupsFound]:
    """The groups that a coordinator would find in a directory, by the feature that serves them. Raises CannotAdopt,
    OSError."""
    all_found = dict.fromkeys(_PROTOCOLS, GroupsFound())
    for partition in directory.partitions:
        if partition.topic == CONSUMER_OFFSETS_TOPIC:
            try:
                records = _last_records(disk, directory.path, partition)
                for feature, (kinds, replayed) in _PROTOCOLS.items():
                    of_kind = [record for key, record in records.items() if key[:_VERSION_BYTES] in kinds]
                    all_found[feature] = _with_those_of(all_found[feature], replayed(of_kind).groups)
            except (CorruptRecords, DecodeError) as error:
                raise CannotAdopt(f"{partition} cannot be read: {error}") from error
    return all_found


def _with_those_of(found: GroupsFound, groups: Mapping[str, Any]) -> GroupsFound:
    """The sum, with the groups of one more partition."""
    held = (name for name, group in groups.items() if group.members)
    named = islice(held, MOST_NAMED - len(found.with_members))
    return GroupsFound(found.number + len(groups), (*found.with_members, *named))


def _last_records(disk: Disk, path: str, partition: TopicPartition) -> dict[bytes, KeyValue]:
    """The last record of each key of the new protocols' groups, but for what a tombstone took away."""
    last: dict[bytes, KeyValue] = {}
    for found in batches_of(disk, path, partition):
        if found.header.attributes & CONTROL or not found.header.records_count:
            continue
        for record in key_values(bytes(found.data), found.header):
            key = record.key or b""
            if key[:_VERSION_BYTES] not in _ALL_KINDS:
                continue
            if record.value is None:
                last.pop(key, None)
            else:
                last[key] = record
    return last
