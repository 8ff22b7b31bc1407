"""The start of connections on listeners whose peers have to prove who they are, by TLS, SASL or both.

Imported by a broker that has such a listener, and by no other.
"""

import asyncio
import errno
import logging
import secrets
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from eosin.model.cluster import METADATA_PARTITION
from eosin.model.credentials import SECRET_BYTES
from eosin.network.unauthenticated_peers import (
    UnauthenticatedPeer,
    UnauthenticatedPeers,
    unauthenticated_peers_of,
)
from eosin.protocol.errors import ErrorCode
from eosin.settings.broker import BrokerConfig
from eosin.settings.listeners import SASL_PROTOCOLS

log = logging.getLogger("eosin.node.secured_listeners")

if TYPE_CHECKING:
    from eosin.model.cluster import Cluster
    from eosin.network.host import ConnectionHost
    from eosin.network.sasl.listeners import SaslListeners
    from eosin.network.tls.listeners import TlsListeners
    from eosin.runtime.chance import Chance


async def open_sasl(
    config: BrokerConfig, host: "ConnectionHost", cluster: "Cluster", chance: "Chance", *, keeps_users: bool
) -> "SaslListeners":
    """The listeners with SASL, ready for connections. `keeps_users`: no controller keeps the users. Raises OSError when
    what they need cannot be stored."""
    from eosin.network.sasl.listeners import SaslListeners

    if (await cluster.keep_secret(secrets.token_bytes(SECRET_BYTES))).error is not ErrorCode.NONE:
        raise OSError(errno.EIO, "cannot write cluster metadata", str(METADATA_PARTITION))
    names = [name for name, protocol in config.protocols.items() if protocol in SASL_PROTOCOLS]
    tokens = {}
    for name in names:
        if "OAUTHBEARER" in config.for_listener("sasl.enabled.mechanisms", name):
            from eosin.security.sasl.tokens import open_tokens

            tokens[name] = await open_tokens(config, host.clock, name)
    listeners = SaslListeners(config, host, cluster.credentials, chance, names, tokens)
    if listeners.need_users and not cluster.credentials and keeps_users:
        log.warning(
            "there are no users yet, so nobody can log in: stop the broker, and make the first one with"
            " eosin users add NAME --data-dir %s",
            config.data_dir or "DIR",
        )
    return listeners


def secured_connections(
    config: BrokerConfig,
    host: "ConnectionHost",
    chance: "Chance",
    tls: "TlsListeners | None",
    sasl: "SaslListeners | None",
    loop: asyncio.AbstractEventLoop,
) -> tuple[Mapping[str, Callable[[UnauthenticatedPeer], asyncio.BaseProtocol]], Mapping[str, UnauthenticatedPeers]]:
    """The factory of each such listener's connections, and the counter of those whose peers are not known yet."""
    with_sasl = {} if sasl is None else sasl.connections(loop)
    made: dict[str, Callable[[UnauthenticatedPeer], asyncio.BaseProtocol]] = {**with_sasl}
    if tls is not None:
        handshakes_max = config.eosin_tls_handshakes_max
        made.update(tls.open(config.protocols, host, handshakes_max=handshakes_max, loop=loop, above=with_sasl))
    return made, unauthenticated_peers_of(
        config, list(made), refusals=host.refusals, clock=host.clock, chance=chance, loop=loop
    )
