"""Lines of text to counts of words per minute: a split without state, and a windowed count with it.

A row of the output is keyed by the minute and the word, and says how often the word was seen in that minute so far. In
mode `update` a row comes for each count that a batch has changed, so the counts of a key only grow, and the last one
must be the number of times that the word is really there.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from eosin.protocol.records.batch import NewRecord

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

MODE: Final = "update"
_WORDS: Final = ("once", "twice", "never", "exactly", "log", "offset", "marker", "epoch", "fence", "commit", "abort")
_FIRST_MS: Final = 1_700_000_040_000  # a whole minute
_MINUTE_MS: Final = 60_000


def counts(lines: "DataFrame") -> "DataFrame":
    """The pipeline: words per minute. What is ten minutes older than the newest line is not counted any more."""
    from pyspark.sql import functions as f

    words = lines.withWatermark("timestamp", "10 minutes").select(
        "timestamp", f.explode(f.split(f.col("value").cast("string"), " ")).alias("word")
    )
    counted = words.groupBy(f.window("timestamp", "1 minute"), "word").count()
    minute = f.unix_timestamp("window.start").cast("string")
    return counted.select(f.concat_ws(" ", minute, "word").alias("key"), f.col("count").cast("string").alias("value"))


def records(count: int) -> Iterator[NewRecord]:
    """`count` lines over four minutes, the same ones each time."""
    for number in range(count):
        words = [_WORDS[(number * step + step) % len(_WORDS)] for step in range(1, 2 + number % 5)]
        at_ms = _FIRST_MS + number * 4 * _MINUTE_MS // count
        yield NewRecord(str(number).encode(), " ".join(words).encode(), at_ms)


def reflected(lines: "DataFrame", rows: "DataFrame") -> "DataFrame":
    """For `eosin pipeline verify`: each word of a minute, how often it is there, and how often the output counts it.

    A row that says N counts those since the row before it; if that said N or more already, one of them once more.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    words = f.explode(f.split(f.col("value").cast("string"), " ")).alias("word")
    minute = (f.unix_timestamp("timestamp") / 60).cast("long") * 60
    given = lines.select(minute.alias("minute"), words)
    given = given.select(f.concat_ws(" ", "minute", "word").alias("name"), f.lit(1).alias("s"), f.lit(0).alias("t"))

    so_far = Window.partitionBy("name").orderBy("offset").rowsBetween(Window.unboundedPreceding, -1)
    told = rows.select(
        f.col("key").cast("string").alias("name"), f.col("value").cast("string").cast("long").alias("count"), "offset"
    )
    told = told.withColumn("before", f.coalesce(f.max("count").over(so_far), f.lit(0)))
    new = f.when(f.col("count") > f.col("before"), f.col("count") - f.col("before")).otherwise(1)
    both = given.unionAll(told.select("name", f.lit(0), new))
    return both.groupBy("name").agg(f.sum("s").alias("source"), f.sum("t").alias("target"))
