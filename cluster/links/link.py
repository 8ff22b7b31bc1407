"""`Link`: what a connection to another node does before its first request; and `open_links`, which makes both kinds.

Imported by a broker that has such a link which is not plain, and by no other: `cryptography` comes with it. Always
true: connections that are open keep their certificates; a store that cannot be used leaves the one before in place.
"""

import ssl
from typing import TYPE_CHECKING, Final

from eosin.client.connection import Connection
from eosin.client.security.authentication import log_in
from eosin.cluster.links.contexts import LinkContext, build_link_context
from eosin.cluster.links.settings import LinkSettings, LinkTls, to_brokers, to_controllers
from eosin.cluster.peers.links import Links
from eosin.runtime.clock import Clock
from eosin.runtime.key_files import StoreError
from eosin.security.tls.reload import StoreWatch
from eosin.settings.start_error import StartError

if TYPE_CHECKING:
    from eosin.settings.broker import BrokerConfig


class Link:
    """TLS and a login for any number of connections: a client's `Security` that reads changed stores again."""

    def __init__(self, settings: LinkSettings, clock: Clock) -> None:
        """Reads and checks the stores. Raises StoreError."""
        self._login: Final = settings.login
        self._watch: StoreWatch[LinkTls, LinkContext] | None = None
        if settings.tls is not None:
            self._watch = StoreWatch(settings.tls, clock, build=build_link_context)

    @property
    def tls(self) -> ssl.SSLContext | None:
        """The context that encrypts new connections; None leaves them plain."""
        return None if self._watch is None else self._watch.built.context

    async def authenticate(self, connection: Connection) -> int:
        """Log in, if there is a login. Returns how long the session lasts in ms, 0 for without end."""
        return 0 if self._login is None else await log_in(connection, self._login)

    async def refresh(self, *, forced: bool = False) -> None:
        """Load changed stores again; with `forced` all of them."""
        if self._watch is not None:
            await self._watch.refresh(forced=forced)


def open_links(config: "BrokerConfig", clock: Clock) -> Links:
    """The links of a broker of a quorum to other brokers and to controllers. Raises StartError."""
    return Links(
        brokers=_opened(to_brokers(config), clock, to=f"other brokers at {config.inter_broker_listener}"),
        controllers=_opened(to_controllers(config), clock, to=f"controllers at {config.controller_listener}"),
    )


def _opened(settings: LinkSettings, clock: Clock, *, to: str) -> Link | None:
    if settings.tls is None and settings.login is None:
        return None
    try:
        return Link(settings, clock)
    except StoreError as refused:
        raise StartError(f"the broker cannot connect to {to}: {refused}") from None
