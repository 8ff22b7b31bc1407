"""Lines of text to counts of words per minute: a split without state, and a windowed count with it.

A row of the output is keyed by the minute and the word, and says how often the word was seen in that minute so far. In
mode `update` a row comes for each count that a batch has changed, so the counts of a key only grow, and the last one
must be the number of times that the word is really there.
"""

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from eosin.client.consumer import ConsumedRecord
from eosin.protocol.records import NewRecord

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


def complaints(inputs: list[ConsumedRecord], outputs: list[ConsumedRecord]) -> list[str]:
    """What is wrong with the output, in sentences; nothing when each word is counted exactly once."""
    expected: Counter[str] = Counter()
    for each in inputs:
        minute = each.record.timestamp // _MINUTE_MS * 60
        for word in (each.record.value or b"").decode().split(" "):
            expected[f"{minute} {word}"] += 1
    found = []
    seen: dict[str, int] = {}
    for each in outputs:
        key, told = (each.record.key or b"").decode(), int(each.record.value or b"0")
        if told <= seen.get(key, 0):
            found.append(f"{key}: {told} is told after {seen[key]}")
        seen[key] = max(told, seen.get(key, 0))
    for key in sorted(expected.keys() | seen.keys()):
        if seen.get(key, 0) != expected[key]:
            found.append(f"{key}: counted {seen.get(key, 0)} times, and it is there {expected[key]} times")
    return found
