"""A slow request of an admin to the controllers does not hold up what the broker itself asks them for (cluster.md
2.2)."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from virtual_cluster import VirtualPair
from virtual_controllers import VirtualControllers
from waiting import settled, until

from eosin.client.client import Client
from eosin.client.producer import Producer
from eosin.protocol.keys import ApiKey
from eosin.protocol.records.batch import NewRecord
from eosin.protocol.schemas.create_topics import CreatableTopic, CreateTopicsRequest
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


async def test_what_a_client_asks_for_and_does_not_wait_for_is_not_done_when_its_turn_comes() -> None:
    """It was given up: the topic of that name may be another's by then."""
    async with VirtualPair() as pair:
        with slow(pair.controllers, b"tedious") as tedious:
            creating = asyncio.create_task(pair.create("tedious"))
            await until(lambda: tedious.came)
            await given_up(pair, "later")
            tedious.go_on.set()
            await creating
            await pair.create("last")
        assert "later" not in pair.controllers.quorum.model.image.topics


async def test_what_is_on_its_way_when_its_client_goes_is_given_up_and_does_not_arrive() -> None:
    async with VirtualPair() as pair:
        with slow(pair.controllers, b"tedious") as tedious:
            await given_up(pair, "tedious", until_it_came=tedious)
            await pair.create("last")
        assert "last" in pair.controllers.quorum.model.image.topics
        assert "tedious" not in pair.controllers.quorum.model.image.topics


async def given_up(pair: VirtualPair, topic: str, *, until_it_came: Slow | None = None) -> None:
    """A client asks the first broker for a topic, and leaves without an answer."""
    client = Client(pair.first.address)
    request = CreateTopicsRequest((CreatableTopic(topic, 1, 2),), timeout_ms=10_000)
    asked = asyncio.create_task(client.request(ApiKey.CREATE_TOPICS, request))
    await (settled() if until_it_came is None else until(lambda: until_it_came.came))
    await asyncio.sleep(1)
    asked.cancel()
    await asyncio.gather(asked, return_exceptions=True)
    await client.close()
