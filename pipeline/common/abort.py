"""What a pipeline does about a transaction that it cannot finish, whoever runs it: a Spark query or a runner."""

import asyncio
import contextlib
from typing import Final

from eosin.client.errors import ClientError
from eosin.client.producer import Producer
from eosin.protocol.errors import ErrorCode

ABORT_TIMEOUT_S: Final = 10.0
"""An abort is a courtesy to readers, who would wait for the timeout of the transaction: no reason to wait for long."""

STALE: Final = frozenset({ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH})
"""What a producer hears whose epoch is not the present one."""

OVER: Final = STALE | {
    ErrorCode.INVALID_TXN_STATE,
    ErrorCode.TRANSACTION_ABORTABLE,
    ErrorCode.UNKNOWN_PRODUCER_ID,
    ErrorCode.INVALID_PRODUCER_ID_MAPPING,
}
"""What it may hear, too, when the coordinator has aborted its transaction because that was open for too long."""


async def abort_as_courtesy(producer: Producer, *, asked_to_commit: bool) -> None:
    """End its open transaction, discarding it, unless it may be committed already. Raises nothing that is the broker's:
    what cannot be aborted now is aborted by the next start, or by the transaction's timeout."""
    if asked_to_commit or not producer.in_transaction:
        return
    with contextlib.suppress(ClientError, TimeoutError):
        async with asyncio.timeout(ABORT_TIMEOUT_S):
            await producer.abort()
