"""The events that `decide` takes: requests of clients, and what follows from effects and from time. Pure values.

The coordinator has checked requests before (the id is not empty, the timeout is within its limits). They say nothing
about versions of the wire, except where the protocol's rules themselves differ by version.
"""

import msgspec

from eosin.coordinator.transactions.rules.state import NO_EPOCH, NO_PRODUCER_ID
from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import TopicPartition


class InitProducerId(msgspec.Struct, frozen=True, gc=False):
    """A producer asks for its pair (transactions.md 3): a new instance, or one that shows its pair for a new epoch."""

    timeout_ms: int
    """`NO_TIMEOUT_MS` for a producer that takes part in two-phase commits."""
    transaction_version: int
    """The server's own: the version by which a transaction that must be aborted first is ended."""
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_EPOCH
    can_return: bool = True
    """True if the client's version of the request has fields for a pair."""
    keeps: bool = False
    """True if an open transaction is kept open, for this instance to end (KIP-939)."""
    fresh_producer_id: int = NO_PRODUCER_ID
    """Set when a decision asked for one."""


class AddPartitions(msgspec.Struct, frozen=True, gc=False):
    """Partitions join the transaction, which begins with the first of them (transactions.md 4.1)."""

    producer_id: int
    producer_epoch: int
    partitions: frozenset[TopicPartition]


class EndTxn(msgspec.Struct, frozen=True, gc=False):
    """The producer commits or aborts (transactions.md 4.5)."""

    producer_id: int
    producer_epoch: int
    commit: bool
    client_transaction_version: int
    """0, or 2 for EndTxn from version 5 on: the transaction version that the client speaks."""
    fresh_producer_id: int = NO_PRODUCER_ID


class DeadlinePassed(msgspec.Struct, frozen=True, gc=False):
    """The transaction may have run out of time (transactions.md 7.1)."""

    transaction_version: int
    """The server's own."""
    open_ms: float
    """Time for which it has been open while the broker could read its producer's requests: pauses of the broker do not
    count, and the wall clock plays no part."""
    recovering: bool = True
    """True if the late producer may come back; else it is fenced as by a new instance."""
    fresh_producer_id: int = NO_PRODUCER_ID


class Expire(msgspec.Struct, frozen=True, gc=False):
    """The id may have been unused for `expiration_ms` (transactions.md 7.2)."""

    expiration_ms: int


class TransactionLoaded(msgspec.Struct, frozen=True, gc=False):
    """The id was just read back from the log."""


class TransactionAppended(msgspec.Struct, frozen=True, gc=False):
    """The pending record is in the log, as durable as was asked for."""


class TransactionAppendFailed(msgspec.Struct, frozen=True, gc=False):
    """The pending record is not in the log, or that is unknown; `error` tells which."""

    error: ErrorCode


class RetryDue(msgspec.Struct, frozen=True, gc=False):
    """The backoff of `RetryLater` is over."""


class MarkersWritten(msgspec.Struct, frozen=True, gc=False):
    """Every partition of the transaction that was ended under this pair has its marker."""

    producer_id: int
    producer_epoch: int


Event = (
    AddPartitions
    | EndTxn
    | TransactionAppended
    | MarkersWritten
    | InitProducerId
    | DeadlinePassed
    | Expire
    | TransactionLoaded
    | TransactionAppendFailed
    | RetryDue
)
