"""The settings of single groups (config resource GROUP): their names, types and ranges (consumer-groups.md 13).

Always true: a value that was accepted lies within the range that the broker's own settings allow for it; one whose
range was narrowed since counts as the nearest end of it. A setting that chooses an assignor of streams groups is kept
and has no effect.
"""

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Final, TypeVar

from eosin.coordinator.groups.rules.config import (
    LATEST,
    READ_UNCOMMITTED,
    ConsumerGroupConfig,
    ShareGroupConfig,
    StreamsGroupConfig,
)
from eosin.runtime.durations import duration_ms
from eosin.settings.broker import BrokerConfig
from eosin.settings.settings import Setting, SettingError, SettingKind, Synonym

_INT: Final = SettingKind.INT
SESSION_TIMEOUT: Final = "consumer.session.timeout.ms"
HEARTBEAT_INTERVAL: Final = "consumer.heartbeat.interval.ms"
ASSIGNMENT_INTERVAL: Final = "consumer.assignment.interval.ms"
SHARE_SESSION_TIMEOUT: Final = "share.session.timeout.ms"
SHARE_HEARTBEAT_INTERVAL: Final = "share.heartbeat.interval.ms"
STREAMS_SESSION_TIMEOUT: Final = "streams.session.timeout.ms"
STREAMS_HEARTBEAT_INTERVAL: Final = "streams.heartbeat.interval.ms"
INITIAL_REBALANCE_DELAY: Final = "streams.initial.rebalance.delay.ms"
RACK_AWARE_TAGS: Final = "streams.rack.aware.assignment.tags"
AUTO_OFFSET_RESET: Final = "share.auto.offset.reset"
INTERNAL_PREFIX: Final = "__"
"""Dead letters go to no topic whose name begins so."""
_RESETS: Final = (LATEST, "earliest")
_BY_DURATION: Final = "by_duration:"
_NONE: Final = ""
"""In place of a setting with the lowest value: it is 0."""
RANGES: Final[Mapping[str, tuple[str, str]]] = MappingProxyType(
    {
        "consumer.session.timeout.ms": (
            "group.consumer.min.session.timeout.ms",
            "group.consumer.max.session.timeout.ms",
        ),
        "consumer.heartbeat.interval.ms": (
            "group.consumer.min.heartbeat.interval.ms",
            "group.consumer.max.heartbeat.interval.ms",
        ),
        "consumer.assignment.interval.ms": (
            "group.consumer.min.assignment.interval.ms",
            "group.consumer.max.assignment.interval.ms",
        ),
        "share.session.timeout.ms": ("group.share.min.session.timeout.ms", "group.share.max.session.timeout.ms"),
        "share.heartbeat.interval.ms": (
            "group.share.min.heartbeat.interval.ms",
            "group.share.max.heartbeat.interval.ms",
        ),
        "share.assignment.interval.ms": (
            "group.share.min.assignment.interval.ms",
            "group.share.max.assignment.interval.ms",
        ),
        "share.record.lock.duration.ms": (
            "group.share.min.record.lock.duration.ms",
            "group.share.max.record.lock.duration.ms",
        ),
        "share.delivery.count.limit": ("group.share.min.delivery.count.limit", "group.share.max.delivery.count.limit"),
        "share.partition.max.record.locks": (
            "group.share.min.partition.max.record.locks",
            "group.share.max.partition.max.record.locks",
        ),
        "streams.session.timeout.ms": ("group.streams.min.session.timeout.ms", "group.streams.max.session.timeout.ms"),
        "streams.heartbeat.interval.ms": (
            "group.streams.min.heartbeat.interval.ms",
            "group.streams.max.heartbeat.interval.ms",
        ),
        "streams.assignment.interval.ms": (
            "group.streams.min.assignment.interval.ms",
            "group.streams.max.assignment.interval.ms",
        ),
        "streams.num.standby.replicas": (_NONE, "group.streams.max.standby.replicas"),
    }
)
"""The settings of groups whose range is that of two settings of the broker."""
ASSIGNMENT_INTERVALS: Final = tuple(f"group.{kind}.assignment.interval.ms" for kind in ("consumer", "share", "streams"))
"""Settings of the broker for groups without one of their own, which change without a restart, as in Kafka 4.4."""
_OF_CONSUMER: Final = tuple(name for name in RANGES if name.startswith("consumer."))
_OF_SHARE: Final = tuple(name for name in RANGES if name.startswith("share."))
DEAD_LETTER_TOPIC: Final = "errors.deadletterqueue.topic.name"
DEAD_LETTER_PREFIX: Final = "errors.deadletterqueue.topic.name.prefix"
DEAD_LETTER_CREATION: Final = "errors.deadletterqueue.auto.create.topics.enable"
"""Settings of the broker about these topics, which change without a restart, as in Kafka 4.4."""
_OF_SHARE_ALONE: Final = (
    AUTO_OFFSET_RESET,
    "share.isolation.level",
    "share.renew.acknowledge.enable",
    DEAD_LETTER_TOPIC,
    "errors.deadletterqueue.copy.record.enable",
)
"""Settings of share groups that the broker has none for."""
_OF_STREAMS: Final = (
    *(name for name in RANGES if name.startswith("streams.")),
    *(INITIAL_REBALANCE_DELAY, RACK_AWARE_TAGS),
)
SESSIONS: Final = (
    (SESSION_TIMEOUT, HEARTBEAT_INTERVAL),
    (SHARE_SESSION_TIMEOUT, SHARE_HEARTBEAT_INTERVAL),
    (STREAMS_SESSION_TIMEOUT, STREAMS_HEARTBEAT_INTERVAL),
)
"""Of each kind, the settings that must fit together."""


