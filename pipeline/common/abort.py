"""End a transaction that a Spark query or a runner cannot finish, and interpret the broker's refusals."""

import asyncio
import contextlib
from typing import Final

from eosin.client.errors import ClientError
from eosin.client.producer import Producer
from eosin.protocol.errors import ErrorCode

ABORT_TIMEOUT_S: Final = 10.0
"""An abort saves readers the wait for the transaction's timeout. It is optional, so it may not take long."""

STALE: Final = frozenset({ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH})
"""Refusals of a producer whose epoch is no longer current."""

OVER: Final = STALE | {
    ErrorCode.INVALID_TXN_STATE,
    ErrorCode.TRANSACTION_ABORTABLE,
    ErrorCode.UNKNOWN_PRODUCER_ID,
    ErrorCode.INVALID_PRODUCER_ID_MAPPING,
}
"""Refusals that may also mean that the coordinator has aborted the transaction after its timeout."""


async def abort_as_courtesy(producer: Producer, *, asked_to_commit: bool) -> None:
    """Abort the open transaction, unless its commit was requested and may have succeeded. Ignores a ClientError and a
    timeout: the next start, or the transaction's timeout, aborts what this call could not."""
    if asked_to_commit or not producer.in_transaction:
        return
    with contextlib.suppress(ClientError, TimeoutError):
        async with asyncio.timeout(ABORT_TIMEOUT_S):
            await producer.abort()
