"""`live_setting`: a broker setting that may change while the broker runs, as it is now."""

from typing import TYPE_CHECKING, Any

from eosin.settings.broker import BROKER_SETTINGS, BrokerConfig
from eosin.settings.settings import SettingError

if TYPE_CHECKING:
    from eosin.model.cluster import Cluster


def live_setting(name: str, cluster: "Cluster", config: BrokerConfig) -> Any:
    """The value of a setting of this broker: its own that was changed at run time, else that of all brokers, else the
    one of its start. A value that was accepted once, by another version, and is none here is left out."""
    for layer in (cluster.broker_configs(cluster.node_id), cluster.broker_configs(None)):
        text = layer.get(name)
        if text is not None:
            try:
                return BROKER_SETTINGS[name].parse(text)
            except SettingError:
                continue
    return config.value(name)
