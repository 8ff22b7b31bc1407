"""`TlsListeners`: the listeners of a broker that speak TLS, each with the context that its new connections get.

Imported by a broker that has such a listener, and by no other: `cryptography` comes with it.
"""

import asyncio
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType
from typing import Final

from eosin.model.principals import ANONYMOUS, Principal
from eosin.network import audit
from eosin.network.connection import ServerConnection
from eosin.network.host import ConnectionHost
from eosin.network.limits import close_if_too_many
from eosin.network.tls.handshakes import Handshakes
from eosin.network.tls.layer import SCRATCH_BYTES, PeerRefused, TlsHost, TlsLayer
from eosin.network.tls.proofs import digest_of, end, shown_here
from eosin.network.unauthenticated_peers import UnauthenticatedPeer
from eosin.runtime.background import Background
from eosin.runtime.clock import Clock
from eosin.runtime.key_files import StoreError
from eosin.runtime.logging_format import fields, shown
from eosin.security.session import SecurityProtocol
from eosin.security.tls.contexts import BuiltContext, build_context
from eosin.security.tls.distinguished_names import UnusableName, rfc2253, subject_of
from eosin.security.tls.principal_rules import NoRule, parse_rules
from eosin.security.tls.reload import StoreWatch
from eosin.security.tls.settings import ListenerTlsSettings, tls_settings
from eosin.settings.broker import BrokerConfig
from eosin.settings.listeners import TLS_PROTOCOLS
from eosin.settings.start_error import StartError

EXPIRY_INTERVAL_MS: Final = 1000
"""Between two looks for clients whose certificates have expired."""


@dataclass(frozen=True, slots=True)
class TlsShared:
    """The shared state of all listeners with TLS."""

    handshakes: Handshakes
    scratch: memoryview
    loop: asyncio.AbstractEventLoop
    above: Mapping[str, Callable[[UnauthenticatedPeer], ServerConnection]]
    """The factories of connections of listeners with SASL, by the listener's name."""


class TlsListener:
    """One listener: what its layers share, and what its peers become."""

    def __init__(
        self,
        watch: StoreWatch[ListenerTlsSettings, BuiltContext],
        protocol: SecurityProtocol,
        host: ConnectionHost,
        tls: TlsShared,
    ) -> None:
        settings = watch.settings
        self.settings: Final = settings
        self._watch: Final = watch
        self._rules: Final = parse_rules(settings.mapping_rules)
        self._above: Final = tls.above.get(settings.listener)
        self._protocol: Final = protocol
        self._host: Final = host
        self._loop: Final = tls.loop
        self._trusted = digest_of(settings.trust_files)
        self.shared: Final = TlsHost(
            name=settings.listener,
            context=watch.built.context,
            connect=self.connect,
            refusals=host.refusals,
            handshakes=tls.handshakes,
            scratch=tls.scratch,
            layers=host.layers,
        )

    async def refresh(self, *, forced: bool) -> str | None:
        """Give new connections another context, if the stores have changed or somebody asks for it; why they keep what
        they have, if the stores cannot be used."""
        # Read before the stores are: what is replaced in between counts as a change of the next look.
        trusted = await asyncio.to_thread(digest_of, self.settings.trust_files)
        if await self._watch.refresh(forced=forced):
            self.shared.context = self._watch.built.context
            if trusted != self._trusted:
                self._trusted = trusted
                end(self._host, shown_here(self._host, self.settings.listener), "what is trusted has changed")
        return self._watch.refused

    def end_expired(self) -> None:
        """End the connections of clients whose certificate has expired since they came."""
        now_ms = self._host.clock.elapsed_ms()
        expired = [
            connection
            for connection in shown_here(self._host, self.settings.listener)
            if (connection.session.expires_at_ms or 0) <= now_ms
        ]
        end(self._host, expired, "their certificates have expired")

    def make(self, unauthenticated: UnauthenticatedPeer) -> TlsLayer:
        """The protocol object of a connection that was just accepted."""
        return TlsLayer(self.shared, unauthenticated, self._loop)

    def connect(self, layer: TlsLayer) -> ServerConnection:
        """The connection for a peer whose handshake is done. Raises PeerRefused."""
        unauthenticated = layer.unauthenticated
        assert unauthenticated is not None
        if self._above is not None:
            connection = self._above(unauthenticated)  # which has to say yet who the peer is
            layer.unauthenticated = None
            connection.connection_made(layer)
            return connection
        principal = self._principal(layer)
        connection = ServerConnection(self._host, self.settings.listener, self._loop)
        connection.connection_made(layer)
        connection.adopt(
            replace(
                connection.session,
                principal=principal,
                security_protocol=self._protocol,
                expires_at_ms=self._expires_at_ms(layer),
            )
        )
        (unauthenticated.end if principal is ANONYMOUS else unauthenticated.is_proved)()
        layer.unauthenticated = None
        close_if_too_many(self._host, connection)
        if principal is not ANONYMOUS:
            session = connection.session
            audit.log.debug(
                "authenticated",
                extra=fields(principal=shown(principal), host=session.host, listener=session.listener),
            )
        return connection

    def _expires_at_ms(self, layer: TlsLayer) -> int | None:
        """The end of the client's certificate by `Clock.elapsed_ms`; None: it has shown none."""
        shown = layer.get_extra_info("ssl_object").getpeercert()
        if not shown:
            return None
        clock = self._host.clock
        return clock.elapsed_ms() + round(ssl.cert_time_to_seconds(shown["notAfter"]) * 1000) - clock.now_ms()

    def _principal(self, layer: TlsLayer) -> Principal:
        """The user that the client's certificate names (security.md 3.7). Raises PeerRefused."""
        engine = layer.get_extra_info("ssl_object")
        certificate = engine.getpeercert(True)
        if certificate is None:
            return ANONYMOUS
        try:
            name = rfc2253(subject_of(certificate))
            principal = Principal("User", self._rules.user(name))
        except UnusableName as unusable:
            raise PeerRefused(f"the client's certificate names nobody: {unusable}") from None
        except NoRule as none:
            raise PeerRefused(f"ssl.principal.mapping.rules: {none}", shown(name)) from None
        if principal == ANONYMOUS:
            raise PeerRefused("the client's certificate names the user of those who show none", shown(name))
        return principal


