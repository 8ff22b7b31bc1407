"""`GroupConfigs`: the settings of each consumer, share or streams group, its own over the broker's, which change at run
time."""

import logging
from collections.abc import Callable, Mapping
from typing import Final, Generic, Protocol, TypeVar

from eosin.coordinator.groups.rules.config import ConsumerGroupConfig, ShareGroupConfig, StreamsGroupConfig
from eosin.settings.broker import BrokerConfig
from eosin.settings.coordinators import consumer_group_config, share_group_config, streams_group_config
from eosin.settings.groups import consumer_config, share_config, streams_config

_LOG: Final = logging.getLogger("eosin.cluster.metadata")


class GroupsOwnConfigs(Protocol):
    """The part of a cluster that has the settings of groups."""

    def group_configs(self, group_id: str) -> Mapping[str, str]:
        """A group's own settings: another mapping after each change."""


_Config = TypeVar("_Config")


class GroupConfigs(Generic[_Config]):
    """The settings of groups of one kind as they are now. A value out of a range that was narrowed since counts as its
    nearest end, with one line in the log."""

    def __init__(
        self,
        cluster: GroupsOwnConfigs,
        of_all: _Config,
        over: Callable[[Mapping[str, str], _Config], tuple[_Config, list[str]]],
    ) -> None:
        """`over` puts settings of a group's own over those of all."""
        self._cluster = cluster
        self._of_all = of_all
        self._over = over
        self._made: dict[str, tuple[Mapping[str, str], _Config]] = {}
        """The outcome for groups that have settings of their own, with those that it was made of."""

    def of(self, group_id: str) -> _Config:
        """The settings of a group. Asked for at each heartbeat."""
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


def consumer_configs(cluster: GroupsOwnConfigs, config: BrokerConfig) -> GroupConfigs[ConsumerGroupConfig]:
    """The settings of consumer groups."""
    return GroupConfigs(
        cluster, consumer_group_config(config), lambda own, of_all: consumer_config(own, of_all, config)
    )


def share_configs(cluster: GroupsOwnConfigs, config: BrokerConfig) -> GroupConfigs[ShareGroupConfig]:
    """The settings of share groups."""
    return GroupConfigs(cluster, share_group_config(config), lambda own, of_all: share_config(own, of_all, config))


def streams_configs(cluster: GroupsOwnConfigs, config: BrokerConfig) -> GroupConfigs[StreamsGroupConfig]:
    """The settings of streams groups."""
    return GroupConfigs(cluster, streams_group_config(config), lambda own, of_all: streams_config(own, of_all, config))
