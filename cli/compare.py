"""`eosin compare`: the replicas in two data directories of one cluster, batch by batch up to where both are committed.

Changes nothing, but holds both locks, so that no broker starts meanwhile. Exit code 0 when all of them are equal, 1
when some differ, 2 with one sentence on stderr when there is nothing to compare or a broker is at work.
"""

import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

from eosin.cli.common.arguments import Parser, fail
from eosin.cli.common.output import json_line, until_broken_pipe
from eosin.protocol.names import COMPACTED_TOPICS, ZERO_UUID, TopicPartition, Uuid
from eosin.storage.disk.checkpoint_formats import (
    PARTITION_METADATA,
    MalformedCheckpoint,
    decode_partition_metadata,
)
from eosin.storage.disk.data_directory import KRAFT_METADATA
from eosin.storage.disk.interfaces import DirectoryInUse, Disk, UnusableDirectory
from eosin.storage.disk.system import ReadOnlyDisk
from eosin.storage.inspection.comparison import PartitionCompared, Replica, compare
from eosin.storage.inspection.directory import Directory, NoDataDirectory, lock, read_directory
from eosin.storage.inspection.values import Value


class Compared(Value, frozen=True, kw_only=True, tag="summary"):
    """The last value."""

    equal: int
    different: int
    elsewhere: int
    """Partitions that only one of the directories has."""


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns its exit code."""
    options = parser().parse_args(arguments)
    paths = [Path(each).as_posix() for each in options.data_dir or ()]
    if len(paths) != 2 or paths[0] == paths[1]:
        return fail("compare", "give two data directories: --data-dir A --data-dir B")
    disk = ReadOnlyDisk()
    path = paths[0]
    try:
        with ExitStack() as locks:
            for path in paths:
                locks.callback(lock(disk, path).release)
            return until_broken_pipe(lambda: _compare(disk, paths[0], paths[1], as_json=options.json))
    except DirectoryInUse:
        return fail("compare", f"a broker is at work in {path}; stop it first")
    except NoDataDirectory as error:
        return fail("compare", str(error))
    except UnusableDirectory as error:
        return fail("compare", f"cannot read {path}: {error}")
    except OSError as error:
        return fail("compare", f"cannot read {error.filename}: {error.strerror}" if error.filename else str(error))


def parser() -> Parser:
    """The options of the command."""
    options = Parser(
        prog="eosin compare",
        description="Compare the replicas in two data directories of one cluster.",
        examples=["eosin compare --data-dir data-1 --data-dir data-2"],
    )
    options.add_argument(
        "--data-dir", metavar="DIR", action="append", help="the data directory of a broker that is not running; twice"
    )
    options.add_argument("--json", action="store_true", help="one JSON object per line")
    return options


def compared(disk: Disk, first: str, second: str) -> Iterator[Value]:
    """Each partition that both directories have, and the sum. Raises UnusableDirectory, OSError."""
    left, right = read_directory(disk, first), read_directory(disk, second)
    both = sorted(set(left.partitions) & set(right.partitions))
    different = 0
    for partition in both:
        found = _partition(disk, left, right, partition)
        different += found.difference is not None
        yield found
    only_one = len(set(left.partitions) ^ set(right.partitions))
    yield Compared(first, equal=len(both) - different, different=different, elsewhere=only_one)


def _partition(disk: Disk, left: Directory, right: Directory, partition: TopicPartition) -> PartitionCompared:
    mine, other = (_topic_id(disk, directory, partition) for directory in (left, right))
    if ZERO_UUID not in (mine, other) and mine != other:
        what = "the directories belong to two topics of this name"
        return PartitionCompared(str(partition), start_offset=0, end_offset=0, batches=0, difference=what, offset=0)
    return compare(
        disk,
        str(partition),
        _replica(left, partition),
        _replica(right, partition),
        is_compacted=partition.topic in COMPACTED_TOPICS,
    )


def _replica(directory: Directory, partition: TopicPartition) -> Replica:
    # What a controller's node follows, or leads, has no high watermark in the checkpoint.
    is_metadata = str(partition) == KRAFT_METADATA
    return Replica(
        name=directory.path,
        directory=f"{directory.path}/{partition}",
        log_start_offset=directory.log_starts.get(partition, 0),
        high_watermark=0 if is_metadata else directory.high_watermarks.get(partition, 0),
        compacted_below=directory.cleaner_offsets.get(partition, 0),
    )


def _topic_id(disk: Disk, directory: Directory, partition: TopicPartition) -> Uuid:
    try:
        return decode_partition_metadata(disk.read_whole(f"{directory.path}/{partition}/{PARTITION_METADATA}"))
    except (FileNotFoundError, MalformedCheckpoint):
        return ZERO_UUID


def _compare(disk: Disk, first: str, second: str, *, as_json: bool) -> int:
    code = 1
    for value in compared(disk, first, second):
        sys.stdout.write((json_line(value) if as_json else _line(value)) + "\n")
        if isinstance(value, Compared):
            code = 1 if value.different else 0
    return code


def _line(value: Value) -> str:
    match value:
        case PartitionCompared(difference=None) if value.start_offset == value.end_offset:
            return f"   {value.file}: nothing lies below both high watermarks"
        case PartitionCompared(difference=None):
            where = f"{value.start_offset}..{value.end_offset - 1}"
            return f"   {value.file}: equal in offsets {where}, batches: {value.batches}"
        case PartitionCompared():
            return f"!! {value.file}: first difference at offset {value.offset}: {value.difference}"
        case Compared():
            rest = f"{value.elsewhere} in one of the two directories only"
            return f"partitions: {value.equal} equal, {value.different} different, {rest}"
        case _:
            raise AssertionError(f"no line for {value}")
