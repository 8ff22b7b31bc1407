"""A slow request of an admin to the controllers does not hold up what the broker itself asks them for (cluster.md
2.2)."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from virtual_cluster import VirtualPair
from virtual_controllers import VirtualControllers
from waiting import until

from eosin.client.client import Client
from eosin.client.producer import Producer
from eosin.protocol.records.batch import NewRecord
from eosin.protocol.schemas.envelope import EnvelopeRequest
from eosin.protocol.types import Message

pytestmark = pytest.mark.virtual


class Slow:
    """Envelopes that the controllers answer when a test lets them."""

    def __init__(self) -> None:
        self.came: list[bytes] = []
        """What was asked, in order."""
        self.go_on = asyncio.Event()


@contextmanager
def slow(controllers: VirtualControllers, mark: bytes) -> Iterator[Slow]:
    """Envelopes with these bytes in them are slow."""
    found = Slow()
    sound = controllers.quorum.answer

    async def answer(controller: int, request: Message) -> Message | None:
        if isinstance(request, EnvelopeRequest) and mark in request.request_data:
            found.came.append(request.request_data)
            await found.go_on.wait()
        return await sound(controller, request)

    controllers.quorum.answer = answer  # type: ignore[method-assign]
    try:
        yield found
    finally:
        found.go_on.set()


async def test_producers_get_ids_while_an_admin_s_request_is_slow() -> None:
    async with VirtualPair() as pair:
        partition = await pair.create()
        with slow(pair.controllers, b"tedious") as tedious:
            creating = asyncio.create_task(pair.create("tedious"))
            await until(lambda: tedious.came)
            other = Client(pair.first.address)  # on a connection of its own, where answers come in order
            producer = Producer(other)
            await producer.init()
            await producer.send(partition, [NewRecord(None, b"a record")])
            await other.close()
            assert not creating.done()
            tedious.go_on.set()
            await creating
