"""Hanging transactions heal by themselves (transactions.md 6.10).

A transaction hangs when a partition holds it open and no coordinator will ever write its marker: nothing above it is
stable, and readers of committed records wait for ever. Every round looks for transactions to which nothing was written
for longer than any may take, asks the transaction coordinator, and ends with an ABORT those that it does not know.
Always true: between the coordinator's answer and the marker in the log nothing else runs; and no answer, because the
coordinator loads or does not own every partition, means no marker.
"""

import logging
from typing import TYPE_CHECKING, Any, Final

from eosin.broker.services import Services
from eosin.coordinator.transactions.ports import MarkersForPartitions
from eosin.coordinator.transactions.rules.state import STATE_NAMES, TransactionState
from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import TopicPartition
from eosin.runtime.logging_format import fields
from eosin.runtime.turns import next_turn
from eosin.storage.results.log_results import Marker

if TYPE_CHECKING:
    from eosin.coordinator.transactions.rules.listing import TransactionDescription
    from eosin.network.api import RequestContext
    from eosin.storage.log.partition_log import PartitionLog
    from eosin.storage.producers.entry import ProducerEntry

_LOG: Final = logging.getLogger(__name__)

GRACE_MS: Final = 5 * 60_000
"""On top of transaction.max.timeout.ms: how long nothing must have been written for a transaction to be late."""
ROUND_INTERVAL_MS: Final = 60_000
PARTITIONS_PER_TURN: Final = 500
"""Partitions looked at between two turns of the event loop."""
FIRST_COORDINATOR_EPOCH: Final = 0

_ONGOING: Final = STATE_NAMES[TransactionState.ONGOING]
_PREPARING: Final = frozenset(
    {STATE_NAMES[TransactionState.PREPARE_COMMIT], STATE_NAMES[TransactionState.PREPARE_ABORT]}
)


class HangingTransactions:
    """The search for transactions that hang in this broker's partitions."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._partitions = services.partitions
        self._transactions = services.transactions
        self._clock = services.clock
        self._late_after_ms = services.config.transaction_max_timeout_ms + GRACE_MS

    async def round(self) -> int:
        """Look at every partition once; how many transactions were aborted."""
        healed = 0
        for number, (partition, log) in enumerate(list(self._partitions.hosted()), start=1):
            if log.producer_state.transactions.first_open is not None:
                for entry in [entry for entry in log.producer_state if self._is_late(entry)]:
                    healed += await self._heal(partition, log, entry)
            if number % PARTITIONS_PER_TURN == 0:
                await next_turn()
        return healed

    def _is_late(self, entry: "ProducerEntry") -> bool:
        # By the time of the append, not by the records' own timestamps, which producers choose.
        return entry.has_transaction and self._clock.now_ms() - entry.last_append_ms > self._late_after_ms

    async def _heal(self, partition: TopicPartition, log: "PartitionLog", entry: "ProducerEntry") -> bool:
        """Abort the transaction of `entry` if it hangs; whether it did, and is ended."""
        found = await self._transactions.find_producer(entry.producer_id)
        if self._partitions.get(partition) is not log or not self._is_late(entry):
            return False  # the log has failed or is gone, or the transaction has ended meanwhile
        if isinstance(found, ErrorCode):
            if found is not ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
                return False
        elif _will_end(found, partition, entry):
            return False
        return await self._end(partition, entry, found) is ErrorCode.NONE

    async def end(
        self,
        partition: TopicPartition,
        *,
        producer_id: int,
        producer_epoch: int,
        first_offset: int,
        who: "RequestContext",
    ) -> ErrorCode:
        """Abort a transaction that hangs, late or not, as the operator `who` asks for it: INVALID_TXN_STATE when it is
        not open there any more, CONCURRENT_TRANSACTIONS when its coordinator is going to end it, else the error of the
        coordinator that could not be asked, or of the log."""
        found = await self._transactions.find_producer(producer_id)
        log = self._partitions.get(partition)
        if isinstance(log, ErrorCode):
            return log
        entry = log.producer_state.get(producer_id)
        if entry is None or (entry.producer_epoch, entry.transaction_first_offset) != (producer_epoch, first_offset):
            return ErrorCode.INVALID_TXN_STATE
        if isinstance(found, ErrorCode):
            if found is not ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
                return found
        elif _will_end(found, partition, entry):
            return ErrorCode.CONCURRENT_TRANSACTIONS
        return await self._end(partition, entry, found, who)

    async def _end(
        self,
        partition: TopicPartition,
        entry: "ProducerEntry",
        found: "TransactionDescription | ErrorCode",
        who: "RequestContext | None" = None,
    ) -> ErrorCode:
        """Write its ABORT marker, and tell of it. `who` is the operator that asked; None when it is healed."""
        facts = _facts(partition, entry, found)
        marker = Marker(
            producer_id=entry.producer_id,
            producer_epoch=entry.producer_epoch,
            commit=False,
            coordinator_epoch=self._coordinator_epoch(found, entry),
        )
        answers = await self._services.markers.write_markers([MarkersForPartitions(marker, (partition,))])
        error = answers[entry.producer_id, partition]
        if error:
            _LOG.error("a hanging transaction could not be aborted: %s", error.name, extra=fields(**facts))
            return error
        _LOG.warning("a hanging transaction was aborted: its coordinator does not know of it", extra=fields(**facts))
        if self._services.recorder is not None:
            self._services.recorder.ended_in_partitions(
                None if isinstance(found, ErrorCode) else found.transactional_id,
                (entry.producer_id, entry.producer_epoch),
                (str(partition),),
                who,
                commit=False,
                now_ms=self._clock.now_ms(),
            )
        return ErrorCode.NONE

    def _coordinator_epoch(self, found: "TransactionDescription | ErrorCode", entry: "ProducerEntry") -> int:
        """The epoch of the id's coordinator now. Without an id, one that fences no coordinator which may come."""
        if not isinstance(found, ErrorCode):
            log = self._partitions.transaction_state_logs.log(self._transactions.partition_for(found.transactional_id))
            if not isinstance(log, ErrorCode):
                return log.leader_epoch
        return max(entry.coordinator_epoch, FIRST_COORDINATOR_EPOCH)


def _will_end(found: "TransactionDescription", partition: TopicPartition, entry: "ProducerEntry") -> bool:
    """True if the coordinator is going to write a marker for it. One that is being ended may have a newer epoch by now
    than its records (KIP-890); one that is ongoing with another epoch is another transaction."""
    if partition not in found.partitions:
        return False
    return found.state in _PREPARING or (found.state == _ONGOING and found.producer_epoch == entry.producer_epoch)


def _facts(
    partition: TopicPartition, entry: "ProducerEntry", found: "TransactionDescription | ErrorCode"
) -> dict[str, Any]:
    """Facts about the transaction that an operator must know."""
    facts: dict[str, Any] = {
        "event": "hanging_transaction_aborted",
        "partition": str(partition),
        "producer_id": entry.producer_id,
        "producer_epoch": entry.producer_epoch,
        "offset": entry.transaction_first_offset,
    }
    if not isinstance(found, ErrorCode):
        facts["transactional_id"] = found.transactional_id
    return facts
