"""Changes of settings at run time, incremental and whole, checked before they are applied. Pure.

Topics change any of their configs. Of the broker's settings, those change that are defaults of topic configs, those
about dead letters, and the time between two targets of groups; every other one is read once, at start. Those that
Apache Kafka changes and Eosin does not have are kept without effect.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from eosin.coordinator.groups.rules.config import ConsumerGroupConfig, ShareGroupConfig, StreamsGroupConfig
from eosin.model.cluster import NO_CONFIGS, ConfigChange, ConfigOperation, Outcome
from eosin.protocol.errors import ErrorCode
from eosin.settings.broker import BROKER_SETTINGS, BrokerConfig
from eosin.settings.coordinators import consumer_group_config, share_group_config, streams_group_config
from eosin.settings.groups import (
    ASSIGNMENT_INTERVALS,
    DEAD_LETTER_CREATION,
    DEAD_LETTER_PREFIX,
    SESSIONS,
    check_group_config,
    check_together,
    consumer_config,
    share_config,
    streams_config,
)
from eosin.settings.kafka_keys import DYNAMIC_UNUSED
from eosin.settings.security import LISTENER_PREFIX
from eosin.settings.settings import SettingError, SettingKind
from eosin.settings.topics import TOPIC_CONFIGS, defaults_from, with_overrides
from eosin.storage.log.config import LogConfig

DYNAMIC_BROKER_SETTINGS: Final = frozenset(
    synonym.name for config in TOPIC_CONFIGS.values() for synonym in config.synonyms if synonym.name in BROKER_SETTINGS
) | {DEAD_LETTER_PREFIX, DEAD_LETTER_CREATION, *ASSIGNMENT_INTERVALS}
"""The broker settings that change without a restart."""

Configs = dict[str, str]
"""Settings by name, as text."""
MOST_CHANGES: Final = 1000
"""Of one resource in one request: there are not so many settings."""


def problem_of(changes: Sequence[ConfigChange]) -> Outcome | None:
    """Refuse changes of one resource that make no sense, whatever its settings are: too many, two of one setting, or
    one without a value. The messages are Apache Kafka's, which the tests of its clients compare."""
    if len(changes) > MOST_CHANGES:
        return Outcome(ErrorCode.INVALID_REQUEST, f"A request changes at most {MOST_CHANGES} settings of a resource")
    if len({change.name for change in changes}) != len(changes):
        return Outcome(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")
    empty = [each.name for each in changes if each.value is None and each.operation != ConfigOperation.DELETE]
    if empty:
        return Outcome(ErrorCode.INVALID_REQUEST, f"Null value not supported for : {','.join(empty)}")
    return None


def changed_configs(
    current: Mapping[str, str],
    changes: Sequence[ConfigChange],
    *,
    replace: bool,
    is_list: Callable[[str], bool],
    effective: Callable[[str], str | None],
) -> Configs | Outcome:
    """`current` after `changes`, in order of name, or why they make no sense. Values are not looked at.

    `effective` is the text that holds for a name which `current` does not have: the base of APPEND and SUBTRACT
    (KIP-339).
    """
    if (problem := problem_of(changes)) is not None:
        return problem
    after: Configs = {} if replace else dict(current)
    for change in changes:
        if change.operation not in ConfigOperation.__members__.values():
            return Outcome(ErrorCode.INVALID_REQUEST, f"Unknown config operation {change.operation} for {change.name}")
        if change.operation == ConfigOperation.DELETE:
            after.pop(change.name, None)
            continue
        assert change.value is not None  # else there is a problem
        if change.operation == ConfigOperation.SET:
            after[change.name] = change.value
            continue
        if not is_list(change.name):
            return Outcome(
                ErrorCode.INVALID_CONFIG, f"{change.name} is not a list: nothing can be appended or subtracted"
            )
        base = after.get(change.name, effective(change.name))
        after[change.name] = _edited_list(base, change.value, change.operation)
    return dict(sorted(after.items()))


def _edited_list(base: str | None, value: str, operation: int) -> str:
    items, edits = _items(base or ""), _items(value)
    if operation == ConfigOperation.APPEND:
        there = frozenset(items)
        return ",".join([*items, *(item for item in dict.fromkeys(edits) if item not in there)])
    gone = frozenset(edits)
    return ",".join(item for item in items if item not in gone)


def _items(text: str) -> list[str]:
    return [item for item in (part.strip() for part in text.split(",")) if item]


def is_list_config(name: str) -> bool:
    """True if the topic config `name` is a list."""
    return name in TOPIC_CONFIGS and TOPIC_CONFIGS[name].kind is SettingKind.LIST


def is_list_setting(name: str) -> bool:
    """True if the broker setting `name` is a list."""
    return name in BROKER_SETTINGS and BROKER_SETTINGS[name].kind is SettingKind.LIST


def check_topic_configs(
    configs: Mapping[str, str], *, defaults: LogConfig, fixed: Mapping[str, str] = NO_CONFIGS
) -> Outcome | None:
    """Returns why a topic may not have these configs (INVALID_CONFIG), or None if it may. `fixed` are those that an
    internal topic must have."""
    try:
        log_config = with_overrides(defaults, configs)
    except SettingError as error:
        return Outcome(ErrorCode.INVALID_CONFIG, str(error))
    if changed := changed_config(log_config, fixed):
        # Retention by age would delete transactions and offsets that are still in use.
        return Outcome(ErrorCode.INVALID_CONFIG, f"The {changed} of an internal topic must be {fixed[changed]}")
    return None


def changed_config(config: LogConfig, fixed: Mapping[str, str]) -> str | None:
    """The first of these configs that has another value; None if all are as they must be."""
    return next((name for name, value in fixed.items() if with_overrides(config, {name: value}) != config), None)


def check_broker_configs(configs: Mapping[str, str]) -> Outcome | None:
    """Returns why these broker settings cannot change at run time, or not to these values (INVALID_REQUEST, as in
    Kafka), or None if they can."""
    for name, text in configs.items():
        if name in DYNAMIC_UNUSED and name not in BROKER_SETTINGS:
            continue  # kept and told, as a properties file may hold them, so that tools which set them work
        # A key that names a listener is not looked up there: none of them changes at run time.
        if name not in BROKER_SETTINGS and not name.startswith(LISTENER_PREFIX):
            return Outcome(ErrorCode.INVALID_REQUEST, f"Unknown broker setting: {name}")
        if name not in DYNAMIC_BROKER_SETTINGS:
            return Outcome(ErrorCode.INVALID_REQUEST, f"{name} is read at start only: change it there and restart")
        try:
            BROKER_SETTINGS[name].parse(text)
        except SettingError as error:
            return Outcome(ErrorCode.INVALID_REQUEST, str(error))
    return None


def check_group_configs(configs: Mapping[str, str], before: Mapping[str, str], config: BrokerConfig) -> Outcome | None:
    """Returns why a group with the settings `before` may not have these instead (INVALID_CONFIG), or None if it may.
    What stays as it is may be out of a range that was narrowed since."""
    try:
        for name, text in configs.items():
            if before.get(name) != text:
                check_group_config(name, text, config)
        of_kinds: tuple[ConsumerGroupConfig | ShareGroupConfig | StreamsGroupConfig, ...] = (
            consumer_config(configs, consumer_group_config(config), config)[0],
            share_config(configs, share_group_config(config), config)[0],
            streams_config(configs, streams_group_config(config), config)[0],
        )
        for of_group, names in zip(of_kinds, SESSIONS, strict=True):
            if any(before.get(name) != configs.get(name) for name in names):
                check_together(of_group, *names)
    except SettingError as error:
        return Outcome(ErrorCode.INVALID_CONFIG, str(error))
    return None


def topic_defaults(config: BrokerConfig, *layers: Mapping[str, str]) -> LogConfig:
    """The config of a topic without configs of its own: the broker's settings at start under `layers` of changed ones,
    of which the last wins. The layers must have passed `check_broker_configs`."""
    if not any(layers):
        return config.topic_defaults
    values: dict[str, Any] = {name: config.value(name) for name in BROKER_SETTINGS}
    for layer in layers:
        values |= {name: BROKER_SETTINGS[name].parse(text) for name, text in layer.items() if name in BROKER_SETTINGS}
    return defaults_from(values)


def usable_broker_configs(configs: Mapping[str, str]) -> tuple[Configs, list[str]]:
    """The part of `configs`, accepted once, that this version takes too, and one sentence about each of the others."""
    refused = {
        name: outcome for name in configs if (outcome := check_broker_configs({name: configs[name]})) is not None
    }
    complaints = [str(outcome.message) for outcome in refused.values()]
    return {name: text for name, text in configs.items() if name not in refused}, complaints


def tolerant_overrides(defaults: LogConfig, configs: Mapping[str, str]) -> tuple[LogConfig, list[str]]:
    """`with_overrides` for configs that were accepted once, perhaps by another version or under other defaults: what
    cannot be used now is left out, with one sentence each about it."""
    try:
        return with_overrides(defaults, configs), []
    except SettingError:
        usable: Configs = {}
        complaints = []
        for name, text in configs.items():
            try:
                with_overrides(defaults, usable | {name: text})
            except SettingError as error:
                complaints.append(str(error))
            else:
                usable[name] = text
        return with_overrides(defaults, usable), complaints
