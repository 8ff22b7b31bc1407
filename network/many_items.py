"""`made_for_each`, `pieces`, `written`...: items of one request, in turns with everybody else (security.md 6.2).

A frame of 2 MB names 200,000 groups, and each name costs a decision and an item of the response; one of 16 MiB has 511
names of 32 KiB, of which each costs as much as many short ones. Always true: a small request of few items never waits
here; a large one, or one of many items, holds its connection, so that nothing overtakes it and no client has two of
them in work on one connection.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from msgspec.structs import replace

from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.types import Message
from eosin.protocol.wire.codec import EncodedBody, encode_body
from eosin.runtime.clock import Clock
from eosin.runtime.turns import in_turns, next_turn

if TYPE_CHECKING:
    from eosin.network.api import Refuse, RequestContext


class HasClock(Protocol):
    """The services of handlers, as far as turns need them."""

    clock: Clock


_T = TypeVar("_T")
_S = TypeVar("_S", bound=Message)
_R = TypeVar("_R")

ITEMS_PER_TURN: Final = 200
"""Of which each takes some microseconds: a turn has 1 to 2 ms. Of items that take longer it has `TURN_MS`."""
NAMES_PER_TURN: Final = 2000
"""Number of names in one turn that are only checked."""
ITEMS_PER_DROP: Final = 1000
"""Of those that are let go; each takes a microsecond."""
ITEMS_PER_COPY: Final = 20_000
"""Of those that change from one list to another; each takes 0.1 us, for none of them is in the processor's cache."""
ITEMS_PER_STEP: Final = 5000
"""Up to so many, a response takes a few milliseconds to encode."""
CHANGES_AT_ONCE: Final = 50
"""Changes of the cluster whose records share a sync: they take a few milliseconds in one turn of the event loop."""


async def made_for_each(items: Iterable[_T], count: int, context: "RequestContext", services: HasClock) -> list[_T]:
    """All of `items`, which is lazy: each is made as it is taken. `count` tells about how many there are."""
    if count <= ITEMS_PER_TURN and not context.is_large:
        return list(items)
    with connection_held(context):
        return await list_in_turns(items, services.clock)


async def by_topic(
    topics: Iterable[_S], field: str, answers: Iterable[_T], make: Callable[[_S, tuple[_T, ...]], _R], clock: Clock
) -> tuple[_R, ...]:
    """Builds the result of each topic with those of its partitions in `field`: they follow each other in `answers`."""
    left = iter(answers)
    made = (make(topic, tuple(islice(left, len(getattr(topic, field))))) for topic in topics)
    return tuple(await list_in_turns(made, clock))


def items_in(part: Any) -> int:
    """Number of items in the lists of a request, and in the lists in these."""
    if isinstance(part, tuple):
        return len(part) + (sum(map(items_in, part)) if part and isinstance(part[0], Message) else 0)
    if isinstance(part, Message):
        return sum(items_in(getattr(part, name)) for name in part.__struct_fields__)
    return 0


def size_of(topics: Iterable[Message], field: str) -> int:
    """About how many items a request has: its topics, and their partitions, in `field`; no more than is many."""
    count = 0
    for topic in topics:
        count += 1 + len(getattr(topic, field))
        if count > ITEMS_PER_STEP:
            break
    return count


@contextmanager
def connection_held(context: "RequestContext") -> Iterator[None]:
    """Within it, the connection of a request begins no other one."""
    connection = context.connection
    if connection is not None:
        connection.begin_turns()
    try:
        yield
    finally:
        if connection is not None:
            connection.end_turns()


async def list_in_turns(items: Iterable[_T], clock: Clock, *, per_turn: int = ITEMS_PER_TURN) -> list[_T]:
    """All of `items`, which is lazy, at most so many in one turn of the event loop."""
    made: list[_T] = []
    await in_turns(items, made.append, clock, per_turn=per_turn)
    return made


def pieces(topics: Iterable[_S], field: str, *, most: int = ITEMS_PER_TURN) -> Iterator[list[_S]]:
    """The same topics in pieces, each with as many partitions, in `field`, as one turn has time for: a topic of more
    comes in several of them, and one of a long name counts as several."""
    piece: list[_S] = []
    room = most
    for topic in topics:
        items: Sequence[object] = getattr(topic, field)
        begun = 0
        while begun < len(items) or not begun:
            part = items[begun : begun + room]
            piece.append(topic if len(part) == len(items) else replace(topic, **{field: part}))
            room -= max(1, len(part)) + (0 if begun else _name_weight(topic))
            begun += max(1, len(part))
            if room <= 0:
                yield piece
                piece, room = [], most
    if piece:
        yield piece


