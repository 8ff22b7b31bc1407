"""`FetchInFlight`: the one Fetch of a connection that has begun and whose response has not left.

Fetch responses are large, so the next one begins only when this one has left, and its memory is counted while it waits
for the responses before it. It waits for records only while no other request is behind it, whose response could not
leave before (storage.md 15.3). A client may leave while its Fetch waits for records, and then nothing is read from it:
the system is asked whether it is there.
"""

import asyncio
from collections.abc import Callable
from typing import Any, Final

from eosin.network.hang_up import has_hung_up
from eosin.network.response_memory import ResponseMemory
from eosin.protocol.keys import ApiKey

_FETCH: Final = ApiKey.FETCH
_SHARE_FETCH: Final = ApiKey.SHARE_FETCH


def is_fetch(key: ApiKey) -> bool:
    """True for a request that waits for records: Fetch, and ShareFetch, which is treated alike."""
    return key is _FETCH or key is _SHARE_FETCH


class FetchInFlight:
    """It, or that there is none."""

    __slots__ = ("_end_wait", "_held_bytes", "_memory", "has_begun", "has_hung_up", "task")

    def __init__(self, memory: ResponseMemory) -> None:
        self._memory = memory
        self._held_bytes = 0
        self._end_wait: Callable[[], None] | None = None
        self.has_begun = False
        """True if there is one, with a response or without."""
        self.task: asyncio.Future[Any] | None = None
        """While it waits for records."""
        self.has_hung_up = False
        """True if the client is gone, though the socket still holds some of its bytes."""

    def begin(self, held_bytes: int) -> None:
        """There is one, with so many bytes of a response so far."""
        self.has_begun = True
        self.hold(held_bytes)

    def hold(self, held_bytes: int) -> None:
        """Count the memory of its response."""
        self._memory.held_bytes += held_bytes - self._held_bytes
        self._held_bytes = held_bytes

    def wait(self, task: "asyncio.Future[Any]") -> None:
        """It waits for records; not if its client is gone."""
        self.task = task
        if self.has_hung_up:
            task.cancel()

    def may_end(self, end_wait: Callable[[], None]) -> None:
        """It is going to wait, until `end_wait` is called at the latest."""
        self._end_wait = end_wait

    def make_way(self) -> None:
        """A request is behind it: it answers with what there is."""
        if self._end_wait is not None:
            self._end_wait()

    def leave(self) -> None:
        """Its response has left, and another one may begin."""
        self.has_begun = False
        self._end_wait = None
        self.hold(0)

    def check_for_end(self, transport: asyncio.BaseTransport) -> None:
        """End its wait if the client is gone, and any wait that follows."""
        if self.task is not None and has_hung_up(transport):
            self.has_hung_up = True
            self.task.cancel()

    def drop(self) -> None:
        """The connection is lost."""
        if self.task is not None:
            self.task.cancel()
        self.hold(0)
