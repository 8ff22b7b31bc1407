"""`GroupConfigs`: the settings of each consumer group, its own over the broker's, which change at run time."""

import logging
from collections.abc import Mapping
from typing import Final, Protocol

from eosin.coordinator.groups.rules.config import ConsumerGroupConfig
from eosin.settings.broker import BrokerConfig
from eosin.settings.coordinators import consumer_group_config
from eosin.settings.groups import consumer_config

_LOG: Final = logging.getLogger("eosin.cluster.metadata")


class GroupsOwnConfigs(Protocol):
    """The part of a cluster that has the settings of groups."""

    def group_configs(self, group_id: str) -> Mapping[str, str]:
        """A group's own settings: another mapping after each change."""


class GroupConfigs:
    """The settings of consumer groups as they are now. A value out of a range that was narrowed since counts as its
    nearest end, with one line in the log."""

    def __init__(self, cluster: GroupsOwnConfigs, config: BrokerConfig) -> None:
        self._cluster = cluster
        self._config = config
        self._of_all = consumer_group_config(config)
        self._made: dict[str, tuple[Mapping[str, str], ConsumerGroupConfig]] = {}
        """The outcome for groups that have settings of their own, with those that it was made of."""

    def of(self, group_id: str) -> ConsumerGroupConfig:
        """The settings of a group. Asked for at each heartbeat."""
        own = self._cluster.group_configs(group_id)
        if not own:
            if self._made:
                self._made.pop(group_id, None)
            return self._of_all
        made = self._made.get(group_id)
        if made is None or made[0] is not own:
            config, complaints = consumer_config(own, self._of_all, self._config)
            for complaint in complaints:
                _LOG.warning("group %.256r: %s", group_id, complaint)
            made = self._made[group_id] = own, config
        return made[1]
