"""`load_config`: the settings of a broker from their sources, checked by the rooms that use them."""

from collections.abc import Iterable, Mapping, Sequence

from eosin.security.tls.settings import check_tls
from eosin.settings import sources
from eosin.settings.broker import BrokerConfig
from eosin.settings.listeners import SASL_PROTOCOLS
from eosin.settings.sources import LoadedConfig


def load_config(
    *, properties: str = "", assignments: Sequence[str] = (), flags: Mapping[str, str] | None = None
) -> LoadedConfig:
    """Build a config, see `eosin.settings.sources.load_config`. Raises `SettingError`."""
    checks = (check_tls, _check_sasl, _check_links)
    return sources.load_config(properties=properties, assignments=assignments, flags=flags, checks=checks)


def _check_sasl(config: BrokerConfig) -> Iterable[str]:
    if not SASL_PROTOCOLS.intersection(config.protocols.values()):
        return ()
    from eosin.security.sasl.settings import check_sasl  # a broker without logins does not load it

    return check_sasl(config)


def _check_links(config: BrokerConfig) -> Iterable[str]:
    if not config.has_secured_links:
        return ()
    from eosin.cluster.links.settings import check_links

    return check_links(config)
