"""Logs of a directory as adoption reads them: their batches, and the consumer groups (KIP-848) that are in them.

Always true: the directory was stopped cleanly, so a fault is a reason to refuse, and never something to repair.
"""

from collections.abc import Iterator
from itertools import islice
from typing import Final, NamedTuple

from eosin.coordinator.groups.consumer.log.replay import replayed
from eosin.protocol.names import CONSUMER_OFFSETS_TOPIC, TopicPartition
from eosin.protocol.records.batch import CONTROL, CorruptRecords
from eosin.protocol.records.scan import KeyValue, key_values
from eosin.protocol.schemas.records import consumer_groups
from eosin.protocol.types import DecodeError
from eosin.storage.disk.interfaces import Disk, UnusableDirectory
from eosin.storage.inspection.directory import Directory
from eosin.storage.inspection.segment_files import log_files
from eosin.storage.inspection.segment_walk import FoundBatch, SegmentWalk
from eosin.storage.inspection.source import Source
from eosin.storage.inspection.values import FileProblem

MOST_NAMED: Final = 3
_VERSION_BYTES: Final = 2
_KINDS: Final = frozenset(kind.key.versions[0].to_bytes(_VERSION_BYTES, "big") for kind in consumer_groups.KINDS)
"""The first bytes of the keys of a consumer group's records."""


class CannotAdopt(UnusableDirectory):
    """The directory, or the quorum, is not such that the one can become the other's; nothing was written."""


class ConsumerGroupsFound(NamedTuple):
    """The consumer groups of a directory."""

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


def consumer_groups_of(disk: Disk, directory: Directory) -> ConsumerGroupsFound:
    """The consumer groups that a coordinator would find in a directory. Raises CannotAdopt, OSError."""
    number, with_members = 0, list[str]()
    for partition in directory.partitions:
        if partition.topic == CONSUMER_OFFSETS_TOPIC:
            try:
                found = replayed(_last_records(disk, directory.path, partition).values())
            except (CorruptRecords, DecodeError) as error:
                raise CannotAdopt(f"{partition} cannot be read: {error}") from error
            number += len(found.groups)
            held = (name for name, group in found.groups.items() if group.members)
            with_members += islice(held, MOST_NAMED - len(with_members))
    return ConsumerGroupsFound(number, tuple(with_members))


def _last_records(disk: Disk, path: str, partition: TopicPartition) -> dict[bytes, KeyValue]:
    """The last record of each key of consumer groups, but for what a tombstone took away."""
    last: dict[bytes, KeyValue] = {}
    for found in batches_of(disk, path, partition):
        if found.header.attributes & CONTROL or not found.header.records_count:
            continue
        for record in key_values(bytes(found.data), found.header):
            key = record.key or b""
            if key[:_VERSION_BYTES] not in _KINDS:
                continue
            if record.value is None:
                last.pop(key, None)
            else:
                last[key] = record
    return last
