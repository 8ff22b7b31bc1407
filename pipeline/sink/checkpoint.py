"""The checkpoint of a query: Spark's entry for each batch, and empty files of the sink's own, on any file system.

Always true: the range hash covers the checkpoint's own entry for the batch. Spark writes that entry before it processes
any row of the batch, and does not write it again when it replays the batch.
"""

from typing import TYPE_CHECKING, Any

from eosin.pipeline.common.errors import ConflictingSettings
from eosin.pipeline.common.progress_marker import range_hash_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class QueryCheckpoint:
    """The folder in which Spark keeps a query."""

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
            raise ConflictingSettings(
                f"the checkpoint has no {path}: asynchronous progress tracking writes it too late for exactly-once"
            )
        stream = self._files.open(path)
        try:
            entry = bytes(self._read(stream))
        finally:
            stream.close()
        return range_hash_of(entry)

    @property
    def has_state(self) -> bool:
        """True if tasks of the query have stored state."""
        return bool(self.names("state"))

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
