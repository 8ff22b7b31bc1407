"""`FullCollections`: the interpreter's full garbage collections, at times at which there is little to walk.

A full collection walks every container that is not frozen, and nothing else runs meanwhile: 100,000 partitions in one
request are enough for 80 ms, 100,000 consumer groups for 800. The interpreter would begin one in the middle of such a
request, since that is when containers become many. So young containers are collected as ever, and full collections are
left to the clock.

In a broker that has little they walk all of it. In one that has much, what has survived one is frozen: no other looks
at it again, and its references free it when it goes. Since many containers at once would be much to walk, one is due as
soon as some thousands have grown old. What is frozen and ends in a cycle later stays in memory, so nothing that
comes and goes may end in one (ADR 58).
"""

import contextlib
import gc
from collections.abc import Callable, Mapping
from typing import Any, Final, Self

from eosin.runtime.small_objects import SMALL_OBJECTS

COLLECT_MS: Final = 10_000
"""Interval of the checks."""
FEW_BLOCKS: Final = 80_000
"""Allocated blocks beside those of a start; to walk what they hold, and what has come since, takes 20 ms at most."""
_YOUNG: Final = (2_000, 5)
"""Containers that a young collection walks, and young collections before a middle one: each takes a millisecond or two,
and a full one of what such a middle one leaves, 12,000 containers at most, two or three."""
_SELDOM: Final = 300
"""Middle collections before the interpreter begins a full one itself, if old containers have grown by a quarter: three
million containers in one turn of the event loop."""
_MIDDLE: Final = 1
"""The number of their generation."""


class FullCollections:
    """`check` is called each `COLLECT_MS`, and `grew_old` when the interpreter has collected containers that had been
    through a collection before."""

    def __init__(
        self,
        blocks: Callable[[], int | None],
        collect: Callable[[], object],
        freeze: Callable[[], object],
        *,
        soon: Callable[[Callable[[], None]], object],
    ) -> None:
        """`blocks` counts what is allocated, None while large requests are at work. `soon` has something called between
        two steps of the event loop, from whichever thread."""
        self._blocks = blocks
        self._collect = collect
        self._freeze = freeze
        self._soon = soon
        self._at_start = blocks() or 0
        self._has_grown = False
        """True if anything may have grown old since the last full collection."""

    @classmethod
    def of_this_process(cls, soon: Callable[[Callable[[], None]], object]) -> Self:
        """From now on the interpreter begins hardly any itself."""
        gc.set_threshold(*_YOUNG, _SELDOM)
        collections = cls(lambda: SMALL_OBJECTS.allocated_blocks, gc.collect, gc.freeze, soon=soon)

        def collected(phase: str, about: Mapping[str, Any]) -> None:
            if phase == "stop" and about["generation"] == _MIDDLE:
                with contextlib.suppress(RuntimeError):  # the event loop has ended
                    collections.grew_old()

        gc.callbacks.append(collected)
        return collections

    def grew_old(self) -> None:
        """Some containers may have grown old."""
        self._has_grown = True
        self._soon(self._check_growth)

    def check(self) -> None:
        """Collect if anything has grown old since the last time."""
        if not self._has_grown:
            return
        now = self._blocks()
        if now is None:
            return
        self._collect()
        self._has_grown = False
        if now > self._at_start + FEW_BLOCKS:
            self._freeze()

    def _check_growth(self) -> None:
        """The same, where much is there already; the clock is early enough for others."""
        now = self._blocks()
        if now is not None and now > self._at_start + FEW_BLOCKS:
            self.check()
