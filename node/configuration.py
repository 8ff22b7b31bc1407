"""`load_config`: the settings of a broker from their sources, checked by the rooms that use them."""

import platform
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from eosin.security.tls.settings import check_tls
from eosin.settings import sources
from eosin.settings.broker import BrokerConfig
from eosin.settings.listeners import SASL_PROTOCOLS
from eosin.settings.sources import LoadedConfig

if TYPE_CHECKING:
    from eosin.settings.variable_settings import VariableSettings


def load_config(
    *,
    properties: str = "",
    environment: "VariableSettings | None" = None,
    assignments: Sequence[str] = (),
    flags: Mapping[str, str] | None = None,
) -> LoadedConfig:
    """Build a config, see `eosin.settings.sources.load_config`. Raises `SettingError`."""
    return sources.load_config(
        properties=properties,
        environment=environment,
        assignments=assignments,
        flags=flags,
        checks=(check_tls, _check_sasl, _check_links),
        host=platform.node() or "localhost",
    )


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
