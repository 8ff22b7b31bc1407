"""`Snapshot`: the files of a broker at one moment, to start another one from.

Always true: it is a data directory in Kafka's format, all of it durable; what was not written at that moment, such as
connections and members of groups, is not in it.
"""

from pathlib import Path
from typing import Final, Self

import msgspec

from eosin.lab.common.errors import LabError
from eosin.lab.disk.lying_disk import LyingDisk
from eosin.lab.nodes.table import NodeState
from eosin.storage.disk.data_directory import LOCK
from eosin.storage.disk.meta_properties import FILE_NAME, as_lab_directory

LAB_FILE: Final = "lab.json"
"""In a saved snapshot: when it was taken."""


class Snapshot(msgspec.Struct, frozen=True):
    """Files of a data directory."""

    files: dict[str, bytes]
    """Their content, by path in the directory."""
    folders: list[str]
    now_ms: int
    """The broker's time when it was taken, ms since the epoch."""
    nodes: NodeState = NodeState()
    """The leaders that have moved, and the nodes that are down."""

    @classmethod
    def of(cls, disk: LyingDisk, data_dir: str, now_ms: int, nodes: NodeState) -> Self:
        """A snapshot of what is on a disk."""
        start = f"{data_dir}/"
        files = {
            path.removeprefix(start): disk.content(path)
            for path in disk.paths()
            if path.startswith(start) and not path.endswith(f"/{LOCK}")
        }
        folders = [name for name in disk.list(data_dir) if disk.is_directory(start + name)]
        return cls(files, folders, now_ms, nodes)

    def put_on(self, disk: LyingDisk, data_dir: str) -> None:
        """Have a new disk hold it, as what is durable."""
        for each in self.folders:
            disk.make_directory(f"{data_dir}/{each}")
        disk.make_directory(data_dir)
        for path, content in self.files.items():
            disk.put(f"{data_dir}/{path}", content)
        disk.sync_everything()

    def encoded(self) -> bytes:
        """All of it, for `decode`."""
        return msgspec.msgpack.encode(self)

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """The inverse of `encoded`."""
        return msgspec.msgpack.decode(data, type=cls)

    # Files

    def save(self, path: str | Path) -> None:
        """Write a tar of the data directory, with `lab.json`. Raises LabError."""
        import io
        import json
        import tarfile

        told = json.dumps({"now_ms": self.now_ms, "nodes": msgspec.to_builtins(self.nodes)}).encode()
        try:
            with tarfile.open(path, "w") as tar:
                for each in self.folders:
                    member = tarfile.TarInfo(each)
                    member.type, member.mode = tarfile.DIRTYPE, 0o755
                    tar.addfile(member)
                for name, content in [(LAB_FILE, told), *self.files.items()]:
                    member = tarfile.TarInfo(name)
                    data = as_lab_directory(content) if name == FILE_NAME else content
                    member.size, member.mtime = len(data), self.now_ms // 1000
                    tar.addfile(member, io.BytesIO(data))
        except OSError as error:
            raise LabError(f"cannot save a snapshot to {path}: {error.strerror}") from None

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """The snapshot that `save` has written. Raises LabError."""
        import json
        import tarfile

        files: dict[str, bytes] = {}
        folders: list[str] = []
        try:
            with tarfile.open(path) as tar:
                for member in tar:
                    content = tar.extractfile(member)
                    if content is not None:
                        files[member.name] = content.read()
                    elif member.isdir():
                        folders.append(member.name)
            told = json.loads(files.pop(LAB_FILE))
            now_ms, nodes = int(told["now_ms"]), msgspec.convert(told.get("nodes", {}), NodeState)
        except OSError as error:
            raise LabError(f"cannot load a snapshot from {path}: {error.strerror or error}") from None
        except (tarfile.TarError, KeyError, ValueError):
            raise LabError(f"{path} is no snapshot of a broker: Snapshot.save() writes one") from None
        return cls(files, folders, now_ms, nodes)

    @classmethod
    def from_directory(cls, path: str | Path) -> Self:
        """A copy of the data directory of a broker that does not run. Raises LabError."""
        directory = Path(path)
        properties = directory / FILE_NAME
        if not properties.is_file():
            raise LabError(f"{directory} is no data directory of a broker: it has no {FILE_NAME}")
        try:
            found = sorted(each for each in directory.rglob("*") if each.name != LOCK)
            files = {str(each.relative_to(directory)): each.read_bytes() for each in found if each.is_file()}
            folders = [str(each.relative_to(directory)) for each in found if each.is_dir()]
            now_ms = int(max(each.stat().st_mtime for each in [properties, *found]) * 1000)
        except OSError as error:
            raise LabError(f"cannot read {error.filename or directory}: {error.strerror}") from None
        return cls(files, folders, now_ms)
