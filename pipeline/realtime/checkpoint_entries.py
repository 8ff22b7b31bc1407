"""The entries of a checkpoint in Real-time Mode: whether a query goes on with it, begins with it, or cannot use it.

Spark notes offsets when a batch ends, and then that it is done; at the next start it deletes offsets of a batch that is
not done. Where a source begins is noted before the first batch.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from eosin.pipeline.common.errors import BrokenCheckpoint
from eosin.pipeline.realtime.positions import WrittenPosition, starting_offsets
from eosin.protocol.names import TopicPartition

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class CheckpointEntries:
    """The batches in the folders of one checkpoint."""

    offsets: frozenset[int]
    commits: frozenset[int]
    knows_its_begin: bool
    """Every source has noted where it began. A later start begins there, whatever `startingOffsets` says then."""

    @classmethod
    def read(cls, spark: "SparkSession", checkpoint: str, sources: int) -> Self:
        """Read the folders of a checkpoint, which need not exist, of a query with so many sources."""
        offsets, commits = (_batches(spark, checkpoint, folder) for folder in ("offsets", "commits"))
        begins = (_batches(spark, checkpoint, f"sources/{source}") for source in range(sources))
        return cls(offsets, commits, all(0 in each for each in begins))

    @property
    def has_begun(self) -> bool:
        """True if a query goes on with this checkpoint; a new one begins at its `startingOffsets`."""
        return bool(self.commits) or self.knows_its_begin

    def check(self, checkpoint: str, positions: Mapping[TopicPartition, WrittenPosition]) -> None:
        """Raise BrokenCheckpoint if the last batch that is done has no offsets. Spark ends with an assertion if there
        are none at all; otherwise it would begin at the batch before, whose entry is there already.

        Two drivers with one checkpoint leave such a one behind: one deletes offsets that the other is about to finish.
        """
        last, done = max(self.offsets, default=-1), max(self.commits, default=-1)
        if done > last:
            raise BrokenCheckpoint(
                f"checkpoint {checkpoint} has commits/{done} and no offsets/{done}: Spark cannot go on with it. Name"
                " a new one, and begin with startingOffsets earliest (what is written is skipped) or"
                f" {starting_offsets(positions)}"
            )


def _batches(spark: "SparkSession", checkpoint: str, folder: str) -> frozenset[int]:
    """The numbers that files in a folder of a checkpoint have as names."""
    jvm: Any = spark._jvm
    path = jvm.org.apache.hadoop.fs.Path(checkpoint, folder)
    files = path.getFileSystem(spark._jsc.hadoopConfiguration())
    names = [str(each.getPath().getName()) for each in files.listStatus(path)] if files.exists(path) else []
    return frozenset(int(name) for name in names if name.isdecimal())
