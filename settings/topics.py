"""The configs of a topic: their names, types, ranges and synonyms, and how they become a `LogConfig`.

The list is Kafka's of version 4.1 (storage.md section 20). Configs of features that Eosin does not have accept their
default only, or have no effect, so that a tool that sets everything explicitly still works.
"""

import dataclasses
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

from eosin.settings.settings import INT_MAX, LONG_MAX, Setting, SettingError, SettingKind, Synonym
from eosin.storage.log.config import LogConfig

_DEFAULTS: Final = LogConfig()
_HOUR_MS: Final = 3_600_000
_MINUTE_MS: Final = 60_000
CODECS: Final = ("producer", "uncompressed", "gzip", "snappy", "lz4", "zstd")
INTERNAL_SEGMENT_BYTES: Final = "internal.segment.bytes"


def _config(
    name: str,
    kind: SettingKind,
    doc: str,
    *synonyms: str | tuple[str, int],
    at_least: float | None = None,
    at_most: float | None = None,
    choices: tuple[str, ...] = (),
) -> Setting:
    return Setting(
        name=name,
        kind=kind,
        default=getattr(_DEFAULTS, name.replace(".", "_")),
        doc=doc,
        at_least=at_least,
        at_most=at_most,
        choices=choices,
        synonyms=tuple(Synonym(name=s) if isinstance(s, str) else Synonym(name=s[0], factor=s[1]) for s in synonyms),
    )


_ALL: Final = (
    _config(
        "cleanup.policy",
        SettingKind.LIST,
        "What happens to old records: deleted by age and size, compacted to the latest per key, or (empty) nothing.",
        "log.cleanup.policy",
        choices=("delete", "compact"),
    ),
    _config(
        "compression.type",
        SettingKind.STRING,
        "The codec records are stored with; `producer` keeps each producer's own.",
        "compression.type",
        choices=CODECS,
    ),
    _config(
        "compression.gzip.level",
        SettingKind.INT,
        "The gzip level: 1 to 9, or -1.",
        "compression.gzip.level",
        at_least=-1,
        at_most=9,
    ),
    _config(
        "compression.lz4.level", SettingKind.INT, "The lz4 level.", "compression.lz4.level", at_least=1, at_most=17
    ),
    _config(
        "compression.zstd.level",
        SettingKind.INT,
        "The zstd level.",
        "compression.zstd.level",
        at_least=-131072,
        at_most=22,
    ),
    _config(
        "segment.bytes",
        SettingKind.INT,
        "The size at which a segment is closed.",
        "log.segment.bytes",
        at_least=1_048_576,
    ),
    _config(
        "segment.ms",
        SettingKind.LONG,
        "The record time after which a segment is closed though not full.",
        "log.roll.ms",
        ("log.roll.hours", _HOUR_MS),
        at_least=1,
    ),
    _config(
        "segment.jitter.ms",
        SettingKind.LONG,
        "At most this much is taken off segment.ms, so that segments do not all close at once.",
        "log.roll.jitter.ms",
        ("log.roll.jitter.hours", _HOUR_MS),
        at_least=0,
    ),
    _config(
        "segment.index.bytes", SettingKind.INT, "The largest size of an index.", "log.index.size.max.bytes", at_least=4
    ),
    _config(
        "index.interval.bytes",
        SettingKind.INT,
        "One index entry for at least this many bytes of records.",
        "log.index.interval.bytes",
        at_least=0,
    ),
    _config(
        "retention.ms",
        SettingKind.LONG,
        "How long records are kept; -1 is for ever.",
        "log.retention.ms",
        ("log.retention.minutes", _MINUTE_MS),
        ("log.retention.hours", _HOUR_MS),
        at_least=-1,
    ),
    _config(
        "retention.bytes",
        SettingKind.LONG,
        "How large a partition may grow; below 0 there is no limit.",
        "log.retention.bytes",
    ),
    _config(
        "delete.retention.ms",
        SettingKind.LONG,
        "How long tombstones and transaction markers outlive compaction.",
        "log.cleaner.delete.retention.ms",
        at_least=0,
    ),
    _config(
        "file.delete.delay.ms",
        SettingKind.LONG,
        "The time between the end of a segment and the removal of its file.",
        "log.segment.delete.delay.ms",
        at_least=0,
    ),
    _config(
        "max.message.bytes", SettingKind.INT, "The largest record batch accepted.", "message.max.bytes", at_least=0
    ),
    _config(
        "message.timestamp.type",
        SettingKind.STRING,
        "Whose clock stamps the records.",
        "log.message.timestamp.type",
        choices=("CreateTime", "LogAppendTime"),
    ),
    _config(
        "message.timestamp.before.max.ms",
        SettingKind.LONG,
        "How far a record's timestamp may lie in the past.",
        "log.message.timestamp.before.max.ms",
        at_least=0,
    ),
    _config(
        "message.timestamp.after.max.ms",
        SettingKind.LONG,
        "How far a record's timestamp may lie in the future.",
        "log.message.timestamp.after.max.ms",
        at_least=0,
    ),
    _config(
        "min.cleanable.dirty.ratio",
        SettingKind.DOUBLE,
        "The share of uncompacted bytes that makes a log worth compacting.",
        "log.cleaner.min.cleanable.ratio",
        at_least=0,
        at_most=1,
    ),
    _config(
        "min.compaction.lag.ms",
        SettingKind.LONG,
        "How long a record stays uncompacted at least.",
        "log.cleaner.min.compaction.lag.ms",
        at_least=0,
    ),
    _config(
        "max.compaction.lag.ms",
        SettingKind.LONG,
        "How long a record stays uncompacted at most.",
        "log.cleaner.max.compaction.lag.ms",
        at_least=1,
    ),
    _config(
        "flush.messages",
        SettingKind.LONG,
        "Sync after this many records (at durability os).",
        "log.flush.interval.messages",
        at_least=1,
    ),
    _config(
        "flush.ms",
        SettingKind.LONG,
        "Sync after this long (at durability os).",
        "log.flush.interval.ms",
        "log.flush.scheduler.interval.ms",
        at_least=0,
    ),
    _config(
        "preallocate",
        SettingKind.BOOLEAN,
        "Accepted without effect: segments grow as they are written.",
        "log.preallocate",
    ),
    _config(
        "min.insync.replicas",
        SettingKind.INT,
        "Replicas that acks=all waits for at least.",
        "min.insync.replicas",
        at_least=1,
    ),
    _config(
        "unclean.leader.election.enable",
        SettingKind.BOOLEAN,
        "Whether a replica that fell behind may lead.",
        "unclean.leader.election.enable",
    ),
    _config(
        "errors.deadletterqueue.group.enable",
        SettingKind.BOOLEAN,
        "Whether share groups may write their dead letters here (KIP-1191).",
    ),
    _config("remote.storage.enable", SettingKind.BOOLEAN, "Tiered storage, which Eosin does not have: false."),
    _config("remote.log.copy.disable", SettingKind.BOOLEAN, "Tiered storage, which Eosin does not have: false."),
    _config("remote.log.delete.on.disable", SettingKind.BOOLEAN, "Tiered storage, which Eosin does not have: false."),
    _config(
        "local.retention.ms", SettingKind.LONG, "Tiered storage, which Eosin does not have: no effect.", at_least=-2
    ),
    _config(
        "local.retention.bytes", SettingKind.LONG, "Tiered storage, which Eosin does not have: no effect.", at_least=-2
    ),
    _config(
        "leader.replication.throttled.replicas",
        SettingKind.LIST,
        "Replicas (partition:broker, or *) that a leader sends at leader.replication.throttled.rate until in sync.",
    ),
    _config(
        "follower.replication.throttled.replicas",
        SettingKind.LIST,
        "Replicas (partition:broker, or *) that a broker copies at follower.replication.throttled.rate until in sync.",
    ),
)

