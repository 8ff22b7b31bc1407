"""Records of `__share_group_state`: the state of each partition that a share group reads (KIP-932).

A snapshot is the whole state, and its tombstone the end of it; an update is what has changed since.
"""

from __future__ import annotations

from typing import Annotated, Final

from eosin.protocol.names import ZERO_UUID
from eosin.protocol.types import Int8, Int16, Int32, Int64, Message, RecordKind, RecordSchema, Tag, Uuid


class ShareSnapshotKey(Message):
    group_id: str = ""
    topic_id: Uuid = ZERO_UUID
    partition: Int32 = 0


class StoredStateBatch(Message):
    first_offset: Int64 = 0
    last_offset: Int64 = 0
    delivery_state: Int8 = 0
    delivery_count: Int16 = 0


class ShareSnapshotValue(Message):
    snapshot_epoch: Int32 = 0
    state_epoch: Int32 = 0
    leader_epoch: Int32 = 0
    start_offset: Int64 = 0
    delivery_complete_count: Annotated[Int32, "0+", Tag(0)] = -1
    create_timestamp: Int64 = 0
    write_timestamp: Int64 = 0
    state_batches: tuple[StoredStateBatch, ...] = ()


class ShareUpdateKey(Message):
    group_id: str = ""
    topic_id: Uuid = ZERO_UUID
    partition: Int32 = 0


class ShareUpdateValue(Message):
    snapshot_epoch: Int32 = 0
    leader_epoch: Int32 = 0
    start_offset: Int64 = 0
    delivery_complete_count: Annotated[Int32, "0+", Tag(0)] = -1
    state_batches: tuple[StoredStateBatch, ...] = ()


def _kind(number: int, key: type[Message], value: type[Message]) -> RecordKind:
    return RecordKind(
        key=RecordSchema(key, versions=range(number, number + 1), flexible_from=None),
        value=RecordSchema(value, versions=range(0, 1), flexible_from=0),
    )


KINDS: Final = (
    _kind(0, ShareSnapshotKey, ShareSnapshotValue),
    _kind(1, ShareUpdateKey, ShareUpdateValue),
)
