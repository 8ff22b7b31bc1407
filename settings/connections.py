"""Parse `max.connections.per.ip.overrides`, and the connection settings that a listener may have for itself."""

from collections.abc import Sequence
from ipaddress import IPv6Address, IPv6Network, ip_address
from typing import Final

from eosin.settings.settings import SettingError

CONNECTIONS_PER_LISTENER: Final = frozenset({"max.connections", "max.connection.creation.rate"})
"""Keys that a listener may have beside the broker, and not in place of it."""


def connections_by_address(texts: Sequence[str]) -> dict[str, int]:
    """ADDRESS:NUMBER by what counts as one address: an IPv4 address, or the /64 of an IPv6 one. Kafka takes names of
    hosts, too. Raises `SettingError`."""
    found = {}
    for text in texts:
        address, _, number = text.rpartition(":")
        try:
            plain = ip_address(address.strip().removeprefix("[").removesuffix("]"))
            most = int(number)
        except ValueError:
            most = -1
        if most < 0:
            raise SettingError(f"max.connections.per.ip.overrides must hold ADDRESS:NUMBER, not {text!r}")
        is_six = isinstance(plain, IPv6Address)
        found[str(IPv6Network((int(plain), 64), strict=False)) if is_six else str(plain)] = most
    return found