def _field(name: str) -> str:
    """The field of the config of its kind of groups that a setting fills."""
    return name.partition(".")[2].replace(".", "_")


def _ranged(name: str, default: int, doc: str) -> Setting:
    return Setting(name=name, kind=_INT, default=default, doc=doc, synonyms=(Synonym(name=f"group.{name}"),))


def _kept(
    name: str,
    kind: SettingKind,
    default: int | str | bool | tuple[str, ...],
    *,
    at_least: int | None = None,
    at_most: int | None = None,
    choices: tuple[str, ...] = (),
) -> Setting:
    return Setting(
        name=name,
        kind=kind,
        default=default,
        doc="A setting of assignors of streams groups, which has no effect here.",
        at_least=at_least,
        at_most=at_most,
        choices=choices,
    )


_ALL: Final = (
    _ranged(SESSION_TIMEOUT, 45_000, "A member that sends nothing for so long is out."),
    _ranged(HEARTBEAT_INTERVAL, 5000, "How often members send a heartbeat."),
    _ranged(ASSIGNMENT_INTERVAL, 1000, "The group gets another target after so long at the earliest."),
    _ranged(SHARE_SESSION_TIMEOUT, 45_000, "A member that sends nothing for so long is out."),
    _ranged(SHARE_HEARTBEAT_INTERVAL, 5000, "How often members send a heartbeat."),
    _ranged("share.assignment.interval.ms", 1000, "The group gets another target after so long at the earliest."),
    _ranged("share.record.lock.duration.ms", 30_000, "A record that is not acknowledged is given away after so long."),
    _ranged("share.delivery.count.limit", 5, "A record is given to members so many times at most."),
    _ranged("share.partition.max.record.locks", 2000, "Records of one partition that are on their way at most."),
    Setting(
        name=AUTO_OFFSET_RESET,
        kind=SettingKind.STRING,
        default=LATEST,
        doc="Where a group begins to read a partition: latest, earliest, or by_duration: and an ISO 8601 duration.",
    ),
    Setting(
        name="share.isolation.level",
        kind=SettingKind.STRING,
        default=READ_UNCOMMITTED,
        doc="Whether members get records of open and aborted transactions.",
        choices=(READ_UNCOMMITTED, "read_committed"),
    ),
    Setting(
        name="share.renew.acknowledge.enable",
        kind=SettingKind.BOOLEAN,
        default=True,
        doc="Whether members may renew the locks of their records (KIP-1222).",
    ),
    Setting(
        name=DEAD_LETTER_TOPIC,
        kind=SettingKind.STRING,
        default="",
        doc="The topic of the share group's dead letters (KIP-1191); empty: it has none.",
    ),
    Setting(
        name="errors.deadletterqueue.copy.record.enable",
        kind=SettingKind.BOOLEAN,
        default=False,
        doc="Whether dead letters have the record itself, or only say which it was.",
    ),
    _ranged(STREAMS_SESSION_TIMEOUT, 45_000, "A member that sends nothing for so long is out."),
    _ranged(STREAMS_HEARTBEAT_INTERVAL, 5000, "How often members send a heartbeat."),
    _ranged("streams.assignment.interval.ms", 1000, "The group gets another target after so long at the earliest."),
    _ranged("streams.num.standby.replicas", 0, "Copies that members keep of each task's state."),
    Setting(
        name=INITIAL_REBALANCE_DELAY,
        kind=_INT,
        default=3000,
        doc="The first members wait so long for others before tasks are dealt out.",
        synonyms=(Synonym(name=f"group.{INITIAL_REBALANCE_DELAY}"),),
        at_least=0,
    ),
    _kept("streams.assignor.name", SettingKind.STRING, "sticky"),
    Setting(
        name=RACK_AWARE_TAGS,
        kind=SettingKind.LIST,
        default=(),
        doc="Client tags that each member is to have; one that lacks some is told so, and no assignor looks at them.",
        synonyms=(Synonym(name=f"group.{RACK_AWARE_TAGS}"),),
    ),
)
GROUP_CONFIGS: Final[Mapping[str, Setting]] = MappingProxyType({each.name: each for each in _ALL})
"""Every setting of a group that Kafka 4.4 describes, by name."""
KEPT: Final = frozenset(GROUP_CONFIGS) - frozenset(RANGES) - frozenset((*_OF_SHARE_ALONE, *_OF_STREAMS))
"""The settings without effect."""


