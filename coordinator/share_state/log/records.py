"""Records of `__share_group_state`, to and from what the share coordinator keeps in memory (share-state.md 2)."""

from collections.abc import Iterable
from typing import Final

from eosin.coordinator.share_state.rules.batches import Batches
from eosin.coordinator.share_state.rules.records import Change, StateSnapshot, StateUpdate
from eosin.coordinator.share_states import DeliveryState, SharePartition, StateBatch
from eosin.protocol.records.batch import NewRecord, Record
from eosin.protocol.records.internal import decode_key, decode_value, encode_key, encode_value
from eosin.protocol.schemas.records.share_group_state import (
    KINDS,
    ShareSnapshotKey,
    ShareSnapshotValue,
    ShareUpdateKey,
    ShareUpdateValue,
    StoredStateBatch,
)
from eosin.protocol.types import DecodeError

_VERSION: Final = 0
_KEPT: Final = {
    0: DeliveryState.AVAILABLE,
    1: DeliveryState.AVAILABLE,  # whoever had acquired it does not know of it any more
    2: DeliveryState.ACKNOWLEDGED,
    3: DeliveryState.ARCHIVING,
    4: DeliveryState.ARCHIVED,
}


# Writing


def encoded(partition: SharePartition, change: Change) -> NewRecord:
    """A record as bytes."""
    if isinstance(change, StateUpdate):
        value = ShareUpdateValue(
            change.snapshot_epoch,
            change.leader_epoch,
            change.start_offset,
            change.delivery_complete_count,
            _stored(change.batches),
        )
        return NewRecord(encode_key(ShareUpdateKey(*partition)), encode_value(value, _VERSION))
    key = encode_key(ShareSnapshotKey(*partition))
    return NewRecord(key, None if change is None else _snapshot(change))


def _snapshot(change: StateSnapshot) -> bytes:
    value = ShareSnapshotValue(
        change.snapshot_epoch,
        change.state_epoch,
        change.leader_epoch,
        change.start_offset,
        change.delivery_complete_count,
        change.created_ms,
        change.written_ms,
        _stored(change.batches),
    )
    return encode_value(value, _VERSION)


def _stored(batches: Batches) -> tuple[StoredStateBatch, ...]:
    return tuple(StoredStateBatch(*batch) for batch in batches)


# Reading


class RecordRead:
    """A record whose key is known."""

    __slots__ = ("is_snapshot", "partition")

    def __init__(self, partition: SharePartition, *, is_snapshot: bool) -> None:
        self.partition = partition
        self.is_snapshot = is_snapshot
        """True for a snapshot and for the tombstone of a state."""


def read_key(record: Record) -> RecordRead | None:
    """The share partition of a record; None for a kind that Eosin does not know. Raises DecodeError."""
    key = decode_key(KINDS, record.key or b"")
    if key is None:
        return None
    partition = SharePartition(key.group_id, key.topic_id, key.partition)
    return RecordRead(partition, is_snapshot=isinstance(key, ShareSnapshotKey))


def read_change(found: RecordRead, record: Record) -> Change:
    """The content of a record. The tombstone of an update means what that of a snapshot does. Raises DecodeError, also
    for a version and a state that Eosin does not know."""
    if record.value is None:
        return None
    if found.is_snapshot:
        snapshot: ShareSnapshotValue = decode_value(ShareSnapshotValue, record.value)
        return StateSnapshot(
            snapshot.snapshot_epoch,
            snapshot.state_epoch,
            snapshot.leader_epoch,
            snapshot.start_offset,
            snapshot.delivery_complete_count,
            snapshot.create_timestamp,
            snapshot.write_timestamp,
            _batches(snapshot.state_batches),
        )
    update: ShareUpdateValue = decode_value(ShareUpdateValue, record.value)
    return StateUpdate(
        update.snapshot_epoch,
        update.leader_epoch,
        update.start_offset,
        update.delivery_complete_count,
        _batches(update.state_batches),
    )


def _batches(stored: Iterable[StoredStateBatch]) -> Batches:
    return tuple(_batch(each) for each in stored)


def _batch(stored: StoredStateBatch) -> StateBatch:
    state = _KEPT.get(stored.delivery_state)
    if state is None or stored.first_offset > stored.last_offset:
        raise DecodeError(
            f"offsets {stored.first_offset} to {stored.last_offset} in state {stored.delivery_state} make no sense"
        )
    return StateBatch(stored.first_offset, stored.last_offset, state, stored.delivery_count)