async def once(names: Iterable[str]) -> list[str]:
    """Each of `names` once: what is said of one may be large, and a request could ask for it 200,000 times."""
    seen: dict[str, None] = {}
    for part in in_parts(names, str, most=NAMES_PER_TURN):
        if seen:
            await next_turn()
        seen.update(dict.fromkeys(part))
    return list(seen)


async def dropped(whole: list[Any]) -> None:
    """Let go of very many things in turns: to free 250,000 of them takes 20 ms and more. Nobody else holds them."""
    lists = [whole]
    left = ITEMS_PER_DROP
    while lists:
        last = lists[-1]
        if not last:
            lists.pop()
            continue
        part = last.pop()
        if isinstance(part, Message):
            inner = list(_lists_of(part))
            for each in inner:
                copied: list[Any] = []
                for start in range(0, len(each), ITEMS_PER_COPY):
                    copied += each[start : start + ITEMS_PER_COPY]
                    if len(copied) > ITEMS_PER_DROP:
                        await next_turn()
                lists.append(copied)
            if inner and len(lists[-1]) > ITEMS_PER_DROP:
                del part, each, inner  # the end of a long tuple is a step of its own
                await next_turn()
        left -= 1
        if not left:
            await next_turn()
            left = ITEMS_PER_DROP


def _lists_of(part: Message) -> Iterator[tuple[Any, ...]]:
    for name in part.__struct_fields__:
        inner = getattr(part, name)
        if type(inner) is tuple and inner and (isinstance(inner[0], Message) or len(inner) > ITEMS_PER_DROP):
            yield inner


async def refused(refuse: "Refuse", request: Message, context: "RequestContext", error: ErrorCode) -> Any:
    """The response that carries `error` for each item of a request, made in a thread where these are many."""
    if context.is_large:
        return await asyncio.to_thread(refuse, request, context, error)
    return refuse(request, context, error)


async def written(key: ApiKey, response: Message, count: int, context: "RequestContext") -> Message | EncodedBody:
    """A response of `count` items. One of many is encoded in a thread, and let go of in turns, as long as the caller
    does not hold it."""
    if count <= ITEMS_PER_STEP:
        return response
    made: list[Any] = [response]
    del response
    body = EncodedBody(await asyncio.to_thread(encode_body, key, context.api_version, made[0]))
    await dropped(made)
    return body


async def done_for_each(items: Sequence[_T], do: Callable[[_T], Coroutine[Any, Any, _R]]) -> list[_R]:
    """The outcome of a change for each of `items`: some side by side, so that one sync makes them durable, and then the
    next ones."""
    outcomes: list[_R] = []
    for first in range(0, len(items), CHANGES_AT_ONCE):
        outcomes += await asyncio.gather(*map(do, items[first : first + CHANGES_AT_ONCE]))
    return outcomes


_G = TypeVar("_G")
_I = TypeVar("_I")


async def made_for_nested(
    groups: Sequence[_G],
    items: Callable[[_G], Sequence[_I]],
    make: Callable[[_G, _I], _R],
    whole: Callable[[_G, tuple[_R, ...]], _T],
    context: "RequestContext",
    services: HasClock,
) -> list[_T]:
    """For each of `groups`, topics say, the `whole` of what was made of its items, in the turns of `made_for_each`: one
    group of many items is as good as many groups of one."""
    wholes: list[_T] = []

    def work() -> Iterator[None]:
        for group in groups:
            made: list[_R] = []
            for item in items(group):
                made.append(make(group, item))
                yield None
            wholes.append(whole(group, tuple(made)))
            yield None

    await made_for_each(work(), len(groups) + sum(len(items(group)) for group in groups), context, services)
    return wholes


CHARS_PER_ITEM: Final = 160
"""Of a name: to look a longer one up takes as long as several."""


def weight_of(names: Sequence[str]) -> int:
    """Number of items that the names of groups count as."""
    return max(len(names), sum(map(len, names)) // CHARS_PER_ITEM)


def in_parts(
    items: Iterable[_T], name_of: Callable[[_T], str | None], *, most: int = ITEMS_PER_TURN
) -> Iterator[list[_T]]:
    """The items in parts, for each of which one turn of the event loop has time: of `most` items at most, and fewer
    where their names are long."""
    part: list[_T] = []
    left = most
    for item in items:
        part.append(item)
        name = name_of(item)
        left -= 1 + (len(name) // CHARS_PER_ITEM if name else 0)
        if left <= 0:
            yield part
            part, left = [], most
    if part:
        yield part


def _name_weight(topic: Message) -> int:
    """Number of items that the name of a topic counts as, beside the topic."""
    name = getattr(topic, "name", None) or getattr(topic, "topic", None)
    return len(name) // CHARS_PER_ITEM if name else 0
