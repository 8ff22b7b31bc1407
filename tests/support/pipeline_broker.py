"""Requests or answers that a broker loses where a test says so (`local_broker(hooks=Faults())`), and a clock ahead."""

from collections.abc import Callable
from typing import Any

from eosin.model.close_connection import CloseConnection
from eosin.network.api import Api, RequestContext
from eosin.network.request_hooks import ObservedRequest, RequestHooks
from eosin.protocol.keys import ApiKey
from eosin.runtime.clock import SystemClock

LISTENER = "PLAINTEXT"
HOST = "127.0.0.1"
UNLIKE = frozenset({ApiKey.API_VERSIONS})
"""Not counted: they belong to the connection, and each lost one brings another."""


class Seen:
    """A request that came in, and what became of it."""

    def __init__(self, key: ApiKey, client_id: str | None, request: Any) -> None:
        self.key = key
        self.client_id = client_id
        self.request = request


class Faults(RequestHooks):
    """Counts the requests of clients whose name starts with `driver`, and loses some of them."""

    def __init__(self) -> None:
        self.seen: list[Seen] = []
        self.before: Callable[[int, Seen], bool] = lambda number, seen: False
        """Returns True if the request with this number, from 0, is lost before it is handled."""
        self.after: Callable[[int, Seen], bool] = lambda number, seen: False
        """Returns True if its answer is lost."""
        self._numbers: dict[int, int] = {}

    def clear(self) -> None:
        """Count from 0 again, and lose nothing."""
        self.__init__()  # type: ignore[misc]

    def requests(self, key: ApiKey) -> list[Any]:
        """The requests to an API so far."""
        return [each.request for each in self.seen if each.key is key]

    async def begun(self, observed: ObservedRequest) -> None:
        """Lose the request, or let it be handled."""
        if self._counts(observed.context, observed.api):
            seen = Seen(observed.api.key, observed.context.client_id, observed.request)
            self.seen.append(seen)
            self._numbers[id(observed)] = len(self.seen) - 1
            if self.before(len(self.seen) - 1, seen):
                raise CloseConnection

    async def handled(self, observed: ObservedRequest, response: Any) -> Any:
        """Lose the answer, or pass it on."""
        number = self._numbers.pop(id(observed), None)
        if number is not None and self.after(number, self.seen[number]):
            raise CloseConnection
        return response

    @staticmethod
    def _counts(context: RequestContext, api: Api) -> bool:
        return (context.client_id or "").startswith("driver") and api.key not in UNLIKE


class AheadClock(SystemClock):
    """The system's, as much ahead as a test says: what expires, expires then."""

    def __init__(self) -> None:
        super().__init__()
        self.ahead_ms = 0

    def now_ms(self) -> int:
        """The machine's time, and what was added."""
        return super().now_ms() + self.ahead_ms

    def elapsed_ms(self) -> int:
        """So much later, too: a wall clock alone that jumps makes nothing old."""
        return super().elapsed_ms() + self.ahead_ms
