"""`DemoTraffic`: clients that make a broker's console worth looking at (console.md 7).

Over TCP like any other client. Always true: within seconds there are commits, an open transaction with its countdown
and the readers that it holds back, a producer that was fenced, one that runs out of time, and a group that is behind;
and what is refused, as much of it is meant to be, ends that round of an actor and no other.
"""

import contextlib
from collections.abc import Awaitable, Callable
from functools import partial
from itertools import count
from typing import Final

from eosin.client.admin import Admin
from eosin.client.client import Client
from eosin.client.consumer import Consumer
from eosin.client.errors import ClientError
from eosin.client.groups import GroupAdmin
from eosin.client.producer import Producer
from eosin.protocol.names import TopicPartition
from eosin.protocol.records.fields import NewRecord
from eosin.runtime.background import Background
from eosin.runtime.clock import Clock

TOPICS: Final = {"orders": 3, "payments": 2, "invoices": 1, "shipments": 1, "clicks": 1}
"""The topics, and the number of partitions of each."""
ORDERS: Final = tuple(TopicPartition("orders", number) for number in range(TOPICS["orders"]))
INVOICES: Final = TopicPartition("invoices", 0)
SHIPMENTS: Final = TopicPartition("shipments", 0)
CLICKS: Final = TopicPartition("clicks", 0)
SHOPS: Final = 3
AGAIN_MS: Final = 500
"""Between two rounds of an actor."""
INVOICING_TIMEOUT_MS: Final = 12_000
SILENT_MS: Final = 17_000
"""Longer than its timeout, and than coordinators take to see it."""
BOOKS: Final = ("Dune", "Emma", "Ulysses", "Walden", "Solaris")


class DemoTraffic:
    """All actors of one broker."""

    def __init__(self, address: str, clock: Clock) -> None:
        self._address = address
        self._clock = clock
        self._actors = Background(clock)
        self._reported = dict.fromkeys(ORDERS, 0)
        """The next offset in each partition for the group that falls behind."""

    async def begin(self) -> None:
        """Make the topics, and let the actors begin. Raises a ClientError."""
        async with self._client("demo") as client:
            for name, partitions in TOPICS.items():
                await Admin(client).create_topic(name, partitions)
        shops = {f"shop-{number}": partial(self._sell, number) for number in range(1, SHOPS + 1)}
        actors: dict[str, Callable[[], Awaitable[None]]] = {
            **shops,
            "copier": self._copy,
            "reports": self._report,
            "invoicing": self._be_silent,
            "import": self._be_fenced,
            "clicks": self._click,
        }
        for name, actor in actors.items():
            self._actors.every(AGAIN_MS, f"the demo's {name}", partial(_until_refused, actor))

    async def stop(self) -> None:
        """End all of them."""
        await self._actors.stop()

    def _client(self, client_id: str) -> Client:
        return Client(self._address, client_id=client_id)

    async def _sell(self, number: int) -> None:
        """Short transactions, of which some are aborted."""
        async with self._client(f"till-{number}") as client:
            producer = Producer(client, f"shop-{number}")
            await producer.init()
            for order in count(1):
                producer.begin()
                await producer.send(ORDERS[order % len(ORDERS)], _books(order, 1 + order % 4))
                await self._clock.sleep(100 * number)
                await (producer.abort() if order % 9 == 0 else producer.commit())
                await self._clock.sleep(150)

    async def _copy(self) -> None:
        """Exactly once from one topic to another, with the offsets in the transaction."""
        async with self._client("copier") as client:
            producer, consumer = Producer(client, "copier-1"), Consumer(client)
            await producer.init()
            await consumer.assign_from(ORDERS)
            while True:
                records = await consumer.poll(1000)
                if not records:
                    continue
                producer.begin()
                paid = [NewRecord(each.record.key, each.record.value) for each in records]
                await producer.send(TopicPartition("payments", len(paid) % TOPICS["payments"]), paid)
                await producer.send_offsets({each: consumer.position(each) for each in ORDERS}, "billing")
                await producer.commit()

    async def _report(self) -> None:
        """A group that reads less than is written."""
        async with self._client("reports") as client:
            groups = GroupAdmin(client)
            while True:
                await groups.commit("reports", self._reported)
                await self._clock.sleep(1000)
                for partition in self._reported:
                    self._reported[partition] += 1

    async def _be_silent(self) -> None:
        """A transaction that stays open, holds readers back, and runs out of time."""
        async with self._client("invoicing") as client:
            producer = Producer(client, "invoicing-1", transaction_timeout_ms=INVOICING_TIMEOUT_MS)
            await producer.init()
            producer.begin()
            await producer.send(INVOICES, _books(0, 2))
            await self._clock.sleep(SILENT_MS)
            await producer.commit()  # it is refused

    async def _be_fenced(self) -> None:
        """A producer that is replaced by another instance while it works, and goes on nevertheless."""
        async with self._client("import-old") as old_client, self._client("import-new") as new_client:
            old, new = Producer(old_client, "import-1"), Producer(new_client, "import-1")
            await old.init()
            old.begin()
            await old.send(SHIPMENTS, _books(0, 1))
            await self._clock.sleep(2000)
            await new.init()
            with contextlib.suppress(ClientError):
                await old.send(SHIPMENTS, _books(1, 1))
            for order in range(5):
                new.begin()
                await new.send(SHIPMENTS, _books(order, 2))
                await self._clock.sleep(2500)
                await new.commit()

    async def _click(self) -> None:
        """Records without a transaction."""
        async with self._client("website") as client:
            producer = Producer(client)
            for number in count():
                await producer.send(CLICKS, _books(number, 1))
                await self._clock.sleep(400)


def _books(order: int, many: int) -> list[NewRecord]:
    return [
        NewRecord(f"order-{order}".encode(), f'{{"book": "{BOOKS[(order + each) % len(BOOKS)]}"}}'.encode())
        for each in range(many)
    ]


async def _until_refused(actor: Callable[[], Awaitable[None]]) -> None:
    with contextlib.suppress(ClientError):
        await actor()
