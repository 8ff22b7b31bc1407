"""The checkpoint of a query: Spark's entry for each batch, and empty files of the sink's own, on any file system.

Always true: the range hash covers the checkpoint's own entry for the batch. Spark writes that entry before it processes
any row of the batch, and does not write it again when it replays the batch.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from eosin.pipeline.common.errors import ConflictingSettings
from eosin.pipeline.common.local_folder import local_folder
from eosin.pipeline.common.progress_marker import range_hash_of
from eosin.pipeline.sink.handovers import Files

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class QueryCheckpoint(Files, Protocol):
    """The folder in which Spark keeps a query."""

    def range_hash(self, batch: int) -> str:
        """A hash of a batch's entry in the offset log. Raises ConflictingSettings if it has none."""


def query_checkpoint(spark: "SparkSession", root: str) -> QueryCheckpoint:
    """The checkpoint in a folder, which is a Hadoop path with a scheme."""
    folder = local_folder(root)
    return HadoopCheckpoint(spark, root) if folder is None else LocalCheckpoint(folder)


def has_state(checkpoint: Files) -> bool:
    """True if tasks of the query have stored state."""
    return bool(checkpoint.names("state"))


class LocalCheckpoint:
    """A folder of this machine, which is the driver's. Through Hadoop, each file would take calls to Java and, without
    its native library, processes that set the rights of the file."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def range_hash(self, batch: int) -> str:
        """A hash of a batch's entry in the offset log. Raises ConflictingSettings if it has none."""
        entry = self._root / "offsets" / str(batch)
        try:
            return range_hash_of(entry.read_bytes())
        except FileNotFoundError as error:
            raise _without_entry(entry) from error

    def names(self, folder: str) -> list[str]:
        """The names of the files in a folder, which need not exist; without Hadoop's files of checksums."""
        try:
            return [each.name for each in (self._root / folder).iterdir() if not each.name.startswith(".")]
        except FileNotFoundError:
            return []

    def create(self, file: str) -> bool:
        """Create an empty file and the folder above it. False if the file is there already."""
        path = self._root / file
        try:
            path.touch(exist_ok=False)
        except FileExistsError:
            return False
        except FileNotFoundError:
            path.parent.mkdir(parents=True, exist_ok=True)
            return self.create(file)
        return True

    def delete(self, file: str) -> None:
        """Delete a file, if it is there, and the checksum beside it that Hadoop writes."""
        path = self._root / file
        for each in (path, path.with_name(f".{path.name}.crc")):
            each.unlink(missing_ok=True)


class HadoopCheckpoint:
    """A folder on any other file system."""

    def __init__(self, spark: "SparkSession", root: str) -> None:
        """`root` is a Hadoop path."""
        self._root = root
        jvm: Any = spark._jvm
        self._path: Any = jvm.org.apache.hadoop.fs.Path  # each dot is a call to Java
        self._read: Any = jvm.org.apache.commons.io.IOUtils.toByteArray
        self._files: Any = self._path(root).getFileSystem(spark._jsc.hadoopConfiguration())

    def range_hash(self, batch: int) -> str:
        """A hash of a batch's entry in the offset log. Raises ConflictingSettings if it has none."""
        path = self._path(f"{self._root}/offsets/{batch}")
        if not self._files.exists(path):
            raise _without_entry(path)
        stream = self._files.open(path)
        try:
            entry = bytes(self._read(stream))
        finally:
            stream.close()
        return range_hash_of(entry)

    def names(self, folder: str) -> list[str]:
        """The names of the files in a folder, which need not exist."""
        path = self._path(f"{self._root}/{folder}")
        if not self._files.exists(path):
            return []
        return [str(each.getPath().getName()) for each in self._files.listStatus(path)]

    def create(self, file: str) -> bool:
        """Create an empty file and the folder above it. False if the file is there already."""
        return bool(self._files.createNewFile(self._path(f"{self._root}/{file}")))

    def delete(self, file: str) -> None:
        """Delete a file, if it is there."""
        self._files.delete(self._path(f"{self._root}/{file}"), False)


def _without_entry(path: object) -> ConflictingSettings:
    return ConflictingSettings(
        f"the checkpoint has no {path}: asynchronous progress tracking writes it too late for exactly-once"
    )
