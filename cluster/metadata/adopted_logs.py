"""Logs of a directory as adoption reads them: their batches, and the groups that are in them, but for classic ones.

Always true: the directory was stopped cleanly, so a fault is a reason to refuse, and never something to repair.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, Final, NamedTuple

from eosin.coordinator.groups.consumer.log import records as consumer_records
from eosin.coordinator.groups.consumer.log import replay as consumer_replay
from eosin.coordinator.groups.share.log import records as share_records
from eosin.coordinator.groups.share.log import replay as share_replay
from eosin.coordinator.groups.streams.log import records as streams_records
from eosin.coordinator.groups.streams.log import replay as streams_replay
from eosin.model.features import GROUP_VERSION, SHARE_VERSION, STREAMS_VERSION
from eosin.protocol.names import CONSUMER_OFFSETS_TOPIC, TopicPartition
from eosin.protocol.records.batch import CONTROL, CorruptRecords
from eosin.protocol.records.scan import KeyValue, key_values
from eosin.protocol.types import DecodeError
from eosin.storage.disk.interfaces import Disk, UnusableDirectory
from eosin.storage.inspection.directory import Directory
from eosin.storage.inspection.segment_files import log_files
from eosin.storage.inspection.segment_walk import FoundBatch, SegmentWalk
from eosin.storage.inspection.source import Source
from eosin.storage.inspection.values import FileProblem

MOST_NAMED: Final = 3
_VERSION_BYTES: Final = 2


class GroupKind(NamedTuple):
    """A kind of groups."""

    feature: str
    """The feature whose level says whether they are served."""
    name: str
    keys: Collection[bytes]
    """The first bytes of the keys of their records."""
    replayed: Callable[[Iterable[KeyValue]], Any]
    way_out: str
    """The end of a sentence about members whom nobody would serve."""
    unserved: str
    """The same about groups."""


_CLASSIC: Final = "let them leave or go on with group.protocol=classic, and stop it"
_NEED_CLASSIC: Final = "its {} need group.protocol=classic"
GROUP_KINDS: Final = (
    GroupKind(
        GROUP_VERSION,
        "consumer",
        consumer_records.KIND_KEYS,
        consumer_replay.replayed,
        _CLASSIC,
        _NEED_CLASSIC.format("consumers"),
    ),
    GroupKind(
        SHARE_VERSION,
        "share",
        share_records.KIND_KEYS,
        share_replay.replayed,
        "let them leave, and stop it",
        "its share groups are refused",
    ),
    GroupKind(
        STREAMS_VERSION,
        "streams",
        streams_records.KIND_KEYS,
        streams_replay.replayed,
        _CLASSIC,
        _NEED_CLASSIC.format("applications"),
    ),
)


class CannotAdopt(UnusableDirectory):
    """The directory, or the quorum, is not such that the one can become the other's; nothing was written."""


class GroupsFound(NamedTuple):
    """The groups of one kind in a directory."""

    number: int
    with_members: tuple[str, ...]
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


def groups_of(disk: Disk, directory: Directory) -> Mapping[GroupKind, GroupsFound]:
    """The groups that a coordinator would find in a directory, of each kind. Raises CannotAdopt, OSError."""
    found = dict.fromkeys(GROUP_KINDS, GroupsFound(0, ()))
    for partition in directory.partitions:
        if partition.topic == CONSUMER_OFFSETS_TOPIC:
            last = _last_records(disk, directory.path, partition)
            for kind, (number, with_members) in found.items():
                own = [record for key, record in last.items() if key[:_VERSION_BYTES] in kind.keys]
                try:
                    groups = kind.replayed(own).groups
                except (CorruptRecords, DecodeError) as error:
                    raise CannotAdopt(f"{partition} cannot be read: {error}") from error
                held = (name for name, group in groups.items() if group.members)
                named = (*with_members, *islice(held, MOST_NAMED - len(with_members)))
                found[kind] = GroupsFound(number + len(groups), named)
    return found


def _last_records(disk: Disk, path: str, partition: TopicPartition) -> dict[bytes, KeyValue]:
    """The last record of each key of these kinds, but for what a tombstone took away."""
    last: dict[bytes, KeyValue] = {}
    for found in batches_of(disk, path, partition):
        if found.header.attributes & CONTROL or not found.header.records_count:
            continue
        for record in key_values(bytes(found.data), found.header):
            key = record.key or b""
            if not any(key[:_VERSION_BYTES] in kind.keys for kind in GROUP_KINDS):
                continue
            if record.value is None:
                last.pop(key, None)
            else:
                last[key] = record
    return last
