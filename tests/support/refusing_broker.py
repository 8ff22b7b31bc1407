"""A broker in a thread of the test's process that refuses the next request of an API with the code that a test gives:
what a client makes of it is then the client's own doing. All other requests are answered as ever.
"""

from typing import Any

from local_broker import ThreadedBroker

from eosin.network.request_hooks import ObservedRequest, RequestHooks, RequestVerdict
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey


class _Refusals(RequestHooks):
    """One refusal at a time waits for its request."""

    def __init__(self) -> None:
        self.next: tuple[ApiKey, ErrorCode] | None = None

    async def begun(self, observed: ObservedRequest) -> RequestVerdict | None:
        """The refusal, if this is the request that it waits for."""
        if self.next is None or self.next[0] is not observed.api.key:
            return None
        (_, error), self.next = self.next, None
        return RequestVerdict(error=error)


class RefusingBroker(ThreadedBroker):
    """A context manager; `address` is host:port. The records are kept in memory."""

    def __init__(self, **settings: Any) -> None:
        self._refusals = _Refusals()
        super().__init__(hooks=self._refusals, **settings)

    def refuse_next(self, key: ApiKey, error: ErrorCode) -> None:
        """Answer the next request of that API with `error`, whatever it asks."""
        self._refusals.next = (key, error)

    def stop_refusing(self) -> bool:
        """Forget the last `refuse_next`; return True if it has found its request."""
        waiting, self._refusals.next = self._refusals.next, None
        return waiting is None
