"""Finds and opens segment files on any file system of Arrow: local paths and s3://, hdfs://, gs://.

Always true: no file is opened for writing, and a partition lies in one directory only.
"""

import glob
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import pyarrow as pa
from pyarrow import fs

from eosin.pipeline.audit.headers import Read
from eosin.pipeline.common.errors import BadPaths

_SEGMENT: Final = re.compile(r"(?:.*/)?(?P<topic>[^/]+)-(?P<partition>\d+)/(?P<base>\d{20})\.log")
_SCHEME: Final = re.compile(r"[a-z][a-z0-9+]*://")


class SegmentFile(NamedTuple):
    """A segment file and the parts of its name. `is_last` marks the newest segment of its partition."""

    path: str
    topic: str
    partition: int
    base_offset: int
    size: int
    is_last: bool


def find_segments(paths: str | Sequence[str]) -> list[SegmentFile]:
    """All segments under these paths (log directories, partitions, files, patterns of local paths), sorted by partition
    and offset. Raises BadPaths for a path without segments, and for a partition that lies in two directories."""
    found: dict[str, SegmentFile] = {}
    for path in [paths] if isinstance(paths, str) else paths:
        segments = [each for one in _expanded(path) for each in _segments_of(one)]
        if not segments:
            raise BadPaths(f"{path} holds no segment files: a Kafka log directory has <topic>-<partition>/<offset>.log")
        found |= {each.path: each for each in segments}
    if not found:
        raise BadPaths("no paths were given")
    in_order = sorted(found.values(), key=lambda each: (each.topic, each.partition, each.base_offset, each.path))
    _refuse_copies(in_order)
    last = {(each.topic, each.partition): each.base_offset for each in in_order}
    return [each._replace(is_last=each.base_offset == last[each.topic, each.partition]) for each in in_order]


def open_segment(path: str) -> tuple[Read, int]:
    """A function that reads the file, and its present size. Raises OSError."""
    system, inside = _resolve(path)
    file = system.open_input_file(inside)
    return lambda position, size: bytes(file.read_at(size, position)), int(file.size())


def _expanded(path: str) -> list[str]:
    if _SCHEME.match(path):
        return [path]
    there = sorted(glob.glob(path)) if glob.has_magic(path) else [path]
    if not there or not Path(there[0]).exists():
        raise BadPaths(f"there is no {path}")
    return [str(Path(each).resolve()) for each in there]


def _segments_of(path: str) -> Iterator[SegmentFile]:
    try:
        system, inside = _resolve(path)
        info = system.get_file_info(inside)
        infos: list[Any] = [info]
        if info.type == fs.FileType.Directory:
            infos = system.get_file_info(fs.FileSelector(inside, recursive=True))
    except (OSError, pa.ArrowException) as error:
        raise BadPaths(f"{path} cannot be read: {error}") from error
    scheme = _SCHEME.match(path)
    for each in infos:
        named = _SEGMENT.fullmatch(each.path)
        if named is None or each.type != fs.FileType.File:
            continue
        yield SegmentFile(
            path=(scheme.group() if scheme else "") + each.path,
            topic=named["topic"],
            partition=int(named["partition"]),
            base_offset=int(named["base"]),
            size=int(each.size),
            is_last=False,
        )


def _resolve(path: str) -> tuple[Any, str]:
    if not _SCHEME.match(path):
        return fs.LocalFileSystem(), path
    system, inside = fs.FileSystem.from_uri(path)
    return system, inside


def _refuse_copies(segments: Sequence[SegmentFile]) -> None:
    folders: dict[tuple[str, int], str] = {}
    for each in segments:
        folder = each.path.rpartition("/")[0]
        other = folders.setdefault((each.topic, each.partition), folder)
        if other != folder:
            raise BadPaths(
                f"partition {each.topic}-{each.partition} is in {other} and in {folder}: audit one replica at a time"
            )
