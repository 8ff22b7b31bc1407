"""`ConnectionLimits`: how many connections an address, a listener or a user may have, and how fast they may come
(security.md 5.7; KIP-402, KIP-612).

Only a broker whose settings limit something of it has one. Always true: open connections are counted where they are
kept, so no counter can drift from them; those that are being accepted are counted apart, and `arrived` is the only
place that counts them down. A listener that only this machine reaches does not count against the broker's number when
others are served, so that its operator always gets in.
"""

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from eosin.model.address_group import address_group
from eosin.model.principals import ANONYMOUS
from eosin.security.quotas.rate import SampledRate, throttle_ms
from eosin.settings.security import prefixed
from eosin.settings.settings import INT_MAX

if TYPE_CHECKING:
    from eosin.network.connection import ServerConnection
    from eosin.network.host import ConnectionHost
    from eosin.settings.broker import BrokerConfig

MAX_CONNECTIONS: Final = "max.connections"
CREATION_RATE: Final = "max.connection.creation.rate"
BROKER: Final = ""
"""In place of a listener's name: all of them."""
LONGEST_MS: Final = 1000
"""A connection waits so long at most before it is served."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkLimits:
    """The settings."""

    per_address: int = INT_MAX
    of_address: Mapping[str, int] = field(default_factory=dict)
    """By `address_group`, in place of `per_address`."""
    of_listener: Mapping[str, int] = field(default_factory=dict)
    rates: Mapping[str, int] = field(default_factory=dict)
    """Connections a second, of each listener and of the whole `BROKER`."""
    per_principal: int = 0
    """0: no limit."""
    spared: frozenset[str] = frozenset()
    """Listeners that only this machine reaches, beside others."""


class Counted:
    """The current numbers of connections."""

    __slots__ = ("addresses", "limits", "listeners")

    def __init__(self, limits: NetworkLimits) -> None:
        self.limits = limits
        self.addresses: Counter[str] = Counter()
        self.listeners: Counter[str] = Counter()

    def room(self, listener: str, *, most: int, possible: int) -> int:
        """Number of further connections that a listener may take: `most` is the limit of the settings, `possible` that
        of the system."""
        spared = sum(self.listeners[each] for each in self.limits.spared)
        total = self.listeners.total()
        if listener in self.limits.spared:
            return possible - total
        return min(most - (total - spared), possible - total)

    def admit(self, address: str, listener: str) -> str | None:
        """Count one more, or why there must not be one."""
        reason = self.refusal(address, listener)
        if reason is None:
            self.addresses[address_group(address)] += 1
            self.listeners[listener] += 1
        return reason

    def refusal(self, address: str, listener: str) -> str | None:
        """The reason to refuse another connection; None if it may come."""
        limits, group = self.limits, address_group(address)
        most = limits.of_address.get(group, limits.per_address)
        if self.addresses[group] >= most:
            return f"too many connections of one address, max.connections.per.ip is {most}"
        of_listener = limits.of_listener.get(listener, INT_MAX)
        if self.listeners[listener] >= of_listener:
            return f"too many connections of listener {listener}, its max.connections is {of_listener}"
        return None


class ConnectionLimits:
    """The limits of one broker, and what is counted for them."""

    def __init__(self, limits: NetworkLimits, *, possible: int, window_num: int = 11, sample_ms: int = 1000) -> None:
        """`possible` is how many connections the system leaves room for."""
        self.limits = limits
        self.possible = possible
        self._arriving: Counter[tuple[str, str]] = Counter()
        """Connections that are accepted, and among neither the connections nor the layers yet."""
        self._rates = {
            name: (bound, SampledRate(window_num=window_num, sample_ms=sample_ms))
            for name, bound in limits.rates.items()
        }

    def counted(self, host: "ConnectionHost") -> Counted:
        """Counts the connections of now."""
        counted = Counted(self.limits)
        for connection in host.connections:
            counted.addresses[address_group(connection.session.host)] += 1
            counted.listeners[connection.listener] += 1
        for layer in host.layers:
            counted.addresses[address_group(layer.address)] += 1
            counted.listeners[layer.listener] += 1
        for (address, listener), count in self._arriving.items():
            counted.addresses[address_group(address)] += count
            counted.listeners[listener] += count
        return counted

    def arriving(self, address: str, listener: str) -> None:
        """One was accepted."""
        self._arriving[address, listener] += 1

    def arrived(self, address: str, listener: str) -> None:
        """It is a connection now, or gone."""
        self._arriving[address, listener] -= 1
        if not self._arriving[address, listener]:
            del self._arriving[address, listener]

    def delay_ms(self, listener: str, count: int, now_ms: int) -> int:
        """Time that `count` connections that were accepted now must wait before they are served."""
        longest = 0
        for name in (listener, BROKER):
            if name not in self._rates or (name == BROKER and listener in self.limits.spared):
                continue
            bound, rate = self._rates[name]
            rate.record(count, now_ms)
            longest = max(longest, throttle_ms(rate.rate(now_ms), bound, rate.window_ms(now_ms)))
        return min(longest, count * LONGEST_MS)


def close_if_too_many(host: "ConnectionHost", connection: "ServerConnection") -> None:
    """Close a connection whose user has too many, now that it is known whose it is: to refuse the login would tell the
    client that its password is wrong."""
    principal = connection.session.principal
    if principal == ANONYMOUS:
        return
    most = 0 if host.limits is None else host.limits.limits.per_principal
    if most and sum(each.session.principal == principal for each in host.connections) > most:
        reason = f"too many connections of one user, eosin.principal.connections.max is {most}"
    elif host.places.has_its_share(principal):
        reason = (
            f"one user has more than half of all connections, and the last ones are left to others, {host.why_full}"
        )
    else:
        return
    host.refusals.note(str(principal), reason, peer=connection.peer, listener=connection.listener)
    connection.end_after_responses()


def limits_of(config: "BrokerConfig", loopback: Collection[str]) -> NetworkLimits:
    """The limits by the settings; `loopback` are the listeners that only this machine reaches."""
    names = [each.name for each in config.bound_listeners]
    rates = {name: rate for name in names if (rate := config.overrides.get(prefixed(CREATION_RATE, name))) is not None}
    if config.max_connection_creation_rate < INT_MAX:
        rates[BROKER] = config.max_connection_creation_rate
    is_limited = config.max_connections < INT_MAX or BROKER in rates
    return NetworkLimits(
        per_address=config.max_connections_per_ip,
        of_address=config.connections_by_address,
        of_listener={
            name: most for name in names if (most := config.overrides.get(prefixed(MAX_CONNECTIONS, name))) is not None
        },
        rates=rates,
        per_principal=config.eosin_principal_connections_max,
        spared=frozenset(loopback) if is_limited and len(loopback) < len(names) else frozenset(),
    )