def range_of(name: str, config: BrokerConfig) -> tuple[int, int]:
    """The lowest and the highest value that the broker's settings allow for a setting of a group."""
    lowest, highest = RANGES[name]
    return 0 if lowest == _NONE else config.value(lowest), config.value(highest)


def check_ranges(config: BrokerConfig) -> None:
    """Raises `SettingError` if no value at all lies within the range for a setting of groups."""
    for name, (from_, to) in RANGES.items():
        lowest, highest = range_of(name, config)
        if lowest > highest:
            raise SettingError(f"{from_} ({lowest}) must not be above {to} ({highest})")


def check_group_config(name: str, text: str, config: BrokerConfig) -> None:
    """Raises `SettingError` if a group cannot have this setting, or not with this value."""
    setting = GROUP_CONFIGS.get(name)
    if setting is None:
        raise SettingError(f"Unknown group setting: {name}")
    if name in RANGES:
        lowest, highest = range_of(name, config)
        setting = replace(setting, at_least=lowest, at_most=highest)
    value = setting.parse(text)
    if name == AUTO_OFFSET_RESET and value not in _RESETS and not _is_by_duration(value):
        raise SettingError(f"{name} must be {', '.join(_RESETS)} or by_duration: with a duration, not {text!r}")
    if name == RACK_AWARE_TAGS and len(set(value)) < len(value):
        raise SettingError(f"{name} must not name a tag twice: {text!r}")
    if name == DEAD_LETTER_TOPIC and value.startswith(INTERNAL_PREFIX):
        raise SettingError(f"{name} must not start with {INTERNAL_PREFIX}")


def _is_by_duration(text: str) -> bool:
    return text.startswith(_BY_DURATION) and duration_ms(text.removeprefix(_BY_DURATION)) is not None


def check_together(
    of_group: ConsumerGroupConfig | ShareGroupConfig | StreamsGroupConfig, session: str, heartbeat: str
) -> None:
    """Raises `SettingError` if members could not keep their places: heartbeats must come within the session. The names
    are those of the two settings."""
    if of_group.session_timeout_ms <= of_group.heartbeat_interval_ms:
        raise SettingError(
            f"{session}, {of_group.session_timeout_ms}, must be greater than {heartbeat},"
            f" {of_group.heartbeat_interval_ms}"
        )


def consumer_config(
    own: Mapping[str, str], of_all: ConsumerGroupConfig, config: BrokerConfig
) -> tuple[ConsumerGroupConfig, list[str]]:
    """The settings of a consumer group with these of its `own`, which were accepted once, over those of all groups;
    with one sentence about each that counts otherwise now."""
    return _over(own, of_all, _OF_CONSUMER, config)


def share_config(
    own: Mapping[str, str], of_all: ShareGroupConfig, config: BrokerConfig
) -> tuple[ShareGroupConfig, list[str]]:
    """The same of a share group."""
    return _over(own, of_all, (*_OF_SHARE, *_OF_SHARE_ALONE), config)


def streams_config(
    own: Mapping[str, str], of_all: StreamsGroupConfig, config: BrokerConfig
) -> tuple[StreamsGroupConfig, list[str]]:
    """The same of a streams group."""
    return _over(own, of_all, _OF_STREAMS, config)


_Config = TypeVar("_Config", ConsumerGroupConfig, ShareGroupConfig, StreamsGroupConfig)


def _over(
    own: Mapping[str, str], of_all: _Config, names: tuple[str, ...], config: BrokerConfig
) -> tuple[_Config, list[str]]:
    values: dict[str, Any] = {}
    complaints = []
    for name in names:
        if name not in own:
            continue
        try:
            value: Any = GROUP_CONFIGS[name].parse(own[name])
        except SettingError as error:
            complaints.append(f"{error}; it is ignored")
            continue
        if name in RANGES:
            given, (lowest, highest) = value, range_of(name, config)
            value = min(max(value, lowest), highest)
            if given != value:
                complaints.append(f"{name} is {given}, and counts as {value}: {lowest} to {highest} are allowed")
        values[_field(name)] = value
    return replace(of_all, **values), complaints
