"""`ReplyConfirmations`: answers that a coordinator gives from memory, held until its log has shown that it coordinates
still (cluster.md 6.5).

A coordinator whose successor was elected behind its back, because it hears nothing of the controllers, does not know
what that one has decided: it would call an open transaction ended, a repeated commit done, a producer fenced. What it
writes cannot be committed any more, since the replicas in sync follow its successor. So whatever it would answer for
good without writing waits for a record that means nothing: a tombstone of the empty id, which no producer has. Always
true: an answer leaves only if that record was appended after its request came, and is committed.
"""

from asyncio import Future
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Final

from eosin.coordinator.transactions.entries import OwnedPartition, PendingRequest
from eosin.coordinator.transactions.log.encoder import encode_records
from eosin.coordinator.transactions.rules.effects import TransactionReply
from eosin.coordinator.transactions.rules.state import TransactionState, Txn
from eosin.protocol.errors import ErrorCode
from eosin.runtime.clock import Clock
from eosin.storage.results.log_results import Refused

RECORD: Final = encode_records((Txn("", state=TransactionState.DEAD),), transaction_version=0)
"""It changes nothing for whoever reads it, Apache Kafka included, and compaction takes it."""


class ReplyConfirmations:
    """The answers that wait. One record is for all of a partition that come in one turn of the event loop."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._held: dict[OwnedPartition, dict[PendingRequest, TransactionReply]] = {}
        """The requests and replies that wait for the next record."""
        self._written: dict[OwnedPartition, dict[PendingRequest, TransactionReply]] = {}
        """The requests and replies that wait for a record that is not committed yet."""

    def confirm(self, partition: OwnedPartition, request: PendingRequest, reply: TransactionReply) -> None:
        """Answer `request` with `reply` once it is certain that nobody else coordinates `partition`; else have it
        asked again."""
        if reply.error.retriable:
            request.complete(reply)
            return
        held = self._held.get(partition)
        if held is None:
            self._held[partition] = held = {}
            self._clock.call_soon(partial(self._write, partition))
        held[request] = reply

    def drop(self, partition: OwnedPartition) -> None:
        """It is not ours any more."""
        for waiting in (self._held.pop(partition, None), self._written.pop(partition, None)):
            _refuse(waiting or (), ErrorCode.NOT_COORDINATOR)

    def _write(self, partition: OwnedPartition) -> None:
        held = self._held.pop(partition, None)
        if held is None:
            return  # dropped
        outcome = partition.log.append_records(RECORD, count=1, now_ms=self._clock.now_ms(), bounded=False)
        if isinstance(outcome, Refused):
            moved = outcome.error is ErrorCode.NOT_LEADER_OR_FOLLOWER
            _refuse(held, ErrorCode.NOT_COORDINATOR if moved else ErrorCode.COORDINATOR_NOT_AVAILABLE)
            return
        self._written.setdefault(partition, {}).update(held)
        partition.log.durable(outcome.last_offset + 1).add_done_callback(partial(self._settle, partition, held))

    def _settle(
        self, partition: OwnedPartition, held: Mapping[PendingRequest, TransactionReply], future: "Future[ErrorCode]"
    ) -> None:
        written = self._written.get(partition)
        if written is None:
            return  # dropped
        for request in held:
            del written[request]
        if not written:
            del self._written[partition]
        if future.cancelled() or future.result() is not ErrorCode.NONE:
            _refuse(held, ErrorCode.NOT_COORDINATOR)
            return
        for request, reply in held.items():
            request.complete(reply)


def _refuse(requests: Iterable[PendingRequest], error: ErrorCode) -> None:
    for request in requests:
        request.complete(TransactionReply(error))
