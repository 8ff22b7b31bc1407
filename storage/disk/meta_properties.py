"""`meta.properties`: whose directory this is, and in which format (storage.md 2.1, wire.md section 17).

Apache Kafka's file, version 1, with one key of our own that Kafka ignores. Always true: a directory of a newer format
is refused, never touched.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from eosin.storage.disk.interfaces import UnusableDirectory

FILE_NAME: Final = "meta.properties"
FORMAT: Final = 1
"""The newest directory format that this version understands."""

_FORMAT_KEY: Final = "eosin.format"
_VERSION: Final = "1"


class DirectoryTooNew(UnusableDirectory):
    """The directory was written by a later version of Eosin."""


class MalformedProperties(UnusableDirectory):
    """`meta.properties` lacks a property or has a wrong one."""


@dataclass(frozen=True, slots=True)
class MetaProperties:
    """The content of `meta.properties`."""

    cluster_id: str
    node_id: int
    directory_id: str

    def encode(self) -> bytes:
        """The file's content."""
        values = {
            "version": _VERSION,
            "cluster.id": self.cluster_id,
            "node.id": self.node_id,
            "directory.id": self.directory_id,
            _FORMAT_KEY: FORMAT,
        }
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
        )


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
