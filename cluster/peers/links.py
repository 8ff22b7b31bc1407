"""`Links`: what connections to other nodes of the cluster do before their first request (cluster.md 7.1).

A port: the default leaves them plain, and brings nothing of TLS and SASL with it.
"""

from typing import Final, NamedTuple, Protocol

from eosin.client.connection import Security


class WatchedSecurity(Security, Protocol):
    """TLS and a login, whose stores may change."""

    async def refresh(self, *, forced: bool = False) -> None:
        """Load changed stores again; with `forced` all of them."""


class Links(NamedTuple):
    """By whom is at the other end; None leaves those connections plain."""

    brokers: WatchedSecurity | None = None
    controllers: WatchedSecurity | None = None

    @property
    def are_plain(self) -> bool:
        """True if there is neither TLS nor a login."""
        return self.brokers is None and self.controllers is None

    async def refresh(self, *, forced: bool = False) -> None:
        """Load changed stores again; with `forced` all of them."""
        for link in (self.brokers, self.controllers):
            if link is not None:
                await link.refresh(forced=forced)


PLAIN_LINKS: Final = Links()
