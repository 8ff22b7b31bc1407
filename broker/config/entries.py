"""`ConfigEntry`: one setting as DescribeConfigs and CreateTopics tell it, with where its value comes from.

A value comes from the first of: the topic or group, this broker's changed settings, those of all brokers, what was
set at start, the default. Each place that has a value is a synonym of the entry, in that order (KIP-226).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from eosin.cluster.metadata.config_changes import DYNAMIC_BROKER_SETTINGS
from eosin.model.cluster import Topic
from eosin.settings.broker import BROKER_SETTINGS, BrokerConfig
from eosin.settings.groups import GROUP_CONFIGS
from eosin.settings.listeners import Listener, parse_listeners
from eosin.settings.settings import Setting, SettingKind, value_text
from eosin.settings.topics import TOPIC_CONFIGS

if TYPE_CHECKING:
    from eosin.model.cluster import Cluster


class ConfigSource(IntEnum):
    """The source of a value, by its number on the wire."""

    DYNAMIC_TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    DYNAMIC_BROKER_LOGGER = 6
    GROUP = 8


@dataclass(frozen=True, slots=True)
class ConfigSynonym:
    """A value that an entry has in one place, used or not."""

    name: str
    value: str | None
    source: ConfigSource


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    """One setting of a topic, a broker or a group."""

    name: str
    value: str | None
    source: ConfigSource
    read_only: bool
    kind: SettingKind
    documentation: str
    synonyms: tuple[ConfigSynonym, ...]

    @property
    def is_sensitive(self) -> bool:
        """True if its value is told to nobody (security.md 6.3.1)."""
        return self.kind is SettingKind.PASSWORD


_ADVERTISED: Final = "advertised.listeners"

_Layers = Sequence[tuple[ConfigSource, Mapping[str, str | None]]]


def topic_entries(topic: Topic, cluster: "Cluster", config: BrokerConfig) -> Iterator[ConfigEntry]:
    """Every config of `topic`, by name."""
    layers = _layers(cluster, config)
    log_config = cluster.log_config(topic.name)
    for name in sorted({*TOPIC_CONFIGS, *topic.configs}):
        setting = TOPIC_CONFIGS.get(name)
        if setting is None:  # an internal config, or one of another version
            value = topic.configs[name]
            own = ConfigSynonym(name, value, ConfigSource.DYNAMIC_TOPIC)
            yield ConfigEntry(name, value, ConfigSource.DYNAMIC_TOPIC, False, SettingKind.STRING, "", (own,))
        else:
            effective = value_text(getattr(log_config, setting.field_name))
            yield _topic_entry(setting, topic.configs.get(name), effective, layers)


def _topic_entry(setting: Setting, own: str | None, effective: str | None, layers: _Layers) -> ConfigEntry:
    names = [synonym.name for synonym in setting.synonyms]
    synonyms = _synonyms(names, layers) or [
        ConfigSynonym(setting.name, value_text(setting.default), ConfigSource.DEFAULT)
    ]
    if own is not None:
        synonyms.insert(0, ConfigSynonym(setting.name, own, ConfigSource.DYNAMIC_TOPIC))
        source = ConfigSource.DYNAMIC_TOPIC
    else:
        # Of several broker settings behind one config the first that is set wins, wherever it was set.
        winner = next((name for name in names if any(layer.get(name) is not None for _, layer in layers)), None)
        source = next((each.source for each in synonyms if each.name == winner), ConfigSource.DEFAULT)
    return ConfigEntry(
        name=setting.name,
        value=effective if own is None else own,
        source=source,
        read_only=False,
        kind=setting.kind,
        documentation=setting.doc,
        synonyms=tuple(synonyms),
    )


def group_entries(group_id: str, cluster: "Cluster", config: BrokerConfig) -> Iterator[ConfigEntry]:
    """Every setting of a group, which need not exist, by name."""
    own, layers = cluster.group_configs(group_id), _layers(cluster, config)
    for name in sorted({*GROUP_CONFIGS, *own}):
        setting = GROUP_CONFIGS.get(name)
        synonyms = [] if setting is None else _synonyms([each.name for each in setting.synonyms], layers)
        if setting is not None and not synonyms:
            synonyms.append(ConfigSynonym(name, value_text(setting.default), ConfigSource.DEFAULT))
        if name in own:
            synonyms.insert(0, ConfigSynonym(name, own[name], ConfigSource.GROUP))
        yield ConfigEntry(
            name=name,
            value=synonyms[0].value,
            source=synonyms[0].source,
            read_only=False,
            kind=SettingKind.STRING if setting is None else setting.kind,
            documentation="" if setting is None else setting.doc,
            synonyms=tuple(synonyms),
        )


def broker_entries(cluster: "Cluster", config: BrokerConfig) -> Iterator[ConfigEntry]:
    """Every setting of this broker, by name."""
    *changed, (_, defaults) = _layers(cluster, config)
    layers = (*changed, (ConfigSource.DEFAULT, {**defaults, _ADVERTISED: _advertised(cluster, config)}))
    kept = {name for _, layer in layers for name in layer}
    for name in sorted({*BROKER_SETTINGS, *kept}):
        yield _broker_entry(name, layers)


def _advertised(cluster: "Cluster", config: BrokerConfig) -> str:
    """The addresses that clients are told where none are set."""
    return ",".join(
        str(Listener(each.name, broker.host, broker.port))
        for each in parse_listeners(config.listeners, key="listeners")
        for broker in cluster.brokers(each.name)
        if broker.node_id == cluster.node_id
    )


def cluster_wide_entries(cluster: "Cluster") -> Iterator[ConfigEntry]:
    """The settings that were changed for all brokers, by name."""
    changed = cluster.broker_configs(None)
    for name in sorted(changed):
        yield _broker_entry(name, [(ConfigSource.DYNAMIC_DEFAULT_BROKER, changed)])


def _broker_entry(name: str, layers: _Layers) -> ConfigEntry:
    setting = BROKER_SETTINGS.get(name)
    synonyms = _synonyms([name], layers)
    used = synonyms[0] if synonyms else ConfigSynonym(name, None, ConfigSource.DEFAULT)
    if setting is not None and setting.kind is SettingKind.PASSWORD:
        synonyms = [ConfigSynonym(each.name, None, each.source) for each in synonyms]
        used = ConfigSynonym(name, None, used.source)
    return ConfigEntry(
        name=name,
        value=used.value,
        source=used.source,
        read_only=setting is not None and name not in DYNAMIC_BROKER_SETTINGS,
        kind=SettingKind.STRING if setting is None else setting.kind,
        documentation="A setting of Apache Kafka that has no effect here." if setting is None else setting.doc,
        synonyms=tuple(synonyms),
    )


def _layers(cluster: "Cluster", config: BrokerConfig) -> _Layers:
    return (
        (ConfigSource.DYNAMIC_BROKER, cluster.broker_configs(cluster.node_id)),
        (ConfigSource.DYNAMIC_DEFAULT_BROKER, cluster.broker_configs(None)),
        (ConfigSource.STATIC_BROKER, {name: config.text(name) for name in config.given if name in BROKER_SETTINGS}),
        (ConfigSource.DEFAULT, _defaults()),
    )


@cache
def _defaults() -> Mapping[str, str | None]:
    return MappingProxyType({name: value_text(setting.default) for name, setting in BROKER_SETTINGS.items()})


def _synonyms(names: Sequence[str], layers: _Layers) -> list[ConfigSynonym]:
    return [
        ConfigSynonym(name, value, source)
        for source, layer in layers
        for name in names
        if (value := layer.get(name)) is not None
    ]
