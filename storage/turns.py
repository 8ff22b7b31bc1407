"""Work on many things, in turns with everybody else on the event loop."""

import asyncio
from collections.abc import Callable, Iterable
from typing import Final, TypeVar

from eosin.storage.clock import Clock

_T = TypeVar("_T")

TURN_MS: Final = 5
"""How long one turn of such work takes, but for its last item."""


async def in_turns(items: Iterable[_T], do: Callable[[_T], None], clock: Clock) -> None:
    """Do something to each of `items`, and let the event loop turn every few milliseconds. What `do` finds may be gone
    by then: it looks."""
    until_ms = clock.elapsed_ms() + TURN_MS
    for item in items:
        do(item)
        if clock.elapsed_ms() >= until_ms:
            await asyncio.sleep(0)
            until_ms = clock.elapsed_ms() + TURN_MS
