"""The options of a read by `format("eosin")`, with the names, values and defaults of Spark's own Kafka source.

Always true: only committed records are read unless `kafka.isolation.level` says otherwise; that is the one default that
differs from Spark's, whose reader would see aborted rows.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

from eosin.client.connection import REQUEST_TIMEOUT_MS
from eosin.pipeline.common.task_timeouts import RETRY_BACKOFF_MS, TASK_TIMEOUT_MS
from eosin.pipeline.format.given_options import GivenOptions
from eosin.pipeline.source.options import (
    EARLIEST,
    EARLIEST_NUMBER,
    LATEST,
    Offsets,
    Position,
    SourceOptions,
    Timestamps,
)
from eosin.protocol.names import IsolationLevel, TopicPartition

INCLUDE_HEADERS: Final = "includeHeaders"
_ISOLATION: Final = "kafka.isolation.level"
_STRATEGY: Final = "startingOffsetsByTimestampStrategy"
_TOPICS: Final = ("subscribe", "subscribePattern", "assign")
_ENDING: Final = ("endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp")
_KNOWN: Final = (
    *_TOPICS,
    *_ENDING,
    "startingOffsets",
    "startingTimestamp",
    "startingOffsetsByTimestamp",
    _STRATEGY,
    "maxOffsetsPerTrigger",
    "minPartitions",
    "maxRecordsPerPartition",
    "failOnDataLoss",
    INCLUDE_HEADERS,
    _ISOLATION,
)
_NO_GROUP: Final = "leave it out, since the checkpoint holds the position and there is no consumer group"
_NO_WAIT: Final = "leave it out, and let the query's trigger say how often a batch is made"
_TIMEOUTS: Final = "leave it out, since task.timeout.ms and kafka.request.timeout.ms limit how long a read is repeated"
_BYTES: Final = "keys and values are binary; decode them in the frame"
_WITHOUT: Final = {
    "minOffsetsPerTrigger": _NO_WAIT,
    "maxTriggerDelay": _NO_WAIT,
    "groupIdPrefix": _NO_GROUP,
    "kafka.group.id": _NO_GROUP,
    "kafka.enable.auto.commit": _NO_GROUP,
    "kafka.auto.offset.reset": "use startingOffsets",
    "kafka.client.id": "leave it out",
    "kafka.max.poll.records": "leave it out, since maxOffsetsPerTrigger limits a batch",
    "kafka.key.deserializer": _BYTES,
    "kafka.value.deserializer": _BYTES,
    "kafkaConsumer.pollTimeoutMs": _TIMEOUTS,
    "fetchOffset.numRetries": _TIMEOUTS,
    "fetchOffset.retryIntervalMs": _TIMEOUTS,
}
_BOOL: Final = {"true": True, "false": False}
_LEVELS: Final = {
    "read_committed": IsolationLevel.READ_COMMITTED,
    "read_uncommitted": IsolationLevel.READ_UNCOMMITTED,
}
_OFFSETS_EXAMPLE: Final = '{"orders": {"0": 17, "1": -2}}'
_TIMES_EXAMPLE: Final = '{"orders": {"0": 1700000000000}}'
_ASSIGN_EXAMPLE: Final = '{"orders": [0, 1]}'


def parse_read(options: Mapping[str, str], *, streaming: bool | None = None) -> SourceOptions:
    """From the options of a Spark reader, whose names may have any case; `streaming` is None while that is not known.
    Raises ConflictingSettings with all that is wrong."""
    given = GivenOptions("source", options, _KNOWN, _WITHOUT)
    topics, pattern, assigned = _topics(given)
    # Each of these refuses what is wrong with it, and `check` raises once.
    starting = _position(given, "starting", EARLIEST if streaming is False else LATEST)
    ending = _position(given, "ending", LATEST)
    if streaming is False and starting == LATEST:
        given.refuse("startingOffsets is latest, and a batch that begins there reads nothing: use readStream")
    if ending == EARLIEST:
        given.refuse("endingOffsets is earliest, and a batch that ends there reads nothing")
    for name in _ENDING:
        if streaming and given.text(name) is not None:
            given.refuse(f"{name} ends a batch, and a stream has no end: leave it out")
    found = SourceOptions(
        bootstrap=given.bootstrap(),
        topics=topics,
        pattern=pattern,
        assigned=assigned,
        isolation=given.choice(_ISOLATION, _LEVELS, IsolationLevel.READ_COMMITTED),
        starting=starting,
        ending=ending,
        max_rows_per_trigger=given.number("maxOffsetsPerTrigger", None, least=1),
        min_partitions=given.number("minPartitions", None, least=1),
        max_records_per_partition=given.number("maxRecordsPerPartition", None, least=1),
        fail_on_data_loss=given.choice("failOnDataLoss", _BOOL, default=True),
        task_timeout_ms=given.number("task.timeout.ms", TASK_TIMEOUT_MS, least=0),
        retry_backoff_ms=given.number("kafka.retry.backoff.ms", RETRY_BACKOFF_MS, least=0),
        request_timeout_ms=given.number("kafka.request.timeout.ms", REQUEST_TIMEOUT_MS, least=1),
        security=given.security(),
    )
    given.choice(INCLUDE_HEADERS, _BOOL, default=False)
    given.check()
    return found


def includes_headers(options: Mapping[str, str]) -> bool:
    """True if the column `headers` is wanted."""
    lower = {name.lower(): value for name, value in options.items()}
    return lower.get(INCLUDE_HEADERS.lower(), "false").strip().lower() == "true"


def _topics(given: GivenOptions) -> tuple[tuple[str, ...], str | None, tuple[TopicPartition, ...]]:
    """Topics by name, or a pattern, or partitions: exactly one of them."""
    there = [name for name in _TOPICS if given.text(name) is not None]
    if len(there) != 1:
        said = f"{' and '.join(there)} are given" if there else "no topic is given"
        given.refuse(f"{said}: set one of subscribe, subscribePattern and assign")
    names = [each.strip() for each in (given.text("subscribe") or "").split(",")]
    pattern = given.text("subscribePattern")
    if pattern is not None:
        try:
            re.compile(pattern)
        except re.error as error:
            given.refuse(f"subscribePattern is {pattern!r}, and no regular expression: {error}")
    assigned = []
    for topic, numbers in (given.json_object("assign", _ASSIGN_EXAMPLE) or {}).items():
        if not (isinstance(numbers, list) and numbers and all(_is_number(each, 0) for each in numbers)):
            given.refuse(f"assign has {numbers!r} for topic {topic}, and must be JSON like {_ASSIGN_EXAMPLE}")
            continue
        assigned += [TopicPartition(topic, each) for each in numbers]
    topics = tuple(dict.fromkeys([each for each in names if each] + [each.topic for each in assigned]))
    return topics, pattern, tuple(sorted(set(assigned)))


def _position(given: GivenOptions, which: str, default: str) -> Position:
    """A position: by one time for all, by times, or by offsets, in Spark's order of precedence."""
    is_strict = (
        given.choice(_STRATEGY, {"error": True, "latest": False}, default=True) if which == "starting" else False
    )
    time = given.number(f"{which}Timestamp", None, least=0)
    if time is not None:
        return Timestamps(time, {}, is_strict)
    times = given.json_object(f"{which}OffsetsByTimestamp", _TIMES_EXAMPLE)
    if times is not None:
        return Timestamps(None, _by_partition(given, f"{which}OffsetsByTimestamp", times, 0, _TIMES_EXAMPLE), is_strict)
    name = f"{which}Offsets"
    text = given.text(name)
    if text is None:
        return default
    if text.lower() in (EARLIEST, LATEST):
        return text.lower()
    if not text.startswith("{"):
        given.refuse(f"{name} is {text!r}, and can be earliest, latest or JSON like {_OFFSETS_EXAMPLE}")
        return default
    found = given.json_object(name, _OFFSETS_EXAMPLE) or {}
    return _by_partition(given, name, found, EARLIEST_NUMBER, _OFFSETS_EXAMPLE)


def _by_partition(given: GivenOptions, name: str, found: Mapping[str, Any], least: int, example: str) -> Offsets:
    numbers: dict[TopicPartition, int] = {}
    for topic, each in found.items():
        right = isinstance(each, dict) and all(part.isdigit() and _is_number(n, least) for part, n in each.items())
        if not right:
            given.refuse(f"{name} has {each!r} for topic {topic}, and must be JSON like {example}")
            continue
        numbers |= {TopicPartition(topic, int(part)): number for part, number in each.items()}
    return numbers


def _is_number(value: object, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least
