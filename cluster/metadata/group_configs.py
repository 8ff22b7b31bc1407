"""`GroupConfigs`: the settings of each consumer, share or streams group, its own over the broker's, which change at run
time."""

import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
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


_Config = TypeVar("_Config", bound=ConsumerGroupConfig | ShareGroupConfig | StreamsGroupConfig)
IntervalMs = Callable[[], int]
"""The interval between two assignments as it is now: the one setting of all groups that changes at run time."""


class GroupConfigs(Generic[_Config]):
    """The settings of groups of one kind as they are now. A value out of a range that was narrowed since counts as its
    nearest end, with one line in the log."""

    def __init__(
        self,
        cluster: GroupsOwnConfigs,
        of_all: _Config,
        interval_ms: IntervalMs,
        over: Callable[[Mapping[str, str], _Config], tuple[_Config, list[str]]],
    ) -> None:
        """`over` puts settings of a group's own over those of all."""
        self._cluster = cluster
        self._of_all = of_all
        self._interval_ms = interval_ms
        self._over = over
        self._made: dict[str, tuple[Mapping[str, str], _Config]] = {}
        """The outcome for groups that have settings of their own, with those that it was made of."""

    def of(self, group_id: str) -> _Config:
        """The settings of a group. Asked for at each heartbeat."""
        interval_ms = self._interval_ms()
        if interval_ms != self._of_all.assignment_interval_ms:
            self._of_all = replace(self._of_all, assignment_interval_ms=interval_ms)
            self._made.clear()
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


def consumer_configs(
    cluster: GroupsOwnConfigs, config: BrokerConfig, interval_ms: IntervalMs
) -> GroupConfigs[ConsumerGroupConfig]:
    """The settings of consumer groups."""
    of_all = consumer_group_config(config)
    return GroupConfigs(cluster, of_all, interval_ms, lambda own, now: consumer_config(own, now, config))


def share_configs(
    cluster: GroupsOwnConfigs, config: BrokerConfig, interval_ms: IntervalMs
) -> GroupConfigs[ShareGroupConfig]:
    """The settings of share groups."""
    of_all = share_group_config(config)
    return GroupConfigs(cluster, of_all, interval_ms, lambda own, now: share_config(own, now, config))


def streams_configs(
    cluster: GroupsOwnConfigs, config: BrokerConfig, interval_ms: IntervalMs
) -> GroupConfigs[StreamsGroupConfig]:
    """The settings of streams groups."""
    of_all = streams_group_config(config)
    return GroupConfigs(cluster, of_all, interval_ms, lambda own, now: streams_config(own, now, config))
