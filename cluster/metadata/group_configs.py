"""`GroupConfigs`: the settings of each consumer, share or streams group, its own over the broker's, which change at run
time."""

import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from eosin.cluster.metadata.live_settings import live_setting
from eosin.coordinator.groups.rules.config import ConsumerGroupConfig, ShareGroupConfig, StreamsGroupConfig
from eosin.settings.broker import BrokerConfig
from eosin.settings.coordinators import consumer_group_config, share_group_config, streams_group_config
from eosin.settings.groups import consumer_config, share_config, streams_config

if TYPE_CHECKING:
    from eosin.model.cluster import Cluster

_LOG: Final = logging.getLogger("eosin.cluster.metadata")

_Config = TypeVar("_Config", bound=ConsumerGroupConfig | ShareGroupConfig | StreamsGroupConfig)


class GroupConfigs(Generic[_Config]):
    """The settings of groups of one kind as they are now. A value out of a range that was narrowed since counts as its
    nearest end, with one line in the log."""

    def __init__(
        self,
        cluster: "Cluster",
        of_all: Callable[[], _Config],
        over: Callable[[Mapping[str, str], _Config], tuple[_Config, list[str]]],
    ) -> None:
        """`of_all` makes the settings of groups that have none of their own, over which `over` puts a group's own."""
        self._cluster = cluster
        self._make_of_all = of_all
        self._of_all = of_all()
        self._changes = cluster.broker_config_changes
        self._over = over
        self._made: dict[str, tuple[Mapping[str, str], _Config]] = {}
        """The outcome for groups that have settings of their own, with those that it was made of."""

    def of(self, group_id: str) -> _Config:
        """The settings of a group. Asked for at each heartbeat."""
        if self._changes != self._cluster.broker_config_changes:
            self._reload()
        own = self._cluster.group_configs(group_id)
        if not own:
            if self._made:
                self._made.pop(group_id, None)
            return self._of_all
        made = self._made.get(group_id)
        if made is None or made[0] is not own:
            config, complaints = self._over(own, self._of_all)
            for complaint in complaints:
                _LOG.warning("group %.256r: %s", group_id, complaint)
            made = self._made[group_id] = own, config
        return made[1]

    def _reload(self) -> None:
        """The broker's settings have changed, and perhaps one of these."""
        self._changes, of_all = self._cluster.broker_config_changes, self._make_of_all()
        if of_all != self._of_all:
            self._of_all = of_all
            self._made.clear()


def consumer_configs(cluster: "Cluster", config: BrokerConfig) -> GroupConfigs[ConsumerGroupConfig]:
    """The settings of consumer groups."""
    return _configs("consumer", consumer_group_config(config), consumer_config, cluster, config)


def share_configs(cluster: "Cluster", config: BrokerConfig) -> GroupConfigs[ShareGroupConfig]:
    """The settings of share groups."""
    return _configs("share", share_group_config(config), share_config, cluster, config)


def streams_configs(cluster: "Cluster", config: BrokerConfig) -> GroupConfigs[StreamsGroupConfig]:
    """The settings of streams groups."""
    return _configs("streams", streams_group_config(config), streams_config, cluster, config)


def _configs(
    kind: str,
    at_start: _Config,
    over: Callable[[Mapping[str, str], _Config, BrokerConfig], tuple[_Config, list[str]]],
    cluster: "Cluster",
    config: BrokerConfig,
) -> GroupConfigs[_Config]:
    """The settings of one kind of groups, of which the time between two targets changes while the broker runs."""
    name = f"group.{kind}.assignment.interval.ms"
    return GroupConfigs(
        cluster,
        lambda: replace(at_start, assignment_interval_ms=live_setting(name, cluster, config)),
        lambda own, of_all: over(own, of_all, config),
    )
