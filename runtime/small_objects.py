"""`SmallObjects`: where the interpreter takes small objects from while large requests are at work.

CPython keeps objects of up to 512 bytes in arenas of 1 MiB, and gives an arena back when nothing in it is alive. A
request of 100,000 partitions fills a hundred of them. What everybody else keeps meanwhile, a counter here and a timer
there, comes to lie between its objects, and one such object keeps a whole arena: 108 MiB were held so with 3 MiB alive
in them. So these objects come from malloc, as all larger ones do; what is freed there goes back page by page
(`node/freed_memory.py`).

Always true: whatever an object came from, the interpreter's own function frees it. That one passes on what is in no
arena, since it has to do so with each object of more than 512 bytes; so it does not matter when one ends.
"""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

_RAW: Final = 0
_SMALL: Final = (1, 2)
"""Numbers of the interpreter's domains of memory: malloc's, and the two that use arenas."""

_M_ARENA_MAX: Final = -8
"""Number of glibc's option for how many heaps it makes."""
_M_MXFAST: Final = 1
"""Number of glibc's option for the longest block that its fast bins take."""


class SmallObjects:
    """Switches between arenas and malloc. Without `enable` nothing changes; `from_malloc` may be entered again within
    itself, and by several requests at a time, but in the event loop's thread alone."""

    def __init__(self, blocks: Callable[[], int] = sys.getallocatedblocks) -> None:
        self._blocks = blocks
        self._switch: Callable[[bool], None] | None = None
        self._is_enabled = False
        self._users = 0
        self._before = 0
        self._uncounted = 0
        self._at_first = 0

    def enable(self) -> None:
        """Let `from_malloc` have an effect where the interpreter has such arenas: the process is a broker's own."""
        self._is_enabled = True
        self._at_first = self._blocks()

    @property
    def allocated_blocks(self) -> int | None:
        """`sys.getallocatedblocks`, or None while large requests are at work: it counts the end of each object and not
        the beginning of those from malloc. What such a request leaves behind, little beside what it lets go of, is not
        among them."""
        if self._users:
            return None
        counted = self._blocks()
        self._uncounted = max(self._uncounted, self._at_first - counted)  # some of them went later
        return counted + self._uncounted

    @contextmanager
    def from_malloc(self) -> Iterator[None]:
        """Until it is left no arena gets a new object."""
        self._begin()
        try:
            yield
        finally:
            self._end()

    def _begin(self) -> None:
        if self._is_enabled and self._switch is None:
            self._switch = _switch_of_this_interpreter()
        self._users += 1
        if self._users == 1 and self._switch is not None:
            self._before = self._blocks()
            self._switch(True)

    def _end(self) -> None:
        self._users -= 1
        if not self._users and self._switch is not None:
            self._switch(False)
            self._uncounted += max(self._before - self._blocks(), 0)


def _switch_of_this_interpreter() -> Callable[[bool], None]:
    """The function that takes small objects from malloc, or from arenas again; one that does nothing in an interpreter
    without arenas, with checks of its memory, or while its allocations are traced."""
    import sysconfig  # most processes need neither this nor ctypes

    has_arenas = sys.implementation.name == "cpython" and sys.platform == "linux"
    if not has_arenas or "PYTHONMALLOC" in os.environ or sysconfig.get_config_var("Py_GIL_DISABLED"):
        return lambda _: None
    import ctypes

    class Allocator(ctypes.Structure):
        _fields_ = [(name, ctypes.c_void_p) for name in ("context", "malloc", "calloc", "realloc", "free")]

    interpreter = ctypes.pythonapi

    def current(domain: int) -> Any:
        found = Allocator()
        interpreter.PyMem_GetAllocator(ctypes.c_int(domain), ctypes.byref(found))
        return found

    def is_same(one: Any, other: Any) -> bool:
        return bytes(one) == bytes(other)

    raw, arenas = current(_RAW), {domain: current(domain) for domain in _SMALL}
    if any(each.context for each in (raw, *arenas.values())):  # a layer above the interpreter's own functions
        return lambda _: None
    malloc = {domain: Allocator(None, raw.malloc, raw.calloc, of.realloc, of.free) for domain, of in arenas.items()}

    _keep_no_fast_bins(ctypes.CDLL(None))

    def switch(to_malloc: bool) -> None:
        before, after = (arenas, malloc) if to_malloc else (malloc, arenas)
        for domain in _SMALL:
            if is_same(current(domain), before[domain]):  # else somebody else has changed it
                interpreter.PyMem_SetAllocator(ctypes.c_int(domain), ctypes.byref(after[domain]))

    return switch


def keep_one_heap() -> None:
    """Let glibc give no thread that begins from now on a heap of its own. `malloc_trim` passes over the end of such a
    heap, and each large block that is freed raises the size from which on glibc gives that back by itself: threads that
    had decoded long names kept 28 MiB of free memory each."""
    if sys.platform != "linux":
        return
    import ctypes

    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_ARENA_MAX, 1)


def _keep_no_fast_bins(libc: Any) -> None:
    """Let glibc join freed neighbours at once: else hundreds of thousands wait in its fast bins, and the next large
    block that anybody frees joins all of them, for 80 ms in one step."""
    mallopt = getattr(libc, "mallopt", None)
    if mallopt is not None:
        mallopt(_M_MXFAST, 0)


SMALL_OBJECTS: Final = SmallObjects()
"""The switch of this process."""