class TlsListeners:
    """All of them, by name."""

    def __init__(self, config: BrokerConfig, *, clock: Clock) -> None:
        """Reads and checks every store. Raises `StartError`."""
        self._watches: list[StoreWatch[ListenerTlsSettings, BuiltContext]] = []
        self._background: Background | None = None
        for name, protocol in config.protocols.items():
            if protocol not in TLS_PROTOCOLS:
                continue
            try:
                self._watches.append(StoreWatch(tls_settings(config, name), clock, build=build_context))
            except StoreError as refused:
                raise StartError(f"listener {name} cannot speak TLS: {refused}") from None
        self.by_name: dict[str, TlsListener] = {}

    def open(
        self,
        protocols: Mapping[str, str],
        host: ConnectionHost,
        *,
        handshakes_max: int,
        loop: asyncio.AbstractEventLoop,
        above: Mapping[str, Callable[[UnauthenticatedPeer], ServerConnection]] = MappingProxyType({}),
    ) -> dict[str, Callable[[UnauthenticatedPeer], TlsLayer]]:
        """The factory of each listener's connections. `above` has the factories of listeners with SASL."""
        handshakes = Handshakes(loop, host.clock, limit=handshakes_max)
        shared = TlsShared(handshakes, memoryview(bytearray(SCRATCH_BYTES)), loop, above)
        for watch in self._watches:
            name = watch.settings.listener
            self.by_name[name] = TlsListener(watch, SecurityProtocol[protocols[name]], host, shared)
        return {name: listener.make for name, listener in self.by_name.items()}

    def watch(self, background: Background, *, interval_ms: int) -> None:
        """Look again and again whether stores have changed; 0: only `reload` does."""
        self._background = background
        background.every(EXPIRY_INTERVAL_MS, "the look for expired certificates of clients", self._end_expired)
        if interval_ms > 0:
            background.every(interval_ms, "the look for changed certificates", self.refresh)

    async def _end_expired(self) -> None:
        for listener in self.by_name.values():
            listener.end_expired()

    def reload(self) -> None:
        """Load all stores again, changed or not, while requests are served."""
        if self._background is not None:
            self._background.once("the reload of certificates", partial(self.refresh, forced=True))

    async def reload_one(self, name: str) -> str | None:
        """Load the stores of one listener again; why they cannot be used, and None when they are."""
        return await self.by_name[name].refresh(forced=True)

    async def refresh(self, *, forced: bool = False) -> None:
        """Load changed stores again; with `forced` all of them."""
        for listener in self.by_name.values():
            await listener.refresh(forced=forced)
