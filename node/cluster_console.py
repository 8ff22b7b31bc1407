"""`serve_console`: the console's pages over any Kafka cluster, at an HTTP listener of this machine (console.md 5).

Always true: with a token the pages tell nothing to who does not have it.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

from eosin.node.sockets import bound_socket
from eosin.observe.console.cluster_console import ClusterConsole
from eosin.observe.console.sessions import Sessions
from eosin.observe.http.guard import Advice, Guard
from eosin.observe.http.host import HttpHost
from eosin.runtime.clock import SystemClock
from eosin.settings.broker import BrokerConfig
from eosin.settings.listeners import Listener

if TYPE_CHECKING:
    from eosin.client.client import Client
    from eosin.observe.explain.cluster_facts import ClusterFacts

OF_THE_COMMAND: Final = Advice(
    "the token of the address that `eosin console` has printed", "open the address that `eosin console` has printed"
)


@asynccontextmanager
async def serve_console(
    client: "Client", facts: "ClusterFacts", listener: Listener, *, bootstrap: str, token: str | None
) -> AsyncIterator[str]:
    """Serve until the end of the block, and return HOST:PORT. Raises `StartError`."""
    clock = SystemClock()
    bound, socket = await bound_socket(listener, BrokerConfig())
    sessions = Sessions(clock, port=str(bound.port))
    console = ClusterConsole(client, facts, sessions, clock, bootstrap=bootstrap)
    guard = Guard(console.application(), clock=clock, token=token, knows_session=sessions.knows, advice=OF_THE_COMMAND)
    host = HttpHost(guard, socket)
    await host.start()
    try:
        yield bound.address
    finally:
        await console.stop()
        await host.stop()
