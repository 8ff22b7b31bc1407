"""A whole broker inside of the test's own process and event loop, in memory and without a socket."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from eosin.node.server import Server
from eosin.settings.broker import BrokerConfig

LISTENER = "PLAINTEXT"


@asynccontextmanager
async def local_broker(*, clock: Any = None, chance: Any = None, **settings: Any) -> AsyncIterator[Server]:
    """A started broker with durability `memory`; connect to it with `FakePeer(server.host)`."""
    few = {"transaction_state_log_num_partitions": 2, "offsets_topic_num_partitions": 2}
    config = BrokerConfig(**{"listeners": (), "eosin_durability": "memory", **few, **settings})
    server = Server(config, clock=clock, chance=chance)
    await server.startup()
    server.cluster.advertise(LISTENER, "localhost", 9092)
    try:
        yield server
    finally:
        await server.shutdown()
