"""`meta.properties`: whose directory this is, and in which format (storage.md 2.1, wire.md section 17).

Apache Kafka's file, version 1, with three keys of ours that Kafka ignores. Always true: a directory of a newer format
is refused, never touched; so is one of the other kind, because a broker that runs alone and one of a quorum
disagree about what the directory's partitions are (cluster.md 1.9).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

from eosin.storage.disk.interfaces import UnusableDirectory

FILE_NAME: Final = "meta.properties"
FORMAT: Final = 1
"""The newest directory format that this version understands."""

_FORMAT_KEY: Final = "eosin.format"
_KIND_KEY: Final = "eosin.cluster"
_LAB_KEY: Final = "eosin.lab"
_VERSION: Final = "1"


class DirectoryTooNew(UnusableDirectory):
    """The directory was written by a later version of Eosin."""


class MalformedProperties(UnusableDirectory):
    """`meta.properties` lacks a property or has a wrong one."""


class DirectoryKind(Enum):
    """The kind of broker that a directory belongs to."""

    UNDECIDED = ""
    """Formatted by Apache Kafka's tool, and used by no Eosin broker yet; or by one that runs alone, long ago."""
    STANDALONE = "standalone"
    """A broker that runs alone: the metadata are in the directory."""
    KRAFT = "kraft"
    """A broker of a quorum: the metadata are the quorum's."""


@dataclass(frozen=True, slots=True)
class MetaProperties:
    """The content of `meta.properties`."""

    cluster_id: str
    node_id: int
    directory_id: str
    """Empty when the file names none, as Apache Kafka's did before 3.7."""
    kind: DirectoryKind = DirectoryKind.UNDECIDED

    def encode(self) -> bytes:
        """The file's content."""
        values = {
            "version": _VERSION,
            "cluster.id": self.cluster_id,
            "node.id": self.node_id,
            "directory.id": self.directory_id,
            _FORMAT_KEY: FORMAT,
        }
        if self.kind is DirectoryKind.KRAFT:
            values[_KIND_KEY] = self.kind.value
        return "".join(f"{key}={value}\n" for key, value in values.items()).encode()

    @classmethod
    def decode(cls, data: bytes) -> "MetaProperties":
        """The inverse of `encode`. Raises MalformedProperties, DirectoryTooNew."""
        values = _properties(data.decode(errors="replace"))
        found = _number(values, _FORMAT_KEY, 1)
        if found > FORMAT:
            raise DirectoryTooNew(f"it has format {found}, and this version of Eosin reads up to {FORMAT}")
        if values.get("version") != _VERSION or "cluster.id" not in values or "node.id" not in values:
            raise MalformedProperties(f"{FILE_NAME} lacks version={_VERSION}, cluster.id or node.id")
        return cls(
            cluster_id=values["cluster.id"],
            node_id=_number(values, "node.id", 0),
            directory_id=values.get("directory.id", ""),
            kind=_kind(values),
        )


def is_lab_directory(data: bytes) -> bool:
    """True for the file of a directory that a broker for tests has made."""
    return _properties(data.decode(errors="replace")).get(_LAB_KEY) == "1"


def as_lab_directory(data: bytes) -> bytes:
    """The file with the mark of a directory of a broker for tests."""
    return data if is_lab_directory(data) else data + f"{_LAB_KEY}=1\n".encode()


def claimed(data: bytes, properties: MetaProperties) -> bytes:
    """The file `data`, of Apache Kafka's tool or without a directory's id, with what it lacks as that of a broker of a
    quorum. All that stands there stays."""
    text = data.decode(errors="replace")
    wanted = {
        _FORMAT_KEY: str(FORMAT),
        _KIND_KEY: DirectoryKind.KRAFT.value,
        "directory.id": properties.directory_id,
    }
    there = _properties(text)
    missing = [f"{key}={value}" for key, value in wanted.items() if not there.get(key)]
    return "".join(f"{line}\n" for line in (*text.splitlines(), *missing)).encode()


def _kind(values: Mapping[str, str]) -> DirectoryKind:
    if _KIND_KEY not in values:
        return DirectoryKind.STANDALONE if _FORMAT_KEY in values else DirectoryKind.UNDECIDED
    if values[_KIND_KEY] != DirectoryKind.KRAFT.value:
        raise DirectoryTooNew(f"{_KIND_KEY} is {values[_KIND_KEY]!r}, which this version of Eosin does not know")
    return DirectoryKind.KRAFT


def _properties(text: str) -> dict[str, str]:
    values = {}
    for line in text.splitlines():
        key, separator, value = line.partition("=")
        if separator and not line.lstrip().startswith(("#", "!")):
            values[key.strip()] = value.strip()
    return values


def _number(values: Mapping[str, str], key: str, default: int) -> int:
    try:
        return int(values.get(key, default))
    except ValueError as error:
        raise MalformedProperties(f"{FILE_NAME}: {key}={values[key]}") from error
