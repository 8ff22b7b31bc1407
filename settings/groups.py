"""The settings of single groups (config resource GROUP): their names, types and ranges (consumer-groups.md 13).

Always true: a value that was accepted lies within the range that the broker's own settings allow for it; one whose
range was narrowed since counts as the nearest end of it. Settings of share and streams groups are kept, with Kafka's
default ranges, and have no effect.
"""

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Final

from eosin.coordinator.groups.rules.config import ConsumerGroupConfig
from eosin.settings.broker import BrokerConfig
from eosin.settings.settings import Setting, SettingError, SettingKind, Synonym

_INT: Final = SettingKind.INT
SESSION_TIMEOUT: Final = "consumer.session.timeout.ms"
HEARTBEAT_INTERVAL: Final = "consumer.heartbeat.interval.ms"
ASSIGNMENT_INTERVAL: Final = "consumer.assignment.interval.ms"
_FIELDS: Final[Mapping[str, str]] = MappingProxyType(
    {
        SESSION_TIMEOUT: "session_timeout_ms",
        HEARTBEAT_INTERVAL: "heartbeat_interval_ms",
        ASSIGNMENT_INTERVAL: "assignment_interval_ms",
    }
)
"""The settings of consumer groups, each with its field of `ConsumerGroupConfig`."""
AUTO_OFFSET_RESET: Final = "share.auto.offset.reset"
_RESETS: Final = ("latest", "earliest")
_BY_DURATION: Final = "by_duration:P"


def _consumer(name: str, default: int, doc: str) -> Setting:
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
        doc="A setting of share or streams groups, which has no effect here.",
        at_least=at_least,
        at_most=at_most,
        choices=choices,
    )


_ALL: Final = (
    _consumer(SESSION_TIMEOUT, 45_000, "A member that sends nothing for so long is out."),
    _consumer(HEARTBEAT_INTERVAL, 5000, "How often members send a heartbeat."),
    _consumer(ASSIGNMENT_INTERVAL, 1000, "The group gets another target after so long at the earliest."),
    _kept("share.session.timeout.ms", _INT, 45_000, at_least=45_000, at_most=60_000),
    _kept("share.heartbeat.interval.ms", _INT, 5000, at_least=5000, at_most=15_000),
    _kept("share.assignment.interval.ms", _INT, 1000, at_least=0, at_most=15_000),
    _kept("share.record.lock.duration.ms", _INT, 30_000, at_least=15_000, at_most=60_000),
    _kept("share.delivery.count.limit", _INT, 5, at_least=2, at_most=10),
    _kept("share.partition.max.record.locks", _INT, 2000, at_least=100, at_most=4000),
    _kept(AUTO_OFFSET_RESET, SettingKind.STRING, "latest"),
    _kept(
        "share.isolation.level",
        SettingKind.STRING,
        "read_uncommitted",
        choices=("read_uncommitted", "read_committed"),
    ),
    _kept("share.renew.acknowledge.enable", SettingKind.BOOLEAN, True),
    _kept("errors.deadletterqueue.topic.name", SettingKind.STRING, ""),
    _kept("errors.deadletterqueue.copy.record.enable", SettingKind.BOOLEAN, False),
    _kept("streams.session.timeout.ms", _INT, 45_000, at_least=45_000, at_most=60_000),
    _kept("streams.heartbeat.interval.ms", _INT, 5000, at_least=5000, at_most=15_000),
    _kept("streams.assignment.interval.ms", _INT, 1000, at_least=0, at_most=15_000),
    _kept("streams.num.standby.replicas", _INT, 0, at_least=0, at_most=2),
    _kept("streams.initial.rebalance.delay.ms", _INT, 3000, at_least=0),
    _kept("streams.assignor.name", SettingKind.STRING, "sticky"),
    _kept("streams.rack.aware.assignment.tags", SettingKind.LIST, ()),
)
GROUP_CONFIGS: Final[Mapping[str, Setting]] = MappingProxyType({each.name: each for each in _ALL})
"""Every setting of a group that Kafka 4.4 describes, by name."""
KEPT: Final = frozenset(GROUP_CONFIGS) - frozenset(_FIELDS)
"""The settings without effect."""


def range_of(name: str, config: BrokerConfig) -> tuple[int, int]:
    """The lowest and the highest value that the broker's settings allow for a setting of consumer groups."""
    match name:
        case "consumer.session.timeout.ms":
            return config.group_consumer_min_session_timeout_ms, config.group_consumer_max_session_timeout_ms
        case "consumer.heartbeat.interval.ms":
            return config.group_consumer_min_heartbeat_interval_ms, config.group_consumer_max_heartbeat_interval_ms
        case _:
            assert name == ASSIGNMENT_INTERVAL, name
            return config.group_consumer_min_assignment_interval_ms, config.group_consumer_max_assignment_interval_ms


def check_ranges(config: BrokerConfig) -> None:
    """Raises `SettingError` if no value at all lies within the range for a setting of consumer groups."""
    for name in _FIELDS:
        lowest, highest = range_of(name, config)
        if lowest > highest:
            rest = name.removeprefix("consumer.")
            raise SettingError(
                f"group.consumer.min.{rest} ({lowest}) must not be above group.consumer.max.{rest} ({highest})"
            )


def check_group_config(name: str, text: str, config: BrokerConfig) -> None:
    """Raises `SettingError` if a group cannot have this setting, or not with this value."""
    setting = GROUP_CONFIGS.get(name)
    if setting is None:
        raise SettingError(f"Unknown group setting: {name}")
    if name in _FIELDS:
        lowest, highest = range_of(name, config)
        setting = replace(setting, at_least=lowest, at_most=highest)
    value = setting.parse(text)
    if name == AUTO_OFFSET_RESET and value not in _RESETS and not value.startswith(_BY_DURATION):
        raise SettingError(f"{name} must be {', '.join(_RESETS)} or by_duration: with a duration, not {text!r}")


def check_together(of_group: ConsumerGroupConfig) -> None:
    """Raises `SettingError` if members could not keep their places: heartbeats must come within the session."""
    if of_group.session_timeout_ms <= of_group.heartbeat_interval_ms:
        raise SettingError(
            f"{SESSION_TIMEOUT}, {of_group.session_timeout_ms}, must be greater than {HEARTBEAT_INTERVAL},"
            f" {of_group.heartbeat_interval_ms}"
        )


def consumer_config(
    own: Mapping[str, str], of_all: ConsumerGroupConfig, config: BrokerConfig
) -> tuple[ConsumerGroupConfig, list[str]]:
    """The settings of a group with these of its `own`, which were accepted once, over those of all groups; with one
    sentence about each that counts otherwise now."""
    values: dict[str, Any] = {}
    complaints = []
    for name, field in _FIELDS.items():
        if name not in own:
            continue
        try:
            value: int = GROUP_CONFIGS[name].parse(own[name])
        except SettingError as error:
            complaints.append(f"{error}; it is ignored")
            continue
        lowest, highest = range_of(name, config)
        values[field] = min(max(value, lowest), highest)
        if values[field] != value:
            complaints.append(f"{name} is {value}, and counts as {values[field]}: {lowest} to {highest} are allowed")
    return replace(of_all, **values), complaints
