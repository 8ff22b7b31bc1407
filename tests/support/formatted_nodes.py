"""Directories as `kafka-storage.sh format` makes them for nodes of Apache Kafka: copies of one that it has made.

The tool starts a JVM. What it writes for two nodes of a kind differs by their ids and by the address of the voter
alone, so the first of a kind is formatted, kept with what else is made once (`toolchains`), and copied for the others.
"""

import struct
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import toolchains
from waiting import HANG_S

from eosin.protocol.names import uuid_from_text, uuid_text
from eosin.protocol.records.header import CRC_OFFSET, batches, checksum
from eosin.runtime.chance import SystemChance

META: Final = "meta.properties"
_HOST: Final = b"127.0.0.1"


class Identity(NamedTuple):
    """The properties of a directory that are one node's alone."""

    cluster_id: str
    node_id: int
    port: int
    """The port at which voters find it, if it is a controller."""


TEMPLATE: Final = Identity("ZW9zaW4tdGVtcGxhdGUtMQ", 0x5EED, 0x5EED)
"""The node that is formatted: its ids are found in the bytes of a file that has no others like them."""


class Tool(NamedTuple):
    """The storage tool of one release."""

    command: Sequence[str]
    release: str


def new_id() -> str:
    """The id of a new cluster or directory, as `kafka-storage.sh random-uuid` would draw it."""
    return uuid_text(SystemChance().uuid())


def copy_formatted(data: Path, own: Identity, tool: Tool, settings: Mapping[str, str], options: Sequence[str]) -> None:
    """Make the directory that the tool would make with these options of `format`. `settings` are those of the node
    that TEMPLATE stands for, without `log.dirs`; one that `format` does not read would only make one more kind."""
    written = "".join(f"{name}={value}\n" for name, value in settings.items())

    def make(folder: Path) -> None:
        properties = folder / "node.properties"
        properties.write_text(f"{written}log.dirs={folder / 'data'}\n")
        words = [*tool.command, "format", "-t", TEMPLATE.cluster_id, "-c", str(properties), *options]
        done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=HANG_S)
        assert done.returncode == 0, f"a directory could not be formatted:\n{done.stdout}{done.stderr}"

    template = toolchains.made("apache-kafka-formatted", [tool.release, written, *options], make) / "data"
    meta = dict(line.split("=", 1) for line in (template / META).read_text().splitlines() if not line.startswith("#"))
    directory_id = new_id()
    for path in sorted(each for each in template.rglob("*") if each.is_file()):
        copy = data / path.relative_to(template)
        copy.parent.mkdir(parents=True, exist_ok=True)
        if path.name == META:
            mine = {"cluster.id": own.cluster_id, "node.id": own.node_id, "directory.id": directory_id}
            copy.write_text("".join(f"{name}={value}\n" for name, value in {**meta, **mine}.items()))
        else:
            copy.write_bytes(with_voter(path.read_bytes(), meta["directory.id"], own, directory_id))


def with_voter(snapshot: bytes, template_id: str, own: Identity, directory_id: str) -> bytes:
    """The snapshot in which the voter that TEMPLATE with the directory `template_id` is, if it is one, is this node."""
    replaced = snapshot
    for before, after in (
        (_voter(TEMPLATE.node_id, template_id), _voter(own.node_id, directory_id)),
        (_endpoint(TEMPLATE.port), _endpoint(own.port)),
    ):
        assert snapshot.count(before) <= 1
        replaced = replaced.replace(before, after)
    sealed = bytearray(replaced)
    for position, header in list(batches(replaced)):
        struct.pack_into(">I", sealed, position + CRC_OFFSET, checksum(replaced, position, header.size))
    return bytes(sealed)


def _voter(node_id: int, directory_id: str) -> bytes:
    """The beginning of a voter in a VotersRecord."""
    return struct.pack(">i16s", node_id, uuid_from_text(directory_id))


def _endpoint(port: int) -> bytes:
    """The end of a voter's endpoint there."""
    return struct.pack(">9sH", _HOST, port)
