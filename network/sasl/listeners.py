"""`SaslListeners`: the listeners of a broker that ask for SASL, and what they share.

Imported by a broker that has such a listener, and by no other.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from eosin.model.address_group import network_of
from eosin.network.connection import ServerConnection
from eosin.network.sasl.failure_delays import FailureDelays
from eosin.network.sasl.gate import SaslGate, SaslListener
from eosin.protocol.sasl.steps import Mechanism
from eosin.runtime.logging_format import fields, shown
from eosin.security.sasl.exchanges import NewExchange, ScramExchange
from eosin.security.sasl.plain import PasswordChecks, PlainExchange
from eosin.security.sasl.settings import jaas_users
from eosin.security.session import SecurityProtocol
from eosin.settings.broker import BrokerConfig

if TYPE_CHECKING:
    from eosin.model.credentials import Credentials
    from eosin.network.host import ConnectionHost
    from eosin.network.unauthenticated_peers import UnauthenticatedPeer
    from eosin.runtime.chance import Chance
    from eosin.security.sasl.tokens import Tokens

log = logging.getLogger("eosin.network.sasl.revocation")

REVOKED_WITHIN_MS: Final = 1000
"""Time that requests in flight of a user who is gone may take."""
BY_PASSWORD: Final = frozenset({"SCRAM-SHA-256", "SCRAM-SHA-512", "PLAIN"})
"""The mechanisms that prove a user of the store."""


class SaslListeners:
    """All of them, by name."""

    def __init__(
        self,
        config: BrokerConfig,
        host: "ConnectionHost",
        credentials: "Credentials",
        chance: "Chance",
        names: Sequence[str],
        tokens: "Mapping[str, Tokens]" = MappingProxyType({}),
    ) -> None:
        """`names` are those with SASL; `tokens` are those of listeners with OAUTHBEARER."""
        self._host = host
        self._credentials: Final = credentials
        self._checks: Final = PasswordChecks(self._credentials, host.clock)
        failures = FailureDelays(host.clock, chance, delay_ms=config.connection_failed_authentication_delay_ms)
        self._tokens = tokens
        self._by_name: Final = {name: self._listener(config, name, failures) for name in names}
        if config.eosin_sasl_close_on_delete:
            self._credentials.on_removed.append(partial(close_sessions, host))

    @property
    def need_users(self) -> bool:
        """True if a listener lets nobody in but users of the store."""
        return any(not listener.has_other_users for listener in self._by_name.values())

    def connections(
        self, loop: asyncio.AbstractEventLoop
    ) -> "dict[str, Callable[[UnauthenticatedPeer], ServerConnection]]":
        """The factory of each listener's connections; of one with TLS, of the layer above it."""
        return {name: partial(self._connection, name, listener, loop) for name, listener in self._by_name.items()}

    def _connection(
        self, name: str, listener: SaslListener, loop: asyncio.AbstractEventLoop, unauthenticated: "UnauthenticatedPeer"
    ) -> ServerConnection:
        host = self._host
        return ServerConnection(host, name, loop, new_gate=lambda made: SaslGate(listener, made, host, unauthenticated))

    def close(self) -> None:
        """Begin no more checks of passwords."""
        self._checks.close()
        for tokens in self._tokens.values():
            tokens.close()

    def _listener(self, config: BrokerConfig, name: str, failures: FailureDelays) -> SaslListener:
        enabled = config.for_listener("sasl.enabled.mechanisms", name)
        supers = frozenset(config.super_principals)
        others = jaas_users(config, name) if Mechanism.PLAIN in enabled else {}
        return SaslListener(
            has_other_users=bool(others) or Mechanism.OAUTHBEARER in enabled,
            protocol=SecurityProtocol[config.protocols[name]],
            exchanges={each: self._exchange(config, name, Mechanism(each)) for each in enabled},
            failures=failures,
            max_receive_bytes=config.for_listener("sasl.server.max.receive.size", name),
            max_reauth_ms={
                each: config.for_listener("connections.max.reauth.ms", name, mechanism=each) for each in enabled
            },
            is_super=lambda principal: str(principal) in supers,
        )

    def _exchange(self, config: BrokerConfig, listener: str, mechanism: Mechanism) -> NewExchange:
        match mechanism:
            case Mechanism.PLAIN:
                others = jaas_users(config, listener)
                return lambda host: PlainExchange(self._checks, others, network_of(host))
            case Mechanism.OAUTHBEARER:
                tokens = self._tokens[listener]
                return lambda _: tokens.exchange()
            case _:
                return lambda _: ScramExchange(mechanism, self._credentials)


def close_sessions(host: "ConnectionHost", user: str) -> None:
    """End every connection of a user whose last credential was deleted, once what is in flight is answered, or soon;
    Kafka leaves them alive (security.md 3.3.6)."""
    theirs = [
        connection
        for connection in host.connections
        if connection.session.principal.name == user and connection.session.mechanism in BY_PASSWORD
    ]
    for connection in theirs:
        connection.end_after_responses()
        host.clock.call_later(REVOKED_WITHIN_MS, connection.close)
    if theirs:
        log.info("closing the connections of a deleted user", extra=fields(user=shown(user), connections=len(theirs)))
