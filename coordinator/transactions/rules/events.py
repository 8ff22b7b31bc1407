"""What `decide` is asked about: the requests of clients, and the events that follow from effects and from time. Pure
values.

Requests carry what the coordinator has checked already (the id is not empty, the timeout is within its limits) and
nothing about versions of the wire, except where the protocol's rules themselves differ by it.
"""

import msgspec

from eosin.coordinator.transactions.rules.state import NO_EPOCH, NO_PRODUCER_ID
from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import TopicPartition


class InitProducerId(msgspec.Struct, frozen=True, gc=False):
    """A producer introduces itself (transactions.md 3): a new instance, or with its pair one that wants a new epoch."""

    timeout_ms: int
    """`NO_TIMEOUT_MS` for a producer that takes part in two-phase commits."""
    transaction_version: int
    """The server's own: what a transaction that has to be aborted first is ended by."""
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_EPOCH
    can_return: bool = True
    """Whether the client's version of the request has room for a pair."""
    keeps: bool = False
    """Whether a transaction that is open is to be left so, for this instance to end (KIP-939)."""
    fresh_producer_id: int = NO_PRODUCER_ID
    """Filled in when the decision asked for one."""


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
    """For how long it has been open while its producer could be heard: no wall clock, and no pause of the broker."""
    recovering: bool = True
    """Whether the producer that is late may come back; else it is fenced as by a new instance."""
    fresh_producer_id: int = NO_PRODUCER_ID


class Expire(msgspec.Struct, frozen=True, gc=False):
    """The id may have been unused for `expiration_ms` (transactions.md 7.2)."""

    expiration_ms: int


class Loaded(msgspec.Struct, frozen=True, gc=False):
    """The id was just read back from the log."""


class Appended(msgspec.Struct, frozen=True, gc=False):
    """The pending record is in the log, as durable as was asked for."""


class AppendFailed(msgspec.Struct, frozen=True, gc=False):
    """The pending record is not in the log, or it cannot be said whether it is; `error` tells which."""

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
    | Appended
    | MarkersWritten
    | InitProducerId
    | DeadlinePassed
    | Expire
    | Loaded
    | AppendFailed
    | RetryDue
)
