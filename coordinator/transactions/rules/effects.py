"""The effects of a decision: pure values, which `EffectRunner` alone carries out.

The order of a tuple of effects is a promise: they are carried out from left to right. `PersistTransaction` is always
the last of its tuple, because what follows depends on how it ends: that comes back as the event `Appended` or
`AppendFailed`, and the effects of success wait in `Txn.pending`, never in the runner.
"""

from typing import TYPE_CHECKING

import msgspec

from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import ProducerIdAndEpoch
from eosin.protocol.records.header import NO_PRODUCER_EPOCH, NO_PRODUCER_ID

if TYPE_CHECKING:
    from eosin.coordinator.transactions.rules.state import Txn


class PersistTransaction(msgspec.Struct, frozen=True, gc=False):
    """Write the record of `txn` (a tombstone when its state is DEAD); ends in `Appended` or `AppendFailed`."""

    txn: "Txn"


class PersistLater(msgspec.Struct, frozen=True, gc=False):
    """Write the record of `txn` later, unless a newer record of the id is in the log by then. Nothing waits for it, no
    event follows, and it is tried until it succeeds."""

    txn: "Txn"


class TransactionReply(msgspec.Struct, frozen=True, gc=False):
    """Answer the request that led to this decision, or to the record that it wrote. There may be none."""

    error: ErrorCode
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH
    after_markers: bool = False
    """The reply is true already, but is better held for a moment until the transaction is complete (B17)."""
    timed_out: bool = False
    """The refused pair's transaction timed out, and nobody has replaced its producer since: the error that lets this
    client recover depends on the client (`timeout_errors`)."""
    can_return: bool = True
    """With `timed_out`: `Txn.can_return`."""
    ongoing: ProducerIdAndEpoch | None = None
    """The pair of the transaction that was kept open for the producer (KIP-939)."""


class WriteMarkers(msgspec.Struct, frozen=True, gc=False):
    """Start writing the markers of `txn`, which is in Prepare*, to its partitions; ends in `MarkersWritten`."""

    txn: "Txn"


class AllocateProducerId(msgspec.Struct, frozen=True, gc=False):
    """The decision needs a producer id that was never used: decide the same event again with one in it."""


class RetryLater(msgspec.Struct, frozen=True, gc=False):
    """The record in `pending` must get into the log: send `RetryDue` after a backoff."""


class Forget(msgspec.Struct, frozen=True, gc=False):
    """Drop the id from memory: it has expired, or nothing of it was ever stored."""


Effect = PersistTransaction | PersistLater | TransactionReply | WriteMarkers | AllocateProducerId | RetryLater | Forget
Effects = tuple[Effect, ...]
