"""`TransactionOrder`: one connection's requests for one transactional id run in the order in which they came.

Apache Kafka handles one request of a connection at a time. Here requests overlap, and a client may still rely on their
order: it sends EndTxn behind Produce, or AddPartitionsToTxn behind EndTxn, without waiting for the responses. Always
true: a request for a transaction begins when every earlier one that may decide its outcome has its response. Produce
does not wait for Produce, so batches still share their syncs. A client that waits for each response never waits here.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from eosin.protocol.keys import ApiKey
from eosin.runtime.start_now import start_now

_ENDS: Final = frozenset({ApiKey.END_TXN, ApiKey.INIT_PRODUCER_ID})
"""Requests that also wait for Produce: after them its records would be in no transaction."""
IN_ORDER: Final = _ENDS | {
    ApiKey.PRODUCE,
    ApiKey.ADD_PARTITIONS_TO_TXN,
    ApiKey.ADD_OFFSETS_TO_TXN,
    ApiKey.TXN_OFFSET_COMMIT,
}
"""The APIs whose requests may name a transactional id."""

Begin = Callable[[], "asyncio.Future[Any] | None"]
"""Begins a request. Returns None if its response is ready, else the future to wait for."""


def transactional_id_of(key: ApiKey, request: Any) -> str | None:
    """The transactional id that a request of one of `IN_ORDER` names, if it does."""
    if key is ApiKey.ADD_PARTITIONS_TO_TXN:
        named: str | None = request.v3_and_below_transactional_id
    else:
        named = request.transactional_id
    return named


class TransactionOrder:
    """The requests of one connection that name a transactional id and have no response yet."""

    __slots__ = ("unanswered",)

    def __init__(self) -> None:
        self.unanswered: dict[str, dict[asyncio.Future[Any], ApiKey]] = {}
        """By transactional id. Read from outside: while it is empty, nothing has to wait."""

    def queued(self, key: ApiKey, request: Any, begin: Begin) -> "asyncio.Future[Any] | None":
        """Begin a request now, or when those before it have been answered. What is returned is for `add`."""
        transactional_id = transactional_id_of(key, request) if key in IN_ORDER else None
        unanswered = None if transactional_id is None else self.unanswered.get(transactional_id)
        if unanswered is None:
            return begin()
        earlier = [future for future, other in unanswered.items() if other is not ApiKey.PRODUCE or key in _ENDS]
        return start_now(_begin_after(earlier, begin)) if earlier else begin()

    def add(self, key: ApiKey, request: Any, waiting: "asyncio.Future[Any]") -> None:
        """Remember a request whose response is ready when `waiting` is done."""
        transactional_id = transactional_id_of(key, request) if key in IN_ORDER else None
        if transactional_id is not None:
            self.unanswered.setdefault(transactional_id, {})[waiting] = key
            waiting.add_done_callback(partial(self._remove, transactional_id))

    def _remove(self, transactional_id: str, future: "asyncio.Future[Any]") -> None:
        unanswered = self.unanswered[transactional_id]
        del unanswered[future]
        if not unanswered:
            del self.unanswered[transactional_id]


async def _begin_after(earlier: "list[asyncio.Future[Any]]", begin: Begin) -> Any:
    await asyncio.wait(earlier)
    waiting = begin()
    return None if waiting is None else await waiting
