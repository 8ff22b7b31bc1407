"""A broker with flight recorder and HTTP listener in the event loop of the test, and what can be asked of it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import msgspec
from local_broker import local_broker
from wire import Wire
from wire_producer import RawProducer, transactional

from eosin.client.client import Client
from eosin.client.http import HttpResponse, get
from eosin.node.running import RunningNode
from eosin.observe.explain.cluster_facts import ClusterFacts
from eosin.observe.explain.explained import Explained
from eosin.observe.explain.subjects import find
from eosin.protocol.names import TopicPartition

ORDERS_0 = TopicPartition("orders", 0)


@dataclass
class ObservedBroker:
    """One such broker."""

    server: RunningNode
    wires: list[Wire] = field(default_factory=list)

    @property
    def address(self) -> str:
        """HOST:PORT for Kafka's clients."""
        return self.server.addresses[0]

    @property
    def http(self) -> str:
        """HOST:PORT of its HTTP listener."""
        assert self.server.observability is not None
        return self.server.observability.address

    async def wire(self, client_id: str = "orders-1") -> Wire:
        """A connection that is closed with the broker."""
        wire = await Wire.open(self.address, client_id=client_id)
        self.wires.append(wire)
        return wire

    async def producer(self, name: str, *, client_id: str = "orders-1", **how: Any) -> RawProducer:
        """A producer on a connection of its own."""
        return await transactional(await self.wire(client_id), name, **how)

    async def get(self, path: str, **how: Any) -> HttpResponse:
        """Get the answer of the HTTP listener."""
        return await get(f"http://{self.http}/{path}", timeout_ms=5000, **how)

    def forget_scrape(self) -> None:
        """The next scrape reads anew."""
        assert self.server.observability is not None
        self.server.observability.served.exposition.forget()

    async def facts(self, path: str) -> Any:
        """The JSON at a path of the API."""
        answer = await self.get(f"api/v1/{path}")
        assert answer.status == 200, answer
        return msgspec.json.decode(answer.body)

    async def explain(self, subject: str, kind: str | None = None, *, over_http: bool = True) -> Explained:
        """The explanation that `eosin explain` finds over sockets; without HTTP as of any other broker."""
        async with Client(self.address, client_id="eosin-cli") as client:
            asked = ClusterFacts(client, http=self.http if over_http else None, token=None, timeout_ms=5000)
            found = await find(asked, subject, kind)
        assert not asked.complaints
        assert len(found.sentence) <= 240
        return found


@asynccontextmanager
async def observed_broker(**settings: Any) -> AsyncIterator[ObservedBroker]:
    """Start one, with topic `orders` of two partitions."""
    asked = {"listeners": ("PLAINTEXT://127.0.0.1:0",), "eosin_http_listener": "0", **settings}
    async with local_broker(**asked) as server:
        await server.cluster.create_topic("orders", partitions=2)
        broker = ObservedBroker(server)
        try:
            yield broker
        finally:
            for wire in broker.wires:
                await wire.close()
