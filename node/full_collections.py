"""`FullCollections`: the interpreter's full garbage collections, at times at which there is little to walk.

A full collection walks every container that is not frozen, and nothing else runs meanwhile: 100,000 partitions in one
request are enough for 80 ms. The interpreter would begin one in the middle of such a request, since that is when
containers become many. So young containers are collected as ever, and full collections are left to this clock, unless
very much has grown old since: what references count frees needs none, and what is in cycles can wait for seconds.
"""

import gc
from collections.abc import Callable
from typing import Final, Self

from eosin.runtime.small_objects import SMALL_OBJECTS

COLLECT_MS: Final = 10_000
"""Interval of the checks."""
FEW_BLOCKS: Final = 200_000
"""Allocated blocks beside those of a start; to walk what they hold takes 20 ms at most."""
MOST_WAITS: Final = 3
"""Checks after which one is due although there are many, if they have grown by a quarter since the last one."""
_YOUNG: Final = (2_000, 5)
"""Containers that a young collection walks, and young collections before a middle one: each takes a millisecond."""
_SELDOM: Final = 300
"""Middle collections before the interpreter begins a full one itself, if old containers have grown by a quarter: three
million containers."""


class FullCollections:
    """`check` is called each `COLLECT_MS`."""

    def __init__(
        self, blocks: Callable[[], int | None], middle_collections: Callable[[], int], collect: Callable[[], object]
    ) -> None:
        """`blocks` counts what is allocated, None while large requests are at work; `middle_collections`, how often
        anything may have grown old."""
        self._blocks = blocks
        self._middle_collections = middle_collections
        self._collect = collect
        self._at_start = self._after_last = blocks() or 0
        self._seen = middle_collections()
        self._waits = 0

    @classmethod
    def of_this_process(cls) -> Self:
        """From now on the interpreter begins hardly any itself."""
        gc.set_threshold(*_YOUNG, _SELDOM)
        return cls(lambda: SMALL_OBJECTS.allocated_blocks, lambda: int(gc.get_stats()[1]["collections"]), gc.collect)

    def check(self) -> None:
        """Collect if it is due."""
        if self._is_due():
            self._collect()
            self._after_last, self._seen, self._waits = self._blocks() or 0, self._middle_collections(), 0

    def _is_due(self) -> bool:
        if self._middle_collections() == self._seen:
            return False  # nothing has grown old since
        now = self._blocks()
        if now is None:
            return False
        if now <= self._at_start + FEW_BLOCKS:
            return True
        self._waits += 1
        return self._waits > MOST_WAITS and 4 * now > 5 * self._after_last
