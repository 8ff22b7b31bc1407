"""Streams from text files, one file per micro-batch: the simplest input that Spark replays exactly."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_FIRST_S = 1_700_000_000


class TextStream:
    """A folder of text files as a streaming frame with the columns key and value: a line `k v` is one row."""

    def __init__(self, spark: "SparkSession", folder: Path) -> None:
        self._spark = spark
        self._folder = folder
        self._count = 0
        folder.mkdir(parents=True, exist_ok=True)

    def add(self, *lines: str) -> None:
        """One more file, so one more micro-batch."""
        unfinished = self._folder / f".{self._count:04}"
        unfinished.write_text("".join(f"{line}\n" for line in lines))
        os.utime(unfinished, (_FIRST_S + self._count, _FIRST_S + self._count))  # Spark reads the oldest first
        unfinished.rename(self._folder / f"{self._count:04}.txt")
        self._count += 1

    def frame(self) -> "DataFrame":
        """The stream."""
        from pyspark.sql import functions as f

        lines = self._spark.readStream.option("maxFilesPerTrigger", 1).text(str(self._folder))
        parts = f.split("value", " ")
        return lines.select(parts[0].alias("key"), parts[1].alias("value"))