TOPIC_CONFIGS: Final[Mapping[str, Setting]] = {config.name: config for config in _ALL}
"""Every topic config, by name, in the order of DescribeConfigs."""

_INTERNAL: Final = {
    INTERNAL_SEGMENT_BYTES: _config(
        INTERNAL_SEGMENT_BYTES,
        SettingKind.INT,
        "segment.bytes without its lower limit; for tests.",
        at_least=1,
        at_most=INT_MAX,
    )
}
_DEFAULT_ONLY: Final = (
    "remote.storage.enable",
    "remote.log.copy.disable",
    "remote.log.delete.on.disable",
)
_THROTTLED: Final = ("leader.replication.throttled.replicas", "follower.replication.throttled.replicas")
_REPLICA: Final = re.compile("[0-9]+:[0-9]+")


def parse_topic_config(name: str, text: str) -> Any:
    """The typed value of a topic config. Raises `SettingError` for an unknown name or a bad value."""
    config = TOPIC_CONFIGS.get(name) or _INTERNAL.get(name)
    if config is None:
        raise SettingError(f"Unknown topic config name: {name}")
    value = config.parse(text)
    if name in _DEFAULT_ONLY and value != config.default:
        raise SettingError(f"{name} cannot be changed: Eosin has no tiered storage")
    if name == "compression.gzip.level" and value == 0:
        raise SettingError(f"{name} must be an integer from 1 to 9, or -1, not '0'")
    if name in _THROTTLED and value != ("*",) and not all(map(_REPLICA.fullmatch, value)):
        raise SettingError(f"{name} must be * or a list of partition:broker, not '{text}'")
    return frozenset(value) if name == "cleanup.policy" else value


def with_overrides(defaults: LogConfig, overrides: Mapping[str, str]) -> LogConfig:
    """`defaults` with a topic's own configs. Raises `SettingError` for a bad one, or two that contradict each other."""
    return _overridden(defaults, tuple(overrides.items())) if overrides else defaults


@lru_cache(maxsize=256)  # most topics of a broker have the same few configs
def _overridden(defaults: LogConfig, overrides: tuple[tuple[str, str], ...]) -> LogConfig:
    values = {name.replace(".", "_"): parse_topic_config(name, text) for name, text in overrides}
    config = dataclasses.replace(defaults, **values)
    if config.min_compaction_lag_ms > config.max_compaction_lag_ms:
        raise SettingError(
            f"min.compaction.lag.ms ({config.min_compaction_lag_ms}) must not be above"
            f" max.compaction.lag.ms ({config.max_compaction_lag_ms})"
        )
    return config


def defaults_from(broker_values: Mapping[str, Any]) -> LogConfig:
    """The defaults of every topic, from the broker's settings (key to typed value; None counts as not set)."""
    values: dict[str, Any] = {}
    for config in _ALL:
        for synonym in config.synonyms:
            value: Any = broker_values.get(synonym.name)
            if value is None:
                continue
            if isinstance(value, int) and synonym.factor != 1 and value >= 0:
                value = min(value * synonym.factor, LONG_MAX)
            if config.name == "cleanup.policy":
                value = frozenset(value)
            values[config.field_name] = value
            break
    return LogConfig(**values)
