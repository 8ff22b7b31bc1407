"""The options of a `txnlog` source.

Always true: an unknown option, or an invalid value, is refused with a sentence before anything is read.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Self, TypeVar

from eosin.client.addresses import parse_bootstrap
from eosin.client.connection import REQUEST_TIMEOUT_MS
from eosin.client.security.settings import SecuritySettings
from eosin.pipeline.common.errors import ConflictingSettings
from eosin.pipeline.common.security import OPTION, PLAIN, carried_settings
from eosin.pipeline.common.settings import number
from eosin.pipeline.common.task_timeouts import RETRY_BACKOFF_MS, TASK_TIMEOUT_MS
from eosin.protocol.names import IsolationLevel, TopicPartition

EARLIEST: Final = "earliest"
LATEST: Final = "latest"

_ISOLATION: Final = {
    "read_committed": IsolationLevel.READ_COMMITTED,
    "read_uncommitted": IsolationLevel.READ_UNCOMMITTED,
}
_BOOL: Final = {"true": True, "false": False}
_KNOWN: Final = {
    name.lower(): name
    for name in (
        "bootstrap.servers",
        "subscribe",
        "isolation.level",
        "startingOffsets",
        "endingOffsets",
        "maxRowsPerTrigger",
        "failOnDataLoss",
        "task.timeout.ms",
        "retry.backoff.ms",
        "request.timeout.ms",
        OPTION,
    )
}

Offsets = Mapping[TopicPartition, int]
EARLIEST_NUMBER: Final = -2
LATEST_NUMBER: Final = -1
"""In place of an offset, as in Spark's own source."""
CheckpointJson = dict[str, int | str]
"""A position in the form that Spark keeps in checkpoints."""
_ID: Final = ":id"
"""The suffix of a topic name whose value is the topic's id; after other names stands a partition number."""
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Timestamps:
    """A position by time: in each partition the first record from a time on."""

    everywhere: int | None
    """ms since 1970, for partitions without a time of their own. None: they begin at their earliest record, and end at
    their latest."""
    each: Offsets
    """ms since 1970, by partition."""
    is_strict: bool
    """True if a partition without such a record is an error; otherwise its end is the position."""


Position = str | Offsets | Timestamps


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """The options of one reader. They are sent to other machines."""

    bootstrap: str
    topics: tuple[str, ...]
    isolation: IsolationLevel = IsolationLevel.READ_COMMITTED
    starting: Position = EARLIEST
    ending: Position = LATEST
    max_rows_per_trigger: int | None = None
    """Counted in offsets, so markers and aborted records count as well."""
    fail_on_data_loss: bool = True
    task_timeout_ms: int = TASK_TIMEOUT_MS
    retry_backoff_ms: int = RETRY_BACKOFF_MS
    request_timeout_ms: int = REQUEST_TIMEOUT_MS
    pattern: str | None = None
    """A regular expression for whole names of topics, in place of `topics`; internal topics are left out."""
    assigned: tuple[TopicPartition, ...] = ()
    """The partitions of `topics` to read; all without any."""
    min_partitions: int | None = None
    """The number of tasks that ranges are divided for."""
    max_records_per_partition: int | None = None
    """The most offsets that one task reads."""
    security: SecuritySettings = PLAIN
    """Of the file that the option `command.config` names on the driver's machine."""

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> Self:
        """From the options of a Spark reader, whose names may have any case. Raises ConflictingSettings."""
        given = {name.lower(): value for name, value in options.items()}
        for name in given:
            if name not in _KNOWN and name != "path":
                raise ConflictingSettings(f"txnlog has no option {name!r}: there are {', '.join(_KNOWN.values())}")
        topics = tuple(topic.strip() for topic in given.get("subscribe", "").split(",") if topic.strip())
        if not topics:
            raise ConflictingSettings("txnlog needs the option subscribe, one topic or several with commas between")
        bootstrap = given.get("bootstrap.servers", "")
        try:
            parse_bootstrap(bootstrap)
        except ValueError as error:
            raise ConflictingSettings(f"bootstrap.servers: {error}") from error
        rows = given.get("maxrowspertrigger")
        return cls(
            bootstrap=bootstrap,
            topics=topics,
            isolation=_one_of(_ISOLATION, given, "isolation.level", "read_committed"),
            starting=_offsets(given, "startingoffsets", EARLIEST),
            ending=_offsets(given, "endingoffsets", LATEST),
            max_rows_per_trigger=None if rows is None else number("maxRowsPerTrigger", rows, least=1),
            fail_on_data_loss=_one_of(_BOOL, given, "failondataloss", "true"),
            task_timeout_ms=number("task.timeout.ms", given.get("task.timeout.ms", str(TASK_TIMEOUT_MS)), least=0),
            retry_backoff_ms=number("retry.backoff.ms", given.get("retry.backoff.ms", str(RETRY_BACKOFF_MS)), least=0),
            request_timeout_ms=number(
                "request.timeout.ms", given.get("request.timeout.ms", str(REQUEST_TIMEOUT_MS)), least=1
            ),
            security=carried_settings(given.get(OPTION)),
        )


def to_json(offsets: Offsets, topic_ids: Mapping[str, str] | None = None) -> CheckpointJson:
    """Offsets in the form of a checkpoint: `{"topic:partition": next offset}`, and `"topic:id"` for each topic whose id
    is known."""
    found: CheckpointJson = {f"{each.topic}:{each.partition}": offset for each, offset in sorted(offsets.items())}
    for topic in sorted({each.topic for each in offsets} & (topic_ids or {}).keys()):
        found[f"{topic}{_ID}"] = (topic_ids or {})[topic]
    return found


def from_json(offsets: Mapping[str, int | str]) -> dict[TopicPartition, int]:
    """The offsets in a checkpoint of `to_json`. Raises ValueError with a sentence."""
    found = {}
    for name, offset in offsets.items():
        topic, colon, partition = name.rpartition(":")
        if topic and name.endswith(_ID) and isinstance(offset, str):
            continue
        if not (colon and topic and partition.isdigit() and isinstance(offset, int)):
            raise ValueError(f'offsets are {{"topic:partition": offset}}, and not {name!r}: {offset!r}')
        found[TopicPartition(topic, int(partition))] = offset
    return found


def topic_ids_of(offsets: Mapping[str, int | str]) -> dict[str, str]:
    """The topic ids in a checkpoint of `to_json`. Checkpoints of older releases have none."""
    ids = {name: value for name, value in offsets.items() if isinstance(value, str)}
    return {name.removesuffix(_ID): value for name, value in ids.items() if name.endswith(_ID)}


def recreated_topics(then: Mapping[str, str], now: Mapping[str, str]) -> set[str]:
    """The topics with another id now: they were deleted and created again, and offsets of the old topic are invalid."""
    return {topic for topic, topic_id in then.items() if now.get(topic, topic_id) != topic_id}


def _offsets(given: Mapping[str, str], name: str, default: str) -> str | Offsets:
    text = given.get(name, default).strip()
    if text.lower() in (EARLIEST, LATEST):
        return text.lower()
    try:
        return from_json(json.loads(text))
    except (ValueError, AttributeError) as error:
        raise ConflictingSettings(f"{_KNOWN[name]} is earliest, latest or JSON: {error}") from error


def _one_of(values: Mapping[str, T], given: Mapping[str, str], name: str, default: str) -> T:
    text = given.get(name, default).strip().lower()
    if text not in values:
        raise ConflictingSettings(f"{_KNOWN[name]} is {text!r}, and can be {' or '.join(values)}")
    return values[text]
