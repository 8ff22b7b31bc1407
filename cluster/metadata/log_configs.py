"""`LogConfigs`: the settings of each topic's logs, its own over the broker's defaults, which change at run time."""

import logging
from collections.abc import Mapping
from typing import Final

from eosin.cluster.metadata.config_changes import (
    changed_config,
    tolerant_overrides,
    topic_defaults,
    usable_broker_configs,
)
from eosin.cluster.metadata.internal_topics import fixed_configs
from eosin.model.cluster import NO_CONFIGS, Topic
from eosin.settings.broker import BrokerConfig
from eosin.settings.topics import with_overrides
from eosin.storage.log.config import LogConfig

_LOG: Final = logging.getLogger("eosin.cluster.metadata")


class LogConfigs:
    """The settings of logs as they are now. What the cluster accepted and this version cannot use is left out, with one
    line in the log."""

    def __init__(self, config: BrokerConfig, topics: Mapping[str, Topic]) -> None:
        """`topics` is the cluster's own mapping, which changes under this object."""
        self.defaults = config.topic_defaults
        """The config of a topic without settings of its own."""
        self.broker_changes = 0
        """Grows when the broker's settings have changed."""
        self._config = config
        self._topics = topics
        self._of_topics: dict[str, LogConfig] = {}

    def of(self, topic: str) -> LogConfig:
        """The settings of a topic's logs; for an unknown topic, the defaults."""
        config = self._of_topics.get(topic)
        if config is None:
            known = self._topics.get(topic)
            if known is None:
                return self.defaults
            config, complaints = tolerant_overrides(self.defaults, known.configs)
            fixed = fixed_configs(topic) if known.internal else NO_CONFIGS
            if changed := changed_config(config, fixed):
                # Controllers of Apache Kafka let it pass; retention would delete what is in use.
                complaints.append(f"the {changed} of an internal topic is always {fixed[changed]}")
                config = with_overrides(config, fixed)
            for complaint in complaints:
                _LOG.warning("topic %s: a config is ignored: %s", topic, complaint)
            self._of_topics[topic] = config
        return config

    def forget(self, topic: str) -> None:
        """The topic's own settings have changed, or it is gone."""
        self._of_topics.pop(topic, None)

    def apply_broker_configs(self, *layers: Mapping[str, str]) -> None:
        """The broker's settings that were changed at run time, of which the last layer wins."""
        usable_layers = []
        for layer in layers:
            usable, complaints = usable_broker_configs(layer)
            usable_layers.append(usable)
            for complaint in complaints:
                _LOG.warning("a broker setting that was changed at run time is ignored: %s", complaint)
        self.defaults = topic_defaults(self._config, *usable_layers)
        self.broker_changes += 1
        self._of_topics.clear()
