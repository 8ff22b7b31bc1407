"""`made_for_each`, `done_for_each`, `written`: items of one request, in turns with everybody else (security.md 6.2).

A frame of 2 MB names 200,000 groups, and each name costs a decision and an item of the response. Always true: a request
of few items never waits here; one of many holds its connection, so that nothing overtakes it and no client has two of
them in work on one connection.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

from eosin.protocol.keys import ApiKey
from eosin.protocol.types import Message
from eosin.protocol.wire.codec import EncodedBody, encode_body

if TYPE_CHECKING:
    from eosin.broker.services import Services
    from eosin.network.api import RequestContext

_T = TypeVar("_T")
_R = TypeVar("_R")

ITEMS_PER_TURN: Final = 200
"""Of which each takes some microseconds: a turn has 1 to 2 ms."""
TURN_MS: Final = 2
"""For items that take longer."""
ITEMS_PER_STEP: Final = 5000
"""Up to so many, a response takes a few milliseconds to encode."""
CHANGES_AT_ONCE: Final = 50
"""Changes of the cluster whose records share a sync: they take a few milliseconds in one turn of the event loop."""


async def made_for_each(items: Iterable[_T], count: int, context: "RequestContext", services: "Services") -> list[_T]:
    """All of `items`, which is lazy: each is made as it is taken. `count` tells about how many there are."""
    if count <= ITEMS_PER_TURN:
        return list(items)
    connection = context.connection
    if connection is not None:
        connection.hold()
    try:
        made: list[_T] = []
        clock = services.clock
        left, until_ms = ITEMS_PER_TURN, clock.elapsed_ms() + TURN_MS
        for each in items:
            made.append(each)
            left -= 1
            if left == 0 or clock.elapsed_ms() >= until_ms:
                await asyncio.sleep(0)
                left, until_ms = ITEMS_PER_TURN, clock.elapsed_ms() + TURN_MS
        return made
    finally:
        if connection is not None:
            connection.release()


async def written(key: ApiKey, response: Message, count: int, context: "RequestContext") -> Message | EncodedBody:
    """A response of `count` items, encoded in a thread where there are many."""
    if count <= ITEMS_PER_STEP:
        return response
    return EncodedBody(await asyncio.to_thread(encode_body, key, context.api_version, response))


async def done_for_each(items: Sequence[_T], do: Callable[[_T], Coroutine[Any, Any, _R]]) -> list[_R]:
    """The outcome of a change for each of `items`: some side by side, so that one sync makes them durable, and then the
    next ones."""
    outcomes: list[_R] = []
    for first in range(0, len(items), CHANGES_AT_ONCE):
        outcomes += await asyncio.gather(*map(do, items[first : first + CHANGES_AT_ONCE]))
    return outcomes
