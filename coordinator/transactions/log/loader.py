"""`StateReplay`: a partition of `__transaction_state` read back at a start (transactions.md 8).

The later record of an id replaces the earlier, so only the last one is decoded; of all the others, what could not be
believed is still noticed: state, and an epoch that goes back. Always true: the result is that of
`records.replay` over the same batches.
"""

import struct
from typing import Final

from eosin.coordinator.transactions.log.encoder import START
from eosin.coordinator.transactions.log.records import CorruptTransactionLog, decoded_txn
from eosin.coordinator.transactions.rules.state import TransactionState, Txn
from eosin.protocol.records.batch import CorruptRecords
from eosin.protocol.records.header import CONTROL, read_header
from eosin.protocol.records.internal import decode_key
from eosin.protocol.records.scan import Head, KeyValue, key_values
from eosin.protocol.schemas.records.transaction_state import KINDS
from eosin.protocol.types import DecodeError

_STORED_STATES: Final = frozenset(state.value for state in TransactionState if state is not TransactionState.DEAD)


class StateReplay:
    """The state that the batches so far lead to."""

    def __init__(self) -> None:
        self._last: dict[bytes, KeyValue] = {}
        self._ids: dict[bytes, str | None] = {}

    def apply(self, run: memoryview, head: Head) -> None:
        """Apply one batch of `run`. Raises CorruptTransactionLog."""
        position, size, _, attributes, _, count = head
        if attributes & CONTROL or not count:
            return
        batch = run[position : position + size]
        try:
            for found in key_values(batch, read_header(batch)):
                self._apply_record(found)
        except (CorruptRecords, DecodeError) as error:
            raise CorruptTransactionLog(str(error)) from error

    def _apply_record(self, found: KeyValue) -> None:
        key = found.key
        if key is None:
            raise CorruptTransactionLog(f"the record at offset {found.offset} has no key")
        if key not in self._ids:
            known = decode_key(KINDS, key)
            self._ids[key] = None if known is None else known.transactional_id
        if self._ids[key] is None:
            return  # of a kind that is not known
        if found.value is None:
            self._last.pop(key, None)
            return
        _check(found, self._last.get(key), self._ids[key])
        self._last[key] = found

    def txns(self) -> dict[str, Txn]:
        """Every id, as its last record says. Raises CorruptTransactionLog."""
        txns = {}
        for key, found in self._last.items():
            transactional_id = self._ids[key]
            assert transactional_id is not None
            assert found.value is not None
            try:
                txns[transactional_id] = decoded_txn(transactional_id, found.value)
            except DecodeError as error:
                raise CorruptTransactionLog(f"the record at offset {found.offset}: {error}") from error
        return txns


def _check(found: KeyValue, before: KeyValue | None, transactional_id: str | None) -> None:
    """Refuse what cannot be true, as far as the start of the value tells it."""
    assert found.value is not None
    try:
        _, producer_id, epoch, _, state = START.unpack_from(found.value)
    except struct.error as error:
        raise CorruptTransactionLog(f"the record at offset {found.offset} is too short") from error
    if state not in _STORED_STATES:
        raise CorruptTransactionLog(f"{transactional_id!r} is in state {state}")
    if before is None or before.value is None:
        return
    _, id_before, epoch_before, _, _ = START.unpack_from(before.value)
    if id_before == producer_id and epoch < epoch_before:
        raise CorruptTransactionLog(
            f"the record at offset {found.offset} takes {transactional_id!r} from epoch {epoch_before}"
            f" of producer {producer_id} back to {epoch}"
        )
